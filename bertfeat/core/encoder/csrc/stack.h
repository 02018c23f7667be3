/* A stack of transformer blocks in one job.

   A thread takes a panel, neighboring whole sequences, through all blocks in its own memory, about as much as a core's
   second cache holds: nothing goes to main memory between blocks but the layers that somebody wants. No thread waits for
   another before the end.

   stack.c has what all forms share; a form (bf16_stack.h, int8_panels.h) has the products of its instructions. */

#ifndef BERTFEAT_STACK_H
#define BERTFEAT_STACK_H

#include "attention.h"

#ifdef BERTFEAT_X86

enum { EMBEDDING, QKV, ATTENTION, OUTPUT, NORMS, FEED_FORWARD, STAGES };

/* Some sequences, their rows, and a thread's memory for them. */
typedef struct {
    const Stack *stack;
    int64_t sequences, rows, most; /* most: rows of the largest panel, a multiple of 32 */
    int64_t layer, at;             /* the one that is made now, from 1 on, and the row of its values that is the panel's first */
    int64_t *bounds, *singles;     /* [sequences + 1] rows at which each sequence begins in the panel; 0, 1, 2 … */
    Scratch attention;
    char *memory; /* of the form */
    uint64_t cycles[STAGES], now;
} Panel;

/* How blocks are computed. */
typedef struct {
    int64_t panel_rows;                                         /* about as many rows are a panel */
    int64_t (*hidden)(const Stack *);                           /* width */
    size_t (*bytes)(const Stack *, int64_t most);               /* of a thread's memory */
    void (*load)(Panel *, int64_t begin);                       /* the embedding output from a row on, made or given */
    void (*block)(Panel *, int64_t layer);                      /* for all rows */
    void (*first_tokens)(Panel *, int64_t layer);               /* for the first row of each sequence, which are all then */
    void (*store)(const Panel *, void *out, int64_t rows);      /* the rows of the panel, from its place on */
    void (*begin)(void), (*end)(void);                          /* of a thread */
} StackForm;

/* Compute a stack; gives 0, or -1 where memory ran out. */
int bertfeat_run_stack(const Stack *job, const StackForm *form, Parallel parallel, unsigned threads);

/* Compute attention among the sequences of a panel, of all their rows, or, with `one`, of one query for each. */
void bertfeat_attend_panel(Panel *p, Attention a, int one);

/* Where a place of the layer that is made now is wanted; NULL if it is not. */
static inline void *wanted_at(const Panel *p, int site) { return p->stack->out[p->layer * SITES + site]; }

/* Add the cycles since the last call to a stage. */
static inline void spend(Panel *p, int stage) {
    const uint64_t now = __rdtsc();
    p->cycles[stage] += now - p->now;
    p->now = now;
}

#endif
#endif
