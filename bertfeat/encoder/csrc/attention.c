/* Self-attention over packed sequences (Vaswani et al. 2017, eq. 1).

   A work item is one head of one sequence: its keys and values are repacked once, and its queries go through in tiles
   of 16 (AMX) or 8 (AVX-512) rows whose scores stay in the nearest cache. No item knows of any other. */

#include "kernels.h"

enum { FP32 = 0, BF16 = 1 };

#ifdef BERTFEAT_X86

enum { ROWS = 8 }; /* queries that AVX-512 takes at once */

/* One head of one sequence. */
typedef struct {
    const char *query, *key, *value;
    char *out;
    int64_t queries, keys, padded; /* padded: keys rounded up to 32 */
} Item;

/* What one thread works in. */
typedef struct {
    void *key, *value, *query; /* repacked */
    float *scores;             /* [16, padded] */
    void *weights;             /* [16, padded] bfloat16 (AMX) */
    float *mixed;              /* [16, width] */
} Scratch;

/* ── AVX-512: float32 arithmetic, float32 or bfloat16 in and out ────────────────────────────────────────── */

AVX512_INLINE __m512 load(const char *from, int64_t at, int64_t type) {
    if (type == FP32) return _mm512_loadu_ps((const float *)from + at);
    return widen(_mm256_loadu_si256((const __m256i *)((const uint16_t *)from + at)));
}

AVX512_INLINE void store(char *to, int64_t at, __m512 x, int64_t type) {
    if (type == FP32) {
        _mm512_storeu_ps((float *)to + at, x);
        return;
    }
    const __m512i bits = _mm512_castps_si512(x); /* round to nearest, ties to even; NaN stays NaN */
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
    const __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
    _mm256_storeu_si256((__m256i *)((uint16_t *)to + at), half);
}

/* acc[ROWS][32] = sum over k of a[row][k] * b[k][32] */
AVX512_INLINE void multiply(const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t depth,
                                   float *c, int64_t c_stride) {
    __m512 low[ROWS], high[ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) low[i] = high[i] = _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k++) {
        const __m512 b_low = _mm512_loadu_ps(b + k * b_stride), b_high = _mm512_loadu_ps(b + k * b_stride + 16);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const __m512 each = _mm512_set1_ps(a[i * a_stride + k]);
            low[i] = _mm512_fmadd_ps(each, b_low, low[i]);
            high[i] = _mm512_fmadd_ps(each, b_high, high[i]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
        _mm512_storeu_ps(c + i * c_stride, low[i]);
        _mm512_storeu_ps(c + i * c_stride + 16, high[i]);
    }
}

/* Keys to float32 [width, padded], values to float32 [keys, width rounded up to 32]. */
AVX512 static void pack_avx512(const Attention *a, const Item *item, const Scratch *s) {
    float *key = s->key, *value = s->value;
    const int64_t wide = round_up(a->width, 32);
    for (int64_t n = 0; n < item->padded; n += TILE)
        for (int64_t c = 0; c < a->width; c += 16) {
            __m512i rows[16];
            for (int i = 0; i < 16; i++)
                rows[i] = n + i < item->keys
                              ? _mm512_castps_si512(load(item->key, (n + i) * a->key_stride + c, a->type))
                              : _mm512_setzero_si512();
            transpose(rows);
            for (int i = 0; i < 16; i++) _mm512_storeu_si512(key + (c + i) * item->padded + n, rows[i]);
        }
    for (int64_t n = 0; n < item->keys; n++)
        for (int64_t c = 0; c < wide; c += 16)
            _mm512_storeu_ps(value + n * wide + c, c < a->width ? load(item->value, n * a->key_stride + c, a->type)
                                                                : _mm512_setzero_ps());
}

