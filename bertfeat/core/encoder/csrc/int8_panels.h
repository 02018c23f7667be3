/* The products of a transformer block in 8-bit integers, with all that follows them in float32.

   Each group of GROUP values of a row becomes unsigned bytes: value = scale · byte + least, with a scale and a least
   value of its own, so that no row knows of any other. Then

       Σ value · weight  =  scale · Σ byte · integer  +  least · Σ integer,      times the output's own scale,

   where the first sum is of integers, thus exact, and the last one is known beforehand.

   Whole sequences go through all blocks in panels (stack.h), and the inner width goes by group after group; where no
   kernel computes attention with such heads, rows go through a product, or what follows attention, in panels.

   Included once for each kind of instructions, by a file that says what it calls

   - before int8_rows.h: INT8, INT8_INLINE, attributes of functions; LANES, float32 values of a vector; GROUP, inputs that
     share a scale (int8.py has the same numbers); LEVELS, the largest byte; HALVES, whether attention may be in bfloat16
   - before this: multiply_group, begin_products and end_products; BLOCK, rows that are multiplied at once
   - PROJECT, POST_ATTENTION, RUN_STACK: the names of what is made */

#include "float_rows.h"

/* ── products ───────────────────────────────────────────────────────────────────────────────────────────── */

/* sums [BLOCK, a strip] of BLOCK rows and the outputs from n on, over all inputs. */
INT8_INLINE void multiply(const Bytes *rows, int64_t row, const Int8Product *p, int64_t n, float *sums, int64_t stride) {
    for (int64_t group = 0; group < rows->groups; group++)
        multiply_group(rows, row, group, p, n, group, sums, stride, group > 0);
}

/* A vector of outputs from their sums. */
INT8_INLINE Vec outputs(const float *sums, const Int8Product *p, int64_t n) {
    return fma_vec(load_vec(sums), load_vec(p->scale + n), load_vec(p->bias + n));
}

/* ── residual and layer norm ────────────────────────────────────────────────────────────────────────────── */

/* Layer norm of the outputs of a product and a residual. */
INT8_INLINE void normalize_outputs(const float *sums, const Int8Product *p, const float *residual, const Norm *norm,
                                   float *out) {
    Vec total = all(0);
    for (int64_t c = 0; c < p->out; c += LANES) {
        const Vec x = outputs(sums + c, p, c) + load_vec(residual + c);
        total += x;
        store_vec(out + c, x);
    }
    normalize_row(out, total, p->out, norm);
}

/* ── panels ─────────────────────────────────────────────────────────────────────────────────────────────── */

enum { PANEL_VALUES = 144 * 384, PANEL_ROWS = 144 };

static Panels make_panels(const void *job, int (*compute)(const void *, int64_t, int64_t, int64_t), int64_t rows,
                          int64_t width) {
    const int64_t fitting = PANEL_VALUES / width / BLOCK * BLOCK;
    return (Panels){job, compute, rows, BLOCK, fitting > 4 * BLOCK ? fitting : 4 * BLOCK};
}

/* The outputs [begin, end) of a product for rows of bytes. */
INT8 static void project_rows(const Bytes *bytes, int64_t rows, const Int8Product *p, int64_t begin, int64_t end, void *out,
                              int64_t type) {
    const int64_t stride = end - begin;
    float sums[BLOCK * STRIP] __attribute__((aligned(64)));
    for (int64_t n = begin / STRIP * STRIP; n < end; n += STRIP)
        for (int64_t r = 0; r < rows; r += BLOCK) {
            if (n + STRIP < end) fetch_part(p->weight + (n + STRIP) * p->in, STRIP * p->in, r, BLOCK, rows);
            multiply(bytes, r, p, n, sums, STRIP);
            for (int64_t i = 0; i < least(BLOCK, rows - r); i++)
                for (int64_t c = n > begin ? n : begin; c < least(n + STRIP, end); c += LANES)
                    store_typed(out, (r + i) * stride + c - begin, outputs(sums + i * STRIP + c - n, p, c), type);
        }
}

INT8 static int projection_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const Int8Projection *j = job;
    const Int8Product *p = &j->product;
    const int64_t groups = count_groups(p->in), width = j->type == BF16 ? 2 : 4;
    Map *maps = bertfeat_scratch(most * (groups * sizeof(Map) + p->in));
    if (!maps) return 0;
    const Bytes bytes = {(uint8_t *)(maps + most * groups), maps, p->in, groups};

    begin_products();
    for (int64_t r = 0; r < rows; r++) quantize_row(j->rows + (begin + r) * p->in, p->factor, &bytes, r);
    project_rows(&bytes, rows, p, j->begin, j->end, (char *)j->out + begin * (j->end - j->begin) * width, j->type);
    end_products();
    return 1;
}

/* A thread's memory for what follows attention in up to `most` rows. */
typedef struct {
    float *sums, *wide;  /* [most, hidden], [most, GROUP] */
    Bytes bytes, raised; /* [most, hidden], [most, GROUP] */
} Room;

static size_t float_bytes(int64_t hidden, int64_t most) { return most * (hidden + GROUP) * sizeof(float); }

