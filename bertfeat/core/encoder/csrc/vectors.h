/* Vectors of float32 under one name: sixteen values (AVX-512) where LANES is 16, eight (AVX2) where it is 8.

   A product and a sum are written as fma_vec: GCC may or may not join them by itself, here so and there otherwise, and a
   row would have other bytes beside other rows. */

#ifndef BERTFEAT_VECTORS_H
#define BERTFEAT_VECTORS_H

#include "kernels.h"

#ifdef BERTFEAT_X86
#if LANES == 16

#define SIMD_INLINE AVX512_INLINE
typedef __m512 Vec;

SIMD_INLINE Vec load_vec(const float *from) { return _mm512_loadu_ps(from); }
SIMD_INLINE void store_vec(float *to, Vec x) { _mm512_storeu_ps(to, x); }
SIMD_INLINE Vec all(float x) { return _mm512_set1_ps(x); }
SIMD_INLINE Vec fma_vec(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
SIMD_INLINE Vec smaller(Vec a, Vec b) { return _mm512_min_ps(a, b); } /* b where one is NaN */
SIMD_INLINE Vec larger(Vec a, Vec b) { return _mm512_max_ps(a, b); }  /* b where one is NaN */
SIMD_INLINE Vec size_within(Vec x, float most) { return _mm512_range_ps(x, all(most), 10); } /* |x|, at most so much; most where x is NaN */
SIMD_INLINE float sum_of(Vec x) { return _mm512_reduce_add_ps(x); }
SIMD_INLINE float least_of(Vec x) { return _mm512_reduce_min_ps(x); }
SIMD_INLINE float largest_of(Vec x) { return _mm512_reduce_max_ps(x); }

SIMD_INLINE Vec exp2_vec(Vec x) { return exp2_coarse(x); }
SIMD_INLINE Vec exp2_finely(Vec x) { return exp2_fine(x); }

/* Rounded to the nearest whole number from 0 to 255, of two as near the even one. */
SIMD_INLINE void store_bytes(uint8_t *to, Vec x) {
    const __m512i whole = _mm512_max_epi32(_mm512_cvtps_epi32(x), _mm512_setzero_si512());
    _mm_storeu_si128((__m128i *)to, _mm512_cvtusepi32_epi8(whole));
}

typedef __m512i Integers; /* as many int32 as a vector has values */

SIMD_INLINE Integers load_integers(const int8_t *from) { return _mm512_loadu_si512(from); }
SIMD_INLINE Integers repeat_integer(int32_t x) { return _mm512_set1_epi32(x); }
SIMD_INLINE Vec to_floats(Integers x) { return _mm512_cvtepi32_ps(x); }

/* bfloat16 values, where AVX512-BF16 is. */
SIMD_INLINE Vec load_halves(const uint16_t *from) { return widen(_mm256_loadu_si256((const __m256i *)from)); }
SIMD_INLINE void store_halves(uint16_t *to, Vec x) {
    __m256i halves;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(x));
    _mm256_storeu_si256((__m256i *)to, halves);
}

#else

#define SIMD_INLINE AVX2 static inline __attribute__((unused))
typedef __m256 Vec;

SIMD_INLINE Vec load_vec(const float *from) { return _mm256_loadu_ps(from); }
SIMD_INLINE void store_vec(float *to, Vec x) { _mm256_storeu_ps(to, x); }
SIMD_INLINE Vec all(float x) { return _mm256_set1_ps(x); }
SIMD_INLINE Vec fma_vec(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
SIMD_INLINE Vec smaller(Vec a, Vec b) { return _mm256_min_ps(a, b); } /* b where one is NaN */
SIMD_INLINE Vec larger(Vec a, Vec b) { return _mm256_max_ps(a, b); }  /* b where one is NaN */
SIMD_INLINE Vec size_within(Vec x, float most) { return smaller(larger(x, -x), all(most)); } /* |x|, at most so much; most where x is NaN */

#define REDUCE(x, join)                                                                                                \
    __m128 four = join(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));                                        \
    four = join(four, _mm_movehl_ps(four, four));                                                                      \
    return _mm_cvtss_f32(join(four, _mm_shuffle_ps(four, four, 1)))
SIMD_INLINE float sum_of(Vec x) { REDUCE(x, _mm_add_ps); }
SIMD_INLINE float least_of(Vec x) { REDUCE(x, _mm_min_ps); }
SIMD_INLINE float largest_of(Vec x) { REDUCE(x, _mm_max_ps); }

/* Rounded to the nearest whole number from 0 to 255, of two as near the even one. */
SIMD_INLINE void store_bytes(uint8_t *to, Vec x) {
    const __m256i whole = _mm256_cvtps_epi32(x);
    const __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(half, half));
}

typedef __m256i Integers; /* as many int32 as a vector has values */

SIMD_INLINE Integers load_integers(const int8_t *from) { return _mm256_loadu_si256((const __m256i *)from); }
SIMD_INLINE Integers repeat_integer(int32_t x) { return _mm256_set1_epi32(x); }
SIMD_INLINE Vec to_floats(Integers x) { return _mm256_cvtepi32_ps(x); }

/* The whole number next to x, and what x is beyond it. */
SIMD_INLINE Vec exp2_split_vec(Vec x, Vec *fraction) {
    x = larger(all(-126.0f), x); /* in this order, NaN stays NaN */
    const Vec whole = _mm256_round_ps(smaller(all(127.0f), x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    *fraction = x - whole;
    return whole;
}

/* y times two to the power of a whole number. */
SIMD_INLINE Vec times_power(Vec y, Vec whole) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return y * _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

/* 2^x, relative error 4e-6. */
SIMD_INLINE Vec exp2_vec(Vec x) {
    Vec f;
    const Vec whole = exp2_split_vec(x, &f);
    Vec y = all(9.6760371e-3f);
    y = fma_vec(y, f, all(5.59220356e-2f));
    y = fma_vec(y, f, all(2.40221074e-1f));
    y = fma_vec(y, f, all(6.93121034e-1f));
    return times_power(fma_vec(y, f, all(1.00000008f)), whole);
}

/* 2^x, relative error 2e-7. */
SIMD_INLINE Vec exp2_finely(Vec x) {
    Vec f;
    const Vec whole = exp2_split_vec(x, &f);
    Vec y = all(1.535336188e-4f);
    y = fma_vec(y, f, all(1.339887440e-3f));
    y = fma_vec(y, f, all(9.618437357e-3f));
    y = fma_vec(y, f, all(5.550332471e-2f));
    y = fma_vec(y, f, all(2.402264791e-1f));
    y = fma_vec(y, f, all(6.931472029e-1f));
    return times_power(fma_vec(y, f, all(1.0f)), whole);
}

#endif
#endif
#endif