AVX512 static void attend_avx512(const Attention *a, const Item *item, const Scratch *s) {
    const int64_t wide = round_up(a->width, 32);
    const __m512 unit = _mm512_set1_ps(a->scale * 1.44269504f); /* to powers of two */
    float *query = s->query;
    pack_avx512(a, item, s);
    for (int64_t q = 0; q < item->queries; q += ROWS) {
        const int64_t rows = least(ROWS, item->queries - q);
        float share[ROWS];
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t c = 0; c < a->width; c += 16)
                _mm512_storeu_ps(query + i * a->width + c,
                                 i < rows ? load(item->query, (q + i) * a->query_stride + c, a->type)
                                          : _mm512_setzero_ps());
        for (int64_t n = 0; n < item->padded; n += 32)
            multiply(query, a->width, (const float *)s->key + n, item->padded, a->width, s->scores + n, item->padded);
        for (int64_t i = 0; i < rows; i++) {
            float *row = s->scores + i * item->padded;
            __m512 highest = _mm512_set1_ps(-3.4e38f), sum = _mm512_setzero_ps();
            for (int64_t n = 0; n < item->keys; n += 16)
                highest = _mm512_mask_max_ps(highest, lanes16(item->keys - n), highest, _mm512_loadu_ps(row + n));
            highest = _mm512_set1_ps(_mm512_reduce_max_ps(highest));
            for (int64_t n = 0; n < item->keys; n += 16) {
                const __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + n), highest), unit);
                const __m512 y = _mm512_maskz_mov_ps(lanes16(item->keys - n), exp2_fine(x));
                sum = _mm512_add_ps(sum, y);
                _mm512_storeu_ps(row + n, y);
            }
            share[i] = 1.0f / _mm512_reduce_add_ps(sum);
        }
        for (int64_t c = 0; c < wide; c += 32)
            multiply(s->scores, item->padded, (const float *)s->value + c, wide, item->keys, s->mixed + c, wide);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < a->width; c += 16)
                store(item->out, (q + i) * a->out_stride + c,
                      _mm512_mul_ps(_mm512_loadu_ps(s->mixed + i * wide + c), _mm512_set1_ps(share[i])), a->type);
    }
}

/* ── AMX: products of bfloat16, sums of float32; heads of 32 or 64 values ───────────────────────────────── */

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

AMX static void attend_amx(const Attention *a, const Item *item, const Scratch *s) {
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

/* ── threads ────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    const Attention *attention;
    int64_t next, step, failed;
} Work;

/* Share out a thread's memory; gives whether there is enough. */
static int allocate(const Attention *a, Scratch *s) {
    const int64_t padded = round_up(a->longest, 32), wide = round_up(a->width, 32);
    float *at = bertfeat_scratch(4 * (2 * padded * wide + 2 * TILE * padded + 2 * TILE * wide));
    if (!at) return 0;
    s->key = at, at += padded * wide;
    s->value = at, at += padded * wide;
    s->scores = at, at += TILE * padded;
    s->weights = at, at += TILE * padded;
    s->query = at, at += TILE * wide;
    s->mixed = at;
    memset(s->query, 0, TILE * wide * 4);
    memset(s->weights, 0, TILE * padded * 4); /* rows without a query are multiplied, too */
    return 1;
}

/* Take items, a few at a time, until there are none left. */
static void work(void *shared) {
    Work *w = shared;
    const Attention *a = w->attention;
    const int64_t items = a->sequences * a->heads, bytes = a->type == FP32 ? 4 : 2;
    Scratch scratch;
    if (allocate(a, &scratch)) {
        if (a->amx) configure_tiles();
        for (;;) {
            const int64_t begin = __atomic_fetch_add(&w->next, w->step, __ATOMIC_RELAXED);
            if (begin >= items) break;
            for (int64_t at = begin; at < least(begin + w->step, items); at++) {
                const int64_t sequence = at / a->heads, column = at % a->heads * a->width;
                const int64_t q = a->query_bounds[sequence], k = a->key_bounds[sequence];
                Item item = {.queries = a->query_bounds[sequence + 1] - q, .keys = a->key_bounds[sequence + 1] - k};
                item.padded = round_up(item.keys, 32);
                item.query = (const char *)a->query + (q * a->query_stride + column) * bytes;
                item.key = (const char *)a->key + (k * a->key_stride + column) * bytes;
                item.value = (const char *)a->value + (k * a->key_stride + column) * bytes;
                item.out = (char *)a->out + (q * a->out_stride + column) * bytes;
                if (a->amx) attend_amx(a, &item, &scratch);
                else attend_avx512(a, &item, &scratch);
            }
        }
        if (a->amx) release_tiles();
    } else {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    }
}

/* Attend on as many threads; gives 0, or -1 where memory ran out. */
int bertfeat_attend(const Attention *attention, Parallel parallel, unsigned threads) {
    const int64_t items = attention->sequences * attention->heads, step = items / (threads * 16);
    Work shared = {.attention = attention, .step = step > 0 ? step : 1};
    parallel(work, &shared, threads, 0);
    return shared.failed ? -1 : 0;
}

#endif
