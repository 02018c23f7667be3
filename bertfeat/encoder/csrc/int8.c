/* The products of a transformer block in 8-bit integers (AVX512-VNNI), with all that follows them in float32.

   Each group of GROUP values of a row becomes unsigned bytes: value = scale · byte + least, with a scale and a least
   value of its own, so that no row knows of any other. Then

       Σ value · weight  =  scale · Σ byte · integer  +  least · Σ integer,      times the output's own scale,

   where the first sum is of integers, thus exact, and the last one is known beforehand.

   As in block.c, rows go through what follows attention in panels, and the inner width goes by group after group. */

#include "activations.h"
#include "kernels.h"

#ifdef BERTFEAT_X86

enum {
    GROUP = 384, /* inputs that share a scale; int8.py has the same number */
    STRIP = 64,  /* outputs whose weights stand together */
    BLOCK = 6,   /* rows that are multiplied by a strip at once: their sums fill 24 registers */
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
VNNI_INLINE Map quantize(const float *x, const float *factor, int64_t values, uint8_t *bytes) {
    __m512 low = _mm512_set1_ps(3.4e38f), high = _mm512_set1_ps(-3.4e38f), zero = _mm512_setzero_ps();
    for (int64_t c = 0; c < values; c += 16) {
        const __m512 y = _mm512_mul_ps(_mm512_loadu_ps(x + c), _mm512_loadu_ps(factor + c));
        low = _mm512_min_ps(low, y), high = _mm512_max_ps(high, y);
        zero = _mm512_fmadd_ps(y, _mm512_setzero_ps(), zero); /* NaN from NaN and from infinity */
    }
    const float lowest = _mm512_reduce_min_ps(low), span = _mm512_reduce_max_ps(high) - lowest;
    const Map map = {(span > 1e-30f ? span / 255.0f : 1e-30f) + _mm512_reduce_add_ps(zero), lowest};
    const __m512 inverse = _mm512_set1_ps(1.0f / map.scale), shift = _mm512_set1_ps(lowest / map.scale);
    for (int64_t c = 0; c < values; c += 16) {
        const __m512 y = _mm512_mul_ps(_mm512_loadu_ps(x + c), _mm512_loadu_ps(factor + c));
        const __m512i whole = _mm512_cvtps_epi32(_mm512_fmsub_ps(y, inverse, shift));
        const __m512i positive = _mm512_max_epi32(whole, _mm512_setzero_si512());
        _mm_storeu_si128((__m128i *)(bytes + c), _mm512_cvtusepi32_epi8(positive));
    }
    return map;
}

VNNI_INLINE void quantize_row(const float *x, const float *factor, const Bytes *to, int64_t row) {
    for (int64_t group = 0, at = 0; group < to->groups; group++, at += GROUP)
        to->maps[row * to->groups + group] =
            quantize(x + at, factor + at, least(GROUP, to->in - at), to->bytes + row * to->in + at);
}

/* ── products ───────────────────────────────────────────────────────────────────────────────────────────── */

/* sums [BLOCK, 16 · vectors] += one group of BLOCK rows times one group of a strip; unless `add`, they begin with it. */
VNNI_INLINE void multiply_block(const Bytes *rows, int64_t row, int64_t group, const int8_t *weight, int64_t depth,
                                const float *weight_sums, float *sums, int64_t stride, int add, int vectors) {
    const uint8_t *bytes = rows->bytes + row * rows->in + group * GROUP;
    const Map *maps = rows->maps + row * rows->groups + group;
    __m512i total[BLOCK][STRIP / 16];
#pragma GCC unroll 6
    for (int r = 0; r < BLOCK; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) total[r][v] = _mm512_setzero_si512();
    for (int64_t k = 0; k < depth; k += 4, weight += 64 * vectors) {
        __m512i w[STRIP / 16];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) w[v] = _mm512_loadu_si512(weight + 64 * v);
#pragma GCC unroll 6
        for (int r = 0; r < BLOCK; r++) {
            int32_t four;
            memcpy(&four, bytes + r * rows->in + k, 4);
            const __m512i each = _mm512_set1_epi32(four);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) /* not the intrinsic, around which GCC copies the sums: half as fast */
                __asm__("vpdpbusd %2, %1, %0" : "+v"(total[r][v]) : "v"(each), "v"(w[v]));
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < BLOCK; r++) {
        const Map map = maps[r * rows->groups];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *at = sums + r * stride + 16 * v;
            __m512 y = _mm512_mul_ps(_mm512_set1_ps(map.least), _mm512_loadu_ps(weight_sums + 16 * v));
            if (add) y = _mm512_add_ps(y, _mm512_loadu_ps(at));
            _mm512_storeu_ps(at, _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[r][v]), _mm512_set1_ps(map.scale), y));
        }
    }
}

/* The same for the outputs from n on, and inputs that are the product's group `part`. */
VNNI static void multiply_group(const Bytes *rows, int64_t row, int64_t group, const Int8Product *p, int64_t n,
                                int64_t part, float *sums, int64_t stride, int add) {
    const int64_t width = least(STRIP, p->out - n), depth = least(GROUP, p->in - part * GROUP);
    const int8_t *weight = p->weight + n * p->in + part * GROUP * width;
    const float *weight_sums = p->sums + part * p->out + n;
    switch (width / 16) {
    case 4: multiply_block(rows, row, group, weight, depth, weight_sums, sums, stride, add, 4); break;
    case 3: multiply_block(rows, row, group, weight, depth, weight_sums, sums, stride, add, 3); break;
    case 2: multiply_block(rows, row, group, weight, depth, weight_sums, sums, stride, add, 2); break;
    default: multiply_block(rows, row, group, weight, depth, weight_sums, sums, stride, add, 1);
    }
}

