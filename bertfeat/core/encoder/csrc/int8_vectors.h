/* Products of 8-bit integers in vectors. Included by the file of a kind of instructions, which gives

   - BLOCK, MOST_VECTORS: rows and vectors of outputs that are multiplied at once
   - ADD_PRODUCTS(total, bytes, weights): to each int32 of the total the sum of the products of its four bytes */

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
            int32_t four;
            memcpy(&four, bytes + r * rows->in + k, 4);
            const Integers each = repeat_integer(four);
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

INT8_INLINE void begin_products(void) {}
INT8_INLINE void end_products(void) {}
