/* What the kernels share: vector arithmetic, tiles, threads. x86-64 with AVX2, AVX-512 or AMX, and aarch64.

   Plain C behind ctypes (kernels.py): no Python or torch headers, so one build serves every torch. Where no compiler was
   found, or the processor is another, the kernels are not there, and torch's own operators are used. */

#ifndef BERTFEAT_KERNELS_H
#define BERTFEAT_KERNELS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned); /* the OpenMP runtime's GOMP_parallel */

/* ── what Python calls: kernels.py declares the same structs ────────────────────────────────────────────────

   Raise BERTFEAT_ABI with every change of a struct or a function below, here and in kernels.py, which compares the
   number and the sizes of the structs when it loads the library. */

#define BERTFEAT_ABI 14

/* Types of values. */
enum { FP32, BF16 };

/* What computes attention: vectors of eight values, AVX-512, AVX512-BF16, AMX. */
enum { VECTOR_FORM, AVX512_FORM, BF16_FORM, AMX_FORM };

typedef struct {
    const void *query, *key, *value; /* rows a stride apart, and in each the heads a step apart */
    void *out;                       /* [.., heads * width], rows a stride apart */
    const float *bias;               /* [heads, 2 * farthest + 1]: what is added to a score before it is scaled, from the key
                                        that stands `farthest` before the query to the one as far after it; or NULL */
    const int64_t *query_bounds, *key_bounds; /* [sequences + 1] rows at which each sequence begins */
    int64_t sequences, heads, width;
    int64_t query_stride, key_stride, value_stride, out_stride; /* in values */
    int64_t query_step, key_step, value_step;                   /* in values */
    int64_t group;                                              /* neighboring heads that share one of keys and values */
    int64_t before, after, farthest; /* how many keys before and after its own place a query sees */
    int64_t out_tile, out_column; /* of bfloat16 results: from 16 rows to the next, from 32 values of a row to the next */
    int64_t longest;                              /* keys of the longest sequence */
    int64_t type, form;                           /* FP32 or BF16; a form that takes it */
    float scale;
} Attention;

/* weight [out, in]: of bfloat16 as tiles, two rows of tiles (32 outputs) side by side, of float32 as strips (fp32_stack.h);
   bias [out] */
typedef struct {
    const void *weight;
    const float *bias;
    int64_t in, out;
} Product;

typedef struct {
    const float *weight, *bias;
    float eps;
} Norm;

/* A block with its attention. */
typedef struct {
    Product qkv, output, up, down;
    Norm attention_norm, out_norm;
} StackBlock;

/* The places of a block at which values can be wanted: its output; the output of attention, and of the feed-forward layer,
   before either is added; what the latter is given; the heads' outputs side by side; and both sums before their norms.
   stack.py has the same order. Blocks of integers know the first alone. */
enum { BLOCK_OUTPUT, ATTENTION_OUTPUT, MLP_OUTPUT, MLP_INPUT, HEAD_OUTPUTS, FIRST_SUM, SECOND_SUM, SITES };

/* The tables whose rows make up a token's embedding, [.., hidden] each; types may be NULL. */
typedef struct {
    const void *words, *positions, *types;
    Norm norm;
} Embeddings;

typedef struct {
    const void *rows;          /* [tokens, hidden]: the embedding output, or NULL: it is computed from the tables */
    const Embeddings *tables;  /* rows and tables are of bfloat16 or float32, as the form takes them */
    const int32_t *ids;        /* [tokens] each, rows of the tables */
    const int64_t *positions;
    const int8_t *types;
    const int64_t *bounds;     /* [sequences + 1] rows at which each sequence begins */
    const void *blocks;        /* [layers] StackBlock or Int8Block */
    void *const *out;          /* [layers + 1, SITES]: where the values of each place are wanted, [tokens, hidden], or NULL; of
                                  layer 0, the embedding output, there is BLOCK_OUTPUT alone */
    const float *bias;         /* [heads, 2 * farthest + 1], as in Attention, or NULL */
    uint64_t *cycles;          /* [6] of all threads: embedding, QKV, attention, output product, norms, feed-forward; added to */
    int64_t sequences, layers, heads, activation;
    int64_t first_only;        /* the last of them for first tokens alone: [sequences, hidden] */
    int64_t type, form;        /* of attention, as in Attention */
    int64_t farthest;
    float scale;
} Stack;

/* A weight [out, in] of 8-bit integers, packed by bertfeat_pack_int8; what its inputs are multiplied by, [in]; what its
   sums are, [out]; the sums of its integers over each group of inputs, [groups, out]; bias [out] */
typedef struct {
    const int8_t *weight;
    const float *factor, *scale, *sums, *bias;
    int64_t in, out;
} Int8Product;

typedef struct {
    const float *rows; /* [count, in] */
    void *out;         /* [count, end - begin]: the outputs from begin on */
    int64_t count, begin, end;
    int64_t type; /* of out: FP32, or BF16 where AVX512-BF16 is */
    Int8Product product;
} Int8Projection;

