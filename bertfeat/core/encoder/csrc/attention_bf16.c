/* Attention with products of bfloat16 and sums of float32: on AMX, heads of 32 or 64 values; on AVX512-BF16, heads of a
   multiple of 32. */

#include "attention.h"

#ifdef BERTFEAT_X86

/* Tiles of the right-hand operand hold two neighboring rows side by side: pairs of dimensions of 16 keys, and pairs of
   keys of 16 dimensions. */
BF16_CODE static void pack_bf16(const Attention *a, const Item *item, const Scratch *s) {
    const uint16_t *from_key = (const uint16_t *)item->key, *from_value = (const uint16_t *)item->value;
    uint16_t *key = s->key, *value = s->value;
    uint16_t order_low[32], order_high[32];
    for (int i = 0; i < 32; i++) order_low[i] = (uint16_t)(i / 2 + i % 2 * 32), order_high[i] = order_low[i] + 16;
    const __m512i low = _mm512_loadu_si512(order_low), high = _mm512_loadu_si512(order_high);
    for (int64_t n = 0; n < item->padded; n += TILE)
        for (int64_t c = 0; c < a->width; c += 32, key += TILE_VALUES)
            turn_tile(key, from_key + n * a->key_stride + c, a->key_stride, item->keys - n);
    for (int64_t n = 0; n < item->padded; n += 32)
        for (int64_t c = 0; c < a->width; c += 32, value += 2 * TILE_VALUES)
            for (int64_t i = 0; i < TILE; i++) {
                const uint16_t *row = from_value + (n + 2 * i) * a->value_stride + c;
                const __m512i zero = _mm512_setzero_si512();
                const __m512i even = n + 2 * i < item->keys ? _mm512_loadu_si512(row) : zero;
                const __m512i odd = n + 2 * i + 1 < item->keys ? _mm512_loadu_si512(row + a->value_stride) : zero;
                _mm512_store_si512(value + i * 32, _mm512_permutex2var_epi16(even, low, odd));
                _mm512_store_si512(value + TILE_VALUES + i * 32, _mm512_permutex2var_epi16(even, high, odd));
            }
}

/* Scores [TOGETHER, padded] of the keys that are seen to weights that are not yet divided by their sum, with zeros up to a
   multiple of 32, in the places of the scores; shares are one over that sum. */
BF16_INLINE void weigh(float *scores, int64_t padded, Seen seen, __m512 unit, float *shares) {
    __m512 highest[TOGETHER], sum[TOGETHER];
    const int64_t whole = seen.first + (seen.stop - seen.first) / 16 * 16;
    const uint16_t rest = lanes16(seen.stop - whole);
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++)
        highest[i] = _mm512_mask_load_ps(_mm512_set1_ps(-3.4e38f), rest, scores + i * padded + whole),
        sum[i] = _mm512_setzero_ps();
    for (int64_t n = seen.first; n < whole; n += 16)
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++) highest[i] = _mm512_max_ps(highest[i], _mm512_load_ps(scores + i * padded + n));
    const __m512 all = _mm512_mul_ps(JOINED(_mm512_max_ps, highest), unit);
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++) highest[i] = spread(all, i);
    for (int64_t n = seen.first; n < seen.stop; n += 32) {
        const uint16_t low_lanes = lanes16(seen.stop - n), high_lanes = lanes16(seen.stop - n - 16);
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++) {
            float *row = scores + i * padded;
            const __m512 low = exp2_coarse(_mm512_fmsub_ps(_mm512_load_ps(row + n), unit, highest[i]));
            const __m512 high = exp2_coarse(_mm512_fmsub_ps(_mm512_load_ps(row + n + 16), unit, highest[i]));
            const __m512 low_kept = _mm512_maskz_mov_ps(low_lanes, low), high_kept = _mm512_maskz_mov_ps(high_lanes, high);
            sum[i] = _mm512_add_ps(sum[i], _mm512_add_ps(low_kept, high_kept));
            _mm512_store_si512((uint16_t *)row + n, (__m512i)_mm512_cvtne2ps_pbh(high_kept, low_kept));
        }
    }
    _mm_storeu_ps(shares, _mm_div_ps(_mm_set1_ps(1.0f), _mm512_castps512_ps128(JOINED(_mm512_add_ps, sum))));
}

/* The scores of queries [q, q + rows), [rows, padded], to weights of the keys that they see, which are half as wide: rows
   are 2 * padded weights apart. */
BF16_INLINE const uint16_t *weigh_rows(const Attention *a, const Item *item, const Scratch *s, int64_t q, int64_t rows,
                                       Seen seen, float *shares) {
    const __m512 unit = _mm512_set1_ps(a->scale * 1.44269504f); /* to powers of two */
    if (item->bias || hides_keys(a, q, rows, seen))
        for (int64_t i = 0; i < rows; i++) adjust_scores(a, item, q + i, seen, s->scores + i * item->padded);
    for (int64_t i = 0; i < rows; i += TOGETHER) weigh(s->scores + i * item->padded, item->padded, seen, unit, shares + i);
    return (const uint16_t *)s->scores;
}