/* sums [BLOCK, a strip] of BLOCK rows and the outputs from n on, over all inputs. */
VNNI_INLINE void multiply(const Bytes *rows, int64_t row, const Int8Product *p, int64_t n, float *sums, int64_t stride) {
    for (int64_t group = 0; group < rows->groups; group++)
        multiply_group(rows, row, group, p, n, group, sums, stride, group > 0);
}

/* 16 outputs from their sums. */
VNNI_INLINE __m512 outputs(const float *sums, const Int8Product *p, int64_t n) {
    return _mm512_fmadd_ps(_mm512_loadu_ps(sums), _mm512_loadu_ps(p->scale + n), _mm512_loadu_ps(p->bias + n));
}

/* ── residual and layer norm ────────────────────────────────────────────────────────────────────────────── */

/* Layer norm (Ba et al. 2016) of the outputs of a product and a residual. */
VNNI_INLINE void normalize_row(const float *sums, const Int8Product *p, const float *residual, const Norm *norm,
                               float *out) {
    const float width = (float)p->out;
    __m512 total = _mm512_setzero_ps(), squares = total;
    for (int64_t c = 0; c < p->out; c += 16) {
        const __m512 x = _mm512_add_ps(outputs(sums + c, p, c), _mm512_loadu_ps(residual + c));
        total = _mm512_add_ps(total, x);
        _mm512_storeu_ps(out + c, x);
    }
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(total) / width);
    for (int64_t c = 0; c < p->out; c += 16) {
        const __m512 centred = _mm512_sub_ps(_mm512_loadu_ps(out + c), mean);
        squares = _mm512_fmadd_ps(centred, centred, squares);
    }
    const __m512 scale = _mm512_set1_ps(1.0f / __builtin_sqrtf(_mm512_reduce_add_ps(squares) / width + norm->eps));
    for (int64_t c = 0; c < p->out; c += 16) {
        const __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(out + c), mean), scale);
        _mm512_storeu_ps(out + c, _mm512_fmadd_ps(unit, _mm512_loadu_ps(norm->weight + c), _mm512_loadu_ps(norm->bias + c)));
    }
}

/* ── panels ─────────────────────────────────────────────────────────────────────────────────────────────── */

static Panels make_panels(const void *job, int (*compute)(const void *, int64_t, int64_t, int64_t), int64_t rows,
                          int64_t width) {
    const int64_t fitting = PANEL_VALUES / width / BLOCK * BLOCK;
    return (Panels){job, compute, rows, BLOCK, fitting > 4 * BLOCK ? fitting : 4 * BLOCK};
}

VNNI static int projection_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
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
                for (int64_t c = n > j->begin ? n : j->begin; c < least(n + STRIP, j->end); c += 16)
                    _mm512_storeu_ps(j->out + (begin + r + i) * stride + c - j->begin,
                                     outputs(sums + i * STRIP + c - n, p, c));
        }
    return 1;
}

/* The feed-forward layer's sums [rows, hidden] of attended rows; `wide` is room for [rows, GROUP] values and bytes. */
VNNI static void feed_forward(const Int8PostAttention *j, const Bytes *attended, int64_t rows, float *sums, float *wide,
                              const Bytes *raised) {
    const int64_t hidden = j->up.in, inner = j->up.out;
    for (int64_t chunk = 0; chunk < inner; chunk += GROUP) {
        const int64_t end = least(chunk + GROUP, inner);
        for (int64_t n = chunk; n < end; n += STRIP)
            for (int64_t r = 0; r < rows; r += BLOCK) {
                float *at = wide + r * GROUP + n - chunk;
                multiply(attended, r, &j->up, n, at, GROUP);
                for (int64_t i = 0; i < BLOCK; i++, at += GROUP)
                    for (int64_t c = 0; c < least(STRIP, inner - n); c += 16)
                        _mm512_storeu_ps(at + c, activated(outputs(at + c, &j->up, n + c), j->activation));
            }
        for (int64_t r = 0; r < rows; r++)
            raised->maps[r] = quantize(wide + r * GROUP, j->down.factor + chunk, end - chunk, raised->bytes + r * GROUP);
        for (int64_t n = 0; n < hidden; n += STRIP)
            for (int64_t r = 0; r < rows; r += BLOCK)
                multiply_group(raised, r, 0, &j->down, n, chunk / GROUP, sums + r * hidden + n, hidden, chunk > 0);
    }
}

VNNI static int post_attention_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
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
int bertfeat_project_int8(const Int8Projection *j, Parallel parallel, unsigned threads) {
    const Panels panels = make_panels(j, projection_panel, j->count, j->product.in);
    return bertfeat_on_threads(&panels, parallel, threads);
}

/* Compute what follows attention in a block; gives 0, or -1 where memory ran out. */
int bertfeat_post_attention_int8(const Int8PostAttention *j, Parallel parallel, unsigned threads) {
    const Panels panels = make_panels(j, post_attention_panel, j->rows, j->up.in);
    return bertfeat_on_threads(&panels, parallel, threads);
}

/* Repack a weight [out, in] as strips of 64 outputs, in which four inputs of each output stand side by side. */
void bertfeat_pack_int8(const int8_t *weight, int8_t *strips, int64_t in, int64_t out) {
    for (int64_t n = 0; n < out; n += STRIP)
        for (int64_t k = 0; k < in; k += 4)
            for (int64_t i = n; i < least(n + STRIP, out); i++, strips += 4) memcpy(strips, weight + i * in + k, 4);
}

#endif
