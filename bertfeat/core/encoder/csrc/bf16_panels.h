/* Rows of bfloat16 values that go through the products of a transformer block, panel by panel. Whoever includes this
   defines STACK_CODE, the target of its functions, and, for AMX, WITH_AMX; else products are AVX512-BF16's.

   A panel is kept as tiles of 16 rows of 32 values each, tile after tile along a row of tiles, as AMX reads them.
   Products are of bfloat16; sums, biases, residuals and norms are float32. */

#ifndef BERTFEAT_BF16_PANELS_H
#define BERTFEAT_BF16_PANELS_H

#define LANES 16

#include "activations.h"
#include "kernels.h"

#ifdef BERTFEAT_X86

#define STACK_INLINE STACK_CODE static inline __attribute__((unused))

#ifdef WITH_AMX
enum { STEP = TILE }; /* rows of a panel are filled up to a multiple of this */
#else
enum { STEP = PAIR_ROWS };
#endif
enum { CHUNK = 384 /* of the inner width, which goes by in chunks: what is raised is lowered while it is near */ };

/* ── rows ───────────────────────────────────────────────────────────────────────────────────────────────── */

static inline Rows rows_of_panel(uint16_t *panel, int64_t width) {
    return (Rows){panel, 32, width / 32 * TILE_VALUES, 32, TILE_VALUES};
}

static inline Rows rows_of_memory(uint16_t *first, int64_t width) { return (Rows){first, width, TILE * width, width, 0}; }

/* So many rows of one head after those of another. */
static inline Rows rows_of_heads(uint16_t *first, int64_t rows, int64_t width) {
    return (Rows){first, width, TILE * width, width, rows * width};
}

STACK_CODE static void copy_rows(Rows from, int64_t rows, int64_t width, Rows to) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c += 32)
            _mm512_storeu_si512(values_at(to, r, c), _mm512_loadu_si512(values_at(from, r, c)));
}

/* Rows that belong to nobody: zeros, since what lies there might be no number. */
STACK_CODE static void zero_rows(Rows rows, int64_t begin, int64_t end, int64_t width) {
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < width; c += 32) _mm512_storeu_si512(values_at(rows, r, c), _mm512_setzero_si512());
}

