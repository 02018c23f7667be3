/* The products of a transformer block in 8-bit integers, with all that follows them in float32.

   Each group of GROUP values of a row becomes unsigned bytes: value = scale · byte + least, with a scale and a least
   value of its own, so that no row knows of any other. Then

       Σ value · weight  =  scale · Σ byte · integer  +  least · Σ integer,      times the output's own scale,

   where the first sum is of integers, thus exact, and the last one is known beforehand.

   As in block.c, rows go through what follows attention in panels, and the inner width goes by group after group.

   Included once for each kind of instructions, by a file that says what it calls

   - INT8, INT8_INLINE: attributes of functions; LANES: float32 values of a vector; Integers: a vector of as many int32
   - GROUP: inputs that share a scale (int8.py has the same numbers); LEVELS: the largest byte
   - BLOCK, MOST_VECTORS: rows and vectors of outputs that are multiplied at once
   - load_integers, repeat_four, to_floats, and ADD_PRODUCTS(total, bytes, weights): to each int32 of the total the sum of
     the products of its four bytes
   - PROJECT, POST_ATTENTION: the names of what is made */

#include "activations.h"
#include "kernels.h"

enum {
    STRIP = 64, /* outputs whose weights stand together */
    PANEL_VALUES = 144 * 384,
};

static inline int64_t count_groups(int64_t in) { return (in + GROUP - 1) / GROUP; }

/* ── rows of bytes ──────────────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    float scale, least;
} Map;

typedef struct {
    uint8_t *bytes; /* [rows, in] */
    Map *maps;      /* [rows, groups] */
    int64_t in, groups;
} Bytes;

/* A group of values, multiplied by their factors, as bytes; where one is not finite, the scale is not, either. */
INT8_INLINE Map quantize(const float *x, const float *factor, int64_t values, uint8_t *bytes) {
    Vec low = all(3.4e38f), high = all(-3.4e38f), zero = all(0);
    for (int64_t c = 0; c < values; c += LANES) {
        const Vec y = load_vec(x + c) * load_vec(factor + c);
        low = smaller(low, y), high = larger(high, y);
        zero = fma_vec(y, all(0), zero); /* NaN from NaN and from infinity */
    }
    const float lowest = least_of(low), span = largest_of(high) - lowest;
    const Map map = {(span > 1e-30f ? span / LEVELS : 1e-30f) + sum_of(zero), lowest};
    const Vec inverse = all(1.0f / map.scale), shift = all(-lowest / map.scale);
    for (int64_t c = 0; c < values; c += LANES)
        store_bytes(bytes + c, fma_vec(load_vec(x + c) * load_vec(factor + c), inverse, shift));
    return map;
}

INT8_INLINE void quantize_row(const float *x, const float *factor, const Bytes *to, int64_t row) {
    for (int64_t group = 0, at = 0; group < to->groups; group++, at += GROUP)
        to->maps[row * to->groups + group] =
            quantize(x + at, factor + at, least(GROUP, to->in - at), to->bytes + row * to->in + at);
}

/* ── products ───────────────────────────────────────────────────────────────────────────────────────────── */

/* sums [BLOCK, LANES · vectors] += one group of BLOCK rows times as many outputs of a strip, whose weights for four
   inputs are `stride` bytes wide; unless `add`, the sums begin with it. */
INT8_INLINE void multiply_block(const Bytes *rows, int64_t row, int64_t group, const int8_t *weight, int64_t stride,
                                int64_t depth, const float *weight_sums, float *sums, int64_t sums_stride, int add,
                                int vectors) {
    const uint8_t *bytes = rows->bytes + row * rows->in + group * GROUP;
    const Map *maps = rows->maps + row * rows->groups + group;
    Integers total[BLOCK][MOST_VECTORS];
#pragma GCC unroll 6
    for (int r = 0; r < BLOCK; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) total[r][v] = (Integers){};
    for (int64_t k = 0; k < depth; k += 4, weight += stride) {
        Integers w[MOST_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) w[v] = load_integers(weight + 4 * LANES * v);
#pragma GCC unroll 6
        for (int r = 0; r < BLOCK; r++) {
            const Integers each = repeat_four(bytes + r * rows->in + k);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) ADD_PRODUCTS(total[r][v], each, w[v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < BLOCK; r++) {
        const Map map = maps[r * rows->groups];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *at = sums + r * sums_stride + LANES * v;
            const Vec before = add ? load_vec(at) : all(0);
            const Vec y = fma_vec(all(map.least), load_vec(weight_sums + LANES * v), before);
            store_vec(at, fma_vec(to_floats(total[r][v]), all(map.scale), y));
        }
    }
}

#define MULTIPLY(vectors)                                                                                              \
    case vectors:                                                                                                      \
        multiply_block(rows, row, group, weight + 4 * c, 4 * width, depth, weight_sums + c, sums + c, stride, add,     \
                       vectors);                                                                                       \
        break

/* The same for the strip of outputs from n on, and inputs that are the product's group `part`. */
INT8 static void multiply_group(const Bytes *rows, int64_t row, int64_t group, const Int8Product *p, int64_t n,
                                int64_t part, float *sums, int64_t stride, int add) {
    const int64_t width = least(STRIP, p->out - n), depth = least(GROUP, p->in - part * GROUP);
    const int8_t *weight = p->weight + n * p->in + part * GROUP * width;
    const float *weight_sums = p->sums + part * p->out + n;
    for (int64_t c = 0; c < width; c += MOST_VECTORS * LANES)
        switch (least(MOST_VECTORS, (width - c) / LANES)) {
#if MOST_VECTORS == 4
            MULTIPLY(4);
            MULTIPLY(3);
#endif
            MULTIPLY(2);
            MULTIPLY(1);
        }
}

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

    for (int64_t r = 0; r < rows; r++) quantize_row(j->rows + (begin + r) * p->in, p->factor, &bytes, r);
    for (int64_t n = j->begin / STRIP * STRIP; n < j->end; n += STRIP)
        for (int64_t r = 0; r < rows; r += BLOCK) {
            multiply(&bytes, r, p, n, sums, STRIP);
            for (int64_t i = 0; i < least(BLOCK, rows - r); i++)
                for (int64_t c = n > j->begin ? n : j->begin; c < least(n + STRIP, j->end); c += LANES)
                    store_vec(j->out + (begin + r + i) * stride + c - j->begin, outputs(sums + i * STRIP + c - n, p, c));
        }
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

    for (int64_t r = 0; r < rows; r++) quantize_row(j->context + at + r * hidden, j->output.factor, &bytes, r);
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
