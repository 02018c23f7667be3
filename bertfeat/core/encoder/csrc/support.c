/* What this processor can do, memory that threads keep, and panels shared out among them. */

#include "kernels.h"

enum { HAS_AVX512 = 1, HAS_AMX = 2, HAS_VNNI = 4, HAS_VECTOR = 8, HAS_BF16 = 16, HAS_AVX2_VNNI = 32 };

int64_t bertfeat_abi(int64_t sizes[4]) {
    sizes[0] = sizeof(Attention), sizes[1] = sizeof(Stack);
    sizes[2] = sizeof(Int8Projection), sizes[3] = sizeof(Int8PostAttention);
    return BERTFEAT_ABI;
}

#ifdef BERTFEAT_KERNELS

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef BERTFEAT_X86

/* What there is; the system is asked for leave to use AMX. */
int bertfeat_features(void) {
    enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25, AVX_VNNI = 1 << 4 };
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    unsigned eax = 7, ebx, ecx = 0, edx, again = 7, one = 1;
    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    const unsigned amx = AMX_BF16 | AMX_TILE | AMX_INT8, has_amx = (edx & amx) == amx;
    if (eax > 0) __asm__ volatile("cpuid" : "+a"(again), "=b"(ebx), "+c"(one), "=d"(edx));
    const int small = HAS_VECTOR | (eax > 0 && (again & AVX_VNNI) ? HAS_AVX2_VNNI : 0);
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return small;
    const int bf16 = __builtin_cpu_supports("avx512bf16"), vnni = __builtin_cpu_supports("avx512vnni");
    const int tiles = has_amx && bf16 && syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
    return small | HAS_AVX512 | (bf16 ? HAS_BF16 : 0) | (vnni ? HAS_VNNI : 0) | (tiles ? HAS_AMX : 0);
}

#else

int bertfeat_features(void) { return HAS_VECTOR; }

#endif

static pthread_key_t memory;

static void make_key(void) { pthread_key_create(&memory, free); }

#ifdef __SANITIZE_ADDRESS__
enum { SCRATCH_STEP = 64 }; /* so that the first byte too many is seen */
#else
enum { SCRATCH_STEP = 4096 };
#endif

/* Given back when the thread ends: a Python thread's, and with it those of the OpenMP pool that served it. */
void *bertfeat_scratch(size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static __thread void *kept;
    static __thread size_t size;
    if (size < bytes) {
        pthread_once(&once, make_key);
        free(kept);
        size = (bytes + SCRATCH_STEP - 1) / SCRATCH_STEP * SCRATCH_STEP;
        kept = aligned_alloc(SCRATCH_STEP, size);
        if (!kept) size = 0;
        pthread_setspecific(memory, kept);
    }
    return kept;
}

typedef struct {
    const Panels *panels;
    int64_t most, next, failed;
} Work;

static void work(void *shared) {
    Work *w = shared;
    const Panels *p = w->panels;
    for (;;) {
        const int64_t begin = __atomic_fetch_add(&w->next, w->most, __ATOMIC_RELAXED);
        if (begin >= p->rows) break;
        if (!p->compute(p->job, begin, least(w->most, p->rows - begin), w->most))
            __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    }
}

int bertfeat_on_threads(const Panels *panels, Parallel parallel, unsigned threads) {
    if (!panels->rows) return 0;
    const int64_t fair = round_up((panels->rows + threads - 1) / threads, panels->step);
    Work w = {.panels = panels, .most = least(fair, panels->most)};
    parallel(work, &w, (unsigned)least(threads, (panels->rows + w.most - 1) / w.most), 0);
    return w.failed ? -1 : 0;
}

#else

int bertfeat_features(void) { return 0; }

#endif
