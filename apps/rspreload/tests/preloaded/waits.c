/* poll, select and epoll. */
#include "case.h"
#include <sys/un.h>

static int epoll;

static void add(int fd, unsigned events)
{
    struct epoll_event event = {events, {.fd = fd}};
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

static void modify(int fd, unsigned events)
{
    struct epoll_event event = {events, {.fd = fd}};
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event));
}

/* The events of the one descriptor that has some; 0 if none has. */
static unsigned events(int fd)
{
    struct epoll_event found[8];
    int count = epoll_wait(epoll, found, 8, 0);
    CHECK(count == 0 || count == 1);
    CHECK(count == 0 || found[0].data.fd == fd);
    return count ? found[0].events : 0;
}

static void poll_and_select_mix_descriptors(void)
{
    int a, b, pipes[2], at_fd = listener(), c;
    fd_set reads, writes;
    struct timeval now = {0, 0};
    struct timespec soon = {0, 1000};
    CHECK(!pipe(pipes));
    connection(&a, &b);
    struct pollfd all[] = {{pipes[0], POLLIN, 9}, {b, POLLIN | POLLOUT, 9}, {-1, POLLIN, 9}, {at_fd, POLLIN, 9}};
    CHECK(poll(all, 4, 0) == 1 && all[0].revents == 0 && all[1].revents == POLLOUT);
    CHECK(all[2].revents == 0);
    say(pipes[1], "x");
    say(a, "y");
    CHECK(poll(all, 4, -1) == 2 && all[0].revents == POLLIN);
    CHECK(all[1].revents == (POLLIN | POLLOUT));
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_SET(pipes[0], &reads);
    FD_SET(b, &reads);
    FD_SET(a, &reads);
    FD_SET(a, &writes);
    CHECK(select(FD_SETSIZE, &reads, &writes, 0, &now) == 3);
    CHECK(FD_ISSET(pipes[0], &reads) && FD_ISSET(b, &reads) && !FD_ISSET(a, &reads));
    CHECK(FD_ISSET(a, &writes));
    hear(b, "y");
    hear(pipes[0], "x");
    CHECK(pselect(FD_SETSIZE, &reads, 0, 0, &soon, 0) == 0);
    CHECK(!FD_ISSET(b, &reads) && !FD_ISSET(pipes[0], &reads));
    connection(&a, &c);
    CHECK(!close(a));
    all[0].fd = c;
    all[0].events = POLLIN | POLLRDHUP;
    CHECK(poll(all, 1, -1) == 1 && all[0].revents & POLLIN && all[0].revents & POLLRDHUP);
    CHECK(!close(c));
    all[1].fd = c;
    CHECK(poll(all, 2, 0) == 2 && all[1].revents == POLLNVAL);
}

/* The kernel looks at no more descriptors than there are, whatever the program says. */
static void select_looks_at_no_more_than_there_is(void)
{
    static struct {
        fd_set set;
        unsigned char after[1 << 17];
    } of;
    static unsigned char untouched[sizeof of.after];
    struct rlimit limit;
    struct timeval now = {0, 0};
    struct timespec at_once = {0, 0};
    int a, b, pipes[2];
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max < 1 << 20 ? limit.rlim_max : 1 << 20;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    CHECK(getdtablesize() > 3000 && !pipe(pipes));
    say(pipes[1], "x");
    /* A set with nothing behind it, before there is a socket and after it. */
    char *room = mmap(0, 2 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED && !mprotect(room + (1 << 16), 1 << 16, PROT_NONE));
    fd_set *edge = (fd_set *)(room + (1 << 16)) - 1;
    for (int connected = 0; connected < 2; connected++) {
        if (connected) {
            connection(&a, &b);
            say(a, "x");
        }
        FD_SET(connected ? b : pipes[0], edge);
        CHECK(select(getdtablesize(), edge, 0, 0, &now) == 1 + connected);
    }
    memset(of.after, 0xff, sizeof of.after);
    memset(untouched, 0xff, sizeof untouched);
    for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
        int fd = of_kernel ? pipes[0] : b;
        FD_ZERO(&of.set);
        FD_SET(fd, &of.set);
        CHECK(select(getdtablesize(), &of.set, 0, 0, &now) == 1 && FD_ISSET(fd, &of.set));
        CHECK(pselect(getdtablesize(), &of.set, 0, 0, &at_once, 0) == 1 && FD_ISSET(fd, &of.set));
        CHECK(!memcmp(of.after, untouched, sizeof untouched));
    }
    /* There is one more, for which the program has made room. */
    memset(&of, 0, sizeof of);
    for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
        unsigned char *byte = (unsigned char *)&of + 2500 / 8;
        CHECK(dup2(of_kernel ? pipes[0] : b, 2500) == 2500);
        *byte = 1 << 2500 % 8;
        CHECK(select(of_kernel ? 2501 : getdtablesize(), (fd_set *)&of, 0, 0, &now) == 1 && *byte);
    }
    CHECK(select(getdtablesize(), 0, 0, 0, &now) == 0);
}

