/* The products of a transformer block in bfloat16 on AMX, with all that follows them: queries, keys and values, and what
   comes after attention.

   Rows of a batch go through in panels that stay in a core's second cache: output product, residual, layer norm, up
   product, activation, down product, residual, layer norm, without a look at memory in between; the inner width goes
   by in chunks, so that what is raised is lowered while it is near. Products are of bfloat16; sums, biases, residuals
   and norms are float32, so less is rounded than between separate operators.

   A panel is kept as AMX tiles, 16 rows of 32 values each, tile after tile along a row of tiles. */

#define LANES 16

#include "activations.h"
#include "kernels.h"

enum { PANEL_ROWS = 256, PANEL_VALUES = 256 * 384, CHUNK = 384 /* of the inner width */ };

#ifdef BERTFEAT_X86

/* ── panels ─────────────────────────────────────────────────────────────────────────────────────────────── */

/* Where the 32 values from a multiple of 32 on of a row lie in a panel that is so many tiles wide. */
static inline uint16_t *place(uint16_t *panel, int64_t wide, int64_t row, int64_t column) {
    return panel + (row / TILE * wide + column / 32) * TILE_VALUES + row % TILE * 32;
}

/* Rows of memory → a panel; rows that are not there are zeros. */
AVX512 static void read_panel(uint16_t *panel, const uint16_t *from, int64_t stride, int64_t width, int64_t rows,
                              int64_t padded) {
    for (int64_t r = 0; r < padded; r++)
        for (int64_t c = 0; c < width; c += 32)
            _mm512_store_si512(place(panel, width / 32, r, c),
                               r < rows ? _mm512_loadu_si512(from + r * stride + c) : _mm512_setzero_si512());
}

