/* The stack of blocks in bfloat16 on AMX. */

#define STACK_CODE AMX
#define WITH_AMX
#define RUN_STACK bertfeat_stack_amx

enum { PANEL_ROWS = 256 }; /* 128: 1.08 of the time, 512: 0.95 of sentences' and 1.07 of paragraphs' */

#include "bf16_stack.h"
