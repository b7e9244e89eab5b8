/* Descriptors that are closed behind the back of the preloaded library, and calls by number. */
#include "case.h"
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* As a program that calls no C library at all. */
static void close_unseen(int fd)
{
    long result;
#if defined(__x86_64__)
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_close), "D"((long)fd)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_close;
    register long x0 __asm__("x0") = fd;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8) : "memory");
    result = x0;
#endif
    CHECK(result == 0);
}

static void a_close_by_number_is_a_close(void)
{
    int a, b, next;
    connection(&a, &b);
    say(b, "ok");
    CHECK(!syscall(SYS_close, b));
    FAILS(syscall(SYS_close, b), EBADF);
    hear(a, "ok");
    hear_end(a);
    /* The number is free, and the next connection has it. */
    next = fcntl(0, F_DUPFD, b);
    CHECK(next == b && !syscall(SYS_close, next));
    CHECK(!close(a));
    connection(&a, &b);
    say(a, "ok");
    hear(b, "ok");
}

static void calls_by_number_are_those_by_name(void)
{
    int at_fd = listener(), a = syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), b, c;
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    struct iovec part = {"part", 4};
    char heard[8];
    CHECK(a >= 0 && !syscall(SYS_connect, a, &at, sizeof at));
    b = syscall(SYS_accept4, at_fd, &peer, &size, SOCK_CLOEXEC);
    CHECK(b >= 0 && size == sizeof peer && peer.sin_family == AF_INET);
    size = sizeof peer;
    CHECK(!syscall(SYS_getpeername, a, &peer, &size) && peer.sin_port == at.sin_port);
    CHECK(syscall(SYS_write, a, "write", 5) == 5 && syscall(SYS_writev, a, &part, 1) == 4);
    CHECK(syscall(SYS_sendto, a, "sendto", 6, 0, 0, 0) == 6);
    hear(b, "writepart");
    CHECK(syscall(SYS_recvfrom, b, heard, 4, 0, 0, 0) == 4 && !memcmp(heard, "send", 4));
    c = syscall(SYS_fcntl, b, F_DUPFD_CLOEXEC, 0);
    CHECK(c >= 0 && syscall(SYS_read, c, heard, 8) == 2 && !memcmp(heard, "to", 2));
    CHECK(!syscall(SYS_close, b));
    CHECK(!syscall(SYS_shutdown, a, SHUT_WR));
    hear_end(c);
}

/* Made before, so that they take none of the numbers that are looked at. */
static int unix_pair[2], expected;

union beside {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

/* Sends a descriptor. */
static void pass(int to, int fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    union beside beside = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside};
    beside.header.cmsg_level = SOL_SOCKET;
    beside.header.cmsg_type = SCM_RIGHTS;
    beside.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&beside.header), &fd, sizeof fd);
    CHECK(sendmsg(to, &message, 0) == 1);
}

/* The descriptor that was sent. */
static int received(int from)
{
    char byte;
    int fd;
    struct iovec part = {&byte, 1};
    union beside beside;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside};
    CHECK(recvmsg(from, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(&beside.header), sizeof fd);
    return fd;
}

static int by_message(void)
{
    pass(unix_pair[0], 0);
    return received(unix_pair[1]);
}

static int by_pipe(void)
{
    int pair[2];
    CHECK(!pipe(pair));
    return pair[0];
}

static int by_pipe2(void)
{
    int pair[2];
    CHECK(!pipe2(pair, O_CLOEXEC));
    return pair[0];
}

static int by_pair(void)
{
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    return pair[0];
}

static int by_mkstemp(void)
{
    char path[] = "/tmp/roce-numbers-XXXXXX";
    int made = mkstemp(path);
    CHECK(!unlink(path));
    return made;
}

static int by_signalfd(void)
{
    sigset_t none;
    sigemptyset(&none);
    return signalfd(-1, &none, 0);
}

static int by_open(void) { return open("/dev/null", O_RDWR); }
static int by_openat(void) { return openat(AT_FDCWD, "/dev/null", O_RDWR); }
static int by_creat(void) { return creat("/dev/null", 0600); }
static int by_dup(void) { return dup(0); }
static int by_fcntl(void) { return fcntl(0, F_DUPFD, 0); }
static int by_eventfd(void) { return eventfd(0, 0); }
static int by_timerfd(void) { return timerfd_create(CLOCK_MONOTONIC, 0); }
static int by_memfd(void) { return memfd_create("numbers", 0); }
static int by_inotify(void) { return inotify_init1(0); }
static int by_epoll(void) { return epoll_create1(0); }
static int by_udp(void) { return socket(AF_INET, SOCK_DGRAM, 0); }
static int by_unix(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static int by_tcp(void) { return socket(AF_INET, SOCK_STREAM, 0); }
static int by_number(void) { return syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0); }

static int by_dup2(void) { return dup2(0, expected); }

