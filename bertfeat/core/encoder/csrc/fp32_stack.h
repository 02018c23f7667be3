/* The stack of blocks in float32: whoever includes this is its form for one set of instructions (LANES, MOST_ROWS,
   FLOAT_CODE, RUN_STACK).

   A weight [out, in] is packed strip by strip: of STRIP outputs the values of the first input side by side, then those of
   the second (stack.py). Every sum is added up input by input, SPAN of them at a time, so that a row has the same bytes
   whatever stands beside it; in sums of so few that are then added, less is rounded off than in one of all (Higham 1993,
   blocked summation). */

#include "activations.h"
#include "float_rows.h"

#ifdef BERTFEAT_X86

#define FLOAT_INLINE FLOAT_CODE static inline __attribute__((always_inline, unused))

enum {
    STRIP = 2 * LANES,
    FEW_ROWS = MOST_ROWS / 3, /* that are multiplied at once where fewer than MOST_ROWS are left */
    CHUNK = 384,              /* of the inner width, which goes by in chunks: what is raised is lowered while it is near */
    SPAN = 192,               /* inputs whose products are added up by themselves; CHUNK is a multiple */
    PANEL_ROWS = 256,
};

/* A thread's memory for a panel. */
typedef struct {
    float *rows, *context; /* [most, hidden] each */
    float *qkv;            /* [most, 3 * hidden]; where sums and raised lie when attention is done */
    float *sums, *raised;  /* [most, hidden], [most, CHUNK] */
} Room;

static const StackBlock *block_of(const Stack *j, int64_t layer) { return (const StackBlock *)j->blocks + layer; }

static int64_t hidden_of(const Stack *j) { return block_of(j, 0)->up.in; }

static size_t bytes_of(const Stack *j, int64_t most) {
    const int64_t hidden = hidden_of(j), attending = 3 * hidden, finishing = hidden + CHUNK;
    return most * (2 * hidden + (attending > finishing ? attending : finishing)) * sizeof(float);
}

static Room room_of(const Panel *p) {
    const int64_t values = p->most * hidden_of(p->stack);
    Room m;
    m.rows = (float *)p->memory;
    m.context = m.rows + values;
    m.qkv = m.sums = m.context + values;
    m.raised = m.sums + values;
    return m;
}

/* ── products ───────────────────────────────────────────────────────────────────────────────────────────── */

/* sums [count, STRIP] = bias + some columns of rows times their part of a strip; or, without a bias, added to the sums that
   are there. */
