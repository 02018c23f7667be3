/* The activations of many values, for test_activations.py; LANES says how many go at once. */

#include "../../bertfeat/core/encoder/csrc/activations.h"

#ifdef BERTFEAT_X86

#if LANES == 16
#define CODE AVX512
#else
#define CODE AVX2
#endif

CODE void activate(const float *from, float *to, int64_t count, int64_t activation, int64_t finely) {
    for (int64_t i = 0; i < count; i += LANES) {
        const Vec x = load_vec(from + i);
        store_vec(to + i, finely ? activated_finely(x, activation) : activated(x, activation));
    }
}

#endif
