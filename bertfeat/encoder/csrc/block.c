/* What follows attention in a transformer block, in bfloat16 on AMX.

   Rows of a batch go through in panels that stay in a core's second cache: output product, residual, layer norm, up
   product, activation, down product, residual, layer norm, without a look at memory in between. */

#define STACK_CODE AMX
#define WITH_AMX

#include "bf16_panels.h"

enum { PANEL_ROWS = 256, PANEL_VALUES = 256 * 384 };

#ifdef BERTFEAT_X86

AMX static int post_attention_panel(const void *job, int64_t begin, int64_t rows, int64_t most) {
    const PostAttention *j = job;
    const int64_t hidden = j->up.in, inner = j->up.out, padded = round_up(rows, 32), at = begin * hidden;
    float *sums = bertfeat_scratch(4 * (most + 1) * hidden + 2 * most * (hidden + CHUNK));
    if (!sums) return 0;
    float *row = sums + most * hidden;
    uint16_t *panel = (uint16_t *)(row + hidden), *raised = panel + most * hidden;
    const Rows kept = rows_of_panel(panel, hidden), residual = rows_of_memory((uint16_t *)j->residual + at, hidden);
    const Rows out = rows_of_memory(j->out + at, hidden);

    configure_tiles();
    copy_rows(rows_of_memory((uint16_t *)j->context + at, hidden), rows, padded, hidden, kept);
    accumulate(panel, padded, &j->output, 0, hidden, sums);
    for (int64_t r = 0; r < rows; r++)
        normalize(sums + r * hidden, j->output.bias, residual, &j->attention_norm, hidden, row, kept, r);
    for (int64_t chunk = 0; chunk < inner; chunk += CHUNK) {
        const int64_t end = least(chunk + CHUNK, inner);
        multiply(panel, padded, &j->up, chunk, end, j->activation, rows_of_panel(raised, end - chunk));
        accumulate(raised, padded, &j->down, chunk, end, sums);
    }
    for (int64_t r = 0; r < rows; r++)
        normalize(sums + r * hidden, j->down.bias, kept, &j->out_norm, hidden, row, out, r);
    release_tiles();
    return 1;
}

/* Compute what follows attention in a block; gives 0, or -1 where memory ran out. */
int bertfeat_post_attention(const PostAttention *j, Parallel parallel, unsigned threads) {
    const int64_t fitting = least(PANEL_ROWS, PANEL_VALUES / j->up.in / 32 * 32);
    const Panels panels = {j, post_attention_panel, j->rows, 32, fitting > 32 ? fitting : 32};
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
