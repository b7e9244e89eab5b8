/* Processes: forks, other programs, and parents that end. */
#include "case.h"

static pid_t forked(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    return child;
}

/* The accepted end of a connection, with its addresses, and a client that has the other one. */
static int accepted(int *a, struct sockaddr_in *own, struct sockaddr_in *peer)
{
    int at_fd = listener(), b;
    socklen_t size = sizeof *peer;
    *a = client();
    b = accept(at_fd, (void *)peer, &size);
    CHECK(b >= 0 && !getsockname(b, (void *)own, &size));
    CHECK(!close(at_fd));
    return b;
}

static void same_names(int fd, struct sockaddr_in *own, struct sockaddr_in *peer)
{
    struct sockaddr_in found;
    socklen_t size = sizeof found;
    int value = 1;
    CHECK(!getsockname(fd, (void *)&found, &size) && !memcmp(&found, own, 8) && size == sizeof found);
    CHECK(!getpeername(fd, (void *)&found, &size) && !memcmp(&found, peer, 8));
    CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    size = sizeof value;
    CHECK(!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &size) && value == AF_INET);
    CHECK(!getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &size) && value == IPPROTO_TCP);
}

static void a_child_serves_what_its_parent_accepted(void)
{
    int a, b;
    struct sockaddr_in own, peer;
    b = accepted(&a, &own, &peer);
    pid_t child = forked();
    if (!child) {
        CHECK(!close(a));
        hear(b, "question");
        same_names(b, &own, &peer);
        say(b, "answer");
        hear_end(b);
        say(b, "last");
        exit(0);
    }
    CHECK(!close(b));
    say(a, "question");
    hear(a, "answer");
    CHECK(!shutdown(a, SHUT_WR));
    hear(a, "last");
    hear_end(a);
    ended(child);
}

/* A process for each connection, as with PostgreSQL. */
static void a_server_forks_for_each_connection(void)
{
    int at_fd = listener();
    for (int i = 0; i < 3; i++) {
        int a = client(), b = accept(at_fd, 0, 0);
        CHECK(b >= 0);
        pid_t child = forked();
        if (!child) {
            CHECK(!close(a));
            hear(b, "question");
            say(b, "answer");
            exit(0);
        }
        CHECK(!close(b));
        say(a, "question");
        hear(a, "answer");
        ended(child);
        hear_end(a);
        CHECK(!close(a));
    }
}

static void a_program_gets_the_connection(void)
{
    int a, b;
    struct sockaddr_in own, peer;
    char names[2][32];
    b = accepted(&a, &own, &peer);
    snprintf(names[0], 32, "%d", ntohs(own.sin_port));
    snprintf(names[1], 32, "%d", ntohs(peer.sin_port));
    pid_t child = vfork();
    CHECK(child >= 0);
    if (!child) {
        dup2(b, 0);
        dup2(b, 1);
        closefrom(3);
        execl("/proc/self/exe", "forks", "executed", names[0], names[1], (char *)0);
        _exit(1);
    }
    CHECK(!close(b));
    say(a, "question");
    hear(a, "answer");
    CHECK(!close(a));
    ended(child);
}

/* At its descriptors 0 and 1. */
static void executed(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET}, peer = {.sin_family = AF_INET};
    own.sin_addr.s_addr = peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_port = htons(atoi(arguments[2]));
    peer.sin_port = htons(atoi(arguments[3]));
    hear(0, "question");
    same_names(0, &own, &peer);
    /* Nothing of the library came along. */
    for (int fd = 3; fd < 20000; fd++)
        CHECK(fcntl(fd, F_GETFD) < 0);
    /* Nor is a further process in the way. */
    pid_t child = forked();
    if (!child) {
        same_names(1, &own, &peer);
        say(1, "answer");
        exit(0);
    }
    ended(child);
    hear_end(0);
}

