/* Products of 8-bit integers on AMX: the same integers as on AVX512-VNNI, so the same results to the last bit. */

#define LANES 16
#define HALVES 1
#define PROJECT bertfeat_int8_project_amx
#define POST_ATTENTION bertfeat_int8_post_attention_amx
#define RUN_STACK bertfeat_int8_stack_amx

#include "vectors.h"

#ifdef BERTFEAT_X86

#define INT8 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-int8")))
#define INT8_INLINE INT8 static inline __attribute__((always_inline, unused))

enum { GROUP = 384, LEVELS = 255, BLOCK = 32, DEPTH = 64 /* inputs of a tile: widths are multiples of it */ };

#include "int8_rows.h"

/* Sums of integers of one row, as many as a vector has, onto float32 sums. */
INT8_INLINE void add_up(const int32_t *totals, Map map, const float *weight_sums, float *sums, int add) {
    const Vec y = fma_vec(all(map.least), load_vec(weight_sums), add ? load_vec(sums) : all(0));
    store_vec(sums, fma_vec(to_floats(_mm512_load_si512(totals)), all(map.scale), y));
}

/* sums [BLOCK, a strip] += one group of BLOCK rows times the outputs of the strip from n on, and inputs that are the
   product's group `part`; unless `add`, the sums begin with it. */
INT8 static void multiply_group(const Bytes *rows, int64_t row, int64_t group, const Int8Product *p, int64_t n,
                                int64_t part, float *sums, int64_t stride, int add) {
    const int64_t width = least(STRIP, p->out - n), depth = least(GROUP, p->in - part * GROUP);
    const uint8_t *bytes = rows->bytes + row * rows->in + group * GROUP;
    const int8_t *weight = p->weight + n * p->in + part * GROUP * width;
    const float *weight_sums = p->sums + part * p->out + n;
    const Map *maps = rows->maps + row * rows->groups + group;
    int32_t totals[BLOCK][2 * TILE] __attribute__((aligned(64)));
    for (int64_t c = 0; c < width; c += 2 * TILE) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t k = 0; k < depth; k += DEPTH) {
            const int8_t *outputs = weight + k * width + 4 * c; /* four inputs of each output side by side */
            _tile_loadd(4, bytes + k, rows->in);
            _tile_loadd(6, outputs, 4 * width);
            _tile_dpbusd(0, 4, 6);
            _tile_loadd(7, outputs + 4 * TILE, 4 * width);
            _tile_dpbusd(1, 4, 7);
            _tile_loadd(5, bytes + k + TILE * rows->in, rows->in);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
        _tile_stored(0, totals[0], sizeof *totals);
        _tile_stored(1, totals[0] + TILE, sizeof *totals);
        _tile_stored(2, totals[TILE], sizeof *totals);
        _tile_stored(3, totals[TILE] + TILE, sizeof *totals);
        for (int64_t r = 0; r < BLOCK; r++)
            for (int64_t v = 0; v < 2 * TILE; v += TILE)
                add_up(totals[r] + v, maps[r * rows->groups], weight_sums + c + v, sums + r * stride + c + v, add);
    }
}

INT8_INLINE void begin_products(void) { configure_tiles(); }
INT8_INLINE void end_products(void) { release_tiles(); }

#include "int8_panels.h"

#endif