STACK_INLINE __m512 low_half(__m512i x) { return widen(_mm512_castsi512_si256(x)); }
STACK_INLINE __m512 high_half(__m512i x) { return widen(_mm512_extracti64x4_epi64(x, 1)); }
STACK_INLINE __m512i narrow(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

/* ── products ───────────────────────────────────────────────────────────────────────────────────────────── */

/* Rows [begin, end) of a block of 32 × 32 sums, with their biases, activated, to the first columns of theirs. */
STACK_INLINE void put_rows(Rows to, int64_t row, const float *sums, const float *bias, int64_t activation, int64_t begin,
                           int64_t end) {
    const __m512 low_bias = _mm512_loadu_ps(bias), high_bias = _mm512_loadu_ps(bias + 16);
    for (int64_t r = begin; r < end; r++) {
        const __m512 low = activated(_mm512_add_ps(_mm512_load_ps(sums + r * 32), low_bias), activation);
        const __m512 high = activated(_mm512_add_ps(_mm512_load_ps(sums + r * 32 + 16), high_bias), activation);
        _mm512_storeu_si512(values_at(to, row + r, 0), narrow(low, high));
    }
}

/* Where the sums of a block of 32 rows by 32 outputs lie: side by side, since rows a whole width apart would fall on few
   sets of the nearest cache. */
static inline float *block_at(float *sums, int64_t width, int64_t row, int64_t column) {
    return sums + row / 32 * 32 * width + column / 32 * (32 * 32) + row % 32 * 32;
}

/* The strip of a weight that makes 32 outputs from n on: tiles of 32 inputs after each other. */
static inline const uint16_t *strip_of(const Product *p, int64_t n) { return (const uint16_t *)p->weight + n * p->in; }

#ifdef WITH_AMX

/* Four AMX tiles of sums += 32 rows of a panel (so many tiles wide) by 32 outputs; of the first 16 rows alone where there
   are no more. The rows are streamed, so that they do not push the weight's strip out of the nearest cache. */
STACK_INLINE void multiply_tiles(const uint16_t *a, int64_t wide, const uint16_t *b, int both) {
    _tile_stream_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + TILE_VALUES, 64);
    _tile_dpbf16ps(1, 4, 7);
    if (!both) return;
    _tile_stream_loadd(5, a + wide * TILE_VALUES, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

STACK_INLINE void zero_tiles(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

STACK_INLINE void load_tiles(const float *block) {
    _tile_loadd(0, block, 128);
    _tile_loadd(1, block + TILE, 128);
    _tile_loadd(2, block + TILE * 32, 128);
    _tile_loadd(3, block + TILE * 32 + TILE, 128);
}

STACK_INLINE void store_tiles(float *block, int both) {
    _tile_stored(0, block, 128);
    _tile_stored(1, block + TILE, 128);
    if (!both) return;
    _tile_stored(2, block + TILE * 32, 128);
    _tile_stored(3, block + TILE * 32 + TILE, 128);
}

/* Fetch lines [4 step, 4 step + 4) of the next strip, of so many bytes: the strip comes while this one is multiplied. */
STACK_INLINE void fetch_ahead(const uint16_t *next, int64_t step, int64_t bytes) {
    for (int64_t at = 256 * step; at < least(256 * step + 256, bytes); at += 64)
        _mm_prefetch((const char *)next + at, _MM_HINT_T0);
}

/* The activation of a panel times the outputs [begin, end) of a product, into rows. A block of sums is activated while
   AMX is at the next. */
STACK_CODE static void multiply(uint16_t *panel, int64_t padded, const Product *p, int64_t begin, int64_t end,
                                int64_t activation, Rows out) {
    const int64_t depth = p->in / 32;
    float sums[2][32 * 32] __attribute__((aligned(64)));
    int64_t now = 0, last_row = 0, last_rows = 0;
    const float *last_bias = p->bias;
    Rows last = out; /* the columns of the block before */
    for (int64_t n = begin; n < end; n += 32)
        for (int64_t m = 0; m < padded; m += 32) {
            const uint16_t *a = panel + m / TILE * depth * TILE_VALUES, *b = strip_of(p, n);
            const int both = m + TILE < padded;
            int64_t done = 0;
            zero_tiles();
            for (int64_t k = 0; k < depth; k++, a += TILE_VALUES, b += 2 * TILE_VALUES) {
                if (n + 32 < end) fetch_ahead(strip_of(p, n + 32), m / 32 * depth + k, 64 * p->in);
                multiply_tiles(a, depth, b, both);
                const int64_t due = (k + 1) * last_rows / depth;
                put_rows(last, last_row, sums[1 - now], last_bias, activation, done, due);
                done = due;
            }
            store_tiles(sums[now], both);
            last = from_column(out, n - begin), last_bias = p->bias + n, now = 1 - now;
            last_row = m, last_rows = both ? 2 * TILE : TILE;
        }
    put_rows(last, last_row, sums[1 - now], last_bias, activation, 0, last_rows);
}

/* sums [padded, out], in blocks, += a panel times the inputs [begin, end) of a product; the first time there is nothing to add to. */
STACK_CODE static void accumulate(const uint16_t *panel, int64_t padded, const Product *p, int64_t begin, int64_t end,
                                  float *sums) {
    const int64_t depth = (end - begin) / 32;
    for (int64_t n = 0; n < p->out; n += 32)
        for (int64_t m = 0; m < padded; m += 32) {
            const uint16_t *a = panel + m / TILE * depth * TILE_VALUES, *b = strip_of(p, n) + begin * 32;
            float *block = block_at(sums, p->out, m, n);
            const int both = m + TILE < padded;
            if (begin == 0)
                zero_tiles();
            else
                load_tiles(block);
            for (int64_t k = 0; k < depth; k++, a += TILE_VALUES, b += 2 * TILE_VALUES) {
                if (n + 32 < p->out) fetch_ahead(strip_of(p, n + 32) + begin * 32, m / 32 * depth + k, 64 * (end - begin));
                multiply_tiles(a, depth, b, both);
            }
            store_tiles(block, both);
        }
}

STACK_INLINE void begin_products(void) { configure_tiles(); }
STACK_INLINE void end_products(void) { release_tiles(); }

#else

/* Sums of PAIR_ROWS rows of a panel by the 32 outputs of a strip. */
STACK_INLINE void multiply_rows(const uint16_t *rows, const uint16_t *strip, int64_t depth, float *sums, int add) {
    multiply_pairs(rows, 32, TILE_VALUES, strip, TILE_VALUES, 2 * TILE_VALUES, depth, sums, 32, add);
}

STACK_CODE static void multiply(uint16_t *panel, int64_t padded, const Product *p, int64_t begin, int64_t end,
                                int64_t activation, Rows out) {
    const Rows rows = rows_of_panel(panel, p->in);
    float sums[PAIR_ROWS * 32] __attribute__((aligned(64)));
    for (int64_t n = begin; n < end; n += 32)
        for (int64_t m = 0; m < padded; m += PAIR_ROWS) {
            if (n + 32 < end) fetch_part(strip_of(p, n + 32), 64 * p->in, m, PAIR_ROWS, padded);
            multiply_rows(values_at(rows, m, 0), strip_of(p, n), p->in / 32, sums, 0);
            put_rows(from_column(out, n - begin), m, sums, p->bias + n, activation, 0, PAIR_ROWS);
        }
}

STACK_CODE static void accumulate(const uint16_t *panel, int64_t padded, const Product *p, int64_t begin, int64_t end,
                                  float *sums) {
    const Rows rows = rows_of_panel((uint16_t *)panel, end - begin);
    for (int64_t n = 0; n < p->out; n += 32)
        for (int64_t m = 0; m < padded; m += PAIR_ROWS) {
            if (n + 32 < p->out) fetch_part(strip_of(p, n + 32) + begin * 32, 64 * (end - begin), m, PAIR_ROWS, padded);
            multiply_rows(values_at(rows, m, 0), strip_of(p, n) + begin * 32, (end - begin) / 32,
                          block_at(sums, p->out, m, n), begin > 0);
        }
}

STACK_INLINE void begin_products(void) {}
STACK_INLINE void end_products(void) {}

#endif

/* ── residual and layer norm, of TOGETHER rows from a multiple of that on ───────────────────────────────── */

/* Layer norm (Ba et al. 2016) of rows x [TOGETHER, width], whose values add up to total. */
STACK_INLINE void normalize_rows(const float *x, const __m512 *total, const Norm *norm, int64_t width, Rows out, int64_t row) {
    const __m512 count = _mm512_set1_ps((float)width), means = _mm512_div_ps(JOINED(_mm512_add_ps, total), count);
    __m512 mean[TOGETHER], squares[TOGETHER];
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++) mean[i] = spread(means, i), squares[i] = _mm512_setzero_ps();
    for (int64_t c = 0; c < width; c += 16)
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++) {
            const __m512 centered = _mm512_sub_ps(_mm512_load_ps(x + i * width + c), mean[i]);
            squares[i] = _mm512_fmadd_ps(centered, centered, squares[i]);
        }
    const __m512 variance = _mm512_div_ps(JOINED(_mm512_add_ps, squares), count);
    const __m512 scales = _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_sqrt_ps(_mm512_add_ps(variance, _mm512_set1_ps(norm->eps))));
    for (int64_t c = 0; c < width; c += 32) {
        const __m512 low_weight = _mm512_loadu_ps(norm->weight + c), high_weight = _mm512_loadu_ps(norm->weight + c + 16);
        const __m512 low_bias = _mm512_loadu_ps(norm->bias + c), high_bias = _mm512_loadu_ps(norm->bias + c + 16);
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++) {
            const float *from = x + i * width + c;
            const __m512 scale = spread(scales, i);
            const __m512 low = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(from), mean[i]), scale);
            const __m512 high = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(from + 16), mean[i]), scale);
            _mm512_storeu_si512(values_at(out, row + i, c), narrow(_mm512_fmadd_ps(low, low_weight, low_bias),
                                                                   _mm512_fmadd_ps(high, high_weight, high_bias)));
        }
    }
}