static void a_child_that_uses_nothing_changes_nothing(void)
{
    int a, b, pipes[2];
    char byte;
    CHECK(!pipe(pipes));
    connection(&a, &b);
    pid_t child = forked();
    if (!child) {
        /* Descriptors that a program happens to have. */
        char end[8];
        snprintf(end, sizeof end, "%d", pipes[0]);
        close(pipes[1]);
        execlp("/proc/self/exe", "forks", "lasts", end, (char *)0);
        _exit(1);
    }
    say(a, "hello");
    hear(b, "hello");
    say(b, "back");
    hear(a, "back");
    /* The connection lasts as long as someone has it. */
    CHECK(!close(b));
    FAILS(recv(a, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(!close(pipes[1]));
    ended(child);
    hear_end(a);
}

static void lasts(void)
{
    hear_end(atoi(arguments[2]));
}

static void an_unused_connection_lasts_as_long_as_the_child(void)
{
    int a, b, pipes[2];
    char byte;
    CHECK(!pipe(pipes));
    connection(&a, &b);
    pid_t child = forked();
    if (!child) {
        CHECK(!close(pipes[1]) && !close(a));
        hear_end(pipes[0]);
        CHECK(!close(b));
        /* Until the parent has seen the end. */
        pause();
    }
    CHECK(!close(b));
    FAILS(recv(a, &byte, 1, MSG_DONTWAIT), EAGAIN);
    CHECK(!close(pipes[1]));
    hear_end(a);
    CHECK(!kill(child, SIGKILL) && waitpid(child, 0, 0) == child);
}

enum { MUCH = 20 << 20 };

static void much_is_relayed_in_order(void)
{
    int a, b;
    unsigned *data = malloc(MUCH), *back = malloc(MUCH);
    connection(&a, &b);
    for (unsigned i = 0; i < MUCH / 4; i++)
        data[i] = i * 2654435761u;
    pid_t child = forked();
    if (!child) {
        CHECK(!close(a));
        CHECK(recv(b, back, MUCH, MSG_WAITALL) == MUCH);
        CHECK(write(b, back, MUCH) == MUCH);
        exit(0);
    }
    CHECK(!close(b));
    CHECK(write(a, data, MUCH) == MUCH);
    CHECK(recv(a, back, MUCH, MSG_WAITALL) == MUCH);
    CHECK(!memcmp(data, back, MUCH));
    hear_end(a);
    ended(child);
}

static int ready[2], life[2], heard[2];

static void begin_workers(void)
{
    CHECK(!pipe(ready) && !pipe(life));
}

/* Accepts one connection after the other, and answers with its number, until `life` ends. */
static void work(int at_fd, int number)
{
    char answer[2] = {'0' + number};
    int epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.fd = at_fd}}, end = {EPOLLIN, {.fd = life[0]}};
    CHECK(!close(life[1]));
    CHECK(!fcntl(at_fd, F_SETFL, O_NONBLOCK));
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, at_fd, &event));
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, life[0], &end));
    say(ready[1], "ready");
    for (;;) {
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        if (event.data.fd == life[0])
            exit(0);
        int fd = accept4(at_fd, 0, 0, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        say(fd, answer);
        hear_end(fd);
        close(fd);
    }
}

static pid_t worker(int at_fd, int number)
{
    pid_t child = forked();
    if (!child)
        work(at_fd, number);
    hear(ready[0], "ready");
    return child;
}

static void ask(const char *answer)
{
    int fd = client();
    hear(fd, answer);
    CHECK(!close(fd));
}

static void killed(pid_t child)
{
    CHECK(!kill(child, SIGKILL) && waitpid(child, 0, 0) == child);
}

static void a_worker_listens_instead_of_its_parent(void)
{
    int at_fd = listener();
    begin_workers();
    pid_t first = worker(at_fd, 1);
    ask("1");
    ask("1");
    /* This one accepts what comes by TCP. */
    pid_t second = worker(at_fd, 2);
    ask("1");
    ask("1");
    killed(second);
    ask("1");
    CHECK(!close(life[1]));
    ended(first);
}