static volatile int signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static void a_mask_lets_a_pending_signal_through(void)
{
    int a, b;
    sigset_t blocked, none;
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    struct epoll_event event;
    connection(&a, &b);
    struct pollfd entry = {b, POLLIN, 0};
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    CHECK(!sigprocmask(SIG_BLOCK, &blocked, 0));
    CHECK(!sigaction(SIGUSR1, &action, 0));
    raise(SIGUSR1);
    CHECK(signals == 0);
    FAILS(ppoll(&entry, 1, 0, &none), EINTR);
    CHECK(signals == 1);
    epoll = epoll_create1(0);
    add(b, EPOLLIN);
    raise(SIGUSR1);
    FAILS(epoll_pwait(epoll, &event, 1, -1, &none), EINTR);
    CHECK(signals == 2);
    /* The mask is the program's again. */
    raise(SIGUSR1);
    CHECK(signals == 2);
    say(a, "x");
    CHECK(ppoll(&entry, 1, 0, 0) == 1);
    CHECK(signals == 2);
}

static void level_triggered(void)
{
    int a, b, pipes[2];
    connection(&a, &b);
    CHECK(!pipe(pipes));
    epoll = epoll_create(1);
    add(b, EPOLLIN);
    FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, b, &(struct epoll_event){0}), EEXIST);
    CHECK(events(b) == 0);
    say(a, "xy");
    CHECK(events(b) == EPOLLIN);
    hear(b, "x");
    CHECK(events(b) == EPOLLIN);
    hear(b, "y");
    CHECK(events(b) == 0);
    modify(b, EPOLLOUT);
    CHECK(events(b) == EPOLLOUT);
    modify(b, 0);
    add(pipes[0], EPOLLIN);
    say(pipes[1], "z");
    CHECK(events(pipes[0]) == EPOLLIN);
    say(a, "z");
    modify(b, EPOLLIN);
    struct epoll_event found[8];
    CHECK(epoll_wait(epoll, found, 8, -1) == 2);
    CHECK(epoll_wait(epoll, found, 1, -1) == 1);
    int first = found[0].data.fd;
    CHECK(epoll_wait(epoll, found, 1, -1) == 1 && found[0].data.fd != first);
    CHECK(!epoll_ctl(epoll, EPOLL_CTL_DEL, b, 0));
    FAILS(epoll_ctl(epoll, EPOLL_CTL_DEL, b, 0), ENOENT);
    FAILS(epoll_ctl(epoll, EPOLL_CTL_MOD, b, &(struct epoll_event){0}), ENOENT);
    CHECK(events(pipes[0]) == EPOLLIN);
    add(b, EPOLLIN);
    CHECK(!close(pipes[0]));
    CHECK(events(b) == EPOLLIN);
    CHECK(!close(b));
    CHECK(events(-1) == 0);
}

static void edge_triggered(void)
{
    int a, b;
    char much[4096] = {0};
    connection(&a, &b);
    CHECK(!fcntl(b, F_SETFL, O_NONBLOCK) && !fcntl(a, F_SETFL, O_NONBLOCK));
    epoll = epoll_create1(EPOLL_CLOEXEC);
    add(b, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP);
    CHECK(events(b) == EPOLLOUT);
    CHECK(events(b) == 0);
    say(a, "xy");
    CHECK(events(b) == EPOLLIN);
    CHECK(events(b) == 0);
    hear(b, "xy");
    FAILS(read(b, much, 1), EAGAIN);
    CHECK(events(b) == 0);
    say(a, "z");
    CHECK(events(b) == EPOLLIN);
    hear(b, "z");
    /* Room again, after there was none. */
    say(b, "short");
    CHECK(events(b) == 0);
    while (write(b, much, sizeof much) > 0)
        ;
    CHECK(errno == EAGAIN);
    CHECK(events(b) == 0);
    while (read(a, much, sizeof much) > 0)
        ;
    CHECK(events(b) == EPOLLOUT);
    CHECK(events(b) == 0);
    CHECK(!shutdown(a, SHUT_WR));
    CHECK(events(b) == (EPOLLIN | EPOLLRDHUP));
    CHECK(events(b) == 0);
    /* What was reported is reported again when it is asked for again. */
    modify(b, EPOLLIN | EPOLLET);
    CHECK(events(b) == EPOLLIN);
}

