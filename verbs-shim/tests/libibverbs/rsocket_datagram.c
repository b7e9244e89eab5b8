/* Datagram sockets over RDMA behave as the socket calls do whose names they have. */
#define _GNU_SOURCE

#include "sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/uio.h>
#include <unistd.h>

/* The longest datagram over IPv4: what a receiver takes, without the header. */
enum { LONGEST = 2048 - 16, PATIENCE = 60000 };

static int bound(void)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);

	CHECK(fd >= 0 && !rbind(fd, loopback(0), sizeof(address)));
	return fd;
}

static void send_to(int from, int to, const void *bytes, size_t len)
{
	ssize_t sent = rsendto(from, bytes, len, 0, loopback(port_of(to)), sizeof(address));

	CHECK(sent == (ssize_t)len);
}

/* Receives a datagram, whose sender must be the socket `from`. */
static ssize_t receive(int fd, void *bytes, size_t len, int flags, int from)
{
	struct sockaddr_in peer = { 0 };
	socklen_t peer_len = sizeof(peer);
	ssize_t received = rrecvfrom(fd, bytes, len, flags, (struct sockaddr *)&peer, &peer_len);

	CHECK(received < 0 || (peer_len == sizeof(peer) && peer.sin_family == AF_INET));
	CHECK(received < 0 || ntohs(peer.sin_port) == port_of(from));
	CHECK(received < 0 || peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	return received;
}

/* The first datagrams go over the UDP socket, and the later ones from QP to QP. All are whole, each
 * comes once, and each has its sender's address. */
static void both_ways(int a, int b)
{
	unsigned char sent[LONGEST], got[LONGEST + 1];
	int i, fds[] = { a, b };

	for (i = 0; i < 2000; i++) {
		int from = fds[i % 2], to = fds[(i + 1) % 2];
		size_t len = (size_t)i * 977 % (LONGEST + 1);

		memset(sent, i, len);
		send_to(from, to, sent, len);
		CHECK(receive(to, got, sizeof(got), 0, from) == (ssize_t)len);
		CHECK(!memcmp(sent, got, len));
		CHECK(SAYS(EAGAIN, rrecv(to, got, sizeof(got), MSG_DONTWAIT)));
	}
}

static void too_long_or_nowhere(int a, int b)
{
	static unsigned char bytes[LONGEST + 1];

	CHECK(SAYS(EMSGSIZE, rsendto(a, bytes, sizeof(bytes), 0, loopback(port_of(b)),
				     sizeof(address))));
	CHECK(SAYS(EDESTADDRREQ, rsend(a, bytes, 1, 0)));
	CHECK(SAYS(EINVAL, rsendto(a, bytes, 1, 0, loopback(port_of(b)), 7)));
	CHECK(SAYS(EINVAL, rbind(a, loopback(0), sizeof(address))));
	CHECK(SAYS(EOPNOTSUPP, rlisten(a, 1)) && SAYS(EOPNOTSUPP, raccept(a, NULL, NULL)));
	CHECK(SAYS(ENOTCONN, rshutdown(a, SHUT_RDWR)));
	CHECK(!ready(b, POLLIN, 0));
}

/* Bytes without room are lost with their datagram, and the flags say so. */
static void cut(int a, int b)
{
	char got[8] = { 0 }, rest[8] = { 0 };
	struct iovec parts[] = { { got, 2 }, { rest, 3 } };
	struct sockaddr_in peer;
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2, .msg_name = &peer,
				  .msg_namelen = sizeof(peer) };

	send_to(a, b, "0123456789", 10);
	send_to(a, b, "abcd", 4);
	CHECK(ready(b, POLLIN | POLLOUT, PATIENCE) & POLLIN);
	CHECK(receive(b, got, 4, MSG_PEEK, a) == 4 && !memcmp(got, "0123", 4));
	CHECK(receive(b, got, 4, MSG_PEEK | MSG_TRUNC, a) == 10);
	CHECK(rrecvmsg(b, &message, 0) == 5 && message.msg_flags == MSG_TRUNC);
	CHECK(!memcmp(got, "01", 2) && !memcmp(rest, "234", 3));
	CHECK(message.msg_namelen == sizeof(peer) && ntohs(peer.sin_port) == port_of(a));
	message.msg_namelen = sizeof(peer);
	CHECK(rrecvmsg(b, &message, MSG_TRUNC) == 4 && !message.msg_flags);
	CHECK(!memcmp(got, "ab", 2) && !memcmp(rest, "cd", 2));

	/* A message in parts is one datagram. */
	loopback(port_of(b));
	message = (struct msghdr){ .msg_iov = parts, .msg_iovlen = 2, .msg_name = &address,
				   .msg_namelen = sizeof(address) };
	CHECK(rsendmsg(a, &message, 0) == 5);
	CHECK(receive(b, rest, sizeof(rest), 0, a) == 5 && !memcmp(rest, "abcd", 4));
	send_to(a, b, NULL, 0);
	CHECK(receive(b, rest, sizeof(rest), 0, a) == 0);
}

