/* Part of shim.c: bytes on their way to peers. What was sent is what was promised. */

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
