/* A librdmacm.so.1 whose rsockets are Unix-domain sockets, to test what is preloaded over it.
 *
 * DOUBLE_COUNTS=FILE   counts calls and bytes there, those of all processes together
 * DOUBLE_REFUSE=ERRNO  connections fail with this error
 * DOUBLE_SILENT=1      connections neither succeed nor fail
 * DOUBLE_NO_DEVICE=1   listeners fail, as without a device
 * DOUBLE_OPTIONS=FILE  has a line for each option that is set: level, name, number
 * DOUBLE_SHORT=SIZE    a call sends no more bytes
 * DOUBLE_LATE=1        a close leaves what was sent to a thread, which an exit waits for, unless the
 *                      rsocket blocks and lingers */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { COUNT = 1 << 16 };

struct counts {
    unsigned long connects, accepts, received, sent, closes, listens;
};

static struct rsocket {
    int used, domain, flags, connecting, silent, error, lingers, shut;
    /* What was sent and has not left yet. */
    char late[64];
    size_t is_late;
    struct sockaddr_storage own, peer;
} all[COUNT];

static struct counts none, *counts = &none;

static void add(unsigned long *count, long by)
{
    __atomic_fetch_add(count, by, __ATOMIC_SEQ_CST);
}

/* Held where descriptors are made or closed, so that a fork finds in the table what there is. */
static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER;

static void prepare(void)
{
    pthread_mutex_lock(&changes);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&changes);
}

/* A child has no rsockets: as the real library, whose threads it lacks. */
static void in_child(void)
{
    for (int fd = 0; fd < COUNT; fd++) {
        /* A look at what is the program's is no use of it. */
        int value;
        socklen_t size = sizeof value;
        if (fd < 100)
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size);
        if (all[fd].used) {
            if (close(fd))
                abort();
            all[fd].used = 0;
        }
    }
    pthread_mutex_unlock(&changes);
}

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("DOUBLE_COUNTS");
    if (file) {
        int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || ftruncate(fd, sizeof none))
            abort();
        counts = mmap(0, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    pthread_atfork(prepare, in_parent, in_child);
}

static struct rsocket *find(int fd)
{
    if (fd >= 0 && fd < COUNT && all[fd].used)
        return &all[fd];
    errno = EBADF;
    return 0;
}

static unsigned short *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                          : &((struct sockaddr_in *)address)->sin_port;
}

static socklen_t size_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static int is_any(struct sockaddr_storage *address)
{
    static const unsigned char zero[16];
    return address->ss_family == AF_INET6
               ? !memcmp(&((struct sockaddr_in6 *)address)->sin6_addr, zero, 16)
               : !((struct sockaddr_in *)address)->sin_addr.s_addr;
}

static socklen_t name(struct sockaddr_un *to, struct sockaddr_storage *of, int any)
{
    char ip[64] = "any";
    if (!any && !is_any(of))
        inet_ntop(of->ss_family,
                  of->ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)of)->sin6_addr
                                            : (void *)&((struct sockaddr_in *)of)->sin_addr,
                  ip, sizeof ip);
    to->sun_family = AF_UNIX;
    int length = snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "double/%s/%d", ip,
                          ntohs(*port_of(of)));
    to->sun_path[0] = 0;
    return sizeof(sa_family_t) + 1 + length;
}

static int make(int fd, int domain)
{
    if (fd >= COUNT)
        abort();
    if (fd >= 0) {
        memset(&all[fd], 0, sizeof all[fd]);
        all[fd].used = 1;
        all[fd].domain = domain;
        all[fd].own.ss_family = domain;
    }
    return fd;
}

/* What closes have left behind. */
static struct {
    int fd;
    char bytes[64];
    size_t count;
} behind[16];
static int is_behind;

static void leave(int fd, const char *bytes, size_t count)
{
    if (count && send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)count)
        abort();
}

/* At the end of the process, peers get what was sent, and the end. */
static void end(void)
{
    for (int fd = 0; fd < COUNT; fd++)
        if (all[fd].used) {
            leave(fd, all[fd].late, all[fd].is_late);
            shutdown(fd, SHUT_RDWR);
        }
    while (is_behind) {
        is_behind--;
        leave(behind[is_behind].fd, behind[is_behind].bytes, behind[is_behind].count);
    }
}

