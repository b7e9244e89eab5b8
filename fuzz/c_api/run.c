/* The script, and what each of its operations does. */

#include "fuzz.h"

#include <dirent.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

void c_api_run(const uint8_t *bytes, size_t len);

struct world world;

static const uint8_t *next, *end;

void script_is(const uint8_t *bytes, size_t len)
{
	next = bytes;
	end = bytes + len;
}

int script_ended(void)
{
	return next == end;
}

uint8_t byte(void)
{
	return next == end ? 0 : *next++;
}

uint16_t two(void)
{
	uint16_t low = byte();

	return low | (uint16_t)(byte() << 8);
}

uint32_t four(void)
{
	uint32_t low = two();

	return low | (uint32_t)two() << 16;
}

uint64_t eight(void)
{
	uint64_t low = four();

	return low | (uint64_t)four() << 32;
}

int rarely(unsigned times)
{
	return byte() % times == times - 1;
}

int said(int result)
{
	/* EIO is a panic that was caught. */
	CHECK(result >= 0 && result < 134 && result != EIO);
	return result;
}

int told(int result)
{
	said(result);
	CHECK(!result || errno == result);
	return result;
}

int minus_one(int result)
{
	CHECK(result == 0 || result == -1);
	CHECK(!result || (errno && errno != EIO));
	return result;
}

void *made(void *object)
{
	CHECK(object || (errno && errno != EIO));
	return object;
}

void *pick(void *const *slots, size_t count)
{
	return slots[byte() % count];
}

void *live(void *const *slots, size_t count)
{
	size_t from = byte() % count;

	for (size_t i = 0; i < count; i++)
		if (slots[(from + i) % count])
			return slots[(from + i) % count];
	return NULL;
}

void **room(void **slots, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!slots[i])
			return &slots[i];
	return NULL;
}

void forget(void **slots, size_t count, const void *object)
{
	for (size_t i = 0; i < count; i++)
		if (slots[i] == object)
			slots[i] = NULL;
}

size_t descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t count = 0;

	CHECK(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void (*const OPERATIONS[])(void) = {
	post_sends, post_sends,	  post_sends, post_receives, post_receives, poll_queues,
	use_cq,	    use_srq,	  use_events, put_together,  put_together,  bind_any,
	modify_any, modify_any,	  connect_any, use_qp,	     query_any,	    unsupported_any,
	/* These make and destroy. */
	any_qp,	    make_object,  make_mr,    destroy_object, other_memory,  poll_queues,
};
enum { MAKERS_FROM = 18 };

/* So many at most: an input ends. */
enum { OPERATIONS_AT_MOST = 200 };

void c_api_run(const uint8_t *bytes, size_t len)
{
	size_t before = descriptors();
	int threads;

	script_is(bytes, len);
	threads = begin_world();
	if (threads)
		begin_thread();
	for (int i = 0; i < OPERATIONS_AT_MOST && !script_ended(); i++) {
		size_t which = byte() % COUNT(OPERATIONS);

		if (threads && which >= MAKERS_FROM)
			alone(OPERATIONS[which]);
		else
			OPERATIONS[which]();
		check_unregistered();
	}
	if (threads)
		end_thread();
	end_world();
	check_unregistered();
	CHECK(descriptors() == before);
}

/* A loopback interface of our own. */
static int own_network(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int done = -1, fd;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &request)) {
		request.ifr_flags |= IFF_UP;
		done = ioctl(fd, SIOCSIFFLAGS, &request);
	}
	close(fd);
	return done;
}

int c_api_init(void)
{
	int alone = own_network();
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list);
	for (struct ibv_device **device = list; *device; device++)
		if (!strcmp(ibv_get_device_name(*device), "roce_lo"))
			world.device = *device;
	CHECK(world.device);
	ibv_free_device_list(list);
	make_arena();
	return alone;
}
