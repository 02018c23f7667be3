/* The stack of blocks in bfloat16: whoever includes this is its form for one set of instructions (STACK_CODE, WITH_AMX,
   PANEL_ROWS, RUN_STACK; see bf16_panels.h). */

#include "bf16_panels.h"
#include "stack.h"

#ifdef BERTFEAT_X86

/* A thread's memory for a panel. */
typedef struct {
    uint16_t *panel, *context; /* [most, hidden] each, as panels */
    uint16_t *qkv;             /* [3 * heads, most, width]; where sums and raised lie when attention is done */
    float *sums, *rows;        /* [most, hidden] in blocks, [TOGETHER, hidden] */
    uint16_t *raised;          /* [most, CHUNK], as a panel */
} Room;

static const StackBlock *block_of(const Stack *j, int64_t layer) { return (const StackBlock *)j->blocks + layer; }

static int64_t hidden_of(const Stack *j) { return block_of(j, 0)->up.in; }

static int64_t head_width(const Panel *p) { return hidden_of(p->stack) / p->stack->heads; }

static size_t bytes_of(const Stack *j, int64_t most) {
    const int64_t hidden = hidden_of(j), sums = 2 * hidden + CHUNK;
    return 4 * most * hidden + 2 * most * (3 * hidden > sums ? 3 * hidden : sums) + 4 * TOGETHER * hidden;
}

static Room room_of(const Panel *p) {
    const int64_t hidden = hidden_of(p->stack);
    Room m;
    m.rows = (float *)p->memory;
    m.panel = (uint16_t *)(m.rows + TOGETHER * hidden);
    m.context = m.panel + p->most * hidden;
    m.qkv = m.context + p->most * hidden;
    m.sums = (float *)m.qkv;
    m.raised = (uint16_t *)(m.sums + p->most * hidden);
    return m;
}

/* The embedding of a token, before its norm; gives what its values add up to. */
STACK_INLINE __m512 add_embeddings(const Stack *j, int64_t token, int64_t hidden, float *x) {
    const Embeddings *t = j->tables;
    const uint16_t *word = (const uint16_t *)t->words + j->ids[token] * hidden;
    const uint16_t *position = (const uint16_t *)t->positions + j->positions[token] * hidden;
    const uint16_t *type = t->types ? (const uint16_t *)t->types + j->types[token] * hidden : NULL;
    __m512 total = _mm512_setzero_ps();
    for (int64_t c = 0; c < hidden; c += 32) {
        const __m512i a = _mm512_loadu_si512(word + c), b = _mm512_loadu_si512(position + c);
        const __m512i d = type ? _mm512_loadu_si512(type + c) : _mm512_setzero_si512();
        const __m512 low = _mm512_add_ps(_mm512_add_ps(low_half(a), low_half(b)), low_half(d));
        const __m512 high = _mm512_add_ps(_mm512_add_ps(high_half(a), high_half(b)), high_half(d));
        _mm512_store_ps(x + c, low);
        _mm512_store_ps(x + c + 16, high);
        total = _mm512_add_ps(total, _mm512_add_ps(low, high));
    }
    return total;
}

STACK_CODE static void load(Panel *p, int64_t begin) {
    const int64_t hidden = hidden_of(p->stack), padded = round_up(p->rows, STEP);
    const Room m = room_of(p);
    const Rows panel = rows_of_panel(m.panel, hidden);
    zero_rows(panel, p->rows, padded, hidden);
    if (p->stack->rows) {
        copy_rows(rows_of_memory((uint16_t *)p->stack->rows + begin * hidden, hidden), p->rows, hidden, panel);
        return;
    }
    for (int64_t r = 0; r < p->rows; r += TOGETHER) {
        __m512 total[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) /* the last row again where there are no more */
            total[i] = add_embeddings(p->stack, begin + least(r + i, p->rows - 1), hidden, m.rows + i * hidden);
        normalize_rows(m.rows, total, &p->stack->tables->norm, hidden, panel, r);
    }
}

/* The rows of the panel that a place of this layer wants. */
static Rows rows_at(const Panel *p, void *out) {
    const int64_t hidden = hidden_of(p->stack);
    return rows_of_memory((uint16_t *)out + p->at * hidden, hidden);
}

STACK_CODE static void store(const Panel *p, void *out, int64_t rows) {
    const int64_t hidden = hidden_of(p->stack);
    copy_rows(rows_of_panel(room_of(p).panel, hidden), rows, hidden, rows_at(p, out));
}

/* Rows of a place within the block, to where it is wanted. */
STACK_CODE static void keep(const Panel *p, int site, Rows values, int64_t rows) {
    void *out = wanted_at(p, site);
    if (out) copy_rows(values, rows, hidden_of(p->stack), rows_at(p, out));
}

/* The same of the sums of a product, with its bias and, where there is one, what they are added to. */
STACK_CODE static void keep_sums(const Panel *p, int site, const Product *product, const Rows *residual, int64_t rows) {
    void *out = wanted_at(p, site);
    if (out) copy_sums(room_of(p).sums, product->bias, residual, rows, product->out, rows_at(p, out));
}

