/* A disk that fails when told: preloaded into the processes of a test (see store_faults.py).

Every write and sync of a file named data.mdb is a call with a number, counted over all processes
that share the control file. `times` calls fail, one of every `every` from `first` on, with `error`,
and do nothing; an error of -9 is a kill -9 of the process once it has written. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    _Atomic int64_t calls; /* so far, of the chosen kinds */
    _Atomic int64_t failed;
    int64_t first; /* 0: none */
    int64_t times;
    int64_t error;
    int64_t kinds; /* bits */
    int64_t beyond; /* writes that end at or before this offset are not counted; negative: those
                       that end behind minus it */
    int64_t every; /* not 0: one of every so many calls fails, `times` of them in all */
};
enum { WRITE = 1, SYNC = 2, TRUNCATE = 4 };

static struct control *shared;

__attribute__((constructor)) static void open_control(void) {
    const char *path = getenv("EXUVIA_TEST_FAULTS");
    if (!path) return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) shared = map;
    close(file);
}

static int is_data(int file) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 8) return 0;
    path[length] = 0;
    return strcmp(path + length - 8, "data.mdb") == 0;
}

static int is_elsewhere(int64_t end) {
    int64_t beyond = shared->beyond;
    return beyond >= 0 ? end <= beyond : end > -beyond;
}

static int fails(int file, int kind, int64_t end) {
    int kept = errno;
    struct control *c = shared;
    if (!c || !(c->kinds & kind) || (end >= 0 && is_elsewhere(end)) || !is_data(file)) {
        errno = kept;
        return 0;
    }
    errno = kept;
    int64_t number = atomic_fetch_add(&c->calls, 1) + 1;
    if (!c->first || number < c->first) return 0;
    int64_t every = c->every ? c->every : 1, behind = number - c->first;
    if (behind % every || behind / every >= c->times) return 0;
    atomic_fetch_add(&c->failed, 1);
    errno = (int)c->error;
    return 1;
}

/* Of a write: what `real` gives; -1 where it failed; nothing where the process is to die of it. */
#define OUTCOME(failed, real) (!(failed) ? (real) : shared->error >= 0 ? -1 : ((real), die()))

static ssize_t die(void) {
    kill(getpid(), SIGKILL);
    return -1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
    REAL(pwrite);
    return OUTCOME(fails(file, WRITE, at + (int64_t)size), real(file, bytes, size, at));
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    REAL(pwrite64);
    return OUTCOME(fails(file, WRITE, at + (int64_t)size), real(file, bytes, size, at));
}

ssize_t write(int file, const void *bytes, size_t size) {
    REAL(write);
    if (file <= 2) return real(file, bytes, size);
    int64_t end = lseek(file, 0, SEEK_CUR) + (int64_t)size;
    return OUTCOME(fails(file, WRITE, end), real(file, bytes, size));
}

static int64_t sum(const struct iovec *parts, int count) {
    int64_t total = 0;
    for (int n = 0; n < count; n++) total += (int64_t)parts[n].iov_len;
    return total;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev);
    if (file <= 2) return real(file, parts, count);
    int64_t end = lseek(file, 0, SEEK_CUR) + sum(parts, count);
    return OUTCOME(fails(file, WRITE, end), real(file, parts, count));
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
    REAL(pwritev);
    return OUTCOME(fails(file, WRITE, at + sum(parts, count)), real(file, parts, count, at));
}

int fsync(int file) {
    REAL(fsync);
    return fails(file, SYNC, -1) ? -1 : real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    return fails(file, SYNC, -1) ? -1 : real(file);
}

/* While the file may not grow the disk says that it has no room. */

static int is_full(void) {
    return shared && shared->first && shared->error == ENOSPC && shared->beyond > 0;
}

int statvfs(const char *path, struct statvfs *about) {
    REAL(statvfs);
    int result = real(path, about);
    if (result == 0 && is_full()) about->f_bavail = about->f_bfree = 0;
    return result;
}

int statvfs64(const char *path, struct statvfs64 *about) {
    REAL(statvfs64);
    int result = real(path, about);
    if (result == 0 && is_full()) about->f_bavail = about->f_bfree = 0;
    return result;
}

int fallocate64(int file, int mode, off64_t at, off64_t size) {
    REAL(fallocate64);
    if (!is_full() || !is_data(file)) return real(file, mode, at, size);
    errno = ENOSPC;
    return -1;
}

int ftruncate(int file, off_t size) {
    REAL(ftruncate);
    return fails(file, TRUNCATE, -1) ? -1 : real(file, size);
}

int ftruncate64(int file, off64_t size) {
    REAL(ftruncate64);
    return fails(file, TRUNCATE, -1) ? -1 : real(file, size);
}
