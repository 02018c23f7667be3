/* The stack of blocks in float32 on AVX-512. */

#define LANES 16
#define FLOAT_CODE AVX512
#define RUN_STACK bertfeat_stack_avx512

enum { MOST_ROWS = 12 };

#include "fp32_stack.h"
