/* Rows of float32 values between products: layer norm, embedding, coming and going. Whoever includes this has included
   vectors.h for its LANES. */

#include "stack.h"
#include "vectors.h"

#ifdef BERTFEAT_X86

/* Layer norm (Ba et al. 2016) of a row whose values add up to total. */
SIMD_INLINE void normalize_row(float *row, Vec total, int64_t width, const Norm *norm) {
    const Vec mean = all(sum_of(total) / (float)width);
    Vec squares = all(0);
    for (int64_t c = 0; c < width; c += LANES) {
        const Vec centered = load_vec(row + c) - mean;
        squares = fma_vec(centered, centered, squares);
    }
    const Vec scale = all(1.0f / __builtin_sqrtf(sum_of(squares) / (float)width + norm->eps));
    for (int64_t c = 0; c < width; c += LANES) {
        const Vec unit = (load_vec(row + c) - mean) * scale;
        store_vec(row + c, fma_vec(unit, load_vec(norm->weight + c), load_vec(norm->bias + c)));
    }
}

/* The embedding of a token. */
SIMD_INLINE void embed(const Stack *j, int64_t hidden, int64_t token, float *row) {
    const Embeddings *t = j->tables;
    const float *word = (const float *)t->words + j->ids[token] * hidden;
    const float *position = (const float *)t->positions + j->positions[token] * hidden;
    const float *type = t->types ? (const float *)t->types + j->types[token] * hidden : NULL;
    Vec total = all(0);
    for (int64_t c = 0; c < hidden; c += LANES) {
        Vec x = load_vec(word + c) + load_vec(position + c);
        if (type) x += load_vec(type + c);
        total += x;
        store_vec(row + c, x);
    }
    normalize_row(row, total, hidden, &t->norm);
}

/* The embedding output of a panel's tokens, given or made. */
SIMD_INLINE void load_rows(const Panel *p, int64_t hidden, int64_t begin, float *rows) {
    const float *given = p->stack->rows;
    if (given) {
        memcpy(rows, given + begin * hidden, p->rows * hidden * sizeof(float));
        return;
    }
    for (int64_t r = 0; r < p->rows; r++) embed(p->stack, hidden, begin + r, rows + r * hidden);
}

/* The first row of each sequence, to the front. */
static inline void keep_first_rows(const Panel *p, int64_t hidden, float *rows) {
    for (int64_t s = 0; s < p->sequences; s++)
        memmove(rows + s * hidden, rows + p->bounds[s] * hidden, hidden * sizeof(float));
}

/* Rows of the panel, or as many as there are of them, to their place. */
static inline void store_rows(const Panel *p, const float *rows, int64_t hidden, void *out, int64_t count) {
    memcpy((float *)out + p->at * hidden, rows, count * hidden * sizeof(float));
}

#endif
