/* Self-attention over packed sequences (Vaswani et al. 2017, eq. 1).

   A work item is one head of one sequence: its keys and values are repacked once, and its queries go through in tiles
   of 16 (AMX), 8 (AVX-512) or 6 rows whose scores stay in the nearest cache. No item knows of any other. */

#include "attention.h"

#ifdef BERTFEAT_KERNELS

#ifdef BERTFEAT_X86
static void attend(const Attention *a, const Item *item, const Scratch *s) {
    switch (a->form) {
    case AMX_FORM: bertfeat_attend_amx(a, item, s); break;
    case BF16_FORM: bertfeat_attend_bf16(a, item, s); break;
    case AVX512_FORM: bertfeat_attend_avx512(a, item, s); break;
    default: bertfeat_attend_vector(a, item, s);
    }
}
AMX static void begin_amx(void) { configure_tiles(); }
AMX static void end_amx(void) { release_tiles(); }
#else
#define attend bertfeat_attend_vector
static void begin_amx(void) {}
static void end_amx(void) {}
#endif

typedef struct {
    const Attention *attention;
    int64_t next, step, failed;
} Work;

size_t bertfeat_attention_bytes(int64_t longest, int64_t width) {
    const int64_t padded = round_up(longest, 32), wide = round_up(width, 32);
    return 4 * (size_t)(2 * padded * wide + TILE * padded + 2 * TILE * wide);
}

Scratch bertfeat_attention_scratch(void *memory, int64_t longest, int64_t width) {
    const int64_t padded = round_up(longest, 32), wide = round_up(width, 32);
    float *at = memory;
    Scratch s;
    s.key = at, at += padded * wide;
    s.value = at, at += padded * wide;
    s.scores = at, at += TILE * padded;
    s.query = at, at += TILE * wide;
    s.mixed = at;
    memset(s.query, 0, TILE * wide * 4);
    return s;
}

void bertfeat_attend_head(const Attention *a, int64_t sequence, int64_t head, const Scratch *s) {
    const int64_t bytes = a->type == FP32 ? 4 : 2, column = head * a->width, shared = head / a->group;
    const int64_t q = a->query_bounds[sequence], k = a->key_bounds[sequence], keys = a->key_bounds[sequence + 1] - k;
    const Item item = {
        .query = (const char *)a->query + (q * a->query_stride + head * a->query_step) * bytes,
        .key = (const char *)a->key + (k * a->key_stride + shared * a->key_step) * bytes,
        .value = (const char *)a->value + (k * a->value_stride + shared * a->value_step) * bytes,
        .out = (char *)a->out + (q * a->out_stride + column) * bytes,
        .bias = a->bias ? a->bias + head * (2 * a->farthest + 1) + a->farthest : NULL,
        .row = q, .column = column,
        .queries = a->query_bounds[sequence + 1] - q, .keys = keys, .padded = round_up(keys, 32),
    };
    attend(a, &item, s);
}

/* Take items, a few at a time, until there are none left. */
static void work(void *shared) {
    Work *w = shared;
    const Attention *a = w->attention;
    const int64_t items = a->sequences * a->heads;
    void *memory = bertfeat_scratch(bertfeat_attention_bytes(a->longest, a->width));
    if (!memory) {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const Scratch scratch = bertfeat_attention_scratch(memory, a->longest, a->width);
    if (a->form == AMX_FORM) begin_amx();
    for (;;) {
        const int64_t begin = __atomic_fetch_add(&w->next, w->step, __ATOMIC_RELAXED);
        if (begin >= items) break;
        for (int64_t at = begin; at < least(begin + w->step, items); at++)
            bertfeat_attend_head(a, at / a->heads, at % a->heads, &scratch);
    }
    if (a->form == AMX_FORM) end_amx();
}

/* Attend on as many threads; gives 0, or -1 where memory ran out. */
int bertfeat_attend(const Attention *attention, Parallel parallel, unsigned threads) {
    const int64_t items = attention->sequences * attention->heads, step = items / (threads * 16);
    Work shared = {.attention = attention, .step = step > 0 ? step : 1};
    parallel(work, &shared, threads, 0);
    return shared.failed ? -1 : 0;
}

#endif
