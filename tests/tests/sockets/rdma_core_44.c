/* Preloaded into programs with librdmacm of rdma-core 44: repairs two of its faults, which have nothing
 * to do with its peer. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <time.h>

enum { GID_OF_IPV4 = 1, PORT = 1 };

/* The address handles of its datagram sockets to their own QPs have no global route, which the kernel
 * refuses on RoCE devices. This gives them one, from the GID of the guest's IPv4 address to itself. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *(*next)(struct ibv_pd *, struct ibv_ah_attr *);
	struct ibv_ah_attr global = *attr;

	*(void **)&next = dlsym(RTLD_NEXT, "ibv_create_ah");
	if (!global.is_global) {
		global.is_global = 1;
		global.grh.sgid_index = GID_OF_IPV4;
		global.grh.hop_limit = 64;
		if (ibv_query_gid(pd->context, PORT, GID_OF_IPV4, &global.grh.dgid))
			return NULL;
	}
	return next(pd, &global);
}

static long long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* After its rpoll has once timed out, later ones never do: each counts itself in before it waits, and one
 * that times out doesn't count itself out. A program that repeats what was lost then repeats it no more.
 * This one looks without waiting until the time is over, or for ever where it is negative. */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	int (*next)(struct pollfd *, nfds_t, int);
	long long end = milliseconds() + timeout;
	int ready;

	*(void **)&next = dlsym(RTLD_NEXT, "rpoll");
	while ((ready = next(fds, nfds, 0)) == 0 && (timeout < 0 || milliseconds() < end))
		nanosleep(&pause, NULL);
	return ready;
}
