/* Stream sockets over RDMA behave as the socket calls do whose names they have. */
#define _GNU_SOURCE

#include "sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <infiniband/sa.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int listener(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0 && !rbind(fd, loopback(0), sizeof(address)) && !rlisten(fd, 10));
	return fd;
}

/* A connected pair, through calls that do not wait. */
static void connected(int ends[2])
{
	int listens = listener(), error = -1;
	socklen_t len = sizeof(error);
	struct sockaddr_in peer;
	socklen_t peer_len = sizeof(peer);

	ends[0] = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	CHECK(!rfcntl(ends[0], F_SETFL, O_NONBLOCK) && !rfcntl(listens, F_SETFL, O_NONBLOCK));
	CHECK(SAYS(EAGAIN, raccept(listens, NULL, NULL)) && !ready(listens, POLLIN, 0));
	CHECK(SAYS(EINPROGRESS, rconnect(ends[0], loopback(port_of(listens)), sizeof(address))));
	CHECK(ready(listens, POLLIN, 60000) == POLLIN);
	ends[1] = raccept(listens, (struct sockaddr *)&peer, &peer_len);
	CHECK(ends[1] >= 0 && peer_len == sizeof(peer));
	CHECK(ready(ends[0], POLLOUT, 60000) == POLLOUT);
	CHECK(!rgetsockopt(ends[0], SOL_SOCKET, SO_ERROR, &error, &len) && !error);
	CHECK(ntohs(peer.sin_port) == port_of(ends[0]));
	CHECK(SAYS(EISCONN, rconnect(ends[0], loopback(1), sizeof(address))));
	CHECK(!rfcntl(ends[0], F_SETFL, 0) && !(rfcntl(ends[1], F_GETFL) & O_NONBLOCK));
	CHECK(!rclose(listens));
}

static void both_closed(int ends[2])
{
	CHECK(!rclose(ends[0]) && !rclose(ends[1]));
	CHECK(SAYS(EBADF, rclose(ends[0])));
}

/* Wrong arguments are refused, with the error of the socket call. */
static void refused(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), listens = listener(), value = 7;
	socklen_t len = sizeof(value);
	char byte = 0;
	struct sockaddr unknown = { .sa_family = AF_APPLETALK };

	CHECK(SAYS(EAFNOSUPPORT, rsocket(AF_APPLETALK, SOCK_STREAM, 0)));
	CHECK(SAYS(EPROTONOSUPPORT, rsocket(AF_INET, SOCK_RAW, 0)));
	CHECK(SAYS(EPROTONOSUPPORT, rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP)));
	CHECK(SAYS(EBADF, rsend(-1, &byte, 1, 0)) && SAYS(EBADF, rrecv(1 << 20, &byte, 1, 0)));
	CHECK(SAYS(EBADF, rsend(0, &byte, 1, 0)) && SAYS(EBADF, rlisten(0, 1)));
	CHECK(SAYS(ENOTCONN, rsend(fd, &byte, 1, 0)) && SAYS(ENOTCONN, rrecv(fd, &byte, 1, 0)));
	CHECK(SAYS(ENOTCONN, rshutdown(fd, SHUT_RDWR)));
	CHECK(SAYS(ENOTCONN, rgetpeername(fd, (struct sockaddr *)&address, &len)));
	CHECK(SAYS(EINVAL, raccept(fd, NULL, NULL)));
	CHECK(SAYS(EINVAL, rbind(fd, loopback(0), 4)) && SAYS(EINVAL, rbind(fd, NULL, 16)));
	CHECK(SAYS(EAFNOSUPPORT, rbind(fd, &unknown, sizeof(unknown))));
	CHECK(SAYS(EADDRINUSE, rbind(fd, loopback(port_of(listens)), sizeof(address))));
	CHECK(!rbind(fd, loopback(0), sizeof(address)));
	CHECK(SAYS(EINVAL, rbind(fd, loopback(0), sizeof(address))));
	CHECK(SAYS(EINVAL, rconnect(listens, loopback(1), sizeof(address))));
	/* Nobody listens at the port of a socket that does not. */
	int other = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(SAYS(ECONNREFUSED, rconnect(other, loopback(port_of(fd)), sizeof(address))));
	CHECK(!rgetsockopt(other, SOL_SOCKET, SO_ERROR, &value, &len) && !value);
	/* It may try again. */
	CHECK(SAYS(ECONNREFUSED, rconnect(other, loopback(port_of(fd)), sizeof(address))));
	CHECK(SAYS(EINVAL, rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &value, sizeof(value))));
	CHECK(SAYS(ENOPROTOOPT, rsetsockopt(fd, SOL_SOCKET, SO_BROADCAST, &value, sizeof(value))));
	CHECK(SAYS(EINVAL, rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, 1)));
	CHECK(SAYS(EINVAL, rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, NULL, sizeof(value))));
	CHECK(SAYS(EOPNOTSUPP, rfcntl(fd, F_GETLK)));
	CHECK(SAYS(ENOTCONN, riomap(fd, &byte, 1, PROT_WRITE, 0, -1)));
	CHECK(!rclose(fd) && !rclose(other) && !rclose(listens));
}

