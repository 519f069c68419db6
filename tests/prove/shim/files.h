/* Part of shim.c: bytes on their way to files. */

/* `at` < 0: where the file's own position is. */
static ssize_t write_file(int fd, const struct iovec *parts, int count, off_t at) {
    ssize_t size;
    int saved;
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
