/* AMX in plain C, for processors that lack it: given to the compiler before csrc's own lines (-include), it takes the
   place of the intrinsics. Eight tiles of 16 rows of 64 bytes, as configure_tiles asks for. */

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#define _tile_loadconfig(config) ((void)(config))
#define _tile_release() ((void)0)
#define _tile_zero(tile) memset(tiles[tile], 0, sizeof tiles[tile])
#define _tile_loadd(tile, from, stride) load_tile(tile, from, stride)
#define _tile_stream_loadd(tile, from, stride) load_tile(tile, from, stride)
#define _tile_stored(tile, to, stride) store_tile(tile, to, stride)
#define _tile_dpbf16ps(sum, a, b) multiply_halves(sum, a, b)
#define _tile_dpbusd(sum, a, b) multiply_bytes(sum, a, b)

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64 };

static __thread uint8_t tiles[TILES][TILE_ROWS][TILE_BYTES] __attribute__((unused));

__attribute__((unused)) static void load_tile(int tile, const void *from, int64_t stride) {
    for (int64_t row = 0; row < TILE_ROWS; row++) memcpy(tiles[tile][row], (const char *)from + row * stride, TILE_BYTES);
}

__attribute__((unused)) static void store_tile(int tile, void *to, int64_t stride) {
    for (int64_t row = 0; row < TILE_ROWS; row++) memcpy((char *)to + row * stride, tiles[tile][row], TILE_BYTES);
}

static inline float value_of(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Row r of the left factor, column c of the right one, whose rows hold two values of each column. */
__attribute__((unused)) static void multiply_halves(int sum, int a, int b) {
    float(*total)[16] = (void *)tiles[sum], right[2][16];
    const uint16_t(*left)[32] = (void *)tiles[a];
    for (int pair = 0; pair < 16; pair++) {
        for (int c = 0; c < 32; c++) right[c % 2][c / 2] = value_of(((const uint16_t *)tiles[b][pair])[c]);
        for (int r = 0; r < TILE_ROWS; r++) {
            const float even = value_of(left[r][2 * pair]), odd = value_of(left[r][2 * pair + 1]);
            for (int c = 0; c < 16; c++) total[r][c] += even * right[0][c] + odd * right[1][c];
        }
    }
}

/* The same of unsigned and signed bytes, of which rows hold four of each column. */
__attribute__((unused)) static void multiply_bytes(int sum, int a, int b) {
    int32_t(*total)[16] = (void *)tiles[sum], right[4][16];
    for (int four = 0; four < 16; four++) {
        for (int c = 0; c < 64; c++) right[c % 4][c / 4] = (int8_t)tiles[b][four][c];
        for (int r = 0; r < TILE_ROWS; r++)
            for (int i = 0; i < 4; i++)
                for (int c = 0; c < 16; c++) total[r][c] += tiles[a][r][4 * four + i] * right[i][c];
    }
}