/* A connected socket hears its peer alone. */
static void connected(int a, int b, int stranger)
{
	struct sockaddr_in peer;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	socklen_t len = sizeof(peer);
	char got[8];

	CHECK(SAYS(ENOTCONN, rgetpeername(b, (struct sockaddr *)&peer, &len)));
	CHECK(!rconnect(b, loopback(port_of(a)), sizeof(address)));
	CHECK(!rgetpeername(b, (struct sockaddr *)&peer, &len) && len == sizeof(peer));
	CHECK(ntohs(peer.sin_port) == port_of(a));
	/* The stranger's first datagram goes over UDP, the peer's second may not. */
	send_to(stranger, b, "no", 2);
	CHECK(rsend(b, "ask", 3, 0) == 3 && receive(a, got, sizeof(got), 0, b) == 3);
	send_to(a, b, "yes", 3);
	CHECK(receive(b, got, sizeof(got), 0, a) == 3 && !memcmp(got, "yes", 3));
	/* Another destination for one datagram. */
	send_to(b, stranger, "hello", 5);
	CHECK(receive(stranger, got, sizeof(got), 0, b) == 5);
	send_to(stranger, b, "no", 2);
	send_to(a, b, "again", 5);
	CHECK(receive(b, got, sizeof(got), 0, a) == 5 && !memcmp(got, "again", 5));
	CHECK(!ready(b, POLLIN, 0));

	CHECK(!rconnect(b, &none, sizeof(none)));
	CHECK(SAYS(ENOTCONN, rgetpeername(b, (struct sockaddr *)&peer, &len)));
	CHECK(SAYS(EDESTADDRREQ, rsend(b, got, 1, 0)));
	send_to(stranger, b, "now", 3);
	CHECK(receive(b, got, sizeof(got), 0, stranger) == 3);
}

static void options(int a)
{
	int value = -1, size = 1 << 16;
	socklen_t len = sizeof(value);
	struct timeval soon = { .tv_usec = 1000 };

	CHECK(!rgetsockopt(a, SOL_SOCKET, SO_TYPE, &value, &len) && value == SOCK_DGRAM);
	CHECK(!rgetsockopt(a, SOL_SOCKET, SO_DOMAIN, &value, &len) && value == AF_INET);
	CHECK(!rgetsockopt(a, SOL_SOCKET, SO_PROTOCOL, &value, &len) && value == IPPROTO_UDP);
	CHECK(!rsetsockopt(a, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	CHECK(!rgetsockopt(a, SOL_SOCKET, SO_RCVBUF, &value, &len) && value >= size);
	CHECK(!rsetsockopt(a, SOL_SOCKET, SO_BROADCAST, &size, sizeof(size)));
	CHECK(!rgetsockopt(a, SOL_SOCKET, SO_BROADCAST, &value, &len) && value == 1);
	CHECK(SAYS(ENOPROTOOPT, rsetsockopt(a, SOL_SOCKET, 12345, &size, sizeof(size))));
	CHECK(!rsetsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
	CHECK(SAYS(EAGAIN, rrecv(a, &value, sizeof(value), 0)));
	CHECK(!rfcntl(a, F_SETFL, O_NONBLOCK) && rfcntl(a, F_GETFL) & O_NONBLOCK);
	CHECK(SAYS(EAGAIN, rrecv(a, &value, sizeof(value), 0)));
	CHECK(!rfcntl(a, F_SETFL, 0));
}

/* Nobody has the peer's port: the kernel says so, and the next call fails once. */
static void refused(void)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0), gone = bound(), error = -1;
	uint16_t port = port_of(gone);
	socklen_t len = sizeof(error);

	CHECK(!rclose(gone) && SAYS(EBADF, rrecv(gone, &error, 1, 0)));
	CHECK(!rconnect(fd, loopback(port), sizeof(address)) && rsend(fd, "?", 1, 0) == 1);
	CHECK(ready(fd, POLLIN, PATIENCE) & POLLERR);
	CHECK(!rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && error == ECONNREFUSED);
	CHECK(!ready(fd, POLLIN, 0));

	CHECK(!rshutdown(fd, SHUT_WR) && SAYS(EPIPE, rsend(fd, "?", 1, 0)));
	CHECK(!rshutdown(fd, SHUT_RD) && !rrecv(fd, &error, sizeof(error), 0));
	CHECK(ready(fd, POLLIN, 0) & POLLHUP);
	CHECK(!rclose(fd));
}

int main(void)
{
	int a = bound(), b = bound(), stranger = bound();

	both_ways(a, b);
	too_long_or_nowhere(a, b);
	cut(a, b);
	connected(a, b, stranger);
	options(a);
	refused();
	CHECK(!rclose(a) && !rclose(b) && !rclose(stranger));
	CHECK(SAYS(EBADF, rclose(a)));
	return 0;
}
