/* Attention in float32 arithmetic on AVX-512, float32 or bfloat16 in and out. */

#include "attention.h"

#ifdef BERTFEAT_X86

enum { ROWS = 8 }; /* queries that are multiplied at once */

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
            _mm512_storeu_ps(value + n * wide + c, c < a->width ? load(item->value, n * a->value_stride + c, a->type)
                                                                : _mm512_setzero_ps());
}

AVX512 void bertfeat_attend_avx512(const Attention *a, const Item *item, const Scratch *s) {
    const int64_t wide = round_up(a->width, 32);
    const __m512 unit = _mm512_set1_ps(a->scale * 1.44269504f); /* to powers of two */
    float *query = s->query;
    pack_avx512(a, item, s);
    for (int64_t q = 0; q < item->queries; q += ROWS) {
        const int64_t rows = least(ROWS, item->queries - q);
        const Seen seen = keys_seen(a, item, q, rows);
        float share[ROWS];
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t c = 0; c < a->width; c += 16)
                _mm512_storeu_ps(query + i * a->width + c,
                                 i < rows ? load(item->query, (q + i) * a->query_stride + c, a->type)
                                          : _mm512_setzero_ps());
        for (int64_t n = seen.first; n < seen.stop; n += 32)
            multiply(query, a->width, (const float *)s->key + n, item->padded, a->width, s->scores + n, item->padded);
        for (int64_t i = 0; i < rows; i++) {
            float *row = s->scores + i * item->padded;
            __m512 highest = _mm512_set1_ps(-3.4e38f), sum = _mm512_setzero_ps();
            adjust_scores(a, item, q + i, seen, row);
            for (int64_t n = seen.first; n < seen.stop; n += 16)
                highest = _mm512_mask_max_ps(highest, lanes16(seen.stop - n), highest, _mm512_loadu_ps(row + n));
            highest = _mm512_set1_ps(_mm512_reduce_max_ps(highest));
            for (int64_t n = seen.first; n < seen.stop; n += 16) {
                const __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + n), highest), unit);
                const __m512 y = _mm512_maskz_mov_ps(lanes16(seen.stop - n), exp2_fine(x));
                sum = _mm512_add_ps(sum, y);
                _mm512_storeu_ps(row + n, y);
            }
            share[i] = 1.0f / _mm512_reduce_add_ps(sum);
        }
        for (int64_t c = 0; c < wide; c += 32)
            multiply(s->scores + seen.first, item->padded, (const float *)s->value + seen.first * wide + c, wide,
                     seen.stop - seen.first, s->mixed + c, wide);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < a->width; c += 16)
                store(item->out, (q + i) * a->out_stride + c,
                      _mm512_mul_ps(_mm512_loadu_ps(s->mixed + i * wide + c), _mm512_set1_ps(share[i])), a->type);
    }
}

#endif