/* A block with its attention, its products of 8-bit integers. */
typedef struct {
    Int8Product qkv, output, up, down;
    Norm attention_norm, out_norm;
} Int8Block;

typedef struct {
    const void *context;    /* [rows, hidden]: what attention gave */
    const float *residual;  /* [rows, hidden]: what it was given */
    float *out;             /* [rows, hidden] */
    const Int8Block *block; /* whose queries, keys and values are not made */
    int64_t rows, activation;
    int64_t type; /* of context: FP32, or BF16 where AVX512-BF16 is */
} Int8PostAttention;

/* BERTFEAT_ABI; the sizes in bytes of the four jobs above go into sizes. */
int64_t bertfeat_abi(int64_t sizes[4]);
/* HAS_… of support.c. */
int bertfeat_features(void);
int bertfeat_attend(const Attention *attention, Parallel parallel, unsigned threads);
int bertfeat_stack_amx(const Stack *job, Parallel parallel, unsigned threads);
int bertfeat_stack_bf16(const Stack *job, Parallel parallel, unsigned threads);
int bertfeat_stack_avx512(const Stack *job, Parallel parallel, unsigned threads);
int bertfeat_stack_avx2(const Stack *job, Parallel parallel, unsigned threads);
void bertfeat_pack(const uint16_t *weight, uint16_t *tiles, int64_t in, int64_t out);
#define INT8_KERNELS(instructions)                                                                                     \
    int bertfeat_int8_stack_##instructions(const Stack *job, Parallel parallel, unsigned threads);                         \
    int bertfeat_int8_project_##instructions(const Int8Projection *job, Parallel parallel, unsigned threads);               \
    int bertfeat_int8_post_attention_##instructions(const Int8PostAttention *job, Parallel parallel, unsigned threads)
INT8_KERNELS(amx);
INT8_KERNELS(vnni);
INT8_KERNELS(avx2_vnni);
INT8_KERNELS(avx2);
void bertfeat_pack_int8(const int8_t *weight, int8_t *strips, int64_t in, int64_t out);
/* Multiply-adds in registers, of so many operations in each thread. */
#define PEAK_LOOP(instructions)                                                                                        \
    void bertfeat_peak_##instructions(int64_t operations, Parallel parallel, unsigned threads)
PEAK_LOOP(avx2);
PEAK_LOOP(avx512);
PEAK_LOOP(bf16);
PEAK_LOOP(amx);
PEAK_LOOP(int8_avx2);
PEAK_LOOP(int8_avx2_vnni);
PEAK_LOOP(int8_vnni);
PEAK_LOOP(int8_amx);

#if defined(__GNUC__) && defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define BERTFEAT_KERNELS 1

static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

enum {
    TILE = 16,         /* rows of an AMX tile, and float32 values of a vector */
    TILE_VALUES = 512, /* bfloat16 values of an AMX tile: 16 rows of 32 */
};

/* Where rows of bfloat16 values lie: in memory, head by head, or as the tiles of a panel. In values: from a row to the next
   within 16, from 16 rows to the next; how many values of a row lie side by side, and from those to the next ones. */
typedef struct {
    uint16_t *first;
    int64_t row, tile, wide, column;
} Rows;

/* The same rows from a column on, a multiple of 32. */
static inline Rows from_column(Rows rows, int64_t column) {
    rows.first += column / rows.wide * rows.column + column % rows.wide;
    return rows;
}

/* The 32 values of a row from a multiple of 32 on. */
static inline uint16_t *values_at(Rows rows, int64_t row, int64_t column) {
    return from_column(rows, column).first + row / TILE * rows.tile + row % TILE * rows.row;
}

/* A thread's own memory, kept from call to call; NULL where there is none. */
void *bertfeat_scratch(size_t bytes);

/* Rows of a batch, so many at once that what belongs to them stays in a core's second cache: a panel. */
typedef struct {
    const void *job;
    int (*compute)(const void *job, int64_t begin, int64_t rows, int64_t most); /* gives 0 where memory ran out */
    int64_t rows, step, most; /* most rows of a panel; panels are multiples of step */
} Panels;

/* Compute all panels on as many threads; gives 0, or -1 where memory ran out. */
int bertfeat_on_threads(const Panels *panels, Parallel parallel, unsigned threads);

#endif

#if defined(BERTFEAT_KERNELS) && defined(__x86_64__)
#define BERTFEAT_X86 1

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))
#define BF16_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define BF16_INLINE BF16_CODE static inline __attribute__((unused))
#define AVX512_INLINE AVX512 static inline __attribute__((unused))
#define AMX_INLINE AMX static inline __attribute__((unused))

/* The first n of 16 lanes. */
static inline uint16_t lanes16(int64_t n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (uint16_t)((1u << n) - 1); }

