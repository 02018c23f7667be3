/* The products of a transformer block in 8-bit integers, with all that follows them in float32.

   Each group of GROUP values of a row becomes unsigned bytes: value = scale · byte + least, with a scale and a least
   value of its own, so that no row knows of any other. Then

       Σ value · weight  =  scale · Σ byte · integer  +  least · Σ integer,      times the output's own scale,

   where the first sum is of integers, thus exact, and the last one is known beforehand.

   As in block.c, rows go through what follows attention in panels, and the inner width goes by group after group.

   Included once for each kind of instructions, by a file that says what it calls

   - before int8_rows.h: INT8, INT8_INLINE, attributes of functions; LANES, float32 values of a vector; GROUP, inputs that
     share a scale (int8.py has the same numbers); LEVELS, the largest byte; HALVES, whether attention may be in bfloat16
   - before this: multiply_group, begin_products and end_products; BLOCK, rows that are multiplied at once
   - PROJECT, POST_ATTENTION: the names of what is made */

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

/* Layer norm (Ba et al. 2016) of the outputs of a product and a residual. */
INT8_INLINE void normalize_row(const float *sums, const Int8Product *p, const float *residual, const Norm *norm,
                               float *out) {
    const float width = (float)p->out;
    Vec total = all(0), squares = total;
    for (int64_t c = 0; c < p->out; c += LANES) {
        const Vec x = outputs(sums + c, p, c) + load_vec(residual + c);
        total += x;
        store_vec(out + c, x);
    }
    const Vec mean = all(sum_of(total) / width);
    for (int64_t c = 0; c < p->out; c += LANES) {
        const Vec centred = load_vec(out + c) - mean;
        squares = fma_vec(centred, centred, squares);
    }
    const Vec scale = all(1.0f / __builtin_sqrtf(sum_of(squares) / width + norm->eps));
    for (int64_t c = 0; c < p->out; c += LANES) {
        const Vec unit = (load_vec(out + c) - mean) * scale;
        store_vec(out + c, fma_vec(unit, load_vec(norm->weight + c), load_vec(norm->bias + c)));
    }
}

/* ── panels ─────────────────────────────────────────────────────────────────────────────────────────────── */

enum { PANEL_VALUES = 144 * 384 };

static Panels make_panels(const void *job, int (*compute)(const void *, int64_t, int64_t, int64_t), int64_t rows,
                          int64_t width) {
    const int64_t fitting = PANEL_VALUES / width / BLOCK * BLOCK;
    return (Panels){job, compute, rows, BLOCK, fitting > 4 * BLOCK ? fitting : 4 * BLOCK};
}

INT8 static int projection_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const Int8Projection *j = job;
    const Int8Product *p = &j->product;
    const int64_t groups = count_groups(p->in), stride = j->end - j->begin;
    Map *maps = bertfeat_scratch(most * (groups * sizeof(Map) + p->in));
    if (!maps) return 0;
    const Bytes bytes = {(uint8_t *)(maps + most * groups), maps, p->in, groups};
    float sums[BLOCK * STRIP] __attribute__((aligned(64)));

    begin_products();
    for (int64_t r = 0; r < rows; r++) quantize_row(j->rows + (begin + r) * p->in, p->factor, &bytes, r);
    for (int64_t n = j->begin / STRIP * STRIP; n < j->end; n += STRIP)
        for (int64_t r = 0; r < rows; r += BLOCK) {
            multiply(&bytes, r, p, n, sums, STRIP);
            for (int64_t i = 0; i < least(BLOCK, rows - r); i++)
                for (int64_t c = n > j->begin ? n : j->begin; c < least(n + STRIP, j->end); c += LANES)
                    store_typed(j->out, (begin + r + i) * stride + c - j->begin, outputs(sums + i * STRIP + c - n, p, c),
                                j->type);
        }
    end_products();
    return 1;
}

/* The feed-forward layer's sums [rows, hidden] of attended rows; `wide` is room for [rows, GROUP] values and bytes. */
INT8 static void feed_forward(const Int8PostAttention *j, const Bytes *attended, int64_t rows, float *sums, float *wide,
                              const Bytes *raised) {
    const int64_t hidden = j->up.in, inner = j->up.out;
    for (int64_t chunk = 0; chunk < inner; chunk += GROUP) {
        const int64_t end = least(chunk + GROUP, inner);
        for (int64_t n = chunk; n < end; n += STRIP)
            for (int64_t r = 0; r < rows; r += BLOCK) {
                float *at = wide + r * GROUP + n - chunk;
                multiply(attended, r, &j->up, n, at, GROUP);
                for (int64_t i = 0; i < BLOCK; i++, at += GROUP)
                    for (int64_t c = 0; c < least(STRIP, inner - n); c += LANES)
                        store_vec(at + c, activated(outputs(at + c, &j->up, n + c), j->activation));
            }
        for (int64_t r = 0; r < rows; r++)
            raised->maps[r] = quantize(wide + r * GROUP, j->down.factor + chunk, end - chunk, raised->bytes + r * GROUP);
        for (int64_t n = 0; n < hidden; n += STRIP)
            for (int64_t r = 0; r < rows; r += BLOCK)
                multiply_group(raised, r, 0, &j->down, n, chunk / GROUP, sums + r * hidden + n, hidden, chunk > 0);
    }
}

INT8 static int post_attention_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const Int8PostAttention *j = job;
    const int64_t hidden = j->up.in, groups = count_groups(hidden), at = begin * hidden;
    const int64_t floats = 2 * hidden + GROUP, maps = groups + 1;
    float *sums = bertfeat_scratch(most * (floats * sizeof(float) + maps * sizeof(Map) + hidden + GROUP));
    if (!sums) return 0;
    float *attended = sums + most * hidden, *wide = attended + most * hidden;
    Map *first = (Map *)(wide + most * GROUP), *second = first + most * groups;
    const Bytes bytes = {(uint8_t *)(second + most), first, hidden, groups};
    const Bytes raised = {bytes.bytes + most * hidden, second, GROUP, 1};

    begin_products();
    for (int64_t r = 0; r < rows; r++)
        quantize_row(as_floats(j->context, at + r * hidden, hidden, j->type, sums), j->output.factor, &bytes, r);
    for (int64_t n = 0; n < hidden; n += STRIP)
        for (int64_t r = 0; r < rows; r += BLOCK) multiply(&bytes, r, &j->output, n, sums + r * hidden + n, hidden);
    for (int64_t r = 0; r < rows; r++) {
        float *row = attended + r * hidden;
        normalize_row(sums + r * hidden, &j->output, j->residual + at + r * hidden, &j->attention_norm, row);
        quantize_row(row, j->up.factor, &bytes, r);
    }
    feed_forward(j, &bytes, rows, sums, wide, &raised);
    for (int64_t r = 0; r < rows; r++)
        normalize_row(sums + r * hidden, &j->down, attended + r * hidden, &j->out_norm, j->out + at + r * hidden);
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
    const Panels panels = make_panels(j, post_attention_panel, j->rows, j->up.in);
    return bertfeat_on_threads(&panels, parallel, threads);
}