static void one_shot(void)
{
    int a, b;
    connection(&a, &b);
    epoll = epoll_create1(0);
    add(b, EPOLLIN | EPOLLONESHOT);
    say(a, "x");
    CHECK(events(b) == EPOLLIN);
    CHECK(events(b) == 0);
    modify(b, EPOLLIN | EPOLLONESHOT);
    CHECK(events(b) == EPOLLIN);
}

static void listeners_are_ready_both_ways(void)
{
    int at_fd = listener(), fd;
    epoll = epoll_create1(0);
    add(at_fd, EPOLLIN | EPOLLEXCLUSIVE);
    CHECK(events(at_fd) == 0);
    fd = client();
    CHECK(events(at_fd) == EPOLLIN);
    CHECK(accept(at_fd, 0, 0) >= 0);
    CHECK(events(at_fd) == 0);
    CHECK(!close(fd));
}

struct wait {
    int fd;
    unsigned events;
};

static void *wait_for_one(void *of)
{
    struct wait *wait = of;
    struct epoll_event found;
    CHECK(epoll_wait(epoll, &found, 1, -1) == 1);
    CHECK(found.data.fd == wait->fd && found.events == wait->events);
    return 0;
}

/* A thread that waits notices what another one does. */
static void wakes_up_for(int fd, unsigned events, void (*then)(void))
{
    pthread_t thread;
    struct wait wait = {fd, events};
    CHECK(!pthread_create(&thread, 0, wait_for_one, &wait));
    /* Usually it waits by then; if not, the outcome is the same. */
    usleep(20000);
    then();
    CHECK(!pthread_join(thread, 0));
}

static int one, two, three, four;

static void add_ready(void)
{
    say(one, "x");
    add(two, EPOLLIN);
}

static void modify_ready(void)
{
    say(three, "x");
    modify(four, EPOLLIN);
}

static void a_thread_that_waits_sees_changes(void)
{
    int pipes[2];
    CHECK(!pipe(pipes));
    epoll = epoll_create1(0);
    add(pipes[0], EPOLLIN);
    connection(&one, &two);
    wakes_up_for(two, EPOLLIN, add_ready);
    hear(two, "x");
    connection(&three, &four);
    add(four, 0);
    wakes_up_for(four, EPOLLIN, modify_ready);
}

static void read_all_and_get_more(void)
{
    char byte;
    hear(two, "x");
    FAILS(read(two, &byte, 1), EAGAIN);
    say(one, "y");
}

static void read_short_and_get_more(void)
{
    char room[8];
    /* A stream that gives less than it was asked for is empty. */
    CHECK(read(two, room, sizeof room) == 1);
    say(one, "z");
}

static void write_all_and_get_room(void)
{
    char much[4096] = {0};
    while (write(two, much, sizeof much) > 0)
        ;
    CHECK(errno == EAGAIN);
    while (read(one, much, sizeof much) > 0)
        ;
}

static void accept_and_get_another(void)
{
    CHECK(accept(three, 0, 0) >= 0);
    FAILS(accept(three, 0, 0), EAGAIN);
    client();
}

static void edges_are_seen_while_another_thread_works(void)
{
    connection(&one, &two);
    CHECK(!fcntl(one, F_SETFL, O_NONBLOCK) && !fcntl(two, F_SETFL, O_NONBLOCK));
    epoll = epoll_create1(0);
    add(two, EPOLLIN | EPOLLET);
    say(one, "x");
    CHECK(events(two) == EPOLLIN);
    wakes_up_for(two, EPOLLIN, read_all_and_get_more);
    wakes_up_for(two, EPOLLIN, read_short_and_get_more);
    modify(two, EPOLLOUT | EPOLLET);
    CHECK(events(two) == EPOLLOUT);
    wakes_up_for(two, EPOLLOUT, write_all_and_get_room);
    CHECK(!close(two));
    three = listener();
    CHECK(!fcntl(three, F_SETFL, O_NONBLOCK));
    add(three, EPOLLIN | EPOLLET);
    client();
    CHECK(events(three) == EPOLLIN);
    wakes_up_for(three, EPOLLIN, accept_and_get_another);
}

static int idle[2], local, fresh;

