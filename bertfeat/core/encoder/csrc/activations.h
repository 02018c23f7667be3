/* The activations of a feed-forward layer. */

#ifndef BERTFEAT_ACTIVATIONS_H
#define BERTFEAT_ACTIVATIONS_H

#include "vectors.h"

enum { GELU, GELU_TANH, RELU, NO_ACTIVATION };

#ifdef BERTFEAT_X86

/* x · Φ(x) as max(x, 0) - |x|·(1 - Φ(|x|)), the tail of Φ as the fourth power of a polynomial in |x| up to 4.7, where it is
   1e-9; absolute error 2.6e-5. */
SIMD_INLINE Vec gelu(Vec x) {
    const Vec size = size_within(x, 4.7f);
    Vec root = all(-4.91755083e-4f);
    root = fma_vec(root, size, all(2.84137530e-3f));
    root = fma_vec(root, size, all(8.50235950e-3f));
    root = fma_vec(root, size, all(-5.46291061e-2f));
    root = fma_vec(root, size, all(-1.65751547e-1f));
    root = fma_vec(root, size, all(8.40627670e-1f));
    const Vec square = root * root;
    return fma_vec(-(square * size), square, larger(all(0.0f), x));
}

/* Its form by tanh (Hendrycks and Gimpel 2016): x · σ(2·√(2/π)·(x + 0.044715·x³)). */
SIMD_INLINE Vec gelu_tanh(Vec x) {
    const Vec cube = x * fma_vec(x * x, all(0.044715f), all(1.0f));
    const Vec power = exp2_vec(cube * all(-2.0f * 0.7978845608f * 1.44269504f));
    return x / (all(1.0f) + power);
}

/* x · Φ(x): of the tail of Φ, exp(-x²/2) and a polynomial in 1 / (1 + p·|x|), as Abramowitz and Stegun (1964, 7.1.26) have
   it, here fitted to the least relative error, 2e-8: where x is negative, errors of one sign would add up over the inner
   width. */
SIMD_INLINE Vec gelu_finely(Vec x) {
    const Vec size = larger(x, -x);
    const Vec t = all(1.0f) / fma_vec(size, all(0.34375f), all(1.0f));
    Vec y = all(-0.0278093163f);
    y = fma_vec(y, t, all(0.143849075f));
    y = fma_vec(y, t, all(-0.271713883f));
    y = fma_vec(y, t, all(0.190920874f));
    y = fma_vec(y, t, all(-0.0393071212f));
    y = fma_vec(y, t, all(0.112657979f));
    y = fma_vec(y, t, all(0.116740458f));
    y = fma_vec(y, t, all(0.137542278f));
    y = fma_vec(y, t, all(0.137119666f));
    const Vec tail = y * t * exp2_finely(x * x * all(-0.5f * 1.44269504f)); /* 1 - Φ(|x|) */
    return fma_vec(-size, tail, larger(all(0.0f), x));
}

SIMD_INLINE Vec gelu_tanh_finely(Vec x) {
    const Vec cube = x * fma_vec(x * x, all(0.044715f), all(1.0f));
    return x / (all(1.0f) + exp2_finely(cube * all(-2.0f * 0.7978845608f * 1.44269504f)));
}

/* To the precision of float32, where the others are for results that are rounded to bfloat16 or bytes. */
SIMD_INLINE Vec activated_finely(Vec x, int64_t activation) {
    switch (activation) {
    case GELU: return gelu_finely(x);
    case GELU_TANH: return gelu_tanh_finely(x);
    case RELU: return larger(all(0.0f), x);
    default: return x;
    }
}

SIMD_INLINE Vec activated(Vec x, int64_t activation) {
    switch (activation) {
    case GELU: return gelu(x);
    case GELU_TANH: return gelu_tanh(x);
    case RELU: return larger(all(0.0f), x); /* in this order, NaN stays NaN */
    default: return x;
    }
}

#endif
#endif
