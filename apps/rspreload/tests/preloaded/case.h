/* What the C programs of these tests share: a program has cases, of which the first argument names
 * one. A case that fails ends the process with the line and errno. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                               \
    do {                                                                                          \
        if (!(what)) {                                                                            \
            fprintf(stderr, "%s:%d: not true: %s (errno: %s)\n", __FILE__, __LINE__, #what,       \
                    strerror(errno));                                                             \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define FAILS(call, error)                                                                        \
    do {                                                                                          \
        errno = 0;                                                                                \
        CHECK((call) == -1);                                                                      \
        CHECK(errno == (error));                                                                  \
    } while (0)

struct test_case {
    const char *name;
    void (*run)(void);
};

static __thread struct sockaddr_in at; /* Where this thread's listener is. */

__attribute__((unused)) static int listener(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof at;
    CHECK(fd >= 0);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = 0;
    CHECK(!bind(fd, (void *)&at, sizeof at));
    CHECK(!listen(fd, 16));
    CHECK(!getsockname(fd, (void *)&at, &size));
    CHECK(at.sin_port);
    return fd;
}

__attribute__((unused)) static int client(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(!connect(fd, (void *)&at, sizeof at));
    return fd;
}

/* Both ends of a connection, in one process. */
__attribute__((unused)) static void connection(int *a, int *b)
{
    int at = listener();
    *a = client();
    *b = accept(at, 0, 0);
    CHECK(*b >= 0);
    CHECK(!close(at));
}

__attribute__((unused)) static void say(int fd, const char *text)
{
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

__attribute__((unused)) static void hear(int fd, const char *text)
{
    char heard[256];
    size_t length = strlen(text), done = 0;
    while (done < length) {
        ssize_t count = read(fd, heard + done, length - done);
        CHECK(count > 0);
        done += count;
    }
    CHECK(!memcmp(heard, text, length));
}

__attribute__((unused)) static void hear_end(int fd)
{
    char byte;
    CHECK(read(fd, &byte, 1) == 0);
}

__attribute__((unused)) static void ended(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Sends SIGUSR1 to the main thread once it sleeps in poll or ppoll. */
__attribute__((unused)) static void *interrupt_a_wait(void *main_thread)
{
    char path[64];
    long number = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    while (number != SYS_ppoll
#ifdef SYS_poll
           && number != SYS_poll
#endif
    ) {
        FILE *file = fopen(path, "r");
        CHECK(file);
        if (fscanf(file, "%ld", &number) != 1)
            number = -1; /* It runs. */
        fclose(file);
    }
    CHECK(!pthread_kill(*(pthread_t *)main_thread, SIGUSR1));
    return 0;
}

/* Waits until a handler of SIGUSR1 interrupts the wait. */
__attribute__((unused)) static void wait_for_handler(int fd, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    struct pollfd entry = {fd, POLLIN, 0};
    pthread_t thread, own = pthread_self();
    CHECK(!sigaction(SIGUSR1, &action, 0));
    CHECK(!pthread_create(&thread, 0, interrupt_a_wait, &own));
    FAILS(poll(&entry, 1, -1), EINTR);
    CHECK(!pthread_join(thread, 0));
}

static char **arguments;

#define CASES(...)                                                                                \
    int main(int count, char **passed)                                                            \
    {                                                                                             \
        static const struct test_case all[] = {__VA_ARGS__};                                      \
        arguments = passed;                                                                       \
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++)                                   \
            if (count > 1 && !strcmp(passed[1], all[i].name)) {                                   \
                all[i].run();                                                                     \
                return 0;                                                                         \
            }                                                                                     \
        fprintf(stderr, "no such case\n");                                                        \
        return 2;                                                                                 \
    }