static void *read_pipe(void *room)
{
    CHECK(read(idle[0], room, 1) == 1);
    return 0;
}

static void *poll_pipe(void *room)
{
    struct pollfd entry = {idle[0], POLLIN, 0};
    poll(&entry, 1, -1);
    return room;
}

static void *select_pipe(void *room)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(idle[0], &set);
    select(idle[0] + 1, &set, 0, 0, 0);
    return room;
}

static void *accept_local(void *room)
{
    accept(local, 0, 0);
    return room;
}

static void *read_local(void *room)
{
    CHECK(read(one, room, 1) == 1);
    return 0;
}

static void *wait_at_epoll(void *room)
{
    struct epoll_event found;
    epoll_wait(epoll, &found, 1, -1);
    return room;
}

static void cancelled(void *(*body)(void *))
{
    pthread_t thread;
    char room;
    void *result;
    CHECK(!pthread_create(&thread, 0, body, &room));
    /* Usually it waits by then; if not, the outcome is the same. */
    usleep(20000);
    CHECK(!pthread_cancel(thread));
    CHECK(!pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
}

static void a_thread_that_waits_for_the_kernel_can_be_cancelled(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int pair[2];
    CHECK(!pipe(idle) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    local = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!bind(local, (void *)&name, sizeof(sa_family_t)) && !listen(local, 1));
    one = pair[0];
    cancelled(read_pipe);
    cancelled(poll_pipe);
    cancelled(select_pipe);
    cancelled(accept_local);
    cancelled(read_local);
    epoll = epoll_create1(0);
    add(idle[0], EPOLLIN);
    cancelled(wait_at_epoll);
    /* A socket that is not connected yet is the kernel's. */
    fresh = socket(AF_INET, SOCK_STREAM, 0);
    add(fresh, EPOLLIN | EPOLLONESHOT);
    CHECK(events(fresh) & EPOLLHUP);
    cancelled(wait_at_epoll);
    /* The instance goes on. */
    CHECK(events(fresh) == 0);
    modify(fresh, EPOLLIN | EPOLLONESHOT);
    CHECK(events(fresh) & EPOLLHUP);
}

static void a_thread_that_accepts_by_tcp_can_be_cancelled(void)
{
    local = listener();
    cancelled(accept_local);
    one = client();
    CHECK(accept(local, 0, 0) >= 0);
    CHECK(!(fcntl(local, F_GETFL) & O_NONBLOCK));
    cancelled(read_local);
}

static void *read_over_rdma(void *room)
{
    CHECK(read(two, room, 1) == 1);
    for (;;)
        pthread_testcancel();
}

static void a_thread_is_cancelled_after_its_wait_for_rdma(void)
{
    pthread_t thread;
    char room;
    void *result;
    connection(&one, &two);
    CHECK(!pthread_create(&thread, 0, read_over_rdma, &room));
    usleep(20000);
    CHECK(!pthread_cancel(thread));
    say(one, "x");
    CHECK(!pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    say(one, "y");
}

static int of_handler;

static void send_a_byte(int signal)
{
    (void)signal;
    CHECK(write(of_handler, "x", 1) == 1);
}

/* POSIX allows a handler to send. */
static void a_handler_sends_while_its_thread_waits(void)
{
    int b;
    connection(&of_handler, &b);
    wait_for_handler(b, send_a_byte);
    hear(b, "x");
}

CASES({"poll_and_select_mix_descriptors", poll_and_select_mix_descriptors},
      {"select_looks_at_no_more_than_there_is", select_looks_at_no_more_than_there_is},
      {"a_mask_lets_a_pending_signal_through", a_mask_lets_a_pending_signal_through},
      {"level_triggered", level_triggered}, {"edge_triggered", edge_triggered},
      {"one_shot", one_shot}, {"listeners_are_ready_both_ways", listeners_are_ready_both_ways},
      {"a_thread_that_waits_sees_changes", a_thread_that_waits_sees_changes},
      {"edges_are_seen_while_another_thread_works", edges_are_seen_while_another_thread_works},
      {"a_thread_that_waits_for_the_kernel_can_be_cancelled",
       a_thread_that_waits_for_the_kernel_can_be_cancelled},
      {"a_thread_that_accepts_by_tcp_can_be_cancelled",
       a_thread_that_accepts_by_tcp_can_be_cancelled},
      {"a_thread_is_cancelled_after_its_wait_for_rdma",
       a_thread_is_cancelled_after_its_wait_for_rdma},
      {"a_handler_sends_while_its_thread_waits", a_handler_sends_while_its_thread_waits})