/* The peer of what was closed sees the end, and nothing of it is left. */
static void a_number_that_is_given_out_again_is_the_kernels(void)
{
    int (*const ways[])(void) = {by_open,    by_openat,  by_creat,    by_dup,     by_dup2,
                                 by_fcntl,   by_pipe,    by_pipe2,    by_pair,    by_eventfd,
                                 by_timerfd, by_memfd,   by_inotify,  by_epoll,   by_udp,
                                 by_unix,    by_tcp,     by_mkstemp,  by_message, by_signalfd,
                                 by_number};
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair));
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct sockaddr_in name;
        socklen_t size = sizeof name;
        int a, b, made;
        connection(&a, &b);
        /* The lowest number is the next one that the kernel gives. */
        expected = dup(b);
        CHECK(!close(b));
        close_unseen(expected);
        made = ways[i]();
        CHECK(made == expected);
        if (!getpeername(made, (void *)&name, &size) && name.sin_family == AF_INET) {
            fprintf(stderr, "way %u: the number still has a peer\n", i);
            exit(1);
        }
        hear_end(a);
        CHECK(!close(a) && !close(made));
    }
}

/* Accepts a connection, answers, and closes it as libuv does. */
static void serve(int epoll, int at_fd, const char *expected)
{
    struct epoll_event event = {EPOLLIN, {.fd = at_fd}};
    int fd;
    do {
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.fd == at_fd);
        fd = accept4(at_fd, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && errno == EAGAIN);
    CHECK(fd >= 0);
    event.data.fd = fd;
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    do
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
    while (event.data.fd != fd);
    hear(fd, expected);
    say(fd, "heard");
    CHECK(!syscall(SYS_close, fd));
}

static void by_rdma_client(void)
{
    int fd = client();
    say(fd, "by rdma");
    hear(fd, "heard");
    hear_end(fd);
}

static void by_tcp_client(void)
{
    int fd;
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(atoi(arguments[2]));
    fd = client();
    say(fd, "by tcp");
    hear(fd, "heard");
    hear_end(fd);
}

static void a_server_closes_by_number(void)
{
    int at_fd = listener(), epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.fd = at_fd}};
    CHECK(!fcntl(at_fd, F_SETFL, O_NONBLOCK));
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, at_fd, &event));
    for (int i = 0; i < 4; i++) {
        int is_tcp = i % 2;
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child && is_tcp) {
            /* Without what is preloaded. */
            char port[8];
            snprintf(port, sizeof port, "%d", ntohs(at.sin_port));
            unsetenv("LD_PRELOAD");
            execl("/proc/self/exe", "numbers", "by_tcp", port, (char *)0);
            _exit(1);
        }
        if (!child) {
            by_rdma_client();
            exit(0);
        }
        serve(epoll, at_fd, is_tcp ? "by tcp" : "by rdma");
        ended(child);
    }
}

/* A relayed connection of a user: its address is that of the peer. Another user makes one up. */
static void a_name_that_another_user_made_up_is_no_peer(void)
{
    struct {
        sa_family_t family;
        char path[108];
    } forged = {AF_UNIX, "\0roce-socket01234567\4"};
    struct sockaddr_in peer, own;
    socklen_t size = sizeof forged.family + 1 + 11 + 8 + 1 + 2 * 18;
    int users[] = {0, 1234}, pair[2], status;
    char *address = forged.path + 21;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair));
    for (int i = 0; i < 2; i++) {
        /* ::ffff:10.0.0.1 and a port, twice. */
        memcpy(address + 18 * i, "\0\0\0\0\0\0\0\0\0\0\377\377\12\0\0\1\0\120", 18);
    }
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            CHECK(!setresuid(users[i], users[i], users[i]));
            CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
            forged.path[12] = '0' + i;
            CHECK(!bind(pair[0], (void *)&forged, size));
            pass(unix_pair[0], pair[0]);
            pass(unix_pair[0], pair[1]);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        pair[0] = received(unix_pair[1]);
        pair[1] = received(unix_pair[1]);
        socklen_t length = sizeof peer;
        CHECK(!getpeername(pair[0], (void *)&peer, &length));
        CHECK(peer.sin_family == (users[i] ? AF_UNIX : AF_INET));
        length = sizeof own;
        CHECK(!getsockname(pair[0], (void *)&own, &length));
        CHECK(own.sin_family == (users[i] ? AF_UNIX : AF_INET));
        CHECK(users[i] || peer.sin_addr.s_addr == htonl(0x0a000001));
        CHECK(!close(pair[0]) && !close(pair[1]));
    }
}

CASES({"a_close_by_number_is_a_close", a_close_by_number_is_a_close},
      {"calls_by_number_are_those_by_name", calls_by_number_are_those_by_name},
      {"a_number_that_is_given_out_again_is_the_kernels",
       a_number_that_is_given_out_again_is_the_kernels},
      {"a_server_closes_by_number", a_server_closes_by_number},
      {"a_name_that_another_user_made_up_is_no_peer", a_name_that_another_user_made_up_is_no_peer},
      {"by_tcp", by_tcp_client})
