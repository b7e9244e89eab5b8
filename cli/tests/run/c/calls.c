/* Asks every function of the C library that takes a path about made-up files, by each form of
   path, and about other files. The device is argv[1], the number of its uverbs file argv[2],
   and argv[3] is the interface. Prints what is wrong and fails, or prints "all right". */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        errno = 0;                                                                         \
        if (!(condition)) {                                                                \
            int error = errno;                                                             \
            printf("%d: not %s (%s; path %s)\n", __LINE__, #condition, strerror(error),    \
                   current);                                                               \
            failures++;                                                                    \
        }                                                                                  \
    } while (0)
#define CHECK_ERROR(condition, expected) CHECK((condition) && errno == (expected))
/* As the owner of a file on a file system that is read-only, or as somebody else. */
#define CHECK_REFUSED(condition) CHECK((condition) && (errno == EROFS || errno == EACCES))

static const char *current = "";

/* Entries of the C library that headers hide behind macros. */
#define FUNCTION(type, name, ...)                                                          \
    type (*name)(__VA_ARGS__) = (type(*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, #name)

static int reads(int fd, const char *text) {
    char found[64] = "";
    if (fd < 0) return 0;
    ssize_t count = read(fd, found, sizeof found - 1);
    int error = errno;
    close(fd);
    errno = error;
    return count == (ssize_t)strlen(text) && strcmp(found, text) == 0;
}

static int reads_stream(FILE *file, const char *text) {
    char found[64] = "";
    if (!file) return 0;
    size_t count = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    return count == strlen(text) && strcmp(found, text) == 0;
}

/* Nothing that is made up can be written to. */
static void writes(const char *path) {
    CHECK_REFUSED(access(path, W_OK) == -1);
    CHECK_REFUSED(euidaccess(path, W_OK) == -1);
    CHECK_REFUSED(open(path, O_WRONLY) == -1);
    CHECK_REFUSED(open(path, O_RDONLY | O_TRUNC) == -1);
    CHECK_REFUSED(creat(path, 0600) == -1);
    CHECK_REFUSED(fopen(path, "w") == NULL);
    CHECK_REFUSED(fopen64(path, "r+") == NULL);
    CHECK_REFUSED(fopen(path, "a") == NULL);
}

/* A file that holds `text`, by a path that starts at `at`. */
static void file(int at, const char *path, const char *text) {
    /* Within a folder that was opened, the file system decides. */
    int read_only = strstr(path, "infiniband") != NULL;
    FUNCTION(int, __open, const char *, int, ...);
    FUNCTION(int, __open64, const char *, int, ...);
    FUNCTION(int, __open_2, const char *, int);
    FUNCTION(int, __open64_2, const char *, int);
    FUNCTION(int, __openat_2, int, const char *, int);
    FUNCTION(int, __openat64_2, int, const char *, int);
    FUNCTION(int, __fxstatat, int, int, const char *, struct stat *, int);
    FUNCTION(int, __fxstatat64, int, int, const char *, struct stat64 *, int);
    FUNCTION(int, __xstat, int, const char *, struct stat *);
    FUNCTION(int, __xstat64, int, const char *, struct stat64 *);
    FUNCTION(int, __lxstat, int, const char *, struct stat *);
    FUNCTION(int, __lxstat64, int, const char *, struct stat64 *);
    FUNCTION(int, eaccess, const char *, int);
    struct stat status;
    struct stat64 status64;
    struct statx statusx;
    current = path;
    CHECK(reads(openat(at, path, O_RDONLY), text));
    CHECK(reads(openat64(at, path, O_RDONLY | O_CLOEXEC), text));
    CHECK(reads(__openat_2(at, path, O_RDONLY), text));
    CHECK(reads(__openat64_2(at, path, O_RDONLY), text));
    CHECK(fstatat(at, path, &status, 0) == 0 && S_ISREG(status.st_mode));
    CHECK(fstatat64(at, path, &status64, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status64.st_mode));
    CHECK(__fxstatat(1, at, path, &status, 0) == 0 && S_ISREG(status.st_mode));
    CHECK(__fxstatat64(1, at, path, &status64, 0) == 0 && S_ISREG(status64.st_mode));
    CHECK(statx(at, path, 0, STATX_TYPE, &statusx) == 0 && S_ISREG(statusx.stx_mode));
    CHECK(faccessat(at, path, R_OK, 0) == 0);
    if (read_only) {
        CHECK_REFUSED(faccessat(at, path, W_OK, 0) == -1);
        CHECK_REFUSED(openat(at, path, O_RDWR) == -1);
    }
    CHECK_ERROR(readlinkat(at, path, (char[8]){0}, 8) == -1, EINVAL);
    if (at != AT_FDCWD) return;
    CHECK(reads(open(path, O_RDONLY), text));
    CHECK(reads(open64(path, O_RDONLY), text));
    CHECK(reads(__open(path, O_RDONLY), text));
    CHECK(reads(__open64(path, O_RDONLY), text));
    CHECK(reads(__open_2(path, O_RDONLY), text));
    CHECK(reads(__open64_2(path, O_RDONLY), text));
    CHECK(reads_stream(fopen(path, "r"), text));
    CHECK(reads_stream(fopen64(path, "re"), text));
    CHECK(reads_stream(freopen(path, "r", fopen("/dev/null", "r")), text));
    CHECK(reads_stream(freopen64(path, "r", fopen("/dev/null", "r")), text));
    CHECK(stat(path, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(stat64(path, &status64) == 0 && S_ISREG(status64.st_mode));
    CHECK(lstat(path, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(lstat64(path, &status64) == 0 && S_ISREG(status64.st_mode));
    CHECK(__xstat(1, path, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(__xstat64(1, path, &status64) == 0 && S_ISREG(status64.st_mode));
    CHECK(__lxstat(1, path, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(__lxstat64(1, path, &status64) == 0 && S_ISREG(status64.st_mode));
    CHECK(access(path, R_OK) == 0 && access(path, F_OK) == 0);
    CHECK(euidaccess(path, R_OK) == 0 && eaccess(path, R_OK) == 0);
    if (read_only) writes(path);
    CHECK_ERROR(opendir(path) == NULL, ENOTDIR);
    CHECK_ERROR(readlink(path, (char[8]){0}, 8) == -1, EINVAL);
}

static int is_resolved(const char *path, const char *expected) {
    FUNCTION(char *, __realpath_chk, const char *, char *, size_t);
    char found[PATH_MAX], *allocated = realpath(path, NULL);
    int right = allocated && strcmp(allocated, expected) == 0;
    if (!right) printf("realpath(%s) is %s\n", path, allocated ? allocated : "none");
    free(allocated);
    allocated = canonicalize_file_name(path);
    right &= allocated && strcmp(allocated, expected) == 0;
    free(allocated);
    right &= realpath(path, found) == found && strcmp(found, expected) == 0;
    right &= __realpath_chk(path, found, sizeof found) == found && strcmp(found, expected) == 0;
    return right;
}

static int lists(DIR *folder, const char *name) {
    int found = 0;
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) found |= strcmp(entry->d_name, name) == 0;
    closedir(folder);
    return found;
}

static int scans(int at, const char *path, const char *name) {
    struct dirent **list;
    struct dirent64 **list64;
    int found = 0, found64 = 0, count = scandirat(at, path, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) found |= strcmp(list[i]->d_name, name) == 0;
    count = scandirat64(at, path, &list64, NULL, alphasort64);
    for (int i = 0; i < count; i++) found64 |= strcmp(list64[i]->d_name, name) == 0;
    if (at == AT_FDCWD) {
        found &= scandir(path, &list, NULL, alphasort) >= 3;
        found64 &= scandir64(path, &list64, NULL, alphasort64) >= 3;
    }
    return found && found64;
}

/* By absolute paths in every form, from open folders, and from the current one. */
static void files(const char *device, const char *number) {
    char path[PATH_MAX], text[64];
    int class = open("/sys/class", O_PATH | O_DIRECTORY), root = open("/", O_RDONLY);
    int made_up = open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY);
    snprintf(text, sizeof text, "%s\n", device);
    const char *forms[] = {"/sys/class/infiniband/%s/node_type", "//sys///class//infiniband//%s/node_type",
                           "/./sys/./class/./infiniband/./%s/./node_type",
                           "/sys/class/infiniband/../infiniband/%s/node_type"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(path, sizeof path, forms[i], device);
        file(AT_FDCWD, path, "1: CA\n");
    }
    snprintf(path, sizeof path, "/sys/class/infiniband_verbs/uverbs%s/ibdev", number);
    file(AT_FDCWD, path, text);
    snprintf(path, sizeof path, "infiniband/%s/node_type", device);
    file(class, path, "1: CA\n");
    snprintf(path, sizeof path, "./sys/class//infiniband/%s/node_type", device);
    file(root, path, "1: CA\n");
    snprintf(path, sizeof path, "%s/node_type", device);
    file(made_up, path, "1: CA\n");
    CHECK(chdir("/sys/class") == 0);
    snprintf(path, sizeof path, "infiniband/%s/node_type", device);
    file(AT_FDCWD, path, "1: CA\n");
    CHECK(chdir("/sys/class/infiniband/") == 0);
    snprintf(path, sizeof path, "%s/node_type", device);
    file(AT_FDCWD, path, "1: CA\n");
    CHECK(getcwd(path, sizeof path) && strcmp(path, "/sys/class/infiniband") == 0);
    CHECK(chdir("/") == 0);
    snprintf(path, sizeof path, "sys/class/infiniband/%s/node_type", device);
    file(AT_FDCWD, path, "1: CA\n");
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/node_type/", device);
    current = path;
    CHECK_ERROR(open(path, O_RDONLY) == -1, ENOTDIR);
    close(class), close(root), close(made_up);
}

static void folders(const char *device, const char *interface) {
    char path[PATH_MAX], expected[PATH_MAX], found[PATH_MAX];
    const char *forms[] = {"/sys/class/infiniband", "/sys/class/infiniband/", "//sys/class/infiniband//."};
    struct stat status;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        current = forms[i];
        CHECK(lists(opendir(forms[i]), device));
        CHECK(scans(AT_FDCWD, forms[i], device));
        CHECK(stat(forms[i], &status) == 0 && S_ISDIR(status.st_mode));
        CHECK(is_resolved(forms[i], "/sys/class/infiniband"));
    }
    int class = open("/sys/class", O_RDONLY);
    CHECK(scans(class, "infiniband", device));
    /* Behind a folder that was opened, and behind links. */
    int folder = open("/sys/class/infiniband", O_RDONLY);
    snprintf(path, sizeof path, "%s/device/net/%s/ifindex", device, interface);
    current = path;
    CHECK(faccessat(folder, path, R_OK, 0) == 0);
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/net/%s", device, interface);
    snprintf(found, sizeof found, "/sys/class/net/%s", interface);
    CHECK(realpath(found, expected) && is_resolved(path, expected));
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/subsystem/%s/node_type", device, device);
    CHECK(access(path, R_OK) == 0);
    snprintf(expected, sizeof expected, "/sys/class/infiniband/%s/node_type", device);
    CHECK(is_resolved(path, expected));
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/subsystem", device);
    ssize_t count = readlink(path, found, sizeof found);
    CHECK(count == 16 && memcmp(found, "../../infiniband", 16) == 0);
    /* A descriptor says where it leads by the name that the program knows. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", folder);
    count = readlink(path, found, sizeof found);
    CHECK(count == 21 && memcmp(found, "/sys/class/infiniband", 21) == 0);
    CHECK(lists(opendir("/sys/class/infiniband/../net"), interface));
    close(class), close(folder);
}

static void devices(const char *number) {
    char path[PATH_MAX], named[PATH_MAX];
    struct stat status;
    snprintf(named, sizeof named, "/dev/infiniband/uverbs%s", number);
    const char *forms[] = {"/dev/infiniband/uverbs%s", "//dev/./infiniband//uverbs%s"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(path, sizeof path, forms[i], number);
        current = path;
        CHECK(stat(path, &status) == 0 && S_ISCHR(status.st_mode));
        CHECK(lstat(path, &status) == 0 && S_ISCHR(status.st_mode));
        CHECK(major(status.st_rdev) == 1 && minor(status.st_rdev) == 7);
        CHECK(access(path, R_OK | W_OK) == 0);
        CHECK(is_resolved(path, named));
        CHECK_ERROR(readlink(path, (char[8]){0}, 8) == -1, EINVAL);
        int device = open(path, O_RDWR | O_CLOEXEC);
        CHECK(device >= 0 && fstat(device, &status) == 0 && S_ISCHR(status.st_mode));
        CHECK_ERROR(write(device, "x", 1) == -1, ENOSPC);
        close(device);
    }
    current = "/dev/infiniband";
    CHECK(lists(opendir("/dev/infiniband"), strrchr(named, '/') + 1));
    CHECK(access("/dev/infiniband/rdma_cm", F_OK) == 0);
    CHECK_ERROR(open("/dev/infiniband/none", O_RDONLY) == -1, ENOENT);
    CHECK_ERROR(open(strcat(path, "/"), O_RDONLY) == -1, ENOTDIR);
}

/* What has nothing to do with RDMA is as it was. */
static void others(void) {
    const char *volatile nowhere = NULL;
    struct stat status;
    char folder[] = "/tmp/roce-calls-XXXXXX", path[PATH_MAX], found[PATH_MAX];
    current = "others";
    CHECK(mkdtemp(folder) == folder && chdir(folder) == 0);
    CHECK(getcwd(found, sizeof found) && strcmp(found, folder) == 0);
    /* Files of these names elsewhere. */
    CHECK(mkdir("infiniband", 0700) == 0 && mkdir("sys", 0700) == 0 && mkdir("dev", 0700) == 0);
    CHECK(mkdir("class", 0700) == 0);
    const char *names[] = {"infiniband/x", "sys/x", "dev/x", "class/x", "x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int file = open(names[i], O_CREAT | O_WRONLY | O_EXCL, 0640);
        current = names[i];
        CHECK(file >= 0 && fstat(file, &status) == 0 && (status.st_mode & 0777) == 0640);
        CHECK(write(file, "data", 4) == 4 && close(file) == 0);
        CHECK(reads_stream(fopen(names[i], "r"), "data"));
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK(is_resolved(names[i], path));
    }
    CHECK(symlink("x", "link") == 0);
    CHECK(readlink("link", found, sizeof found) == 1 && found[0] == 'x');
    CHECK(lstat("link", &status) == 0 && S_ISLNK(status.st_mode));
    CHECK(access("/dev/null", W_OK) == 0 && open("/dev/null", O_RDWR) >= 0);
    CHECK(lists(opendir("/sys/class/net"), "lo"));
    CHECK_ERROR(open("/sys/class/infinibandx", O_RDONLY) == -1, ENOENT);
    CHECK_ERROR(open("/nonexistent/x", O_RDONLY) == -1, ENOENT);
    CHECK_ERROR(open("", O_RDONLY) == -1, ENOENT);
    CHECK_ERROR(open(nowhere, O_RDONLY) == -1, EFAULT);
    CHECK_ERROR(openat(-1, "infiniband", O_RDONLY) == -1, EBADF);
    CHECK_ERROR(openat(987654, "infiniband", O_RDONLY) == -1, EBADF);
    memset(path, 'a', sizeof path - 1), path[sizeof path - 1] = 0;
    CHECK_ERROR(open(path, O_RDONLY) == -1, ENAMETOOLONG);
    memcpy(path, "/sys/class/infiniband/", 22);
    CHECK(open(path, O_RDONLY) == -1);
    /* A call that works leaves errno alone. */
    errno = 77;
    close(open("/dev/null", O_RDONLY));
    CHECK(1);
    snprintf(path, sizeof path, "rm -r %s", folder);
    CHECK(chdir("/") == 0 && system(path) == 0);
}

static volatile sig_atomic_t in_handler;

static void handler(int signal) {
    (void)signal;
    in_handler = access("/sys/class/infiniband", R_OK) == 0 && access("/nonexistent", R_OK) == -1;
}

/* In a signal handler on a small stack, and in children. */
static void elsewhere(void) {
    stack_t stack = {.ss_sp = malloc(32768), .ss_size = 32768};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    current = "elsewhere";
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && in_handler);
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(access("/sys/class/infiniband", R_OK) == 0 ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    child = vfork();
    if (child == 0) _exit(access("/sys/class/infiniband", R_OK) == 0 ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* A program that empties its environment later. */
    clearenv();
    CHECK(access("/sys/class/infiniband", R_OK) == 0);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    errno = 0;
    int fd = open("/sys/class/infiniband", O_RDONLY);
    int before = errno;
    close(fd);
    if (before != 0) printf("a call that worked set errno to %d\n", before), failures++;
    files(argv[1], argv[2]);
    folders(argv[1], argv[3]);
    devices(argv[2]);
    others();
    elsewhere();
    if (failures == 0) printf("all right\n");
    return failures != 0;
}