/* Eight AMX tiles of 16 rows of 64 bytes. */
AMX_INLINE void configure_tiles(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&tiles);
}

AMX_INLINE void release_tiles(void) { _tile_release(); }

/* Prefetch into the second cache a share of the bytes that are multiplied next: that of the rows [at, at + step) of all. */
static inline void fetch_part(const void *next, int64_t bytes, int64_t at, int64_t step, int64_t all) {
    for (int64_t i = bytes * at / all / 64; i < bytes * least(at + step, all) / all / 64; i++)
        _mm_prefetch((const char *)next + 64 * i, _MM_HINT_T1);
}

AVX512_INLINE __m512 widen(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* 2^x: a polynomial over [-1/2, 1/2] and the exponent by itself; relative error 2e-7. */
AVX512_INLINE __m512 exp2_fine(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-150.0f), x); /* in this order, NaN stays NaN */
    const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_sub_ps(x, whole);
    __m512 y = _mm512_set1_ps(1.535336188e-4f);
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.339887440e-3f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(9.618437357e-3f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(5.550332471e-2f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(2.402264791e-1f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(6.931472029e-1f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(y, whole);
}

/* Four vectors as quarters of one: of each, `join` of its values 16, 12, 8 … apart, until one is left. */
#define JOINED(join, x)                                                                                                \
    ({                                                                                                                 \
        const __m512 ab = join(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));                        \
        const __m512 cd = join(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));                        \
        const __m512 abcd = join(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));                    \
        const __m512 half = join(abcd, _mm512_shuffle_f32x4(abcd, abcd, 0x4e));                                        \
        join(half, _mm512_shuffle_f32x4(half, half, 0xb1));                                                            \
    })

/* Value i of a vector, as all values of one. */
AVX512_INLINE __m512 spread(__m512 x, int i) { return _mm512_permutexvar_ps(_mm512_set1_epi32(i), x); }

enum { TOGETHER = 4 }; /* rows whose chains of sums or maxima run side by side, and end in one vector */

/* 2^x with a relative error of 3e-6, far below bfloat16's: a polynomial over [0, 1), since scalef itself rounds x down. */
AVX512_INLINE __m512 exp2_coarse(__m512 x) {
    const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 y = _mm512_set1_ps(0.0135341678f);
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.0520114638f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.241442755f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(0.693003833f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.00000262f));
    return _mm512_scalef_ps(y, x);
}

enum { PAIR_ROWS = 8 }; /* rows that AVX512-BF16 multiplies at once: 16 sums of 16 values fit the registers */

/* c [PAIR_ROWS, 32] = rows of bfloat16 (32 values of a row, then the next 32 `a_step` on) times so many tiles, `step` apart,
   and as many `beside` those; `add` goes on from the sums that are there. */
BF16_INLINE void multiply_pairs(const uint16_t *a, int64_t a_row, int64_t a_step, const uint16_t *tile, int64_t beside,
                                int64_t step, int64_t tiles, float *c, int64_t c_row, int add) {
    __m512 low[PAIR_ROWS], high[PAIR_ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < PAIR_ROWS; i++) {
        low[i] = add ? _mm512_load_ps(c + i * c_row) : _mm512_setzero_ps();
        high[i] = add ? _mm512_load_ps(c + i * c_row + 16) : _mm512_setzero_ps();
    }
    for (int64_t t = 0; t < tiles; t++, a += a_step, tile += step)
        for (int64_t k = 0; k < 32; k += 2) {
            const __m512i left = _mm512_load_si512(tile + k * 16), right = _mm512_load_si512(tile + beside + k * 16);
#pragma GCC unroll 8
            for (int i = 0; i < PAIR_ROWS; i++) {
                int32_t pair;
                memcpy(&pair, a + i * a_row + k, 4);
                const __m512i each = _mm512_set1_epi32(pair);
                __asm__("vdpbf16ps %2, %1, %0" : "+v"(low[i]) : "v"(each), "v"(left));
                __asm__("vdpbf16ps %2, %1, %0" : "+v"(high[i]) : "v"(each), "v"(right));
            }
        }
#pragma GCC unroll 8
    for (int i = 0; i < PAIR_ROWS; i++) {
        _mm512_store_ps(c + i * c_row, low[i]);
        _mm512_store_ps(c + i * c_row + 16, high[i]);
    }
}

/* Transpose 16 rows of 16 values of 32 bits. */
AVX512_INLINE void transpose(__m512i r[16]) {
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* A tile of a product's right-hand side: 16 rows of 32 values, turned so that pairs of values stand in rows. */
AVX512_INLINE void turn_tile(uint16_t *tile, const uint16_t *rows, int64_t stride, int64_t count) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = i < count ? _mm512_loadu_si512(rows + i * stride) : _mm512_setzero_si512();
    transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) _mm512_store_si512(tile + i * 32, r[i]);
}

#endif
#endif
