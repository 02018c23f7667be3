"""A clock of the time of day that jumps: a library to preload, which adds what a file says to the system's time.

The monotonic clock stays as it is, as when an administrator, NTP or a hypervisor sets the time.
"""

import mmap
import os
import shutil
import subprocess
from pathlib import Path

VARIABLE = "TORTURE_CLOCK"
"""In the environment: the file of a process's clock, a number of seconds in eight bytes."""

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *seconds;

static long jumped(void) {
    if (!seconds) {
        const char *path = getenv("TORTURE_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file < 0) return 0;
        void *mapped = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (mapped == MAP_FAILED) return 0;
        seconds = mapped;
    }
    return *seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jumped();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

/* Ends of waits go to the kernel, whose clock has not jumped; those of the monotonic clock are small numbers. */
static struct timespec end_of(const struct timespec *end) {
    struct timespec real = *end;
    if (real.tv_sec > 1000000000) real.tv_sec -= jumped();
    return real;
}

int sem_timedwait(sem_t *restrict one, const struct timespec *restrict end) {
    static int (*next)(sem_t *, const struct timespec *);
    struct timespec real = end_of(end);
    if (!next) next = dlsym(RTLD_NEXT, "sem_timedwait");
    return next(one, &real);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict one, const struct timespec *restrict end) {
    static int (*next)(pthread_mutex_t *, const struct timespec *);
    struct timespec real = end_of(end);
    if (!next) next = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    return next(one, &real);
}

int pthread_cond_timedwait(pthread_cond_t *restrict one, pthread_mutex_t *restrict held,
                           const struct timespec *restrict end) {
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec real = end_of(end);
    if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return next(one, held, &real);
}
"""


def build_clock(folder: Path) -> Path | None:
    """Compile the library; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-pthread"], check=True)
    return library


class Clock:
    """The file of a clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(8))
        handle = os.open(path, os.O_RDWR)
        self._mapped = mmap.mmap(handle, 8)
        os.close(handle)

    def jump(self, seconds: int) -> None:
        """Go so many seconds before or after the system's time."""
        self._mapped[:] = seconds.to_bytes(8, "little", signed=True)