static size_t integer_bytes(int64_t hidden, int64_t most) {
    return most * ((count_groups(hidden) + 1) * sizeof(Map) + hidden + GROUP);
}

static Room room_in(char *floats, char *integers, int64_t hidden, int64_t most) {
    const int64_t groups = count_groups(hidden);
    Room m;
    m.sums = (float *)floats, m.wide = m.sums + most * hidden;
    Map *first = (Map *)integers, *second = first + most * groups;
    m.bytes = (Bytes){(uint8_t *)(second + most), first, hidden, groups};
    m.raised = (Bytes){m.bytes.bytes + most * hidden, second, GROUP, 1};
    return m;
}

/* The feed-forward layer's sums of attended rows. */
INT8 static void feed_forward(const Int8Block *b, int64_t activation, int64_t rows, const Room *m) {
    const int64_t hidden = b->up.in, inner = b->up.out;
    for (int64_t chunk = 0; chunk < inner; chunk += GROUP) {
        const int64_t end = least(chunk + GROUP, inner);
        for (int64_t n = chunk; n < end; n += STRIP)
            for (int64_t r = 0; r < rows; r += BLOCK) {
                float *at = m->wide + r * GROUP + n - chunk;
                if (n + STRIP < end) fetch_part(b->up.weight + (n + STRIP) * hidden, STRIP * hidden, r, BLOCK, rows);
                multiply(&m->bytes, r, &b->up, n, at, GROUP);
                for (int64_t i = 0; i < BLOCK; i++, at += GROUP)
                    for (int64_t c = 0; c < least(STRIP, inner - n); c += LANES)
                        store_vec(at + c, activated(outputs(at + c, &b->up, n + c), activation));
            }
        for (int64_t r = 0; r < rows; r++)
            m->raised.maps[r] = quantize(m->wide + r * GROUP, b->down.factor + chunk, end - chunk, m->raised.bytes + r * GROUP);
        for (int64_t n = 0; n < hidden; n += STRIP)
            for (int64_t r = 0; r < rows; r += BLOCK) {
                if (n + STRIP < hidden)
                    fetch_part(b->down.weight + (n + STRIP) * inner + chunk * STRIP, STRIP * (end - chunk), r, BLOCK, rows);
                multiply_group(&m->raised, r, 0, &b->down, n, chunk / GROUP, m->sums + r * hidden + n, hidden, chunk > 0);
            }
    }
}

/* What follows attention, for rows that attention was given; the result may take their place. */
INT8 static void finish_block(const Int8Block *b, int64_t activation, const void *context, int64_t type,
                              const float *residual, float *out, int64_t rows, const Room *m) {
    const int64_t hidden = b->up.in;
    for (int64_t r = 0; r < rows; r++)
        quantize_row(as_floats(context, r * hidden, hidden, type, m->wide), b->output.factor, &m->bytes, r);
    for (int64_t n = 0; n < hidden; n += STRIP)
        for (int64_t r = 0; r < rows; r += BLOCK) {
            if (n + STRIP < hidden) fetch_part(b->output.weight + (n + STRIP) * hidden, STRIP * hidden, r, BLOCK, rows);
            multiply(&m->bytes, r, &b->output, n, m->sums + r * hidden + n, hidden);
        }
    for (int64_t r = 0; r < rows; r++) {
        float *row = out + r * hidden; /* from here on what attended rows are */
        normalize_outputs(m->sums + r * hidden, &b->output, residual + r * hidden, &b->attention_norm, row);
        quantize_row(row, b->up.factor, &m->bytes, r);
    }
    feed_forward(b, activation, rows, m);
    for (int64_t r = 0; r < rows; r++)
        normalize_outputs(m->sums + r * hidden, &b->down, out + r * hidden, &b->out_norm, out + r * hidden);
}

INT8 static int post_attention_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const Int8PostAttention *j = job;
    const int64_t hidden = j->block->up.in, at = begin * hidden;
    char *memory = bertfeat_scratch(float_bytes(hidden, most) + integer_bytes(hidden, most));
    if (!memory) return 0;
    const Room m = room_in(memory, memory + float_bytes(hidden, most), hidden, most);
    const void *context = (const char *)j->context + at * (j->type == BF16 ? 2 : 4);
    begin_products();
    finish_block(j->block, j->activation, context, j->type, j->residual + at, j->out + at, rows, &m);
    end_products();
    return 1;
}

/* Compute some outputs of a product for rows; gives 0, or -1 where memory ran out. */
int PROJECT(const Int8Projection *j, Parallel parallel, unsigned threads) {
    const Panels panels = make_panels(j, projection_panel, j->count, j->product.in);
    return bertfeat_on_threads(&panels, parallel, threads);
}

/* Compute what follows attention in a block; gives 0, or -1 where memory ran out. */
int POST_ATTENTION(const Int8PostAttention *j, Parallel parallel, unsigned threads) {
    const Panels panels = make_panels(j, post_attention_panel, j->rows, j->block->up.in);
    return bertfeat_on_threads(&panels, parallel, threads);
}

/* ── the stack of blocks ────────────────────────────────────────────────────────────────────────────────── */

