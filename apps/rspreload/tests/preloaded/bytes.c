/* Bytes, descriptors and options. */
#include "case.h"

static void moves_bytes_by_every_call(void)
{
    int a, b, waiting;
    char to[16] = "", more[16] = "", *volatile nowhere = 0;
    struct iovec out[] = {{"ab", 2}, {"", 0}, {"cdef", 4}};
    struct iovec in[] = {{to, 3}, {more, 3}};
    struct sockaddr_in from;
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 3};
    struct mmsghdr two[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    socklen_t size = sizeof from;
    connection(&a, &b);
    CHECK(writev(a, out, 3) == 6);
    CHECK(readv(b, in, 2) == 6);
    CHECK(!memcmp(to, "abc", 3) && !memcmp(more, "def", 3));
    CHECK(send(a, "12345", 5, MSG_NOSIGNAL | MSG_MORE) == 5);
    CHECK(!ioctl(b, FIONREAD, &waiting) && waiting == 5);
    CHECK(recv(b, to, 3, MSG_PEEK) == 3 && !memcmp(to, "123", 3));
    CHECK(recvfrom(b, to, 16, 0, (void *)&from, &size) == 5 && !size);
    FAILS(recv(b, to, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(sendto(a, "67", 2, 0, 0, 0) == 2);
    CHECK(sendmsg(a, &message, 0) == 6);
    message.msg_iov = in;
    message.msg_iovlen = 2;
    CHECK(recvmsg(b, &message, MSG_WAITALL) == 6);
    CHECK(!memcmp(to, "67a", 3) && !memcmp(more, "bcd", 3));
    CHECK(sendmmsg(a, two, 2, 0) == 2 && two[0].msg_len == 6 && two[1].msg_len == 6);
    CHECK(recv(b, to, 14, MSG_WAITALL) == 14 && !memcmp(to, "efabcdefabcdef", 14));
    FAILS(recv(b, to, 1, MSG_OOB), EINVAL);
    FAILS(pread(b, to, 1, 0), ESPIPE);
    say(a, "gone");
    FAILS(read(b, nowhere, 1), EFAULT);
    FAILS(write(b, nowhere, 1), EFAULT);
    CHECK(recv(b, nowhere, 4, MSG_TRUNC) == 4);
    say(a, "ppp");
    CHECK(preadv2(b, in, 2, -1, 0) == 3);
}

static void closes_each_way(void)
{
    int a, b;
    connection(&a, &b);
    say(a, "last");
    CHECK(!shutdown(a, SHUT_WR));
    hear(b, "last");
    hear_end(b);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(a, "x", 1), EPIPE);
    say(b, "still");
    hear(a, "still");
    CHECK(!close(b));
    hear_end(a);
}

static volatile int signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static void writing_to_a_closed_peer_is_a_broken_pipe(void)
{
    int a, b;
    connection(&a, &b);
    signal(SIGPIPE, count);
    CHECK(!close(b));
    FAILS(send(a, "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(signals == 0);
    FAILS(write(a, "x", 1), EPIPE);
    CHECK(signals == 1);
}

static void copies_of_a_descriptor_share_the_connection(void)
{
    int a, b, c, d, copy;
    connection(&a, &b);
    CHECK(dup2(a, 50) == 50);
    copy = fcntl(a, F_DUPFD_CLOEXEC, 60);
    CHECK(copy >= 60 && fcntl(copy, F_GETFD) == FD_CLOEXEC);
    CHECK(!close(a));
    say(50, "one");
    say(copy, "two");
    hear(b, "onetwo");
    FAILS(read(a, &c, 1), EBADF);
    /* Onto another connection, which ends. */
    connection(&c, &d);
    CHECK(dup3(50, c, O_CLOEXEC) == c);
    hear_end(d);
    say(c, "three");
    hear(b, "three");
    CHECK(!close(50) && !close(copy));
    FAILS(dup2(50, 70), EBADF);
    say(b, "back");
    hear(c, "back");
    CHECK(dup2(STDERR_FILENO, c) == c);
    hear_end(b);
}

static void descriptors_are_as_low_as_without(void)
{
    int next = dup(0), at, a, b;
    CHECK(!close(next));
    at = listener();
    a = client();
    b = accept4(at, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
    CHECK(at == next && a == next + 1 && b == next + 2);
    CHECK(fcntl(b, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(b, F_GETFL) & O_NONBLOCK);
    CHECK(!(fcntl(at, F_GETFL) & O_NONBLOCK));
}

static void closing_everything_leaves_the_library(void)
{
    int a, b, c, fd;
    connection(&a, &b);
    c = dup2(b, 40);
    CHECK(c == 40 && !close(b));
    closefrom(41);
    for (fd = 50; fd < 5000; fd++)
        CHECK(close(fd) == -1 && errno == EBADF);
    say(a, "there");
    hear(c, "there");
    CHECK(!close_range(30, UINT_MAX, 0));
    hear_end(a);
    connection(&a, &b);
    say(a, "again");
    hear(b, "again");
}

static void options_and_names_are_those_of_a_tcp_socket(void)
{
    int at_fd = listener(), a = client(), value;
    struct sockaddr_in own, peer, accepted;
    socklen_t size = sizeof accepted;
    int b = accept(at_fd, (void *)&accepted, &size);
    struct stat status;
    struct tcp_info info;
    CHECK(b >= 0 && size == sizeof accepted);
#define OPTION(fd, level, name)                                                                   \
    (size = sizeof value, getsockopt(fd, level, name, &value, &size) ? -1000 : value)
    CHECK(OPTION(at_fd, SOL_SOCKET, SO_ACCEPTCONN) == 1);
    CHECK(OPTION(b, SOL_SOCKET, SO_ACCEPTCONN) == 0);
    CHECK(OPTION(b, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    CHECK(OPTION(b, SOL_SOCKET, SO_DOMAIN) == AF_INET);
    CHECK(OPTION(b, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
    CHECK(OPTION(a, SOL_SOCKET, SO_ERROR) == 0);
    value = 1;
    CHECK(!setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    CHECK(OPTION(a, IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(OPTION(b, IPPROTO_TCP, TCP_NODELAY) == 0);
    for (value = 1; value < 5; value += 3)
        CHECK(!setsockopt(a, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value));
    size = sizeof info;
    CHECK(!getsockopt(a, IPPROTO_TCP, TCP_INFO, &info, &size) && info.tcpi_state == TCP_ESTABLISHED);
    size = sizeof own;
    CHECK(!getsockname(a, (void *)&own, &size) && size == sizeof own);
    CHECK(!getpeername(b, (void *)&peer, &size));
    CHECK(own.sin_port && own.sin_port == peer.sin_port && own.sin_port == accepted.sin_port);
    CHECK(own.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(!getpeername(a, (void *)&peer, &size) && peer.sin_port == at.sin_port);
    CHECK(!getsockname(b, (void *)&peer, &size) && peer.sin_port == at.sin_port);
    FAILS(getpeername(at_fd, (void *)&peer, &size), ENOTCONN);
    CHECK(!fstat(a, &status) && S_ISSOCK(status.st_mode));
    FAILS(connect(a, (void *)&at, sizeof at), EISCONN);
    FAILS(getsockname(a, (void *)1, 0), EFAULT);
}

static void sends_files(void)
{
    int a, b, file, pipes[2];
    off_t offset = 2;
    connection(&a, &b);
    file = memfd_create("file", 0);
    say(file, "0123456789");
    CHECK(sendfile(a, file, &offset, 3) == 3 && offset == 5);
    hear(b, "234");
    CHECK(lseek(file, 4, SEEK_SET) == 4);
    CHECK(sendfile64(a, file, 0, 100) == 6);
    hear(b, "456789");
    CHECK(lseek(file, 0, SEEK_CUR) == 10);
    CHECK(sendfile(a, file, 0, 100) == 0);
    CHECK(!pipe(pipes));
    FAILS(splice(b, 0, pipes[1], 0, 1, 0), EINVAL);
    say(pipes[1], "x");
    FAILS(splice(pipes[0], 0, a, 0, 1, 0), EINVAL);
}

static void limits_of_time_are_kept(void)
{
    int a, b, at_fd = listener();
    char byte, *much = calloc(1, 1 << 24);
    struct timeval limit = {0, 20000};
    ssize_t sent;
    CHECK(!setsockopt(at_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    FAILS(accept(at_fd, 0, 0), EAGAIN);
    connection(&a, &b);
    CHECK(!setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    FAILS(read(b, &byte, 1), EAGAIN);
    CHECK(!setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    sent = write(a, much, 1 << 24);
    CHECK(sent > 0 && sent < 1 << 24);
    FAILS(write(a, much, 1 << 24), EAGAIN);
}

static void calls_that_may_not_wait_do_not(void)
{
    int a, b, on = 1, at_fd = listener();
    char byte, *much = calloc(1, 1 << 24);
    ssize_t sent;
    CHECK(!ioctl(at_fd, FIONBIO, &on));
    FAILS(accept(at_fd, 0, 0), EAGAIN);
    connection(&a, &b);
    CHECK(!fcntl(b, F_SETFL, fcntl(b, F_GETFL) | O_NONBLOCK));
    CHECK(fcntl(b, F_GETFL) & O_NONBLOCK);
    FAILS(read(b, &byte, 1), EAGAIN);
    CHECK(!ioctl(a, FIONBIO, &on));
    sent = write(a, much, 1 << 24);
    CHECK(sent > 0 && sent < 1 << 24);
    FAILS(write(a, much, 1 << 24), EAGAIN);
}

static pthread_t reader;

static void *interrupt(void *sent)
{
    /* Until the reader has ended: a signal before it waits has no effect. */
    while (!__atomic_load_n((int *)sent, __ATOMIC_SEQ_CST)) {
        pthread_kill(reader, SIGUSR1);
        usleep(1000);
    }
    return 0;
}

static void *write_after_signals(void *to)
{
    int before = signals;
    while (signals < before + 20)
        usleep(1000);
    say(*(int *)to, "x");
    return 0;
}

static void a_signal_interrupts_unless_the_program_restarts_calls(void)
{
    int a, b, over = 0;
    char byte;
    pthread_t other, writer;
    struct sigaction action = {.sa_handler = count};
    connection(&a, &b);
    reader = pthread_self();
    CHECK(!sigaction(SIGUSR1, &action, 0));
    CHECK(!pthread_create(&other, 0, interrupt, &over));
    FAILS(read(b, &byte, 1), EINTR);
    action.sa_flags = SA_RESTART;
    CHECK(!sigaction(SIGUSR1, &action, 0));
    /* A call with a limit is never restarted. */
    struct timeval limit = {60, 0}, none = {0, 0};
    CHECK(!setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    FAILS(read(b, &byte, 1), EINTR);
    CHECK(!setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    /* librdmacm and language runtimes have handlers of faults. */
    struct sigaction fault = {.sa_handler = count};
    CHECK(!sigaction(SIGBUS, &fault, 0) && !sigaction(SIGSEGV, &fault, 0));
    /* What arrives comes after the signals. */
    pthread_create(&writer, 0, write_after_signals, &a);
    CHECK(read(b, &byte, 1) == 1);
    pthread_join(writer, 0);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    pthread_join(other, 0);
}

static int keep_alive(int fd, int idle)
{
    int on = 1;
    CHECK(!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
    CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle));
    return fd;
}

static int number(int fd, int level, int name)
{
    int value;
    socklen_t size = sizeof value;
    CHECK(!getsockopt(fd, level, name, &value, &size));
    return value;
}

/* With TCP_KEEPIDLE, the test sees which sockets have it. */
static void options_reach_the_connection(void)
{
    int at_fd = keep_alive(listener(), 11), on = 1;
    int a = keep_alive(socket(AF_INET, SOCK_STREAM, 0), 12), b;
    struct timeval limit = {0, 1000}, found;
    socklen_t size = sizeof found;
    char byte;
    CHECK(!setsockopt(at_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    CHECK(!setsockopt(at_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    CHECK(!connect(a, (void *)&at, sizeof at));
    b = accept(at_fd, 0, 0);
    CHECK(b >= 0);
    FAILS(recv(b, &byte, 1, 0), EAGAIN);
    CHECK(!getsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &found, &size) && found.tv_usec);
    CHECK(number(b, IPPROTO_TCP, TCP_KEEPIDLE) == 11 && number(b, IPPROTO_TCP, TCP_NODELAY));
    CHECK(number(b, SOL_SOCKET, SO_KEEPALIVE));
    keep_alive(b, 13);
}

/* Where a close leaves the rest to a thread, and that waits. */
static void a_close_lingers(void)
{
    struct linger linger = {1, 5};
    int at_fd, a, b;
    for (int way = 0; way < 3; way++) {
        at_fd = listener();
        a = socket(AF_INET, SOCK_STREAM, 0);
        if (way == 0)
            CHECK(!setsockopt(a, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
        if (way == 1)
            CHECK(!setsockopt(at_fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
        CHECK(!connect(a, (void *)&at, sizeof at));
        b = accept(at_fd, 0, 0);
        if (way == 2)
            CHECK(!setsockopt(b, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
        say(way ? b : a, "before the end");
        CHECK(!close(way ? b : a));
        hear(way ? a : b, "before the end");
    }
}

/* An rsocket takes 1000 bytes at a time. */
static void a_message_that_was_sent_in_part_is_the_last(void)
{
    int a, b;
    char much[1500] = {0}, heard[2000];
    struct iovec parts[] = {{much, 500}, {much, sizeof much}, {much, 1}};
    struct mmsghdr all[] = {{{.msg_iov = &parts[0], .msg_iovlen = 1}, 0},
                            {{.msg_iov = &parts[1], .msg_iovlen = 1}, 0},
                            {{.msg_iov = &parts[2], .msg_iovlen = 1}, 0}};
    connection(&a, &b);
    CHECK(sendmmsg(a, all, 3, MSG_DONTWAIT) == 2);
    CHECK(all[0].msg_len == 500 && all[1].msg_len == 1000);
    CHECK(!close(a));
    CHECK(recv(b, heard, sizeof heard, MSG_WAITALL) == 1500);
}

CASES({"options_reach_the_connection", options_reach_the_connection},
      {"a_close_lingers", a_close_lingers},
      {"a_message_that_was_sent_in_part_is_the_last", a_message_that_was_sent_in_part_is_the_last},
      {"moves_bytes_by_every_call", moves_bytes_by_every_call},
      {"closes_each_way", closes_each_way},
      {"writing_to_a_closed_peer_is_a_broken_pipe", writing_to_a_closed_peer_is_a_broken_pipe},
      {"copies_of_a_descriptor_share_the_connection", copies_of_a_descriptor_share_the_connection},
      {"descriptors_are_as_low_as_without", descriptors_are_as_low_as_without},
      {"closing_everything_leaves_the_library", closing_everything_leaves_the_library},
      {"options_and_names_are_those_of_a_tcp_socket", options_and_names_are_those_of_a_tcp_socket},
      {"sends_files", sends_files},
      {"limits_of_time_are_kept", limits_of_time_are_kept},
      {"calls_that_may_not_wait_do_not", calls_that_may_not_wait_do_not},
      {"a_signal_interrupts_unless_the_program_restarts_calls",
       a_signal_interrupts_unless_the_program_restarts_calls})
