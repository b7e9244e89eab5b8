/* Sockets over RDMA, used by two threads at once, as each half of the script says. All sockets are
 * non-blocking, so no call waits. */

#include "fuzz.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <unistd.h>

int c_api_init(void);
int c_rsocket_init(void);
void c_rsocket_run(const uint8_t *bytes, size_t len);

enum { SOCKETS = 8, BUFFER = 5000, MAPPED = 256 };

/* Descriptors that may be sockets. Both threads use and replace them. */
static _Atomic int sockets[SOCKETS];
/* What is mapped for peers, and never goes away. */
static uint8_t area[SOCKETS][MAPPED];
static size_t before;

/* The descriptors of this process that sockets and connections have. The datapath keeps some others
 * for the peers that it knows. */
static size_t eventfds(void)
{
	char path[32], target[32];
	size_t count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(path, target, sizeof(target));
		count += len > 0 && memmem(target, len, "eventfd", 7);
	}
	return count;
}

struct script {
	const uint8_t *next, *end;
};

static uint8_t take(struct script *script)
{
	return script->next < script->end ? *script->next++ : 0;
}

static uint16_t take_two(struct script *script)
{
	uint8_t low = take(script);

	return low | take(script) << 8;
}

/* A descriptor: mostly that of a socket. */
static int any_socket(struct script *script)
{
	uint8_t which = take(script);

	return which < 8 ? (int)which - 8 : which < 12 ? 1 << 20 : sockets[which % SOCKETS];
}

static struct sockaddr_in peer_address(struct script *script)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t len = sizeof(address);
	uint8_t how = take(script);

	if (how % 4 && !rgetsockname(sockets[how % SOCKETS], (struct sockaddr *)&address, &len))
		return address;
	address.sin_family = how == 4 ? how : AF_INET;
	address.sin_addr.s_addr = htonl(how == 8 ? INADDR_ANY : INADDR_LOOPBACK);
	address.sin_port = how == 12 ? htons(7471) : 0;
	return address;
}

/* Keeps a new socket in the place of another. */
static void keep(struct script *script, int fd)
{
	int old;

	if (fd < 0)
		return;
	CHECK(!rfcntl(fd, F_SETFL, O_NONBLOCK));
	old = atomic_exchange(&sockets[take(script) % SOCKETS], fd);
	if (old >= 0)
		rclose(old);
}

static void set_option(struct script *script, int fd)
{
	static const int OPTIONS[][2] = {
		{ SOL_SOCKET, SO_RCVBUF },    { SOL_SOCKET, SO_SNDBUF },
		{ SOL_SOCKET, SO_KEEPALIVE }, { SOL_SOCKET, SO_LINGER },
		{ SOL_SOCKET, SO_RCVTIMEO },  { SOL_SOCKET, SO_ERROR },
		{ SOL_SOCKET, SO_REUSEADDR }, { IPPROTO_TCP, TCP_NODELAY },
		{ IPPROTO_TCP, TCP_KEEPIDLE }, { IPPROTO_IPV6, IPV6_V6ONLY },
		{ SOL_RDMA, RDMA_SQSIZE },    { SOL_RDMA, RDMA_RQSIZE },
		{ SOL_RDMA, RDMA_INLINE },    { SOL_RDMA, RDMA_IOMAPSIZE },
		{ SOL_RDMA, RDMA_ROUTE },     { 77, 88 },
	};
	const int *option = OPTIONS[take(script) % COUNT(OPTIONS)];
	long long value[2] = { take_two(script), take(script) };
	socklen_t len = take(script) % 17;

	rsetsockopt(fd, option[0], option[1], value, len);
	len = take(script) % 16;
	if (!rgetsockopt(fd, option[0], option[1], value, &len))
		CHECK(len <= sizeof(value));
}

static void polls(struct script *script)
{
	struct pollfd fds[4];
	nfds_t count = take(script) % 5;

	for (nfds_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){ .fd = any_socket(script), .events = take_two(script) };
	CHECK(rpoll(fds, count, take(script) % 3) <= (int)count);
}

static void selects(struct script *script)
{
	fd_set reads, writes;
	struct timeval time = { .tv_usec = take(script) };
	int fd = any_socket(script);

	FD_ZERO(&reads);
	FD_ZERO(&writes);
	if (fd >= 0 && fd < FD_SETSIZE) {
		FD_SET(fd, &reads);
		FD_SET(fd, &writes);
	}
	rselect(take(script) * 8, &reads, &writes, NULL, &time);
}

static void vectors(struct script *script, int fd, int sends)
{
	uint8_t bytes[BUFFER];
	struct iovec parts[4];
	int count = take(script) % 6;
	size_t at = 0;
	ssize_t moved;

	memset(bytes, 1, sizeof(bytes));
	for (int i = 0; i < 4; i++) {
		parts[i] = (struct iovec){ .iov_base = bytes + at, .iov_len = take(script) };
		at += parts[i].iov_len;
	}
	count = count > 4 ? -1 : count;
	moved = sends ? rwritev(fd, parts, count) : rreadv(fd, parts, count);
	CHECK(moved <= (ssize_t)at);
}

