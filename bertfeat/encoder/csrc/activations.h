/* The activations of a feed-forward layer, for AVX-512. */

#ifndef BERTFEAT_ACTIVATIONS_H
#define BERTFEAT_ACTIVATIONS_H

#include "kernels.h"

enum { GELU, GELU_TANH, RELU };

#ifdef BERTFEAT_X86

/* x · Φ(x), the error function by a polynomial in x² up to |x| = 4.5 and 1 from there; absolute error 7e-5, and
   beyond 8 no more than 1e-6 · |x|. */
AVX512_INLINE __m512 gelu(__m512 x) {
    const __m512 edge = _mm512_set1_ps(4.5f);
    const __m512 near = _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), edge), _mm512_min_ps(edge, x));
    const __m512 u = _mm512_mul_ps(near, near);
    __m512 y = _mm512_set1_ps(3.21415846e-11f);
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(-3.47915114e-09f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(1.65452919e-07f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(-4.58427644e-06f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(8.30391432e-05f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(-0.00104913991f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(0.00963146816f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(-0.0660759439f));
    y = _mm512_fmadd_ps(y, u, _mm512_set1_ps(0.398776134f));
    const __m512 phi = _mm512_fmadd_ps(y, near, _mm512_set1_ps(0.5f));
    return _mm512_mul_ps(x, phi);
}

/* Its form by tanh (Hendrycks and Gimpel 2016): x · σ(2·√(2/π)·(x + 0.044715·x³)). */
AVX512_INLINE __m512 gelu_tanh(__m512 x) {
    const __m512 cube = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.044715f), _mm512_set1_ps(1.0f)));
    const __m512 power = exp2_coarse(_mm512_mul_ps(cube, _mm512_set1_ps(-2.0f * 0.7978845608f * 1.44269504f)));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), power));
}

AVX512_INLINE __m512 activated(__m512 x, int64_t activation) {
    switch (activation) {
    case GELU: return gelu(x);
    case GELU_TANH: return gelu_tanh(x);
    default: return _mm512_max_ps(_mm512_setzero_ps(), x); /* in this order, NaN stays NaN */
    }
}

#endif
#endif
