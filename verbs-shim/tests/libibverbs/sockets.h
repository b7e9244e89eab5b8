/* What the tests of rsockets share. The program defines _GNU_SOURCE before it includes this. */

#ifndef SOCKETS_H
#define SOCKETS_H

#include "ends.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>

#define SAYS(number, call) (errno = 0, (call) == -1 && errno == (number))

static struct sockaddr_in address;

static inline struct sockaddr *loopback(uint16_t port)
{
	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	return (struct sockaddr *)&address;
}

static inline uint16_t port_of(int fd)
{
	struct sockaddr_in local;
	socklen_t len = sizeof(local);

	CHECK(!rgetsockname(fd, (struct sockaddr *)&local, &len) && len == sizeof(local));
	CHECK(local.sin_family == AF_INET);
	return ntohs(local.sin_port);
}

static inline short ready(int fd, short events, int timeout)
{
	struct pollfd poll = { .fd = fd, .events = events };

	CHECK(rpoll(&poll, 1, timeout) >= 0);
	return poll.revents;
}

#endif
