/* Attention on AMX: products of bfloat16, sums of float32; heads of 32 or 64 values. */

#include "attention.h"

#ifdef BERTFEAT_X86

/* Tiles of the right-hand operand hold two neighbouring rows side by side: pairs of dimensions of 16 keys, and pairs of
   keys of 16 dimensions. */
AMX static void pack_amx(const Attention *a, const Item *item, const Scratch *s) {
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
                const uint16_t *row = from_value + (n + 2 * i) * a->key_stride + c;
                const __m512i zero = _mm512_setzero_si512();
                const __m512i even = n + 2 * i < item->keys ? _mm512_loadu_si512(row) : zero;
                const __m512i odd = n + 2 * i + 1 < item->keys ? _mm512_loadu_si512(row + a->key_stride) : zero;
                _mm512_store_si512(value + i * 32, _mm512_permutex2var_epi16(even, low, odd));
                _mm512_store_si512(value + TILE_VALUES + i * 32, _mm512_permutex2var_epi16(even, high, odd));
            }
}

enum { TOGETHER = 4 }; /* queries whose chains of sums and maxima run side by side */

/* Scores [TOGETHER, padded] to weights that are not yet divided by their sum; shares are one over that sum. */
AMX_INLINE void weigh(const float *scores, uint16_t *weights, int64_t keys, int64_t padded, __m512 unit, float *shares) {
    __m512 highest[TOGETHER], sum[TOGETHER];
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++) highest[i] = _mm512_set1_ps(-3.4e38f), sum[i] = _mm512_setzero_ps();
    for (int64_t n = 0; n < keys; n += 16)
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++)
            highest[i] = _mm512_mask_max_ps(highest[i], lanes16(keys - n), highest[i], _mm512_load_ps(scores + i * padded + n));
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++)
        highest[i] = _mm512_mul_ps(_mm512_set1_ps(_mm512_reduce_max_ps(highest[i])), unit);
    for (int64_t n = 0; n < padded; n += 32) {
        const uint16_t low_lanes = lanes16(keys - n), high_lanes = lanes16(keys - n - 16);
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++) {
            const float *at = scores + i * padded + n;
            const __m512 low = exp2_coarse(_mm512_fmsub_ps(_mm512_load_ps(at), unit, highest[i]));
            const __m512 high = exp2_coarse(_mm512_fmsub_ps(_mm512_load_ps(at + 16), unit, highest[i]));
            const __m512 low_kept = _mm512_maskz_mov_ps(low_lanes, low), high_kept = _mm512_maskz_mov_ps(high_lanes, high);
            sum[i] = _mm512_add_ps(sum[i], _mm512_add_ps(low_kept, high_kept));
            _mm512_store_si512(weights + i * padded + n, (__m512i)_mm512_cvtne2ps_pbh(high_kept, low_kept));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++) shares[i] = 1.0f / _mm512_reduce_add_ps(sum[i]);
}

AMX void bertfeat_attend_amx(const Attention *a, const Item *item, const Scratch *s) {
    const __m512 unit = _mm512_set1_ps(a->scale * 1.44269504f);
    const int64_t width = a->width, padded = item->padded;
    uint16_t *weights = s->weights;
    pack_amx(a, item, s);
    for (int64_t q = 0; q < item->queries; q += TILE) {
        const int64_t rows = least(TILE, item->queries - q);
        const uint16_t *query = (const uint16_t *)item->query + q * a->query_stride;
        int64_t stride = a->query_stride * 2;
        if (rows < TILE) { /* what follows the last sequence is nobody's memory */
            for (int64_t i = 0; i < rows; i++) memcpy((uint16_t *)s->query + i * width, query + i * a->query_stride, width * 2);
            query = s->query, stride = width * 2;
        }
        const uint16_t *key = s->key, *value = s->value;
        _tile_loadd(0, query, stride);
        if (width == 64) _tile_loadd(1, query + 32, stride);
        for (int64_t n = 0; n < padded; n += TILE) {
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
        for (int64_t i = 0; i < rows; i += TOGETHER)
            weigh(s->scores + i * padded, weights + i * padded, item->keys, padded, unit, share + i);
        _tile_zero(4);
        _tile_zero(5);
        if (width == 64) {
            _tile_zero(6);
            _tile_zero(7);
        }
        for (int64_t n = 0; n < padded; n += 32) {
            _tile_loadd(0, weights + n, padded * 2);
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
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < width; c += 32) {
                const __m512 each = _mm512_set1_ps(share[i]);
                const __m512 low = _mm512_mul_ps(_mm512_load_ps(s->mixed + i * width + c), each);
                const __m512 high = _mm512_mul_ps(_mm512_load_ps(s->mixed + i * width + c + 16), each);
                _mm512_storeu_si512((uint16_t *)item->out + (q + i) * a->out_stride + c,
                                    (__m512i)_mm512_cvtne2ps_pbh(high, low));
            }
    }
}

#endif
