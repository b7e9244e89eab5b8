// For LD_PRELOAD: a program that asks for shared memory of huge pages gets it of ordinary pages, so that it runs on machines
// that have set none aside.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/shm.h>

int shmget(key_t key, size_t size, int flags)
{
	int (*next)(key_t, size_t, int) = (int (*)(key_t, size_t, int))dlsym(RTLD_NEXT, "shmget");
	return next(key, size, flags & ~SHM_HUGETLB);
}
