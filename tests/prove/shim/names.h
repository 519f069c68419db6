/* Part of shim.c: which files are ours, and what becomes of their names. */

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
