/* Connections, and TCP where RDMA does not lead to the peer. */
#include "case.h"

static int nonblocking(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    return fd;
}

static int error_of(int fd)
{
    int error;
    socklen_t size = sizeof error;
    CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
    return error;
}

/* Bytes go to and fro. */
static void talk(int at_fd, int a)
{
    int b = accept(at_fd, 0, 0);
    CHECK(b >= 0);
    CHECK(!fcntl(a, F_SETFL, 0));
    say(a, "hello");
    hear(b, "hello");
    say(b, "back");
    hear(a, "back");
    CHECK(!close(b) && !close(a));
}

static void connects_while_the_program_goes_on(void)
{
    int at_fd = listener(), fd = nonblocking();
    char byte;
    struct pollfd entry = {fd, POLLOUT, 0};
    FAILS(connect(fd, (void *)&at, sizeof at), EINPROGRESS);
    CHECK(poll(&entry, 1, -1) == 1 && entry.revents == POLLOUT);
    CHECK(error_of(fd) == 0);
    FAILS(read(fd, &byte, 1), EAGAIN);
    CHECK(!connect(fd, (void *)&at, sizeof at));
    FAILS(connect(fd, (void *)&at, sizeof at), EISCONN);
    talk(at_fd, fd);
    /* As told by a further call. */
    fd = nonblocking();
    FAILS(connect(fd, (void *)&at, sizeof at), EINPROGRESS);
    while (connect(fd, (void *)&at, sizeof at))
        CHECK(errno == EALREADY);
    FAILS(connect(fd, (void *)&at, sizeof at), EISCONN);
    talk(at_fd, fd);
}

static void wait_by_epoll(int fd)
{
    struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {.u64 = 77}};
    int epoll = epoll_create1(0);
    /* Before it is connected, as nginx does. */
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    FAILS(connect(fd, (void *)&at, sizeof at), EINPROGRESS);
    do
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
    while (event.events & EPOLLHUP && !(event.events & EPOLLERR) && error_of(fd) == 0);
    CHECK(event.data.u64 == 77 && event.events == EPOLLOUT);
    CHECK(!close(epoll));
}

static void epoll_and_select_see_the_end_of_an_attempt(void)
{
    int at_fd = listener(), fd = nonblocking();
    fd_set set;
    wait_by_epoll(fd);
    CHECK(error_of(fd) == 0);
    talk(at_fd, fd);
    fd = nonblocking();
    FAILS(connect(fd, (void *)&at, sizeof at), EINPROGRESS);
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK(select(fd + 1, 0, &set, 0, 0) == 1 && FD_ISSET(fd, &set));
    CHECK(error_of(fd) == 0);
    talk(at_fd, fd);
}

static void a_blocking_connection(void)
{
    int at_fd = listener();
    talk(at_fd, client());
    talk(at_fd, client());
}

static volatile int signals;

static void count(int number)
{
    (void)number;
    signals++;
}

/* Over RDMA, nobody answers. */
static void a_signal_interrupts_a_connection_unless_the_program_restarts_calls(void)
{
    int at_fd = listener(), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    CHECK(!sigaction(SIGALRM, &action, 0) && !setitimer(ITIMER_REAL, &often, 0));
    CHECK(!connect(fd, (void *)&at, sizeof at));
    CHECK(!setitimer(ITIMER_REAL, &never, 0) && signals > 0);
    talk(at_fd, fd);
    CHECK(!close(at_fd));
    /* Another host: the first one is not tried again. */
    at_fd = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    CHECK(!bind(at_fd, (void *)&at, sizeof at) && !listen(at_fd, 1));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    action.sa_flags = 0;
    CHECK(!sigaction(SIGALRM, &action, 0) && !setitimer(ITIMER_REAL, &often, 0));
    FAILS(connect(fd, (void *)&at, sizeof at), EINTR);
    CHECK(!setitimer(ITIMER_REAL, &never, 0));
    /* The attempt goes on. */
    CHECK(!connect(fd, (void *)&at, sizeof at));
    talk(at_fd, fd);
}