/* A call that did not wait learns later that nobody listens. */
static void refused_later(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), bound = rsocket(AF_INET, SOCK_STREAM, 0);
	int error = 0;
	socklen_t len = sizeof(error);

	CHECK(!rbind(bound, loopback(0), sizeof(address)) && !rfcntl(fd, F_SETFL, O_NONBLOCK));
	CHECK(SAYS(EINPROGRESS, rconnect(fd, loopback(port_of(bound)), sizeof(address))));
	CHECK(ready(fd, POLLOUT, 60000) & POLLERR);
	CHECK(!rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) && error == ECONNREFUSED);
	CHECK(!rclose(fd) && !rclose(bound));
}

static void options(void)
{
	int ends[2], value = 100000;
	socklen_t len = sizeof(value);
	struct linger linger;
	struct timeval time = { .tv_usec = 1000 };
	char byte;

	connected(ends);
	CHECK(!rsetsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value)));
	CHECK(!rgetsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &value, &len) && value == 1);
	CHECK(!rgetsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &len) && value == SOCK_STREAM);
	CHECK(!rgetsockopt(ends[0], SOL_SOCKET, SO_DOMAIN, &value, &len) && value == AF_INET);
	CHECK(!rgetsockopt(ends[0], SOL_SOCKET, SO_ACCEPTCONN, &value, &len) && !value);
	CHECK(!rgetsockopt(ends[0], SOL_RDMA, RDMA_SQSIZE, &value, &len) && value == 384);
	CHECK(SAYS(EINVAL, rsetsockopt(ends[0], SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value))));
	len = sizeof(linger);
	CHECK(!rgetsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, &len) && !linger.l_onoff);
	CHECK(!rsetsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	CHECK(SAYS(EAGAIN, rrecv(ends[0], &byte, 1, 0)));
	both_closed(ends);
}