FLOAT_INLINE void multiply_block(const float *rows, int64_t width, const float *strip, int64_t depth, const float *bias,
                                 float *sums, int64_t stride, const int count) {
    Vec low[MOST_ROWS], high[MOST_ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) {
        low[i] = bias ? load_vec(bias) : all(0);
        high[i] = bias ? load_vec(bias + LANES) : all(0);
    }
    for (int64_t k = 0; k < depth; k++, strip += STRIP) {
        const Vec left = load_vec(strip), right = load_vec(strip + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < count; i++) {
            const Vec each = all(rows[i * width + k]);
            low[i] = fma_vec(each, left, low[i]);
            high[i] = fma_vec(each, right, high[i]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < count; i++) {
        float *now = sums + i * stride;
        if (!bias) low[i] += load_vec(now), high[i] += load_vec(now + LANES);
        store_vec(now, low[i]);
        store_vec(now + LANES, high[i]);
    }
}

/* The outputs [begin, end) of a product for rows, from the inputs [from, to) on which the rows begin; activated, or, where
   `from` is not 0, added to what is there. */
FLOAT_CODE static void multiply(const float *rows, int64_t count, const Product *p, int64_t begin, int64_t end, int64_t from,
                                int64_t to, int64_t width, int64_t activation, float *out, int64_t stride) {
    for (int64_t n = begin; n < end; n += STRIP) {
        const float *strip = (const float *)p->weight + n * p->in + from * STRIP;
        for (int64_t r = 0, now; r < count; r += now) {
            const float *at = rows + r * width;
            float *sums = out + r * stride + n - begin;
            now = count - r < MOST_ROWS ? FEW_ROWS : MOST_ROWS;
            if (n + STRIP < end) fetch_part(strip + p->in * STRIP, 4 * STRIP * (to - from), r, now, count);
            for (int64_t k = from; k < to; k += SPAN) {
                const float *part = strip + (k - from) * STRIP, *bias = k ? NULL : p->bias + n;
                if (now == MOST_ROWS)
                    multiply_block(at + k - from, width, part, least(SPAN, to - k), bias, sums, stride, MOST_ROWS);
                else
                    multiply_block(at + k - from, width, part, least(SPAN, to - k), bias, sums, stride, FEW_ROWS);
            }
            if (activation == NO_ACTIVATION) continue;
            for (int64_t i = 0; i < now; i++)
                for (int64_t c = 0; c < STRIP; c += LANES)
                    store_vec(sums + i * stride + c, activated_finely(load_vec(sums + i * stride + c), activation));
        }
    }
}

/* The outputs [begin, end) of a product for whole rows. */
static void project(const float *rows, int64_t count, const Product *p, int64_t begin, int64_t end, float *out) {
    multiply(rows, count, p, begin, end, 0, p->in, p->in, NO_ACTIVATION, out, end - begin);
}

/* ── blocks ─────────────────────────────────────────────────────────────────────────────────────────────── */

/* Layer norm of rows of sums and of what they are added to, which takes the result. */
FLOAT_CODE static void add_and_normalize(const float *sums, int64_t count, int64_t hidden, const Norm *norm, float *rows) {
    for (int64_t r = 0; r < count; r++, sums += hidden, rows += hidden) {
        Vec total = all(0);
        for (int64_t c = 0; c < hidden; c += LANES) {
            const Vec x = load_vec(sums + c) + load_vec(rows + c);
            total += x;
            store_vec(rows + c, x);
        }
        normalize_row(rows, total, hidden, norm);
    }
}

/* Rows of a place within the block, to where it is wanted. */
static void keep(const Panel *p, int site, const float *values, int64_t rows) {
    void *out = wanted_at(p, site);
    if (out) store_rows(p, values, hidden_of(p->stack), out, rows);
}

/* The same of rows of sums and of what they are added to. */
FLOAT_CODE static void keep_sum(const Panel *p, int site, const float *sums, const float *rows, int64_t count) {
    const int64_t hidden = hidden_of(p->stack);
    float *out = wanted_at(p, site);
    if (!out) return;
    out += p->at * hidden;
    for (int64_t i = 0; i < count * hidden; i += LANES) store_vec(out + i, load_vec(sums + i) + load_vec(rows + i));
}

/* Attention, and what follows it, for queries of all rows or of the first ones alone, which are the panel's rows then. */
static void attend_and_finish(Panel *p, const StackBlock *b, const float *query, int64_t query_stride, const float *key,
                              int64_t key_stride, int one) {
    const int64_t hidden = b->up.in, inner = b->up.out, rows = one ? p->sequences : p->rows;
    const Room m = room_of(p);
    const int64_t width = hidden / p->stack->heads;
    const Attention a = {
        .query = query, .key = key, .value = key + hidden, .out = m.context, .width = width,
        .query_stride = query_stride, .key_stride = key_stride, .query_step = width, .key_step = width, .out_stride = hidden,
    };
    bertfeat_attend_panel(p, a, one);
    keep(p, HEAD_OUTPUTS, m.context, rows);
    spend(p, ATTENTION);
    project(m.context, rows, &b->output, 0, hidden, m.sums);
    keep(p, ATTENTION_OUTPUT, m.sums, rows);
    spend(p, OUTPUT);
    keep_sum(p, FIRST_SUM, m.sums, m.rows, rows);
    add_and_normalize(m.sums, rows, hidden, &b->attention_norm, m.rows);
    keep(p, MLP_INPUT, m.rows, rows);
    spend(p, NORMS);
    for (int64_t chunk = 0; chunk < inner; chunk += CHUNK) {
        const int64_t end = least(chunk + CHUNK, inner), wide = end - chunk;
        multiply(m.rows, rows, &b->up, chunk, end, 0, hidden, hidden, p->stack->activation, m.raised, wide);
        multiply(m.raised, rows, &b->down, 0, hidden, chunk, end, wide, NO_ACTIVATION, m.sums, hidden);
    }
    keep(p, MLP_OUTPUT, m.sums, rows);
    spend(p, FEED_FORWARD);
    keep_sum(p, SECOND_SUM, m.sums, m.rows, rows);
    add_and_normalize(m.sums, rows, hidden, &b->out_norm, m.rows);
    spend(p, NORMS);
}

static void whole_block(Panel *p, int64_t layer) {
    const StackBlock *b = block_of(p->stack, layer);
    const int64_t hidden = b->up.in;
    const Room m = room_of(p);
    project(m.rows, p->rows, &b->qkv, 0, 3 * hidden, m.qkv);
    spend(p, QKV);
    attend_and_finish(p, b, m.qkv, 3 * hidden, m.qkv + hidden, 3 * hidden, 0);
}

/* Keys and values of all tokens, everything else of the first ones alone. */
static void first_token_block(Panel *p, int64_t layer) {
    const StackBlock *b = block_of(p->stack, layer);
    const int64_t hidden = b->up.in;
    const Room m = room_of(p);
    float *query = m.qkv + round_up(p->rows, FEW_ROWS) * 2 * hidden; /* after keys and values */
    project(m.rows, p->rows, &b->qkv, hidden, 3 * hidden, m.qkv);
    keep_first_rows(p, hidden, m.rows);
    project(m.rows, p->sequences, &b->qkv, 0, hidden, query);
    spend(p, QKV);
    attend_and_finish(p, b, query, hidden, m.qkv, 2 * hidden, 1);
}

FLOAT_CODE static void load(Panel *p, int64_t begin) { load_rows(p, hidden_of(p->stack), begin, room_of(p).rows); }

static void store(const Panel *p, void *out, int64_t rows) {
    store_rows(p, room_of(p).rows, hidden_of(p->stack), out, rows);
}

static void nothing(void) {}

/* Compute a stack of blocks; gives 0, or -1 where memory ran out. */
int RUN_STACK(const Stack *j, Parallel parallel, unsigned threads) {
    static const StackForm form = {PANEL_ROWS, hidden_of, bytes_of, load, whole_block, first_token_block, store, nothing, nothing};
    return bertfeat_run_stack(j, &form, parallel, threads);
}

#endif