int rsocket(int domain, int type, int protocol)
{
    static int is_registered;
    pthread_mutex_lock(&changes);
    if (!is_registered)
        atexit(end);
    is_registered = 1;
    int made = make(socket(AF_UNIX, type | SOCK_CLOEXEC, protocol), domain);
    pthread_mutex_unlock(&changes);
    return made;
}

int rbind(int fd, const struct sockaddr *address, socklen_t size)
{
    struct rsocket *rs = find(fd);
    if (!rs)
        return -1;
    memcpy(&rs->own, address, size);
    return 0;
}

int rlisten(int fd, int backlog)
{
    struct rsocket *rs = find(fd);
    struct sockaddr_un at;
    if (!rs)
        return -1;
    if (getenv("DOUBLE_NO_DEVICE")) {
        errno = ENODEV;
        return -1;
    }
    socklen_t size = name(&at, &rs->own, 0);
    if (bind(fd, (void *)&at, size))
        return -1;
    add(&counts->listens, 1);
    return listen(fd, backlog);
}

int rclose(int fd);

int raccept(int fd, struct sockaddr *address, socklen_t *size)
{
    struct rsocket *rs = find(fd), *made;
    struct sockaddr_storage hello[2];
    if (!rs)
        return -1;
    pthread_mutex_lock(&changes);
    int new = make(accept4(fd, 0, 0, SOCK_CLOEXEC), rs->domain);
    pthread_mutex_unlock(&changes);
    if (new < 0)
        return -1;
    made = find(new);
    if (recv(new, hello, sizeof hello, MSG_WAITALL) != sizeof hello) {
        rclose(new);
        errno = ECONNABORTED;
        return -1;
    }
    made->peer = hello[0];
    made->own = hello[1];
    if (address) {
        socklen_t full = size_of(&made->peer);
        memcpy(address, &made->peer, *size < full ? *size : full);
        *size = full;
    }
    add(&counts->accepts, 1);
    return new;
}

static int try(int fd, struct rsocket *rs)
{
    static int ports;
    struct sockaddr_un at;
    socklen_t size;
    const char *refuse = getenv("DOUBLE_REFUSE");
    if (refuse)
        return atoi(refuse);
    if (!*port_of(&rs->own)) {
        /* Unique among the processes of a test, which is all that is asked. */
        int port = 20000 + (getpid() * 16 + __atomic_fetch_add(&ports, 1, __ATOMIC_SEQ_CST)) % 40000;
        if (is_any(&rs->own))
            rs->own = rs->peer;
        *port_of(&rs->own) = htons(port);
    }
    size = name(&at, &rs->peer, 0);
    if (connect(fd, (void *)&at, size)) {
        size = name(&at, &rs->peer, 1);
        if (connect(fd, (void *)&at, size))
            return errno;
    }
    struct sockaddr_storage hello[2] = {rs->own, rs->peer};
    if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        return errno;
    add(&counts->connects, 1);
    return 0;
}

int rconnect(int fd, const struct sockaddr *address, socklen_t size)
{
    struct rsocket *rs = find(fd);
    if (!rs)
        return -1;
    memcpy(&rs->peer, address, size);
    rs->silent = getenv("DOUBLE_SILENT") != 0;
    if (!rs->silent) {
        fcntl(fd, F_SETFL, 0);
        rs->error = try(fd, rs);
        fcntl(fd, F_SETFL, rs->flags);
    }
    if (rs->flags & O_NONBLOCK) {
        rs->connecting = 1;
        errno = EINPROGRESS;
        return -1;
    }
    errno = rs->error;
    return rs->error ? -1 : 0;
}

/* A listener refuses connections from then on. */
int rshutdown(int fd, int how)
{
    struct rsocket *rs = find(fd);
    if (!rs)
        return -1;
    rs->shut = 1;
    return shutdown(fd, how);
}

int rclose(int fd)
{
    struct rsocket *rs = find(fd);
    if (!rs)
        return -1;
    pthread_mutex_lock(&changes);
    if (rs->is_late && (rs->flags & O_NONBLOCK || !rs->lingers)) {
        if (is_behind == 16)
            abort();
        behind[is_behind].fd = dup(fd);
        memcpy(behind[is_behind].bytes, rs->late, rs->is_late);
        behind[is_behind++].count = rs->is_late;
    } else {
        leave(fd, rs->late, rs->is_late);
    }
    rs->used = 0;
    int result = close(fd);
    pthread_mutex_unlock(&changes);
    add(&counts->closes, 1);
    return result;
}