AVX512_INLINE __m512 low_half(__m512i x) { return widen(_mm512_castsi512_si256(x)); }
AVX512_INLINE __m512 high_half(__m512i x) { return widen(_mm512_extracti64x4_epi64(x, 1)); }
AMX_INLINE __m512i narrow(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

/* ── products ───────────────────────────────────────────────────────────────────────────────────────────── */

/* Four AMX tiles of sums += 32 rows of a panel (wide tiles apart) by 32 outputs. */
#define MULTIPLY_TILES(a, wide, b)                                                                                     \
    do {                                                                                                               \
        _tile_loadd(4, a, 64);                                                                                         \
        _tile_loadd(6, b, 64);                                                                                         \
        _tile_dpbf16ps(0, 4, 6);                                                                                       \
        _tile_loadd(7, (b) + TILE_VALUES, 64);                                                                         \
        _tile_dpbf16ps(1, 4, 7);                                                                                       \
        _tile_loadd(5, (a) + (wide)*TILE_VALUES, 64);                                                                  \
        _tile_dpbf16ps(2, 5, 6);                                                                                       \
        _tile_dpbf16ps(3, 5, 7);                                                                                       \
    } while (0)

#define ZERO_TILES()                                                                                                   \
    do {                                                                                                               \
        _tile_zero(0);                                                                                                 \
        _tile_zero(1);                                                                                                 \
        _tile_zero(2);                                                                                                 \
        _tile_zero(3);                                                                                                 \
    } while (0)

#define STORE_TILES(sums, stride)                                                                                      \
    do {                                                                                                               \
        _tile_stored(0, sums, 4 * (stride));                                                                           \
        _tile_stored(1, (sums) + TILE, 4 * (stride));                                                                  \
        _tile_stored(2, (sums) + TILE * (stride), 4 * (stride));                                                       \
        _tile_stored(3, (sums) + TILE * (stride) + TILE, 4 * (stride));                                                \
    } while (0)

/* Where 32 × 32 values go: rows of a panel, or of memory, of which there may be fewer. */
typedef struct {
    uint16_t *at;
    int64_t row, tile; /* from a row to the next, and from a tile's first to the next tile's */
    int64_t rows;
} Block;

static inline Block block_of_panel(uint16_t *panel, int64_t wide, int64_t row, int64_t column) {
    return (Block){place(panel, wide, row, column), 32, wide * TILE_VALUES, 32};
}

static inline Block block_of_memory(uint16_t *first, int64_t stride, int64_t rows) {
    return (Block){first, stride, TILE * stride, least(32, rows)};
}

/* Rows [begin, end) of a block of 32 × 32 sums, with their biases, activated, into their places. */
AMX_INLINE void put_rows(const Block *to, const float *sums, const float *bias, int64_t activation, int64_t begin,
                         int64_t end) {
    const __m512 low_bias = _mm512_loadu_ps(bias), high_bias = _mm512_loadu_ps(bias + 16);
    for (int64_t r = begin; r < least(end, to->rows); r++) {
        const __m512 low = activated(_mm512_add_ps(_mm512_load_ps(sums + r * 32), low_bias), activation);
        const __m512 high = activated(_mm512_add_ps(_mm512_load_ps(sums + r * 32 + 16), high_bias), activation);
        _mm512_storeu_si512(to->at + r / TILE * to->tile + r % TILE * to->row, narrow(low, high));
    }
}

/* The activation of a panel times the outputs [begin, end) of a weight: into a panel, or, where `memory` is not NULL, its
   first `rows` rows into that, which are end - begin wide. A block of sums is activated while AMX is at the next. */
AMX static void multiply(uint16_t *panel, int64_t padded, const Product *p, int64_t begin, int64_t end,
                         int64_t activation, uint16_t *raised, uint16_t *memory, int64_t rows) {
    const int64_t depth = p->in / 32, width = end - begin;
    float sums[2][32 * 32] __attribute__((aligned(64)));
    Block last = {0};
    const float *last_bias = NULL;
    int64_t now = 0;
    for (int64_t n = begin; n < end; n += 32) {
        for (int64_t m = 0; m < padded; m += 32) {
            const uint16_t *a = place(panel, depth, m, 0), *b = p->weight + n / TILE * depth * TILE_VALUES;
            int64_t done = 0;
            ZERO_TILES();
            for (int64_t k = 0; k < depth; k++, a += TILE_VALUES, b += 2 * TILE_VALUES) {
                MULTIPLY_TILES(a, depth, b);
                if (!last.at) continue;
                const int64_t due = (k + 1) * 32 / depth;
                put_rows(&last, sums[1 - now], last_bias, activation, done, due);
                done = due;
            }
            STORE_TILES(sums[now], 32);
            last = memory ? block_of_memory(memory + m * width + n - begin, width, rows - m)
                          : block_of_panel(raised, width / 32, m, n - begin);
            last_bias = p->bias + n, now = 1 - now;
        }
    }
    put_rows(&last, sums[1 - now], last_bias, activation, 0, 32);
}

/* sums [rows, out] += a panel times the inputs [begin, end) of a weight; the first time there is nothing to add to. */
AMX static void accumulate(const uint16_t *panel, int64_t rows, const Product *p, int64_t begin, int64_t end,
                           float *sums) {
    const int64_t depth = (end - begin) / 32;
    for (int64_t n = 0; n < p->out; n += 32)
        for (int64_t m = 0; m < rows; m += 32) {
            const uint16_t *a = panel + m / TILE * depth * TILE_VALUES;
            const uint16_t *b = p->weight + n / TILE * (p->in / 32) * TILE_VALUES + begin / TILE * TILE_VALUES;
            float *at = sums + m * p->out + n;
            if (begin == 0) {
                ZERO_TILES();
            } else {
                _tile_loadd(0, at, 4 * p->out);
                _tile_loadd(1, at + TILE, 4 * p->out);
                _tile_loadd(2, at + TILE * p->out, 4 * p->out);
                _tile_loadd(3, at + TILE * p->out + TILE, 4 * p->out);
            }
            for (int64_t k = 0; k < depth; k++, a += TILE_VALUES, b += 2 * TILE_VALUES) MULTIPLY_TILES(a, depth, b);
            STORE_TILES(at, p->out);
        }
}

/* ── residual and layer norm ────────────────────────────────────────────────────────────────────────────── */

/* A row of float32 values as bfloat16 values, 32 at a time: of a panel, or of memory. */
typedef struct {
    uint16_t *at;
    int64_t step;
} Row;

static inline Row row_of_panel(uint16_t *panel, int64_t width, int64_t row) {
    return (Row){place(panel, width / 32, row, 0), TILE_VALUES};
}

/* Layer norm (Ba et al. 2016) of sums + bias + residual; x is room for a row. */
AMX_INLINE void normalise(const float *sums, const float *bias, Row residual, const Norm *norm, int64_t width,
                          float *x, Row out) {
    __m512 total[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, squares[2] = {total[0], total[0]};
    for (int64_t c = 0; c < width; c += 32, residual.at += residual.step) {
        const __m512i added = _mm512_loadu_si512(residual.at);
        const __m512 low = _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(sums + c), _mm512_loadu_ps(bias + c)), low_half(added));
        const __m512 high = _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(sums + c + 16), _mm512_loadu_ps(bias + c + 16)), high_half(added));
        total[0] = _mm512_add_ps(total[0], low), total[1] = _mm512_add_ps(total[1], high);
        _mm512_store_ps(x + c, low);
        _mm512_store_ps(x + c + 16, high);
    }
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(_mm512_add_ps(total[0], total[1])) / (float)width);
    for (int64_t c = 0; c < width; c += 32)
        for (int i = 0; i < 2; i++) {
            const __m512 centred = _mm512_sub_ps(_mm512_load_ps(x + c + 16 * i), mean);
            squares[i] = _mm512_fmadd_ps(centred, centred, squares[i]);
        }
    const float variance = _mm512_reduce_add_ps(_mm512_add_ps(squares[0], squares[1])) / (float)width;
    const __m512 scale = _mm512_set1_ps(1.0f / __builtin_sqrtf(variance + norm->eps));
    for (int64_t c = 0; c < width; c += 32, out.at += out.step) {
        __m512 half[2];
        for (int i = 0; i < 2; i++) {
            const __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(x + c + 16 * i), mean), scale);
            half[i] = _mm512_fmadd_ps(unit, _mm512_loadu_ps(norm->weight + c + 16 * i), _mm512_loadu_ps(norm->bias + c + 16 * i));
        }
        _mm512_storeu_si512(out.at, narrow(half[0], half[1]));
    }
}

