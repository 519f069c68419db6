/* A library for LD_PRELOAD that stands between a server and its disk: it records what was written,
 * synced and sent, and it can make syncs fail or crawl and writes run out of space.
 *
 *   SHIM_DIR        only files below this directory (canonical path) matter; required
 *   SHIM_TRACE      record to this file; the format is read by trace.py
 *   SHIM_FAIL_SYNC  N: the Nth fsync or fdatasync of a file fails with EIO, later ones succeed
 *   SHIM_SLOW_SYNC  N: each fsync or fdatasync takes N milliseconds longer
 *   SHIM_NOSPC_AT   N: the Nth write fails with ENOSPC ...
 *   SHIM_NOSPC_FOR  ... and so do the next ones, this many in all (default 1; 0: all that follow)
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
static long fail_sync, slow_sync_ms, nospc_at, nospc_for;
static long syncs, writes;          /* counted while the faults are on */
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
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void begin(void) {
    const char *below = getenv("SHIM_DIR");
    if (!below || strlen(below) >= sizeof dir) return;
    trace_fd = open_for_append("SHIM_TRACE");
    notes_fd = open_for_append("SHIM_NOTES");
    switch_path = getenv("SHIM_SWITCH");
    fail_sync = number("SHIM_FAIL_SYNC", 0);
    slow_sync_ms = number("SHIM_SLOW_SYNC", 0);
    nospc_at = number("SHIM_NOSPC_AT", 0);
    nospc_for = number("SHIM_NOSPC_FOR", 1);
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

/* Whether this write must find the disk full. */
static int no_space(int fd) {
    int full = 0;
    if (!nospc_at || !tracked(fd) || is_directory[fd] || !faults_on()) return 0;
    pthread_mutex_lock(&lock);
    writes++;
    if (writes >= nospc_at && (nospc_for == 0 || writes < nospc_at + nospc_for)) {
        note("nospc", writes, fd);
        full = 1;
    }
    pthread_mutex_unlock(&lock);
    if (full) errno = ENOSPC;
    return full;
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

/* -- names ----------------------------------------------------------------------------------- */

/* The part of a canonical path below the directory ("" for itself), or NULL. */
static const char *below(const char *path) {
    size_t size = strlen(path);
    if (!dir_size || strncmp(path, dir, dir_size)) return NULL;
    if (path[dir_size] == 0) return path + dir_size;
    if (path[dir_size] != '/') return NULL;
    if (size > 4 && !strcmp(path + size - 4, "-shm")) return NULL;
    return path + dir_size + 1;
}

/* Make a path absolute by text alone: the server is given a canonical directory. */
static const char *below_at(int at, const char *path, char *full) {
    char link[64];
    long size;
    if (path[0] == '/') return below(path);
    if (at == AT_FDCWD) {
        size = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", full, NAME_SIZE - 1);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        size = syscall(SYS_readlinkat, AT_FDCWD, link, full, NAME_SIZE - 1);
    }
    if (size < 0 || (size_t)size + strlen(path) + 2 > NAME_SIZE) return NULL;
    full[size] = '/';
    strcpy(full + size + 1, path);
    return below(full);
}

static void opened(int fd, int created) {
    char link[64], path[NAME_SIZE];
    const char *name;
    struct stat about;
    struct record head = {.kind = OPEN, .flags = created ? CREATED : 0};
    long size;
    if (fd >= FDS) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (size <= 0) return;
    path[size] = 0;
    name = below(path);
    if (!name || fstat(fd, &about)) return;
    is_directory[fd] = S_ISDIR(about.st_mode);
    if (is_directory[fd]) head.flags |= DIRECTORY;
    handle_of[fd] = head.handle = ++handles;
    record_text(head, name, strlen(name));
}

static int open_file(int at, const char *path, int flags, mode_t mode) {
    int created, fd, saved;
    if (!dir_size) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&lock);
    saved = errno;
    created = flags & O_CREAT && syscall(SYS_faccessat, at, path, F_OK) != 0;
    errno = saved;
    fd = (int)syscall(SYS_openat, at, path, flags, mode);
    saved = errno;
    if (fd >= 0) {
        if (fd < FDS) handle_of[fd] = 0;
        opened(fd, created);
        if (tracked(fd) && flags & O_TRUNC)
            record((struct record){.kind = TRUNCATE, .handle = handle_of[fd]}, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(rest, unsigned int) : 0;
}

#define OPENS(name)                                                   \
    int name(const char *path, int flags, ...) {                      \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        mode_t mode = mode_of(flags, rest);                           \
        va_end(rest);                                                 \
        return open_file(AT_FDCWD, path, flags, mode);                \
    }
#define OPENS_AT(name)                                                \
    int name(int at, const char *path, int flags, ...) {              \
        va_list rest;                                                 \
        va_start(rest, flags);                                        \
        mode_t mode = mode_of(flags, rest);                           \
        va_end(rest);                                                 \
        return open_file(at, path, flags, mode);                      \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
int __open_2(const char *path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
int creat(const char *path, mode_t mode) {
    return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int fd) {
    if (dir_size && fd >= 0 && fd < FDS && handle_of[fd]) {
        pthread_mutex_lock(&lock);
        handle_of[fd] = 0;
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(SYS_close, fd);
}

int unlinkat(int at, const char *path, int flags) {
    char full[NAME_SIZE];
    const char *name = dir_size ? below_at(at, path, full) : NULL;
    int result;
    if (!name) return (int)syscall(SYS_unlinkat, at, path, flags);
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_unlinkat, at, path, flags);
    if (result == 0) record_text((struct record){.kind = UNLINK}, name, strlen(name));
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned int flags) {
    char from_full[NAME_SIZE], to_full[NAME_SIZE], both[2 * NAME_SIZE];
    const char *old = dir_size ? below_at(from_at, from, from_full) : NULL;
    const char *new = dir_size ? below_at(to_at, to, to_full) : NULL;
    int result;
    size_t size;
    if (!old || !new) return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    size = strlen(old) + 1;
    memcpy(both, old, size);
    strcpy(both + size, new);
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    if (result == 0) record_text((struct record){.kind = RENAME}, both, size + strlen(new));
    pthread_mutex_unlock(&lock);
    return result;
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
    return renameat2(from_at, from, to_at, to, 0);
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* -- bytes to files -------------------------------------------------------------------------- */

/* `at` < 0: where the file's own position is. */
static ssize_t write_file(int fd, const struct iovec *parts, int count, off_t at) {
    ssize_t size;
    int saved;
    if (no_space(fd)) return -1;
    if (trace_fd < 0 && at < 0) return syscall(SYS_writev, fd, parts, count);
    if (trace_fd < 0) return syscall(SYS_pwritev, fd, parts, count, at, 0);
    pthread_mutex_lock(&lock);
    if (at < 0) {
        size = syscall(SYS_writev, fd, parts, count);
        saved = errno;
        /* Asked afterwards, because with O_APPEND the position before says nothing. */
        if (size > 0) at = syscall(SYS_lseek, fd, 0, SEEK_CUR) - size;
    } else {
        size = syscall(SYS_pwritev, fd, parts, count, at, 0);
        saved = errno;
    }
    if (size > 0 && at >= 0) {
        struct record head = {.kind = WRITE, .handle = handle_of[fd], .offset = (uint64_t)at};
        record_parts(head, parts, count, (size_t)size);
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return size;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    struct iovec part = {(void *)data, size};
    return tracked(fd) ? write_file(fd, &part, 1, at) : syscall(SYS_pwrite64, fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return pwrite64(fd, data, size, at);
}

#define WRITES_PARTS(name)                                                                   \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t at) {      \
        return tracked(fd) ? write_file(fd, parts, count, at)                                  \
                           : syscall(SYS_pwritev, fd, parts, count, at, 0);                    \
    }
WRITES_PARTS(pwritev)
WRITES_PARTS(pwritev64)

/* `at` -1 means the file's position, and the flags are about waiting, not about content. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    return tracked(fd) ? write_file(fd, parts, count, at)
                       : syscall(SYS_pwritev2, fd, parts, count, at, 0, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) {
    return pwritev2(fd, parts, count, at, flags);
}

static void record_size(int fd, off64_t size) {
    record((struct record){.kind = TRUNCATE, .handle = handle_of[fd], .offset = (uint64_t)size},
           NULL, 0);
}

int ftruncate64(int fd, off64_t size) {
    int result;
    if (!tracked(fd)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0) record_size(fd, size);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fallocate64(int fd, int mode, off64_t at, off64_t size) {
    struct stat about;
    int result;
    if (!tracked(fd)) return (int)syscall(SYS_fallocate, fd, mode, at, size);
    if (no_space(fd)) return -1;
    pthread_mutex_lock(&lock);
    result = (int)syscall(SYS_fallocate, fd, mode, at, size);
    /* What it added reads as zeros, as after a truncation to a larger size. */
    if (result == 0 && fstat(fd, &about) == 0) record_size(fd, about.st_size);
    pthread_mutex_unlock(&lock);
    return result;
}

int fallocate(int fd, int mode, off_t at, off_t size) { return fallocate64(fd, mode, at, size); }

int posix_fallocate64(int fd, off64_t at, off64_t size) {
    return fallocate64(fd, 0, at, size) ? errno : 0;
}

int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }

/* -- bytes to peers -------------------------------------------------------------------------- */

/* The peer's TCP port, or 0 when the descriptor is no connection (or nobody records). */
static uint32_t peer_port(int fd) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    int saved = errno;
    uint32_t port = 0;
    if (!dir_size || trace_fd < 0) return 0;
    if (syscall(SYS_getpeername, fd, &peer, &size) == 0) {
        if (peer.ss_family == AF_INET) port = ntohs(((struct sockaddr_in *)&peer)->sin_port);
        if (peer.ss_family == AF_INET6) port = ntohs(((struct sockaddr_in6 *)&peer)->sin6_port);
    }
    errno = saved;
    return port;
}

static ssize_t send_message(int fd, const struct msghdr *message, int flags, uint32_t port) {
    ssize_t size;
    int saved;
    pthread_mutex_lock(&lock);
    size = syscall(SYS_sendmsg, fd, message, flags);
    saved = errno;
    if (size > 0)
        record_parts((struct record){.kind = SEND, .handle = port}, message->msg_iov,
                     (int)message->msg_iovlen, (size_t)size);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return size;
}

static ssize_t send_parts(int fd, const struct iovec *parts, int count, int flags, uint32_t port) {
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    return send_message(fd, &message, flags, port);
}

ssize_t write(int fd, const void *data, size_t size) {
    struct iovec part = {(void *)data, size};
    uint32_t port;
    if (tracked(fd)) return write_file(fd, &part, 1, -1);
    port = peer_port(fd);
    /* Not MSG_NOSIGNAL: a write to a closed peer must end as it would without us. */
    return port ? send_parts(fd, &part, 1, 0, port) : syscall(SYS_write, fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    uint32_t port;
    if (tracked(fd)) return write_file(fd, parts, count, -1);
    port = peer_port(fd);
    return port ? send_parts(fd, parts, count, 0, port) : syscall(SYS_writev, fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    struct iovec part = {(void *)data, size};
    uint32_t port = peer_port(fd);
    return port ? send_parts(fd, &part, 1, flags, port)
                : syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
               socklen_t to_size) {
    if (!to) return send(fd, data, size, flags);
    return syscall(SYS_sendto, fd, data, size, flags, to, to_size);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    uint32_t port = peer_port(fd);
    return port ? send_message(fd, message, flags, port)
                : syscall(SYS_sendmsg, fd, message, flags);
}