static void flags_and_vectors(void)
{
	int ends[2];
	char got[16] = "";
	struct iovec parts[3] = { { "abc", 3 }, { NULL, 0 }, { "defgh", 5 } };
	struct iovec into[2] = { { got, 2 }, { got + 8, 8 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };

	connected(ends);
	CHECK(SAYS(EAGAIN, rrecv(ends[1], got, 1, MSG_DONTWAIT)));
	CHECK(!rrecv(ends[1], got, 0, 0));
	CHECK(rwritev(ends[0], parts, 3) == 8);
	CHECK(ready(ends[1], POLLIN, 60000) == POLLIN);
	CHECK(rrecv(ends[1], got, 8, MSG_PEEK) == 8 && !memcmp(got, "abcdefgh", 8));
	CHECK(ready(ends[1], POLLIN, 0) == POLLIN);
	CHECK(rreadv(ends[1], into, 2) == 8 && !memcmp(got, "ab", 2) && !memcmp(got + 8, "cdefgh", 6));
	CHECK(rsendmsg(ends[0], &message, 0) == 8);
	CHECK(rsend(ends[0], "ij", 2, 0) == 2);
	CHECK(rrecv(ends[1], got, 10, MSG_WAITALL) == 10 && !memcmp(got, "abcdefghij", 10));
	CHECK(SAYS(EFAULT, rsend(ends[0], NULL, 1, 0)) && SAYS(EFAULT, rrecv(ends[0], NULL, 1, 0)));
	CHECK(SAYS(EMSGSIZE, rwritev(ends[0], parts, 1025)));
	CHECK(SAYS(EISCONN, rsendto(ends[0], got, 1, 0, loopback(1), sizeof(address))));
	both_closed(ends);
}

/* An end that sends no more still receives. */
static void half_closed(void)
{
	int ends[2];
	char byte;

	connected(ends);
	CHECK(rsend(ends[0], "x", 1, 0) == 1 && !rshutdown(ends[0], SHUT_WR));
	signal(SIGPIPE, SIG_IGN);
	CHECK(SAYS(EPIPE, rsend(ends[0], "y", 1, 0)));
	CHECK(rrecv(ends[1], &byte, 1, 0) == 1 && byte == 'x');
	CHECK(!rrecv(ends[1], &byte, 1, 0));
	CHECK(ready(ends[1], POLLIN | POLLOUT | POLLRDHUP, 0) == (POLLIN | POLLOUT | POLLRDHUP));
	CHECK(rsend(ends[1], "z", 1, 0) == 1 && rrecv(ends[0], &byte, 1, 0) == 1 && byte == 'z');
	both_closed(ends);
}

/* What was sent before a close arrives, and then the end. */
static void closed_with_data(void)
{
	int ends[2];
	static char data[100000], got[sizeof(data)];

	connected(ends);
	memset(data, 'd', sizeof(data));
	CHECK(rsend(ends[0], data, sizeof(data), 0) == sizeof(data) && !rclose(ends[0]));
	CHECK(ready(ends[1], POLLRDHUP, 60000) == POLLRDHUP);
	CHECK(rrecv(ends[1], got, sizeof(got), MSG_WAITALL) == sizeof(got));
	CHECK(!memcmp(got, data, sizeof(got)) && !rrecv(ends[1], got, 1, 0));
	CHECK(SAYS(EPIPE, rsend(ends[1], data, 1, 0)));
	CHECK(!rclose(ends[1]));
}

#define LONG (20 << 20)

static unsigned char value_at(size_t at, int which)
{
	return (at * 7 + at / 251 + which * 31) & 0xff;
}

static void *sends(void *argument)
{
	int fd = *(int *)argument;
	unsigned char *data = malloc(LONG);

	for (size_t i = 0; i < LONG; i++)
		data[i] = value_at(i, 0);
	CHECK(rsend(fd, data, LONG, 0) == LONG);
	free(data);
	return NULL;
}

static void *receives(void *argument)
{
	int fd = *(int *)argument;
	unsigned char part[50000];
	ssize_t len;

	for (size_t at = 0; at < LONG; at += len) {
		len = rrecv(fd, part, 1 + at % sizeof(part), 0);
		CHECK(len > 0);
		for (ssize_t i = 0; i < len; i++)
			CHECK(part[i] == value_at(at + i, 0));
	}
	return NULL;
}

/* Both directions of both ends at once, a thread for each. */
static void full_duplex(void)
{
	int ends[2];
	pthread_t threads[4];

	connected(ends);
	for (int i = 0; i < 2; i++) {
		CHECK(!pthread_create(&threads[2 * i], NULL, sends, &ends[i]));
		CHECK(!pthread_create(&threads[2 * i + 1], NULL, receives, &ends[i]));
	}
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
	both_closed(ends);
}

static void *shuts(void *argument)
{
	int fd = *(int *)argument;

	CHECK(!rshutdown(fd, SHUT_RDWR));
	return NULL;
}

/* A thread that waits in rrecv learns that another has shut the socket down. */
static void shut_by_another(void)
{
	int ends[2];
	pthread_t thread;
	char byte;

	connected(ends);
	CHECK(!pthread_create(&thread, NULL, shuts, &ends[0]));
	CHECK(!rrecv(ends[0], &byte, 1, 0));
	CHECK(!pthread_join(thread, NULL) && !rrecv(ends[1], &byte, 1, 0));
	both_closed(ends);
}

/* Waits until the first thread of the process sleeps. */
static void await_sleep(void)
{
	char line[256] = "";
	FILE *file;

	while (!strstr(line, ") S ")) {
		snprintf(line, sizeof(line), "/proc/self/task/%d/stat", getpid());
		file = fopen(line, "r");
		CHECK(file && fgets(line, sizeof(line), file) && !fclose(file));
	}
}

static void *shuts_reads_of_sleeper(void *argument)
{
	int fd = *(int *)argument;

	await_sleep();
	CHECK(!rshutdown(fd, SHUT_RD));
	return NULL;
}

/* A shutdown that sends nothing wakes a thread up. */
static void woken_by_another(void)
{
	int ends[2];
	pthread_t thread;
	char byte;

	connected(ends);
	CHECK(!pthread_create(&thread, NULL, shuts_reads_of_sleeper, &ends[0]));
	/* Ends the program if nothing else does. */
	alarm(60);
	CHECK(!rrecv(ends[0], &byte, 1, 0));
	alarm(0);
	CHECK(!pthread_join(thread, NULL));
	both_closed(ends);
}

/* rpoll and rselect wait for rsockets and other descriptors. */
static void mixed(void)
{
	int ends[2], pipes[2];
	struct pollfd polls[3];
	fd_set reads, writes;
	struct timeval time = { .tv_sec = 60 };
	char byte;

	connected(ends);
	CHECK(!pipe(pipes));
	polls[0] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	polls[1] = (struct pollfd){ .fd = ends[1], .events = POLLIN };
	polls[2] = (struct pollfd){ .fd = -1, .events = POLLIN, .revents = 7 };
	CHECK(!rpoll(polls, 3, 1) && !polls[2].revents);
	CHECK(write(pipes[1], "p", 1) == 1 && rpoll(polls, 3, -1) == 1 && polls[0].revents == POLLIN);
	CHECK(read(pipes[0], &byte, 1) == 1 && rsend(ends[0], "s", 1, 0) == 1);
	CHECK(rpoll(polls, 3, -1) == 1 && !polls[0].revents && polls[1].revents == POLLIN);
	FD_ZERO(&reads);
	FD_ZERO(&writes);
	FD_SET(pipes[0], &reads);
	FD_SET(ends[1], &reads);
	FD_SET(ends[0], &writes);
	CHECK(rselect(1024, &reads, &writes, NULL, &time) == 2);
	CHECK(!FD_ISSET(pipes[0], &reads) && FD_ISSET(ends[1], &reads) && FD_ISSET(ends[0], &writes));
	time = (struct timeval){ 0 };
	CHECK(rrecv(ends[1], &byte, 1, 0) == 1);
	CHECK(!rselect(ends[1] + 1, &reads, NULL, NULL, &time) && !FD_ISSET(ends[1], &reads));
	CHECK(!close(pipes[0]) && !close(pipes[1]));
	both_closed(ends);
}

/* A connection's path can be read, and set for another one. */
static void paths(void)
{
	int ends[2], listens = listener(), fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct ibv_path_data path, other;
	socklen_t len = sizeof(path);

	CHECK(!rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, &len) && !len);
	connected(ends);
	len = sizeof(path) - 1;
	CHECK(SAYS(EINVAL, rgetsockopt(ends[0], SOL_RDMA, RDMA_ROUTE, &path, &len)));
	len = sizeof(path);
	CHECK(!rgetsockopt(ends[0], SOL_RDMA, RDMA_ROUTE, &path, &len) && len == sizeof(path));
	CHECK(!memcmp(path.path.dgid.raw + 12, "\x7f\0\0\1", 4) && path.path.tclass == 0);
	CHECK((path.path.mtu & 63) == IBV_MTU_4096);
	CHECK(SAYS(EINVAL, rsetsockopt(ends[0], SOL_RDMA, RDMA_ROUTE, &path, len)));
	path.path.tclass = 0x68;
	other = path;
	other.path.dgid.raw[15] = 9;
	CHECK(!rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &other, len));
	CHECK(SAYS(EINVAL, rconnect(fd, loopback(port_of(listens)), sizeof(address))));
	CHECK(!rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, len) && !rfcntl(fd, F_SETFL, O_NONBLOCK));
	CHECK(SAYS(EINPROGRESS, rconnect(fd, loopback(port_of(listens)), sizeof(address))));
	CHECK(!rclose(raccept(listens, NULL, NULL)) && ready(fd, POLLOUT, 60000) & POLLOUT);
	CHECK(!rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &other, &len) && other.path.tclass == 0x68);
	CHECK(!rclose(fd) && !rclose(listens));
	both_closed(ends);
}

