/* Products of 8-bit integers on AVX2. Two products are added in 16 bits, which hold 2 · 127 · 127 and no more: so bytes
   go to 127 only, and groups are smaller to make up for it. */

#define LANES 8
#define MOST_VECTORS 2
#define HALVES 0
#define PROJECT bertfeat_int8_project_avx2
#define POST_ATTENTION bertfeat_int8_post_attention_avx2
#define RUN_STACK bertfeat_int8_stack_avx2

#include "vectors.h"

#ifdef BERTFEAT_X86

#define INT8 AVX2
#define INT8_INLINE INT8 static inline __attribute__((always_inline, unused))

enum { GROUP = 128, LEVELS = 127, BLOCK = 4 };

#include "int8_rows.h"

INT8_INLINE Integers sum_of_products(Integers bytes, Integers weights) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, weights), _mm256_set1_epi16(1));
}

#define ADD_PRODUCTS(total, bytes, weights) (total = _mm256_add_epi32(total, sum_of_products(bytes, weights)))

#include "int8_vectors.h"

#include "int8_panels.h"

#endif
