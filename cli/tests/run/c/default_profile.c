/* Runs a program under a filter of system calls that refuses what Docker's default profile
   refuses to a container without CAP_SYS_ADMIN, as far as namespaces and mounts go. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define REFUSE(call, error) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), FAIL(error)

/* The bits of `clone` that make namespaces: the profile's mask, 0x7e020000. */
#define NEW_NAMESPACES                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |         \
     CLONE_NEWPID | CLONE_NEWNET)

int main(int argc, char **argv) {
    struct sock_filter filter[] = {
        LOAD(nr),
        REFUSE(mount, EPERM), REFUSE(umount2, EPERM), REFUSE(pivot_root, EPERM),
        REFUSE(unshare, EPERM), REFUSE(setns, EPERM), REFUSE(open_tree, EPERM),
        REFUSE(move_mount, EPERM), REFUSE(fsopen, EPERM), REFUSE(fsconfig, EPERM),
        REFUSE(fsmount, EPERM), REFUSE(fspick, EPERM), REFUSE(mount_setattr, EPERM),
        REFUSE(bpf, EPERM), REFUSE(perf_event_open, EPERM), REFUSE(userfaultfd, EPERM),
        /* Its flags lie in memory, where a filter does not see them. */
        REFUSE(clone3, ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1),
        FAIL(EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (argc < 2) {
        fprintf(stderr, "usage: default_profile PROGRAM [ARGUMENT]...\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("default_profile: seccomp");
        return 1;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
