/* What the forms of attention share: a work item, and the memory that a thread works in. */

#ifndef BERTFEAT_ATTENTION_H
#define BERTFEAT_ATTENTION_H

#include "kernels.h"

/* One head of one sequence. */
typedef struct {
    const char *query, *key, *value;
    char *out;
    const float *bias;   /* by how far a key stands after the query, from -farthest on: of the head, its middle; or NULL */
    int64_t row, column; /* where its results are among all */
    int64_t queries, keys, padded; /* padded: keys rounded up to 32 */
} Item;

/* The keys [first, stop) that some queries see: first is a multiple of 32. */
typedef struct {
    int64_t first, stop;
} Seen;

/* What one thread works in. */
typedef struct {
    void *key, *value, *query; /* repacked */
    float *scores;             /* [16, padded]; bfloat16 weights take their place, a row in that of its scores */
    float *mixed;              /* [16, width rounded up to 32] */
} Scratch;

/* The bytes of a thread's memory for sequences of so many keys and heads of this width, and their places in it. */
size_t bertfeat_attention_bytes(int64_t longest, int64_t width);
Scratch bertfeat_attention_scratch(void *memory, int64_t longest, int64_t width);

/* Compute one head of one sequence, which a->form says how. On AMX tiles are configured. */
void bertfeat_attend_head(const Attention *a, int64_t sequence, int64_t head, const Scratch *s);

static inline Seen keys_seen(const Attention *a, const Item *item, int64_t query, int64_t queries) {
    const int64_t first = query - a->before;
    return (Seen){first > 0 ? first / 32 * 32 : 0, least(item->keys, query + queries + a->after)};
}

/* Whether one of some queries does not see all of those keys. */
static inline int hides_keys(const Attention *a, int64_t query, int64_t queries, Seen seen) {
    return query + queries - 1 - a->before > seen.first || query + a->after + 1 < seen.stop;
}

/* Add the bias to the scores of a query, [keys], and hide the keys that it does not see. */
static inline void adjust_scores(const Attention *a, const Item *item, int64_t query, Seen seen, float *scores) {
    const int64_t before = query - a->before, first = before > seen.first ? before : seen.first;
    const int64_t stop = least(seen.stop, query + a->after + 1);
    if (item->bias)
        for (int64_t n = first; n < stop; n++) scores[n] += item->bias[n - query];
    for (int64_t n = seen.first; n < first; n++) scores[n] = -1e30f; /* its weight is 0 */
    for (int64_t n = stop; n < seen.stop; n++) scores[n] = -1e30f;
}

void bertfeat_attend_vector(const Attention *a, const Item *item, const Scratch *s);
void bertfeat_attend_avx512(const Attention *a, const Item *item, const Scratch *s);
void bertfeat_attend_bf16(const Attention *a, const Item *item, const Scratch *s);
void bertfeat_attend_amx(const Attention *a, const Item *item, const Scratch *s);

#endif