/* ── a panel ────────────────────────────────────────────────────────────────────────────────────────────────── */

AMX static int post_attention_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const PostAttention *j = job;
    const int64_t hidden = j->up.in, inner = j->up.out, padded = round_up(rows, 32), at = begin * hidden;
    float *sums = bertfeat_scratch(4 * (most + 1) * hidden + 2 * most * (hidden + CHUNK));
    if (!sums) return 0;
    float *row = sums + most * hidden;
    uint16_t *panel = (uint16_t *)(row + hidden), *raised = panel + most * hidden;

    configure_tiles();
    read_panel(panel, j->context + at, hidden, hidden, rows, padded);
    accumulate(panel, padded, &j->output, 0, hidden, sums);
    for (int64_t r = 0; r < rows; r++)
        normalise(sums + r * hidden, j->output.bias, (Row){(uint16_t *)j->residual + at + r * hidden, 32},
                  &j->attention_norm, hidden, row, row_of_panel(panel, hidden, r));

    for (int64_t chunk = 0; chunk < inner; chunk += CHUNK) {
        const int64_t end = least(chunk + CHUNK, inner);
        multiply(panel, padded, &j->up, chunk, end, j->activation, raised, NULL, 0);
        accumulate(raised, padded, &j->down, chunk, end, sums);
    }
    for (int64_t r = 0; r < rows; r++)
        normalise(sums + r * hidden, j->down.bias, row_of_panel(panel, hidden, r), &j->out_norm, hidden, row,
                  (Row){j->out + at + r * hidden, 32});
    release_tiles();
    return 1;
}

AMX static int projection_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const Projection *j = job;
    const int64_t in = j->product.in, padded = round_up(rows, 32);
    uint16_t *panel = bertfeat_scratch(2 * most * in);
    if (!panel) return 0;
    configure_tiles();
    read_panel(panel, j->rows + begin * in, in, in, rows, padded);
    multiply(panel, padded, &j->product, j->begin, j->end, NO_ACTIVATION, NULL, j->out + begin * (j->end - j->begin), rows);
    release_tiles();
    return 1;
}

static int64_t rows_of_panel(int64_t width) {
    const int64_t fitting = least(PANEL_ROWS, PANEL_VALUES / width / 32 * 32);
    return fitting > 32 ? fitting : 32;
}

/* Compute some outputs of a product for rows; gives 0, or -1 where memory ran out. */
int bertfeat_project(const Projection *j, Parallel parallel, unsigned threads) {
    const Panels panels = {j, projection_panel, j->count, 32, rows_of_panel(j->product.in)};
    return bertfeat_on_threads(&panels, parallel, threads);
}

/* Compute what follows attention in a block; gives 0, or -1 where memory ran out. */
int bertfeat_post_attention(const PostAttention *j, Parallel parallel, unsigned threads) {
    const Panels panels = {j, post_attention_panel, j->rows, 32, rows_of_panel(j->up.in)};
    return bertfeat_on_threads(&panels, parallel, threads);
}

/* Repack a weight [out, in], both multiples of 32, as tiles. */
AVX512 void bertfeat_pack(const uint16_t *weight, uint16_t *tiles, int64_t in, int64_t out) {
    for (int64_t n = 0; n < out; n += 32)
        for (int64_t k = 0; k < in; k += 32)
            for (int64_t half = 0; half < 32; half += TILE, tiles += TILE_VALUES)
                turn_tile(tiles, weight + (n + half) * in + k, in, TILE);
}

#endif
