/* Attention in float32, in vectors of eight values as GCC and Clang compute them anywhere: AVX2 with FMA on x86-64, pairs
   of NEON's on aarch64. */

#include "attention.h"

#ifdef BERTFEAT_KERNELS

#ifdef BERTFEAT_X86
#define VECTOR AVX2
#else
#define VECTOR
#endif
#define VECTOR_INLINE VECTOR static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));

enum { ROWS = 6, LANES = 8 }; /* queries that are multiplied at once, and values of a vector */

#define LOAD(from) (*(const Unaligned *)(from))
#define STORE(to, x) (*(Unaligned *)(to) = (x))
#define ALL(x) ((Floats){} + (x))
typedef Floats Unaligned __attribute__((aligned(4), may_alias));

/* c [ROWS, 16] = a [ROWS, depth] · b [depth, 16] */
VECTOR_INLINE void multiply(const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t depth, float *c,
                            int64_t c_stride) {
    Floats low[ROWS] = {}, high[ROWS] = {};
    for (int64_t k = 0; k < depth; k++) {
        const Floats b_low = LOAD(b + k * b_stride), b_high = LOAD(b + k * b_stride + LANES);
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            low[i] += a[i * a_stride + k] * b_low;
            high[i] += a[i * a_stride + k] * b_high;
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
        STORE(c + i * c_stride, low[i]);
        STORE(c + i * c_stride + LANES, high[i]);
    }
}

VECTOR_INLINE Floats larger(Floats a, Floats b) { /* b where one is NaN */
    const Ints first = a > b;
    return (Floats)(((Ints)a & first) | ((Ints)b & ~first));
}

/* 2^x, relative error 2e-7: a polynomial over [-1/2, 1/2], and the exponent by itself. */
VECTOR_INLINE Floats exp2_vector(Floats x) {
    const Floats to_whole = ALL(12582912.0f); /* 1.5 · 2^23: what is added to it is rounded to a whole number */
    x = larger(ALL(-126.0f), x);
    const Floats whole = (x + to_whole) - to_whole, f = x - whole;
    Floats y = ALL(1.535336188e-4f);
    y = y * f + ALL(1.339887440e-3f);
    y = y * f + ALL(9.618437357e-3f);
    y = y * f + ALL(5.550332471e-2f);
    y = y * f + ALL(2.402264791e-1f);
    y = y * f + ALL(6.931472029e-1f);
    y = y * f + ALL(1.0f);
    return y * (Floats)((__builtin_convertvector(whole, Ints) + 127) << 23);
}

/* Scores [keys] to weights that are not yet divided by their sum; gives one over that sum. */
VECTOR_INLINE float weigh(float *row, int64_t keys, float unit) {
    for (int64_t n = keys; n < round_up(keys, LANES); n++) row[n] = -3.4e38f;
    Floats highest = ALL(-3.4e38f), sum = {};
    for (int64_t n = 0; n < keys; n += LANES) highest = larger(highest, LOAD(row + n));
    float most = highest[0], total = 0;
    for (int i = 1; i < LANES; i++) most = most > highest[i] ? most : highest[i];
    for (int64_t n = 0; n < keys; n += LANES) {
        const Floats y = exp2_vector((LOAD(row + n) - most) * unit);
        sum += y;
        STORE(row + n, y);
    }
    for (int i = 0; i < LANES; i++) total += sum[i];
    return 1.0f / total;
}

/* Keys to [width, padded], values to [keys, wide]. */
VECTOR_INLINE void pack(const Attention *a, const Item *item, float *key, int64_t padded, float *value, int64_t wide) {
    const float *from_key = (const float *)item->key, *from_value = (const float *)item->value;
    for (int64_t n = 0; n < padded; n++)
        for (int64_t c = 0; c < a->width; c++)
            key[c * padded + n] = n < item->keys ? from_key[n * a->key_stride + c] : 0;
    for (int64_t n = 0; n < item->keys; n++) {
        memcpy(value + n * wide, from_value + n * a->value_stride, a->width * 4);
        memset(value + n * wide + a->width, 0, (wide - a->width) * 4);
    }
}

VECTOR void bertfeat_attend_vector(const Attention *a, const Item *item, const Scratch *s) {
    const int64_t width = a->width, padded = round_up(item->keys, 2 * LANES), wide = round_up(width, 2 * LANES);
    float *query = s->query, *key = s->key, *value = s->value;
    pack(a, item, key, padded, value, wide);
    for (int64_t q = 0; q < item->queries; q += ROWS) {
        const int64_t rows = least(ROWS, item->queries - q);
        const Seen seen = keys_seen(a, item, q, rows);
        float share[ROWS];
        for (int64_t i = 0; i < rows; i++)
            memcpy(query + i * width, (const float *)item->query + (q + i) * a->query_stride, width * 4);
        for (int64_t n = seen.first; n < seen.stop; n += 2 * LANES)
            multiply(query, width, key + n, padded, width, s->scores + n, padded);
        for (int64_t i = 0; i < rows; i++) {
            float *scores = s->scores + i * padded;
            adjust_scores(a, item, q + i, seen, scores);
            share[i] = weigh(scores + seen.first, seen.stop - seen.first, a->scale * 1.44269504f); /* to powers of two */
        }
        for (int64_t c = 0; c < wide; c += 2 * LANES)
            multiply(s->scores + seen.first, padded, value + seen.first * wide + c, wide, seen.stop - seen.first,
                     s->mixed + c, wide);
        for (int64_t i = 0; i < rows; i++) {
            float *out = (float *)item->out + (q + i) * a->out_stride;
            for (int64_t c = 0; c < width; c += LANES) STORE(out + c, LOAD(s->mixed + i * wide + c) * share[i]);
        }
    }
}

#endif
