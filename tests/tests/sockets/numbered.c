/* Sends numbered datagrams of many lengths, whose bytes follow from their numbers, and counts those
 * that arrive.
 *
 *   numbered ADDRESS          the server of one client, which never ends
 *   numbered ADDRESS COUNT    the client, which prints how many of its COUNT datagrams arrived. It
 *                             fails if one arrived twice, or with another length or other bytes.
 *
 * After each batch, the client asks the server how many have arrived, so no queue overflows. It waits
 * for the answer without rpoll: that of rdma-core 44 can spin in sched_yield for ever once a datagram
 * was lost, and sends and receives nothing any more. */
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNTS = 100000, BATCH = 50, SHORTEST = 4, LONGEST = 2000, AGAIN_MS = 100, LAST_ASKS = 20 };

/* The number of a question, which no datagram has. */
#define QUESTION UINT32_MAX

/* Big-endian. A question has zeros in place of the counts. */
struct answer {
	uint32_t question, id, arrived, wrong;
};

static uint8_t bytes[LONGEST + 1];

/* Writes the datagram, and returns its length. */
static size_t datagram(uint32_t number, uint8_t *to)
{
	size_t len = SHORTEST + number * 977 % (LONGEST - SHORTEST + 1), i;
	uint32_t big = htonl(number);

	memcpy(to, &big, sizeof(big));
	for (i = sizeof(big); i < len; i++)
		to[i] = (uint8_t)(number * 7 + i);
	return len;
}

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void answer_question(int fd, const struct answer *counts, struct sockaddr *peer,
			    socklen_t peer_len)
{
	struct answer reply;

	memcpy(&reply, bytes, sizeof(reply));
	reply.arrived = htonl(counts->arrived);
	reply.wrong = htonl(counts->wrong);
	if (rsendto(fd, &reply, sizeof(reply), 0, peer, peer_len) < 0)
		fail("rsendto");
}

static _Noreturn void serve(int fd)
{
	static uint8_t right[LONGEST], seen[COUNTS];
	struct answer counts = { 0 };
	struct sockaddr_in6 peer;
	socklen_t peer_len;
	uint32_t number;
	ssize_t len;

	for (;;) {
		peer_len = sizeof(peer);
		len = rrecvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&peer, &peer_len);
		if (len < 0)
			fail("rrecvfrom");
		number = 0;
		memcpy(&number, bytes, sizeof(number));
		number = ntohl(number);
		if (number == QUESTION && len == sizeof(counts)) {
			answer_question(fd, &counts, (struct sockaddr *)&peer, peer_len);
			continue;
		}
		if (number >= COUNTS || len != (ssize_t)datagram(number, right) ||
		    memcmp(bytes, right, (size_t)len) || seen[number]++) {
			fprintf(stderr, "%zd bytes: number %u is wrong or a copy\n", len, number);
			counts.wrong++;
		} else {
			counts.arrived++;
		}
	}
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct answer ask(int fd, uint32_t id)
{
	struct answer question = { .question = QUESTION, .id = htonl(id) }, answer;
	int64_t again = 0;

	for (;;) {
		if (now_ms() >= again) {
			if (rsend(fd, &question, sizeof(question), 0) < 0)
				fail("rsend");
			again = now_ms() + AGAIN_MS;
		}
		/* Answers to earlier questions may still come. */
		if (rrecv(fd, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer) &&
		    answer.id == question.id)
			return answer;
	}
}

static int send_all(int fd, uint32_t count)
{
	struct answer answer = ask(fd, 0);
	uint32_t number, id = 1, last = 0;

	for (number = 0; number < count; number++) {
		size_t len = datagram(number, bytes);

		if (rsend(fd, bytes, len, 0) != (ssize_t)len)
			fail("rsend");
		if (number % BATCH == BATCH - 1)
			answer = ask(fd, id++);
	}
	/* The last datagrams may be late, or lost. */
	do {
		answer = ask(fd, id++);
	} while (ntohl(answer.arrived) < count && ++last < LAST_ASKS);
	printf("arrived %u of %u, wrong %u\n", ntohl(answer.arrived), count, ntohl(answer.wrong));
	return answer.wrong != 0;
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST }, *at;
	int fd;

	if (argc < 2 || getaddrinfo(argv[1], "7174", &hints, &at))
		return 2;
	fd = rsocket(at->ai_family, SOCK_DGRAM, 0);
	if (fd < 0)
		fail("rsocket");
	if (argc == 2) {
		if (rbind(fd, at->ai_addr, at->ai_addrlen))
			fail("rbind");
		serve(fd);
	}
	if (rconnect(fd, at->ai_addr, at->ai_addrlen))
		fail("rconnect");
	return send_all(fd, (uint32_t)atoi(argv[2]));
}
