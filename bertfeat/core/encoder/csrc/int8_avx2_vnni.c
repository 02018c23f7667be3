/* Products of 8-bit integers on AVX-VNNI, which processors without AVX-512 have: as on AVX512-VNNI, half as many at once. */

#define LANES 8
#define MOST_VECTORS 2
#define HALVES 0
#define PROJECT bertfeat_int8_project_avx2_vnni
#define POST_ATTENTION bertfeat_int8_post_attention_avx2_vnni
#define RUN_STACK bertfeat_int8_stack_avx2_vnni

#include "vectors.h"

#ifdef BERTFEAT_X86

#define INT8 __attribute__((target("avx2,fma,avxvnni")))
#define INT8_INLINE INT8 static inline __attribute__((always_inline, unused))

enum { GROUP = 384, LEVELS = 255, BLOCK = 6 };

#include "int8_rows.h"

/* Not the intrinsic, around which GCC copies the sums. */
#define ADD_PRODUCTS(total, bytes, weights) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(total) : "x"(bytes), "x"(weights))

#include "int8_vectors.h"

#include "int8_panels.h"

#endif