static void nobody_listens(void)
{
    int fd = listener(), a = nonblocking();
    struct pollfd entry = {a, POLLOUT, 0};
    CHECK(!close(fd));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(connect(fd, (void *)&at, sizeof at), ECONNREFUSED);
    FAILS(connect(a, (void *)&at, sizeof at), EINPROGRESS);
    CHECK(poll(&entry, 1, -1) == 1 && entry.revents & POLLOUT);
    CHECK(error_of(a) == ECONNREFUSED);
    CHECK(error_of(a) == 0);
}

static void only_rdma(void)
{
    int at_fd = listener(), fd = socket(AF_INET, SOCK_STREAM, 0), a = nonblocking();
    struct pollfd entry = {a, POLLOUT, 0};
    FAILS(connect(fd, (void *)&at, sizeof at), EHOSTUNREACH);
    FAILS(connect(a, (void *)&at, sizeof at), EINPROGRESS);
    CHECK(poll(&entry, 1, -1) == 1 && entry.revents & POLLOUT);
    CHECK(error_of(a) == EHOSTUNREACH);
    CHECK(!close(at_fd));
}

static void epoll_sees_that_only_rdma_failed(void)
{
    int at_fd = listener(), epoll = epoll_create1(0);
    /* In the set before the attempt, or from then on. */
    for (int before = 0; before < 2; before++) {
        int fd = nonblocking();
        struct epoll_event event = {EPOLLIN | EPOLLOUT | EPOLLET, {.u64 = 5}};
        if (before)
            CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
        for (int tries = 0; tries < 2; tries++) {
            FAILS(connect(fd, (void *)&at, sizeof at), EINPROGRESS);
            if (!before && !tries)
                CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
            int error;
            do {
                CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u64 == 5);
                CHECK(event.events == (EPOLLOUT | EPOLLHUP));
                /* The event may be that of the socket before the attempt. */
                error = error_of(fd);
            } while (!error);
            CHECK(error == EHOSTUNREACH);
            CHECK(error_of(fd) == 0);
        }
        event.events = EPOLLOUT;
        CHECK(!epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event));
        CHECK(!epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0));
        CHECK(!close(fd));
    }
    CHECK(!close(at_fd));
}

/* A listener takes both kinds, in the order in which they come. */
static void tcp_and_rdma_at_one_port(void)
{
    int at_fd = listener(), fd = socket(AF_INET, SOCK_STREAM, 0), b;
    struct sockaddr_in peer, own;
    socklen_t size = sizeof peer;
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        /* Without what is preloaded. */
        char port[8];
        snprintf(port, sizeof port, "%d", ntohs(at.sin_port));
        unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "connects", "by_tcp", port, (char *)0);
        _exit(1);
    }
    b = accept(at_fd, (void *)&peer, &size);
    CHECK(b >= 0);
    hear(b, "by tcp");
    say(b, "heard");
    hear_end(b);
    ended(child);
    CHECK(!connect(fd, (void *)&at, sizeof at));
    CHECK(!close(b));
    b = accept(at_fd, (void *)&peer, &size);
    CHECK(!getsockname(fd, (void *)&own, &size));
    CHECK(b >= 0 && peer.sin_port == own.sin_port);
}

static void by_tcp(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(atoi(arguments[2]));
    CHECK(!connect(fd, (void *)&at, sizeof at));
    say(fd, "by tcp");
    hear(fd, "heard");
}

CASES({"connects_while_the_program_goes_on", connects_while_the_program_goes_on},
      {"epoll_and_select_see_the_end_of_an_attempt", epoll_and_select_see_the_end_of_an_attempt},
      {"a_blocking_connection", a_blocking_connection}, {"nobody_listens", nobody_listens},
      {"a_signal_interrupts_a_connection_unless_the_program_restarts_calls",
       a_signal_interrupts_a_connection_unless_the_program_restarts_calls},
      {"only_rdma", only_rdma},
      {"epoll_sees_that_only_rdma_failed", epoll_sees_that_only_rdma_failed},
      {"tcp_and_rdma_at_one_port", tcp_and_rdma_at_one_port},
      {"by_tcp", by_tcp})