static void step(struct script *script)
{
	uint8_t bytes[BUFFER] = { 0 }, how = take(script);
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = any_socket(script), place;
	size_t count = take_two(script) % BUFFER;

	switch (how % 20) {
	case 0:
	case 1:
		keep(script, rsocket(how & 32 ? AF_INET6 : AF_INET, how & 64 ? how : SOCK_STREAM, 0));
		break;
	case 2:
		address = peer_address(script);
		rbind(fd, (struct sockaddr *)&address, how & 32 ? how % 16 : sizeof(address));
		break;
	case 3:
		rlisten(fd, take(script));
		break;
	case 4:
	case 5:
		keep(script, raccept(fd, how & 32 ? NULL : (struct sockaddr *)&address, &len));
		break;
	case 6:
	case 7:
		address = peer_address(script);
		rconnect(fd, (struct sockaddr *)&address, sizeof(address));
		break;
	case 8:
	case 9:
		CHECK(rsend(fd, bytes, count, how & 32 ? MSG_DONTWAIT : 0) <= (ssize_t)count);
		break;
	case 10:
	case 11:
		CHECK(rrecv(fd, bytes, count, how & 32 ? MSG_PEEK : 0) <= (ssize_t)count);
		break;
	case 12:
		rshutdown(fd, take(script) % 4);
		break;
	case 13:
		place = take(script) % SOCKETS;
		rclose(atomic_exchange(&sockets[place], -1));
		break;
	case 14:
		polls(script);
		break;
	case 15:
		set_option(script, fd);
		break;
	case 16:
		vectors(script, fd, how & 32);
		break;
	case 17:
		place = how / 32;
		riomap(fd, area[place], MAPPED, how & 32 ? PROT_WRITE : PROT_NONE, 0, take(script));
		if (take(script) % 4 == 0)
			riounmap(fd, area[place], MAPPED);
		break;
	case 18:
		CHECK((ssize_t)riowrite(fd, bytes, count, take(script), 0) <= (ssize_t)count);
		break;
	default:
		selects(script);
		rgetpeername(fd, (struct sockaddr *)&address, &len);
	}
}

static void *run(void *argument)
{
	struct script *script = argument;

	while (script->next < script->end)
		step(script);
	return NULL;
}

void c_rsocket_run(const uint8_t *bytes, size_t len)
{
	struct script halves[2] = { { bytes, bytes + len / 2 }, { bytes + len / 2, bytes + len } };
	pthread_t thread;

	for (size_t i = 0; i < SOCKETS; i++)
		sockets[i] = -1;
	CHECK(!pthread_create(&thread, NULL, run, &halves[1]));
	run(&halves[0]);
	CHECK(!pthread_join(thread, NULL));
	for (size_t i = 0; i < SOCKETS; i++)
		if (sockets[i] >= 0)
			rclose(sockets[i]);
	/* Connections that are being closed keep theirs for a moment. */
	for (int tries = 0; eventfds() > before && tries < 10000; tries++)
		poll(NULL, 0, 1);
	CHECK(eventfds() <= before);
}

/* What a device opens with its first connection stays open, as do its threads. */
static void first_connection(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(here);
	int listens = rsocket(AF_INET, SOCK_STREAM, 0), ends[2], value = 1;
	struct pollfd polled = { .events = POLLOUT };
	static uint8_t bytes[1 << 16];

	CHECK(!rsetsockopt(listens, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value)));
	CHECK(!rbind(listens, (struct sockaddr *)&here, len) && !rlisten(listens, 1));
	CHECK(!rgetsockname(listens, (struct sockaddr *)&here, &len));
	polled.fd = ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(!rfcntl(ends[0], F_SETFL, O_NONBLOCK));
	CHECK(rconnect(ends[0], (struct sockaddr *)&here, len) && errno == EINPROGRESS);
	ends[1] = raccept(listens, NULL, NULL);
	CHECK(ends[1] >= 0 && rpoll(&polled, 1, -1) == 1 && polled.revents == POLLOUT);
	for (int i = 0; i < 2; i++) {
		CHECK(!rfcntl(ends[i], F_SETFL, 0));
		CHECK(rsend(ends[i], bytes, sizeof(bytes), 0) == sizeof(bytes));
		CHECK(rrecv(ends[!i], bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes));
	}
	CHECK(!rclose(ends[0]) && !rclose(ends[1]) && !rclose(listens));
	/* At all addresses, on all devices. */
	listens = rsocket(AF_INET6, SOCK_STREAM, 0);
	CHECK(!rlisten(listens, 1) && !rclose(listens));
}

int c_rsocket_init(void)
{
	int alone = c_api_init();

	first_connection();
	before = eventfds();
	return alone;
}