/* Attend among so many rows of queries, and of keys before as many of values, head by head. */
static void attend(Panel *p, const uint16_t *query, int64_t queries, const uint16_t *key, int64_t keys, int one) {
    const int64_t hidden = hidden_of(p->stack), width = head_width(p);
    const Rows out = rows_of_panel(room_of(p).context, hidden);
    const Attention a = {
        .query = query, .key = key, .value = key + keys * hidden, .out = out.first, .width = width,
        .query_stride = width, .key_stride = width, .query_step = queries * width, .key_step = keys * width,
        .out_stride = out.row, .out_tile = out.tile, .out_column = out.column,
    };
    bertfeat_attend_panel(p, a, one);
    spend(p, ATTENTION);
}

/* What follows attention, for the first rows of the panel, whose contexts are known. */
STACK_CODE static void finish_block(Panel *p, const StackBlock *b, int64_t rows) {
    const int64_t hidden = b->up.in, inner = b->up.out, padded = round_up(rows, STEP);
    const Room m = room_of(p);
    const Rows panel = rows_of_panel(m.panel, hidden);
    keep(p, HEAD_OUTPUTS, rows_of_panel(m.context, hidden), rows);
    accumulate(m.context, padded, &b->output, 0, hidden, m.sums);
    keep_sums(p, ATTENTION_OUTPUT, &b->output, NULL, rows);
    keep_sums(p, FIRST_SUM, &b->output, &panel, rows);
    spend(p, OUTPUT);
    for (int64_t r = 0; r < rows; r += TOGETHER)
        normalize(m.sums, b->output.bias, panel, &b->attention_norm, hidden, m.rows, panel, r);
    keep(p, MLP_INPUT, panel, rows);
    spend(p, NORMS);
    for (int64_t chunk = 0; chunk < inner; chunk += CHUNK) {
        const int64_t end = least(chunk + CHUNK, inner);
        multiply(m.panel, padded, &b->up, chunk, end, p->stack->activation, rows_of_panel(m.raised, end - chunk));
        accumulate(m.raised, padded, &b->down, chunk, end, m.sums);
    }
    keep_sums(p, MLP_OUTPUT, &b->down, NULL, rows);
    keep_sums(p, SECOND_SUM, &b->down, &panel, rows);
    spend(p, FEED_FORWARD);
    for (int64_t r = 0; r < rows; r += TOGETHER)
        normalize(m.sums, b->down.bias, panel, &b->out_norm, hidden, m.rows, panel, r);
    spend(p, NORMS);
}

STACK_CODE static void whole_block(Panel *p, int64_t layer) {
    const StackBlock *b = block_of(p->stack, layer);
    const int64_t hidden = b->up.in, rows = round_up(p->rows, STEP);
    const Room m = room_of(p);
    multiply(m.panel, rows, &b->qkv, 0, 3 * hidden, NO_ACTIVATION, rows_of_heads(m.qkv, rows, head_width(p)));
    spend(p, QKV);
    attend(p, m.qkv, rows, m.qkv + rows * hidden, rows, 0);
    finish_block(p, b, p->rows);
}

/* Keys and values of all tokens, everything else of the first ones alone. */
STACK_CODE static void first_token_block(Panel *p, int64_t layer) {
    const StackBlock *b = block_of(p->stack, layer);
    const int64_t hidden = b->up.in, padded = round_up(p->sequences, STEP), rows = round_up(p->rows, STEP);
    const Room m = room_of(p);
    const Rows all = rows_of_panel(m.panel, hidden), firsts = rows_of_panel(m.context, hidden);
    uint16_t *query = m.qkv + rows * 2 * hidden; /* after keys and values */
    multiply(m.panel, rows, &b->qkv, hidden, 3 * hidden, NO_ACTIVATION, rows_of_heads(m.qkv, rows, head_width(p)));
    zero_rows(firsts, p->sequences, padded, hidden);
    for (int64_t s = 0; s < p->sequences; s++)
        for (int64_t c = 0; c < hidden; c += 32) memcpy(values_at(firsts, s, c), values_at(all, p->bounds[s], c), 64);
    multiply(m.context, padded, &b->qkv, 0, hidden, NO_ACTIVATION, rows_of_heads(query, padded, head_width(p)));
    copy_rows(firsts, padded, hidden, all);
    spend(p, QKV);
    attend(p, query, padded, m.qkv, rows, 1);
    finish_block(p, b, p->sequences);
}

STACK_CODE static void begin_thread(void) { begin_products(); }
STACK_CODE static void end_thread(void) { end_products(); }

int RUN_STACK(const Stack *j, Parallel parallel, unsigned threads) {
    static const StackForm form = {PANEL_ROWS, hidden_of, bytes_of, load, whole_block, first_token_block, store, begin_thread, end_thread};
    return bertfeat_run_stack(j, &form, parallel, threads);
}

#endif
