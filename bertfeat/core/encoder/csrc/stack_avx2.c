/* The stack of blocks in float32 on AVX2. */

#define LANES 8
#define FLOAT_CODE AVX2
#define RUN_STACK bertfeat_stack_avx2

enum { MOST_ROWS = 6 };

#include "fp32_stack.h"
