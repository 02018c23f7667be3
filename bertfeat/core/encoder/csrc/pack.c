/* Weights in the order in which products read them. */

#include "kernels.h"

#ifdef BERTFEAT_KERNELS

/* Repack a weight [out, in] as strips of 64 outputs, in which four inputs of each output stand side by side. */
void bertfeat_pack_int8(const int8_t *weight, int8_t *strips, int64_t in, int64_t out) {
    enum { STRIP = 64 };
    for (int64_t n = 0; n < out; n += STRIP)
        for (int64_t k = 0; k < in; k += 4)
            for (int64_t i = n; i < least(n + STRIP, out); i++, strips += 4) memcpy(strips, weight + i * in + k, 4);
}

#endif

#ifdef BERTFEAT_X86

/* Repack a weight [out, in], both multiples of 32, as tiles. */
AVX512 void bertfeat_pack(const uint16_t *weight, uint16_t *tiles, int64_t in, int64_t out) {
    for (int64_t n = 0; n < out; n += 32)
        for (int64_t k = 0; k < in; k += 32)
            for (int64_t half = 0; half < 32; half += TILE, tiles += TILE_VALUES)
                turn_tile(tiles, weight + (n + half) * in + k, in, TILE);
}

#endif
