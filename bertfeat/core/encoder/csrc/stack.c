/* What all forms of a stack of blocks share: panels, threads, attention. */

#include "stack.h"

#ifdef BERTFEAT_X86

typedef struct {
    const Stack *stack;
    const StackForm *form;
    const int64_t *panels; /* [count + 1] sequences at which panels begin */
    int64_t count, most, longest, next, failed;
} Work;

static int64_t head_width(const Work *w) { return w->form->hidden(w->stack) / w->stack->heads; }

/* Lay out a thread's memory; gives whether there is enough. */
static int allocate(const Work *w, Panel *p) {
    const size_t numbers = round_up(8 * (w->most + 1), 64), attention = bertfeat_attention_bytes(w->longest, head_width(w));
    char *at = bertfeat_scratch(2 * numbers + attention + w->form->bytes(w->stack, w->most));
    if (!at) return 0;
    p->stack = w->stack, p->most = w->most;
    p->bounds = (int64_t *)at, at += numbers;
    p->singles = (int64_t *)at, at += numbers;
    for (int64_t i = 0; i <= w->most; i++) p->singles[i] = i;
    p->attention = bertfeat_attention_scratch(at, w->longest, head_width(w)), at += attention;
    p->memory = at;
    return 1;
}

void bertfeat_attend_panel(Panel *p, Attention a, int one) {
    a.heads = p->stack->heads, a.type = p->stack->type, a.form = p->stack->form, a.scale = p->stack->scale;
    a.value_stride = a.key_stride, a.value_step = a.key_step, a.group = 1;
    a.before = a.after = p->stack->bounds[p->stack->sequences], a.bias = p->stack->bias, a.farthest = p->stack->farthest;
    a.query_bounds = one ? p->singles : p->bounds, a.key_bounds = p->bounds;
    for (int64_t s = 0; s < p->sequences; s++)
        for (int64_t head = 0; head < a.heads; head++) bertfeat_attend_head(&a, s, head, &p->attention);
}

static void take_panel(const Work *w, Panel *p, int64_t first, int64_t last) {
    const Stack *j = w->stack;
    const int64_t begin = j->bounds[first];
    p->now = __rdtsc();
    p->sequences = last - first, p->rows = j->bounds[last] - begin;
    for (int64_t s = 0; s <= p->sequences; s++) p->bounds[s] = j->bounds[first + s] - begin;
    p->layer = 0, p->at = begin;
    w->form->load(p, begin);
    if (wanted_at(p, BLOCK_OUTPUT)) w->form->store(p, wanted_at(p, BLOCK_OUTPUT), p->rows);
    spend(p, EMBEDDING);
    for (int64_t layer = 0; layer < j->layers; layer++) {
        const int firsts = j->first_only && layer == j->layers - 1;
        p->layer = layer + 1, p->at = firsts ? first : begin;
        (firsts ? w->form->first_tokens : w->form->block)(p, layer);
        if (wanted_at(p, BLOCK_OUTPUT)) w->form->store(p, wanted_at(p, BLOCK_OUTPUT), firsts ? p->sequences : p->rows);
    }
}

static void work(void *shared) {
    Work *w = shared;
    Panel p = {0};
    if (!allocate(w, &p)) {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    w->form->begin();
    for (;;) {
        const int64_t at = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        if (at >= w->count) break;
        take_panel(w, &p, w->panels[at], w->panels[at + 1]);
    }
    w->form->end();
    for (int stage = 0; stage < STAGES; stage++) __atomic_fetch_add(w->stack->cycles + stage, p.cycles[stage], __ATOMIC_RELAXED);
}

/* Every thread gets as many panels as any other, and all are of about the same rows: a sequence is in the one in which its
   middle lies. */
int bertfeat_run_stack(const Stack *j, const StackForm *form, Parallel parallel, unsigned threads) {
    int64_t *panels = malloc((size_t)(j->sequences + 1) * sizeof *panels);
    if (!panels) return -1;
    const int64_t rows = j->bounds[j->sequences];
    const int64_t count = round_up((rows + form->panel_rows - 1) / form->panel_rows, threads);
    Work w = {.stack = j, .form = form, .panels = panels};
    int64_t before = -1;
    for (int64_t s = 0; s < j->sequences; s++) {
        const int64_t begin = j->bounds[s], end = j->bounds[s + 1], now = (begin + end) * count / (2 * rows);
        if (now != before) panels[w.count++] = s;
        before = now;
        const int64_t filled = round_up(end - j->bounds[panels[w.count - 1]], 32);
        if (filled > w.most) w.most = filled;
        if (end - begin > w.longest) w.longest = end - begin;
    }
    panels[w.count] = j->sequences;
    if (w.count) parallel(work, &w, (unsigned)least(threads, w.count), 0);
    free(panels);
    return w.failed ? -1 : 0;
}

#endif
