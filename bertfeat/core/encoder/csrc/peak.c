/* The processor's peak: multiply-adds in registers, in every thread at once, which no product can pass. */

#include "kernels.h"

#ifdef BERTFEAT_X86

/* Values as numbers have them, since zeros take less power and so are faster: 32 of bfloat16, which are 16 of float32 too. */
static const uint16_t values[32] __attribute__((aligned(64))) = {
        0x3fa4, 0x3fb9, 0x3d87, 0xbf43, 0xbf8b, 0x3d00, 0xbf82, 0xbfb7,
        0x3e4c, 0x3e08, 0x3f0b, 0xbf69, 0x3ba4, 0xbd84, 0xbfc0, 0x3f09,
        0x3ea4, 0x4018, 0x3e4f, 0xbe14, 0x3f9d, 0x3e4b, 0x3f68, 0xbebb,
        0x3e5f, 0x3f83, 0x3f32, 0x3e03, 0xbf8a, 0x3ee3, 0x3d9d, 0x3f38};

typedef struct {
    int64_t operations;
} Peak;

#define RUN(name)                                                                                                      \
    void bertfeat_peak_##name(int64_t operations, Parallel parallel, unsigned threads) {                               \
        Peak peak = {operations};                                                                                      \
        parallel(loop_##name, &peak, threads, 0);                                                                      \
    }

/* A loop over instructions of so many operations each, onto sums that do not wait for each other: two may begin in a
   cycle and take four to six. */
#define PEAK(name, target, Vector, each, SUMS, MULTIPLY)                                                               \
    target static void loop_##name(void *shared) {                                                                     \
        const Peak *peak = shared;                                                                                     \
        Vector a, b, sums[SUMS];                                                                                       \
        memcpy(&a, values, sizeof a);                                                                                  \
        memcpy(&b, (const char *)values + sizeof values - sizeof b, sizeof b);                                         \
        _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sums[i] = (Vector){};                                  \
        for (int64_t n = peak->operations / (SUMS * (each)); n > 0; n--) {                                             \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) MULTIPLY(sums[i], a, b);                           \
        }                                                                                                              \
    }                                                                                                                  \
    RUN(name)

#define MULTIPLY_FP32(sum, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#define MULTIPLY_BF16(sum, a, b) __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#define MULTIPLY_VNNI(sum, a, b) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#define MULTIPLY_AVX2_VNNI(sum, a, b) __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))
/* Three steps: products added by two in 16 bits, these by two in 32 bits, and onto the sum. */
#define MULTIPLY_AVX2(sum, a, b)                                                                                       \
    do {                                                                                                               \
        __m256i sixteen, thirty_two;                                                                                   \
        __asm__ volatile("vpmaddubsw %2, %1, %0" : "=x"(sixteen) : "x"(a), "x"(b));                                    \
        __asm__ volatile("vpmaddwd %2, %1, %0" : "=x"(thirty_two) : "x"(sixteen), "x"(a));                             \
        __asm__ volatile("vpaddd %1, %0, %0" : "+x"(sum) : "x"(thirty_two));                                           \
    } while (0)

PEAK(avx2, AVX2, __m256, 2 * 8, 12, MULTIPLY_FP32)
PEAK(avx512, AVX512, __m512, 2 * 16, 12, MULTIPLY_FP32)
PEAK(bf16, BF16_CODE, __m512i, 2 * 32, 12, MULTIPLY_BF16)
PEAK(int8_avx2, AVX2, __m256i, 2 * 32, 6, MULTIPLY_AVX2)
PEAK(int8_avx2_vnni, AVX2, __m256i, 2 * 32, 12, MULTIPLY_AVX2_VNNI)
PEAK(int8_vnni, AVX512, __m512i, 2 * 64, 12, MULTIPLY_VNNI)

/* Four tiles of sums, of two by two tiles. */
#define TILE_PEAK(name, target, each, MULTIPLY)                                                                        \
    target static void loop_##name(void *shared) {                                                                     \
        const Peak *peak = shared;                                                                                     \
        configure_tiles();                                                                                             \
        _tile_loadd(4, values, 0); /* the same row sixteen times */                                                    \
        _tile_loadd(5, values, 0);                                                                                     \
        _tile_loadd(6, values, 0);                                                                                     \
        _tile_loadd(7, values, 0);                                                                                     \
        _tile_zero(0);                                                                                                 \
        _tile_zero(1);                                                                                                 \
        _tile_zero(2);                                                                                                 \
        _tile_zero(3);                                                                                                 \
        for (int64_t n = peak->operations / (4 * (each)); n > 0; n--) {                                                \
            MULTIPLY(0, 4, 6);                                                                                         \
            MULTIPLY(1, 4, 7);                                                                                         \
            MULTIPLY(2, 5, 6);                                                                                         \
            MULTIPLY(3, 5, 7);                                                                                         \
        }                                                                                                              \
        release_tiles();                                                                                               \
    }                                                                                                                  \
    RUN(name)

#define INT8_TILES __attribute__((target("avx512f,amx-tile,amx-int8")))
TILE_PEAK(amx, AMX, 2 * 16 * 16 * 32, _tile_dpbf16ps)
TILE_PEAK(int8_amx, INT8_TILES, 2 * 16 * 16 * 64, _tile_dpbusd)

#endif