/* Memory that the peer writes directly, in order with the stream. */
static void mapped(void)
{
	int listens = listener(), ends[2], count = 4;
	static char area[3][100];
	char byte;

	CHECK(!rsetsockopt(listens, SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof(count)));
	ends[0] = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(!rsetsockopt(ends[0], SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof(count)));
	CHECK(!rfcntl(ends[0], F_SETFL, O_NONBLOCK));
	CHECK(SAYS(EINPROGRESS, rconnect(ends[0], loopback(port_of(listens)), sizeof(address))));
	ends[1] = raccept(listens, NULL, NULL);
	CHECK(ends[1] >= 0 && ready(ends[0], POLLOUT, 60000) == POLLOUT);
	CHECK(!rfcntl(ends[0], F_SETFL, 0));
	CHECK(riomap(ends[1], area[0], 100, PROT_WRITE, 0, 1000) == 1000);
	CHECK(riomap(ends[1], area[1], 100, PROT_WRITE, 0, -1) == (off_t)area[1]);
	CHECK(SAYS(EINVAL, riomap(ends[1], area[2], 100, PROT_READ, 0, 0)));
	CHECK(!riowrite(ends[0], "none", 4, 1000, MSG_DONTWAIT));
	/* The peer knows of them with the next data. */
	CHECK(rsend(ends[1], "m", 1, 0) == 1 && rrecv(ends[0], &byte, 1, 0) == 1);
	CHECK(riowrite(ends[0], "hello", 5, 1010, 0) == 5);
	CHECK(riowrite(ends[0], "there", 5, (off_t)area[1] + 95, 0) == 5);
	/* No further than the mapping goes. */
	CHECK(riowrite(ends[0], "too long", 8, 1096, 0) == 4);
	CHECK(rsend(ends[0], "w", 1, 0) == 1 && rrecv(ends[1], &byte, 1, 0) == 1);
	CHECK(!memcmp(area[0] + 10, "hello", 5) && !memcmp(area[1] + 95, "there", 5));
	CHECK(!memcmp(area[0] + 96, "too ", 4) && !area[1][0]);
	CHECK(!riounmap(ends[1], area[0], 100) && SAYS(EINVAL, riounmap(ends[1], area[0], 100)));
	both_closed(ends);
	CHECK(!rclose(listens));
}

/* A child has none of its parent's sockets, and can make its own. */
static void forked(void)
{
	int ends[2], status;
	char byte;
	pid_t child;

	connected(ends);
	child = fork();
	if (!child) {
		CHECK(SAYS(EBADF, rsend(ends[0], "c", 1, 0)));
		connected(ends);
		CHECK(rsend(ends[0], "c", 1, 0) == 1 && rrecv(ends[1], &byte, 1, 0) == 1);
		both_closed(ends);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(rsend(ends[0], "p", 1, 0) == 1 && rrecv(ends[1], &byte, 1, 0) == 1 && byte == 'p');
	both_closed(ends);
}

int main(void)
{
	refused();
	refused_later();
	options();
	flags_and_vectors();
	half_closed();
	closed_with_data();
	full_duplex();
	shut_by_another();
	woken_by_another();
	mixed();
	paths();
	mapped();
	forked();
	return 0;
}