static ssize_t received(ssize_t count, int flags)
{
    if (count > 0 && !(flags & MSG_PEEK))
        add(&counts->received, count);
    return count;
}

static ssize_t sent(ssize_t count)
{
    if (count > 0)
        add(&counts->sent, count);
    return count;
}

ssize_t rrecv(int fd, void *to, size_t size, int flags)
{
    return find(fd) ? received(recv(fd, to, size, flags), flags) : -1;
}

ssize_t rsend(int fd, const void *from, size_t size, int flags)
{
    struct rsocket *rs = find(fd);
    const char *most = getenv("DOUBLE_SHORT");
    if (most && (size_t)atoi(most) < size)
        size = atoi(most);
    if (rs && getenv("DOUBLE_LATE")) {
        if (rs->is_late + size > sizeof rs->late)
            abort();
        memcpy(rs->late + rs->is_late, from, size);
        rs->is_late += size;
        return sent(size);
    }
    return rs ? sent(send(fd, from, size, flags | MSG_NOSIGNAL)) : -1;
}

ssize_t rwritev(int fd, const struct iovec *from, int count)
{
    struct msghdr message = {.msg_iov = (void *)from, .msg_iovlen = count};
    return find(fd) ? sent(sendmsg(fd, &message, MSG_NOSIGNAL)) : -1;
}

int rpoll(struct pollfd *fds, nfds_t count, int timeout)
{
    struct pollfd *copy = malloc((count + 1) * sizeof *copy);
    int found = 0;
    for (nfds_t i = 0; i < count; i++) {
        struct rsocket *rs = find(fds[i].fd);
        copy[i] = fds[i];
        copy[i].revents = 0;
        fds[i].revents = 0;
        int listens = 0;
        socklen_t size = sizeof listens;
        if (rs && rs->shut && !getsockopt(fds[i].fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && listens)
            copy[i].fd = -1;
        if (rs && rs->connecting) {
            copy[i].fd = -1;
            if (!rs->silent && fds[i].events & POLLOUT)
                fds[i].revents = POLLOUT;
            if (fds[i].revents)
                timeout = 0;
            if (fds[i].revents && !rs->error)
                rs->connecting = 0;
        }
    }
    int result = poll(copy, count, timeout);
    for (nfds_t i = 0; i < count && result >= 0; i++) {
        fds[i].revents |= copy[i].revents;
        found += fds[i].revents != 0;
    }
    free(copy);
    return result < 0 ? result : found;
}

static int give(struct sockaddr_storage *from, struct sockaddr *to, socklen_t *size)
{
    socklen_t full = size_of(from);
    memcpy(to, from, *size < full ? *size : full);
    *size = full;
    return 0;
}

int rgetpeername(int fd, struct sockaddr *to, socklen_t *size)
{
    struct rsocket *rs = find(fd);
    return rs ? give(&rs->peer, to, size) : -1;
}

int rgetsockname(int fd, struct sockaddr *to, socklen_t *size)
{
    struct rsocket *rs = find(fd);
    return rs ? give(&rs->own, to, size) : -1;
}

int rsetsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    struct rsocket *rs = find(fd);
    const char *options = getenv("DOUBLE_OPTIONS");
    if (rs && options && size >= sizeof(int)) {
        int file = open(options, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        dprintf(file, "%d %d %d\n", level, name, *(const int *)value);
        close(file);
    }
    if (rs && level == SOL_SOCKET && name == SO_LINGER && size >= sizeof(struct linger))
        rs->lingers = ((const struct linger *)value)->l_onoff && ((const struct linger *)value)->l_linger;
    return rs ? 0 : -1;
}

int rgetsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    struct rsocket *rs = find(fd);
    (void)size;
    if (!rs || level != SOL_SOCKET || name != SO_ERROR) {
        errno = rs ? ENOTSUP : EBADF;
        return -1;
    }
    *(int *)value = rs->error;
    rs->error = 0;
    return 0;
}

int rfcntl(int fd, int command, ...)
{
    struct rsocket *rs = find(fd);
    va_list arguments;
    va_start(arguments, command);
    int argument = va_arg(arguments, int);
    va_end(arguments);
    if (!rs || command != F_SETFL) {
        errno = EINVAL;
        return -1;
    }
    rs->flags = argument;
    return fcntl(fd, F_SETFL, argument);
}