/* What queries [q, q + rows) have mixed, divided by their sums, as results. */
BF16_INLINE void put_mixed(const Attention *a, const Item *item, const Scratch *s, int64_t q, int64_t rows,
                           const float *shares) {
    const Rows out = {a->out, a->out_stride, a->out_tile, 32, a->out_column};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < a->width; c += 32) {
            const __m512 each = _mm512_set1_ps(shares[i]);
            const __m512 low = _mm512_mul_ps(_mm512_load_ps(s->mixed + i * a->width + c), each);
            const __m512 high = _mm512_mul_ps(_mm512_load_ps(s->mixed + i * a->width + c + 16), each);
            _mm512_storeu_si512(values_at(out, item->row + q + i, item->column + c), (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
}

/* Queries [q, q + rows) and how far apart they are: where fewer than `all`, a copy with room for all, because what
   follows the last sequence is nobody's memory. */
BF16_INLINE const uint16_t *queries_from(const Attention *a, const Item *item, const Scratch *s, int64_t q, int64_t rows,
                                         int64_t all, int64_t *stride) {
    const uint16_t *query = (const uint16_t *)item->query + q * a->query_stride;
    *stride = a->query_stride;
    if (rows == all) return query;
    for (int64_t i = 0; i < rows; i++)
        memcpy((uint16_t *)s->query + i * a->width, query + i * a->query_stride, a->width * 2);
    *stride = a->width;
    return s->query;
}

/* ── AMX ────────────────────────────────────────────────────────────────────────────────────────────────── */

AMX void bertfeat_attend_amx(const Attention *a, const Item *item, const Scratch *s) {
    const int64_t width = a->width, padded = item->padded, wide = width / 32;
    pack_bf16(a, item, s);
    for (int64_t q = 0; q < item->queries; q += TILE) {
        const int64_t rows = least(TILE, item->queries - q);
        const Seen seen = keys_seen(a, item, q, rows);
        int64_t stride;
        const uint16_t *query = queries_from(a, item, s, q, rows, TILE, &stride);
        const uint16_t *key = (const uint16_t *)s->key + seen.first / TILE * wide * TILE_VALUES;
        const uint16_t *value = (const uint16_t *)s->value + seen.first / 32 * 2 * wide * TILE_VALUES;
        _tile_loadd(0, query, 2 * stride);
        if (width == 64) _tile_loadd(1, query + 32, 2 * stride);
        for (int64_t n = seen.first; n < seen.stop; n += TILE) {
            _tile_zero(2);
            _tile_loadd(3, key, 64);
            _tile_dpbf16ps(2, 0, 3);
            key += TILE_VALUES;
            if (width == 64) {
                _tile_loadd(4, key, 64);
                _tile_dpbf16ps(2, 1, 4);
                key += TILE_VALUES;
            }
            _tile_stored(2, s->scores + n, padded * 4);
        }
        float share[TILE];
        const uint16_t *weights = weigh_rows(a, item, s, q, rows, seen, share);
        _tile_zero(4);
        _tile_zero(5);
        if (width == 64) {
            _tile_zero(6);
            _tile_zero(7);
        }
        for (int64_t n = seen.first; n < seen.stop; n += 32) {
            _tile_loadd(0, weights + n, padded * 4);
            _tile_loadd(2, value, 64);
            _tile_loadd(3, value + TILE_VALUES, 64);
            _tile_dpbf16ps(4, 0, 2);
            _tile_dpbf16ps(5, 0, 3);
            value += 2 * TILE_VALUES;
            if (width == 64) {
                _tile_loadd(2, value, 64);
                _tile_loadd(3, value + TILE_VALUES, 64);
                _tile_dpbf16ps(6, 0, 2);
                _tile_dpbf16ps(7, 0, 3);
                value += 2 * TILE_VALUES;
            }
        }
        _tile_stored(4, s->mixed, width * 4);
        _tile_stored(5, s->mixed + 16, width * 4);
        if (width == 64) {
            _tile_stored(6, s->mixed + 32, width * 4);
            _tile_stored(7, s->mixed + 48, width * 4);
        }
        put_mixed(a, item, s, q, rows, share);
    }
}

/* ── AVX512-BF16 ────────────────────────────────────────────────────────────────────────────────────────── */

BF16_CODE void bertfeat_attend_bf16(const Attention *a, const Item *item, const Scratch *s) {
    const int64_t width = a->width, padded = item->padded, wide = width / 32;
    pack_bf16(a, item, s);
    for (int64_t q = 0; q < item->queries; q += PAIR_ROWS) {
        const int64_t rows = least(PAIR_ROWS, item->queries - q);
        const Seen seen = keys_seen(a, item, q, rows);
        int64_t stride;
        const uint16_t *query = queries_from(a, item, s, q, rows, PAIR_ROWS, &stride);
        const uint16_t *key = (const uint16_t *)s->key + seen.first / TILE * wide * TILE_VALUES;
        const uint16_t *value = (const uint16_t *)s->value + seen.first / 32 * 2 * wide * TILE_VALUES;
        for (int64_t n = seen.first; n < seen.stop; n += 32, key += 2 * wide * TILE_VALUES)
            multiply_pairs(query, stride, 32, key, wide * TILE_VALUES, TILE_VALUES, wide, s->scores + n, padded, 0);
        float share[PAIR_ROWS];
        const uint16_t *weights = weigh_rows(a, item, s, q, rows, seen, share);
        for (int64_t c = 0; c < width; c += 32, value += 2 * TILE_VALUES)
            multiply_pairs(weights + seen.first, 2 * padded, 32, value, TILE_VALUES, 2 * wide * TILE_VALUES,
                           round_up(seen.stop - seen.first, 32) / 32, s->mixed + c, width, 0);
        put_mixed(a, item, s, q, rows, share);
    }
}

#endif
