/* The attention kernel against its definition in double, without Python or torch, so that it can be run under an emulator:

       make aarch64 */

#include <math.h>
#include <stdio.h>

#include "../../bertfeat/core/encoder/csrc/kernels.h"

static uint32_t state = 1;

static float draw(void) { /* Marsaglia 2003 */
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return (float)((double)state / 4294967296.0 * 4 - 2);
}

static void alone(void (*work)(void *), void *shared, unsigned threads, unsigned flags) {
    (void)threads, (void)flags;
    work(shared);
}

/* The largest difference over sequences of all lengths up to 70, and a few longer ones. */
static double largest_error(int64_t heads, int64_t width) {
    enum { SEQUENCES = 73 };
    int64_t bounds[SEQUENCES + 1] = {0}, longest = 0;
    for (int64_t i = 0; i < SEQUENCES; i++) {
        const int64_t length = i < 70 ? i + 1 : 100 * (i - 68) + i % 3;
        bounds[i + 1] = bounds[i] + length, longest = length > longest ? length : longest;
    }
    const int64_t tokens = bounds[SEQUENCES], hidden = heads * width;
    float *qkv = malloc(tokens * 3 * hidden * sizeof(float)), *out = malloc(tokens * hidden * sizeof(float));
    double *scores = malloc(longest * sizeof(double)), largest = 0;
    for (int64_t i = 0; i < tokens * 3 * hidden; i++) qkv[i] = draw();
    const Attention job = {.query = qkv, .key = qkv + hidden, .value = qkv + 2 * hidden, .out = out, .bias = NULL,
                           .query_bounds = bounds, .key_bounds = bounds, .sequences = SEQUENCES, .heads = heads,
                           .width = width, .query_stride = 3 * hidden, .key_stride = 3 * hidden,
                           .value_stride = 3 * hidden, .out_stride = hidden, .query_step = width, .key_step = width,
                           .value_step = width, .group = 1, .before = longest, .after = longest, .farthest = 0,
                           .out_tile = 16 * hidden, .out_column = 32, .longest = longest, .type = FP32,
                           .form = VECTOR_FORM, .scale = (float)(1 / sqrt((double)width))};
    if (bertfeat_attend(&job, alone, 1)) return INFINITY;
    for (int64_t s = 0; s < SEQUENCES; s++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t q = bounds[s]; q < bounds[s + 1]; q++) {
                double total = 0;
                for (int64_t k = bounds[s]; k < bounds[s + 1]; k++) {
                    double score = 0;
                    for (int64_t c = h * width; c < (h + 1) * width; c++)
                        score += (double)qkv[q * 3 * hidden + c] * qkv[k * 3 * hidden + hidden + c];
                    total += scores[k - bounds[s]] = exp(score / sqrt((double)width));
                }
                for (int64_t c = h * width; c < (h + 1) * width; c++) {
                    double mixed = 0;
                    for (int64_t k = bounds[s]; k < bounds[s + 1]; k++)
                        mixed += scores[k - bounds[s]] / total * qkv[k * 3 * hidden + 2 * hidden + c];
                    largest = fmax(largest, fabs(mixed - out[q * hidden + c]));
                }
            }
    free(qkv), free(out), free(scores);
    return largest;
}

int main(void) {
    int failed = 0;
    for (int64_t width = 16; width <= 80; width += 16) {
        const double error = largest_error(2, width);
        printf("heads of %d values: largest difference %.1e\n", (int)width, error);
        failed |= !(error < 1e-5);
    }
    return failed;
}
