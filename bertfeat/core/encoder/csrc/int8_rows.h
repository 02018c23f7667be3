/* Rows of unsigned bytes, whose groups of GROUP values each have a scale and a least value of their own. See
   int8_panels.h. */

#include "activations.h"
#include "kernels.h"

enum { STRIP = 64 /* outputs whose weights stand together */ };

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

/* ── values of either type ──────────────────────────────────────────────────────────────────────────────── */

INT8_INLINE void store_typed(void *to, int64_t at, Vec x, int64_t type) {
#if HALVES
    if (type == BF16) {
        store_halves((uint16_t *)to + at, x);
        return;
    }
#endif
    (void)type;
    store_vec((float *)to + at, x);
}

/* A row as float32; `room` takes it where it is of another type. */
INT8_INLINE const float *as_floats(const void *from, int64_t at, int64_t values, int64_t type, float *room) {
#if HALVES
    if (type == BF16) {
        for (int64_t c = 0; c < values; c += LANES) store_vec(room + c, load_halves((const uint16_t *)from + at + c));
        return room;
    }
#endif
    (void)values, (void)type, (void)room;
    return (const float *)from + at;
}