/* The first rows of sums, in blocks, + bias, and + residual where there is one. */
STACK_CODE static void copy_sums(float *sums, const float *bias, const Rows *residual, int64_t rows, int64_t width, Rows to) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c += 32) {
            const float *from = block_at(sums, width, r, c);
            const __m512i added = residual ? _mm512_loadu_si512(values_at(*residual, r, c)) : _mm512_setzero_si512();
            const __m512 low = _mm512_add_ps(_mm512_load_ps(from), _mm512_loadu_ps(bias + c));
            const __m512 high = _mm512_add_ps(_mm512_load_ps(from + 16), _mm512_loadu_ps(bias + c + 16));
            _mm512_storeu_si512(values_at(to, r, c),
                                narrow(_mm512_add_ps(low, low_half(added)), _mm512_add_ps(high, high_half(added))));
        }
}

/* Layer norm of rows of sums, in blocks, + bias + residual; x is room for them. */
STACK_INLINE void normalize(float *sums, const float *bias, Rows residual, const Norm *norm, int64_t width, float *x,
                            Rows out, int64_t row) {
    __m512 total[TOGETHER];
#pragma GCC unroll 4
    for (int i = 0; i < TOGETHER; i++) total[i] = _mm512_setzero_ps();
    for (int64_t c = 0; c < width; c += 32) {
        const float *from = block_at(sums, width, row, c);
        const __m512 low_bias = _mm512_loadu_ps(bias + c), high_bias = _mm512_loadu_ps(bias + c + 16);
#pragma GCC unroll 4
        for (int i = 0; i < TOGETHER; i++) {
            const __m512i added = _mm512_loadu_si512(values_at(residual, row + i, c));
            const __m512 low = _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(from + 32 * i), low_bias), low_half(added));
            const __m512 high = _mm512_add_ps(_mm512_add_ps(_mm512_load_ps(from + 32 * i + 16), high_bias), high_half(added));
            _mm512_store_ps(x + i * width + c, low);
            _mm512_store_ps(x + i * width + c + 16, high);
            total[i] = _mm512_add_ps(total[i], _mm512_add_ps(low, high));
        }
    }
    normalize_rows(x, total, norm, width, out, row);
}

#endif
#endif
