/* What the forms of attention share: a work item, and the memory that a thread works in. */

#ifndef BERTFEAT_ATTENTION_H
#define BERTFEAT_ATTENTION_H

#include "kernels.h"

/* One head of one sequence. */
typedef struct {
    const char *query, *key, *value;
    char *out;
    int64_t queries, keys, padded; /* padded: keys rounded up to 32 */
} Item;

/* What one thread works in. */
typedef struct {
    void *key, *value, *query; /* repacked */
    float *scores;             /* [16, padded] */
    void *weights;             /* [16, padded] bfloat16 (AMX, AVX512-BF16) */
    float *mixed;              /* [16, width rounded up to 32] */
} Scratch;

void bertfeat_attend_vector(const Attention *a, const Item *item, const Scratch *s);
void bertfeat_attend_avx512(const Attention *a, const Item *item, const Scratch *s);
void bertfeat_attend_bf16(const Attention *a, const Item *item, const Scratch *s);
void bertfeat_attend_amx(const Attention *a, const Item *item, const Scratch *s);

#endif
