/* Products of 8-bit integers on AVX512-VNNI. */

#define LANES 16
#define MOST_VECTORS 4
#define HALVES 1
#define PROJECT bertfeat_int8_project_vnni
#define POST_ATTENTION bertfeat_int8_post_attention_vnni
#define RUN_STACK bertfeat_int8_stack_vnni

#include "vectors.h"

#ifdef BERTFEAT_X86

#define INT8 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define INT8_INLINE INT8 static inline __attribute__((always_inline, unused))

enum { GROUP = 384, LEVELS = 255, BLOCK = 6 };

#include "int8_rows.h"

/* Not the intrinsic, around which GCC copies the sums: half as fast. */
#define ADD_PRODUCTS(total, bytes, weights) __asm__("vpdpbusd %2, %1, %0" : "+v"(total) : "v"(bytes), "v"(weights))

#include "int8_vectors.h"

#include "int8_panels.h"

#endif
