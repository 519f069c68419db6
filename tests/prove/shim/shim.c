/* A library for LD_PRELOAD that stands between a server and its disk: it records what was written,
 * synced and sent, and it can make syncs fail or crawl.
 *
 *   SHIM_DIR        only files below this directory (canonical path) matter; required
 *   SHIM_TRACE      record to this file; the format is read by crash.py
 *   SHIM_FAIL_SYNC  N: the Nth fsync or fdatasync of a file fails with EIO, later ones succeed
 *   SHIM_SLOW_SYNC  N: each fsync or fdatasync takes N milliseconds longer
 *   SHIM_SWITCH     faults (not the trace) work, and count, only while this file exists
 *   SHIM_NOTES      append a line here for each fault: what, which, CLOCK_MONOTONIC in ns, file
 *
 * The real calls are made as bare system calls, so nothing here can call itself. SQLite's -shm file
 * is mapped, never written, and rebuilt after a crash: it is left alone.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN = 1, WRITE, TRUNCATE, SYNC, UNLINK, RENAME, SEND, FAILED_SYNC };
enum { CREATED = 1, DIRECTORY = 2 };
enum { FDS = 1 << 16, NAME_SIZE = PATH_MAX };

struct record {
    uint32_t size;   /* of what follows the record */
    uint8_t kind;
    uint8_t flags;
    uint16_t unused;
    uint32_t handle; /* of an open file; for SEND the peer's port */
    uint32_t unused2;
    uint64_t offset; /* where it was written; for TRUNCATE the new size */
    uint64_t upto;   /* for SYNC: how many records there were when it began */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[NAME_SIZE];
static size_t dir_size;
static int trace_fd = -1, notes_fd = -1;
static const char *switch_path;
static long fail_sync, slow_sync_ms;
static long syncs;                  /* counted while the faults are on */
static uint64_t records;            /* written to the trace */
static uint32_t handles;            /* given out so far; 0 means "not ours" */
static uint32_t handle_of[FDS];
static char is_directory[FDS];

static long number(const char *name, long fallback) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : fallback;
}

static int open_for_append(const char *name) {
    const char *path = getenv(name);
    if (!path || !*path) return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path,
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void begin(void) {
    const char *below = getenv("SHIM_DIR");
    if (!below || strlen(below) >= sizeof dir) return;
    trace_fd = open_for_append("SHIM_TRACE");
    notes_fd = open_for_append("SHIM_NOTES");
    switch_path = getenv("SHIM_SWITCH");
    fail_sync = number("SHIM_FAIL_SYNC", 0);
    slow_sync_ms = number("SHIM_SLOW_SYNC", 0);
    strcpy(dir, below);
    dir_size = strlen(dir); /* last: from here on the wrappers are awake */
}

/* -- the trace ------------------------------------------------------------------------------- */

/* All of these are called with the lock held, so that the trace has the order of the calls. */
static void record(struct record head, const struct iovec *parts, int count) {
    struct iovec all[IOV_MAX];
    if (trace_fd < 0) return;
    if (count > IOV_MAX - 1) count = IOV_MAX - 1;
    all[0] = (struct iovec){&head, sizeof head};
    for (int i = 0; i < count; i++) all[i + 1] = parts[i];
    syscall(SYS_writev, trace_fd, all, count + 1);
    records++;
}

static void record_text(struct record head, const char *text, size_t size) {
    struct iovec part = {(void *)text, size};
    head.size = (uint32_t)size;
    record(head, &part, 1);
}

/* The first `size` bytes of the parts: what the system call took of them. */
static void record_parts(struct record head, const struct iovec *parts, int count, size_t size) {
    struct iovec taken[IOV_MAX];
    size_t left = size;
    int used = 0;
    for (; used < count && used < IOV_MAX && left; used++) {
        taken[used] = parts[used];
        if (taken[used].iov_len > left) taken[used].iov_len = left;
        left -= taken[used].iov_len;
    }
    head.size = (uint32_t)(size - left);
    record(head, taken, used);
}

static uint32_t tracked(int fd) {
    return dir_size && fd >= 0 && fd < FDS ? handle_of[fd] : 0;
}

/* -- faults ---------------------------------------------------------------------------------- */

static int faults_on(void) {
    int saved = errno, on;
    if (!switch_path) return 1;
    on = syscall(SYS_faccessat, AT_FDCWD, switch_path, F_OK) == 0;
    errno = saved;
    return on;
}

static void note(const char *what, long which, int fd) {
    char link[64], path[NAME_SIZE], line[NAME_SIZE + 128];
    struct timespec now;
    long size;
    if (notes_fd < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    size = snprintf(line, sizeof line, "%s %ld %lld %s\n", what, which,
                    (long long)now.tv_sec * 1000000000LL + now.tv_nsec, path);
    syscall(SYS_write, notes_fd, line, (size_t)size);
}

static int sync_file(int fd, long call) {
    uint32_t handle = tracked(fd);
    uint64_t before;
    int armed, fails;
    long result;
    if (!handle) return (int)syscall(call, fd);
    /* Only files: SQLite does not look at what syncing a directory returns. */
    armed = (fail_sync || slow_sync_ms) && !is_directory[fd] && faults_on();
    pthread_mutex_lock(&lock);
    before = records;
    fails = armed && ++syncs == fail_sync;
    if (fails) {
        note("sync-eio", syncs, fd);
        record((struct record){.kind = FAILED_SYNC, .handle = handle, .upto = before}, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    if (armed && slow_sync_ms) usleep((useconds_t)slow_sync_ms * 1000);
    if (fails) {
        errno = EIO;
        return -1;
    }
    /* Not under the lock: while a disk works, the server may write and send. */
    result = syscall(call, fd);
    if (result == 0) {
        pthread_mutex_lock(&lock);
        record((struct record){.kind = SYNC, .handle = handle, .upto = before}, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return (int)result;
}

int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

/* One translation unit, so that nothing but the calls we stand in for is visible outside. */
#include "names.h"
#include "files.h"
#include "peers.h"
