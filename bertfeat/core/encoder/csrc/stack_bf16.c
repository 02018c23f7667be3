/* The stack of blocks in bfloat16 on AVX512-BF16. */

#define STACK_CODE BF16_CODE
#define RUN_STACK bertfeat_stack_bf16

enum { PANEL_ROWS = 256 };

#include "bf16_stack.h"
