/* Asks for a made-up file in several threads at the same time, in a program that would notice a child of its
   own. argv[1] is the file. Prints what is wrong and fails, or prints "all right". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };

static const char *file;
static volatile sig_atomic_t noticed;

static void notice(int signal) {
    (void)signal;
    noticed++;
}

static void *ask(void *unused) {
    (void)unused;
    errno = 77;
    int fd = open(file, O_RDONLY);
    if (fd < 0 || errno != 77)
        return "a thread has no file, or another errno";
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    void *wrong = NULL;
    if (argc != 2)
        return 2;
    file = argv[1];
    signal(SIGCHLD, notice);
    /* The pipe to the child may get the number of its standard output. */
    int out = dup(STDOUT_FILENO);
    close(STDOUT_FILENO);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *said;
        pthread_join(threads[i], &said);
        wrong = said ? said : wrong;
    }
    dup2(out, STDOUT_FILENO);
    if (!wrong && (noticed || waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD))
        wrong = "the program notices a child";
    puts(wrong ? wrong : "all right");
    return wrong != NULL;
}