static void a_child_may_look_at_a_listener(void)
{
    int at_fd = listener(), a, on = 0, value;
    socklen_t size = sizeof value;
    struct pollfd entry = {at_fd, POLLIN, 0};
    pid_t child = forked();
    if (!child) {
        CHECK(!getsockopt(at_fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) && value);
        CHECK(!ioctl(at_fd, FIONBIO, &on));
        CHECK(!fcntl(at_fd, F_SETFL, 0));
        exit(0);
    }
    ended(child);
    a = client();
    CHECK(poll(&entry, 1, -1) == 1);
    CHECK(accept(at_fd, 0, 0) >= 0);
    /* Nor does the parent wait for TCP alone from now on. */
    struct timeval limit = {0, 1000};
    CHECK(!setsockopt(at_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    FAILS(accept(at_fd, 0, 0), EAGAIN);
    child = forked();
    if (!child) {
        connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&at, sizeof at);
        exit(0);
    }
    limit.tv_usec = 0;
    CHECK(!setsockopt(at_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    CHECK(accept(at_fd, 0, 0) >= 0);
    ended(child);
    CHECK(!close(a));
}

static void executes_with(int at_fd)
{
    char number[8];
    snprintf(number, sizeof number, "%d", at_fd);
    execl("/proc/self/exe", "forks", "waits_at_a_listener", number, (char *)0);
    _exit(1);
}

static void a_program_waits_at_the_listener_that_it_inherits(void)
{
    int at_fd = listener();
    struct pollfd entry = {at_fd, POLLIN, 0};
    pid_t child = forked();
    if (!child)
        executes_with(at_fd);
    ended(child);
    /* From now on, connections over RDMA are this process's. */
    CHECK(poll(&entry, 1, 0) == 0);
    child = forked();
    if (!child) {
        CHECK(poll(&entry, 1, 0) == 0);
        executes_with(at_fd);
    }
    ended(child);
    /* It does not wait for TCP alone, although the flag is the program's, too. */
    child = forked();
    if (!child) {
        client();
        exit(0);
    }
    CHECK(accept(at_fd, 0, 0) >= 0);
    ended(child);
}

static void waits_at_a_listener(void)
{
    int flags = fcntl(atoi(arguments[2]), F_GETFL);
    CHECK(flags >= 0 && !(flags & O_NONBLOCK));
}

static void a_worker_that_ended_is_followed_by_another(void)
{
    int at_fd = listener();
    char text[2] = "1";
    begin_workers();
    for (; *text <= '3'; ++*text) {
        pid_t child = worker(at_fd, *text - '0');
        ask(text);
        killed(child);
    }
}

static void a_daemon_listens_after_its_parent(void)
{
    int at_fd = listener(), going[2];
    begin_workers();
    CHECK(!pipe(going));
    pid_t parent = forked();
    if (!parent) {
        /* A daemon, which lets a worker do the work. */
        if (!forked()) {
            pid_t child = worker(at_fd, 7);
            CHECK(!close(life[1]));
            say(going[1], "go");
            ended(child);
        }
        _exit(0);
    }
    ended(parent);
    CHECK(!close(at_fd));
    hear(going[0], "go");
    ask("7");
}

static void *talk(void *over)
{
    while (!__atomic_load_n((int *)over, __ATOMIC_SEQ_CST)) {
        int a, b;
        connection(&a, &b);
        say(a, "x");
        hear(b, "x");
        CHECK(!close(a) && !close(b));
    }
    return 0;
}

static void threads_may_fork(void)
{
    pthread_t threads[3];
    int over = 0, a, b;
    connection(&a, &b);
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&threads[i], 0, talk, &over));
    for (int i = 0; i < 50; i++) {
        pid_t child = forked();
        if (!child) {
            say(a, "y");
            exit(0);
        }
        hear(b, "y");
        ended(child);
    }
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
}

/* A parent relays to its child for as long as that wants, and ends by `end`. */
static void relays_to_the_end(void (*end)(int))
{
    int a, b;
    connection(&a, &b);
    if (!forked()) {
        CHECK(!close(a));
        /* Long after the parent wants to end. */
        for (int i = 0; i < 3; i++) {
            usleep(20000);
            say(b, "more");
        }
        exit(0);
    }
    CHECK(!close(b));
    if (!forked()) {
        hear(a, "moremoremore");
        hear_end(a);
        say(heard[1], "heard all");
        exit(0);
    }
    end(0);
}

static void ends_after_its_child(void (*end)(int))
{
    CHECK(!pipe(heard));
    pid_t parent = forked();
    if (!parent)
        relays_to_the_end(end);
    ended(parent);
    CHECK(!close(heard[1]));
    hear(heard[0], "heard all");
}

static void what_a_parent_relays_outlasts_it(void)
{
    ends_after_its_child(exit);
}

static void what_a_parent_relays_outlasts_an_exit_at_once(void)
{
    ends_after_its_child(_exit);
}

/* What was sent by a process that ends reaches the peer. */
static void last_words(void)
{
    int at_fd = listener();
    void (*ends[])(int) = {exit, _exit, _Exit};
    for (int i = 0; i < 3; i++) {
        pid_t child = forked();
        if (!child) {
            int fd = client();
            say(fd, "last words");
            ends[i](0);
        }
        int fd = accept(at_fd, 0, 0);
        CHECK(fd >= 0);
        hear(fd, "last words");
        hear_end(fd);
        ended(child);
        CHECK(!close(fd));
    }
}

static void fork_a_client(int signal)
{
    (void)signal;
    if (forked())
        return;
    say(client(), "x");
    exit(0);
}

/* PostgreSQL's postmaster, until release 15, forks in handlers that interrupt its wait. */
static void a_handler_forks_while_its_thread_waits(void)
{
    int at_fd = listener();
    wait_for_handler(at_fd, fork_a_client);
    int b = accept(at_fd, 0, 0);
    CHECK(b >= 0);
    hear(b, "x");
    hear_end(b);
    int status;
    CHECK(wait(&status) > 0 && status == 0);
}

CASES({"a_child_serves_what_its_parent_accepted", a_child_serves_what_its_parent_accepted},
      {"a_server_forks_for_each_connection", a_server_forks_for_each_connection},
      {"a_program_gets_the_connection", a_program_gets_the_connection}, {"executed", executed},
      {"a_child_that_uses_nothing_changes_nothing", a_child_that_uses_nothing_changes_nothing},
      {"lasts", lasts},
      {"an_unused_connection_lasts_as_long_as_the_child",
       an_unused_connection_lasts_as_long_as_the_child},
      {"much_is_relayed_in_order", much_is_relayed_in_order},
      {"a_worker_listens_instead_of_its_parent", a_worker_listens_instead_of_its_parent},
      {"a_child_may_look_at_a_listener", a_child_may_look_at_a_listener},
      {"a_program_waits_at_the_listener_that_it_inherits",
       a_program_waits_at_the_listener_that_it_inherits},
      {"waits_at_a_listener", waits_at_a_listener},
      {"a_worker_that_ended_is_followed_by_another", a_worker_that_ended_is_followed_by_another},
      {"a_daemon_listens_after_its_parent", a_daemon_listens_after_its_parent},
      {"threads_may_fork", threads_may_fork},
      {"what_a_parent_relays_outlasts_it", what_a_parent_relays_outlasts_it},
      {"what_a_parent_relays_outlasts_an_exit_at_once",
       what_a_parent_relays_outlasts_an_exit_at_once},
      {"last_words", last_words},
      {"a_handler_forks_while_its_thread_waits", a_handler_forks_while_its_thread_waits})