static const Int8Block *block_of(const Stack *j, int64_t layer) { return (const Int8Block *)j->blocks + layer; }

static int64_t hidden_of(const Stack *j) { return block_of(j, 0)->up.in; }

static int64_t value_bytes(const Stack *j) { return j->type == BF16 ? 2 : 4; }

/* A panel's memory: its rows; queries, keys, values and contexts, which give way to the sums of what follows; bytes. */
static int64_t most_rows(int64_t most) { return most + BLOCK; } /* blocks of rows are whole */

static size_t shared_bytes(const Stack *j, int64_t most) {
    const size_t attention = most * 4 * hidden_of(j) * value_bytes(j), after = float_bytes(hidden_of(j), most);
    return attention > after ? attention : after;
}

static size_t stack_bytes(const Stack *j, int64_t most) {
    const int64_t rows = most_rows(most), hidden = hidden_of(j);
    return rows * hidden * sizeof(float) + shared_bytes(j, rows) + integer_bytes(hidden, rows);
}

static float *rows_of(const Panel *p) { return (float *)p->memory; }

static char *attention_of(const Panel *p) {
    return (char *)(rows_of(p) + most_rows(p->most) * hidden_of(p->stack));
}

static Room stack_room(const Panel *p) {
    char *shared = attention_of(p);
    const int64_t most = most_rows(p->most);
    return room_in(shared, shared + shared_bytes(p->stack, most), hidden_of(p->stack), most);
}

INT8 static void load_panel(Panel *p, int64_t begin) { load_rows(p, hidden_of(p->stack), begin, rows_of(p)); }

static void store_panel(const Panel *p, void *out, int64_t rows) {
    store_rows(p, rows_of(p), hidden_of(p->stack), out, rows);
}

/* Attention and what follows it, for queries of all rows or of the first ones alone, which are the panel's rows then. */
INT8 static void attend_and_finish(Panel *p, const Int8Block *b, const char *query, int64_t query_stride, const char *key,
                                   int64_t key_stride, int one) {
    const int64_t hidden = b->up.in, rows = one ? p->sequences : p->rows, bytes = value_bytes(p->stack);
    char *context = attention_of(p) + most_rows(p->most) * 3 * hidden * bytes;
    const int64_t width = hidden / p->stack->heads;
    const Attention a = {
        .query = query, .key = key, .value = key + hidden * bytes, .out = context, .width = width,
        .query_stride = query_stride, .key_stride = key_stride, .query_step = width, .key_step = width,
        .out_stride = hidden, .out_tile = TILE * hidden, .out_column = 32,
    };
    bertfeat_attend_panel(p, a, one);
    spend(p, ATTENTION);
    const Room m = stack_room(p);
    finish_block(b, p->stack->activation, context, p->stack->type, rows_of(p), rows_of(p), rows, &m);
    spend(p, FEED_FORWARD);
}

INT8 static void quantize_rows(const Panel *p, const Int8Product *product, int64_t rows, const Room *m) {
    for (int64_t r = 0; r < rows; r++) quantize_row(rows_of(p) + r * product->in, product->factor, &m->bytes, r);
}

INT8 static void whole_block(Panel *p, int64_t layer) {
    const Int8Block *b = block_of(p->stack, layer);
    const int64_t hidden = b->up.in;
    const Room m = stack_room(p);
    char *qkv = attention_of(p);
    quantize_rows(p, &b->qkv, p->rows, &m);
    project_rows(&m.bytes, p->rows, &b->qkv, 0, 3 * hidden, qkv, p->stack->type);
    spend(p, QKV);
    attend_and_finish(p, b, qkv, 3 * hidden, qkv + hidden * value_bytes(p->stack), 3 * hidden, 0);
}

/* Keys and values of all tokens, everything else of the first ones alone. */
INT8 static void first_token_block(Panel *p, int64_t layer) {
    const Int8Block *b = block_of(p->stack, layer);
    const int64_t hidden = b->up.in;
    const Room m = stack_room(p);
    char *keys = attention_of(p), *query = keys + p->rows * 2 * hidden * value_bytes(p->stack);
    quantize_rows(p, &b->qkv, p->rows, &m);
    project_rows(&m.bytes, p->rows, &b->qkv, hidden, 3 * hidden, keys, p->stack->type);
    keep_first_rows(p, hidden, rows_of(p));
    quantize_rows(p, &b->qkv, p->sequences, &m);
    project_rows(&m.bytes, p->sequences, &b->qkv, 0, hidden, query, p->stack->type);
    spend(p, QKV);
    attend_and_finish(p, b, query, hidden, keys, 2 * hidden, 1);
}

INT8 static void begin_thread(void) { begin_products(); }
INT8 static void end_thread(void) { end_products(); }

/* Compute a stack of blocks; gives 0, or -1 where memory ran out. */
int RUN_STACK(const Stack *j, Parallel parallel, unsigned threads) {
    static const StackForm form = {PANEL_ROWS, hidden_of, stack_bytes, load_panel, whole_block, first_token_block, store_panel, begin_thread, end_thread};
    return bertfeat_run_stack(j, &form, parallel, threads);
}
