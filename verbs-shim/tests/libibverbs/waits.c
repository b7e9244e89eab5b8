/* Two messages wake up one thread, which takes one of the two events and goes. The other event makes the
 * channel readable, for a thread that polls. When both are taken, nothing is left to read. */

#include "ends.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 300, PATIENCE_S = 60 };

static struct ibv_comp_channel *channel;
/* Connections between two open devices. The packets go through a socket, and the first QP of each is the
 * sender's. */
static struct ends pairs[2];
static struct ibv_cq *sent, *received[2];

static struct ibv_qp *make_qp(struct ibv_context *context, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .send_cq = cq, .recv_cq = cq, .sq_sig_all = 1 };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_qp *qp = pd ? ibv_create_qp(pd, &attr) : NULL;

	CHECK(qp);
	return qp;
}

static void make_pairs(void)
{
	struct ibv_context *sender = open_loopback(), *receiver = open_loopback();

	channel = ibv_create_comp_channel(receiver);
	sent = ibv_create_cq(sender, DEPTH, NULL, NULL, 0);
	CHECK(channel && sent);
	for (int i = 0; i < 2; i++) {
		received[i] = ibv_create_cq(receiver, DEPTH, NULL, channel, 0);
		CHECK(received[i]);
		pairs[i].context = receiver;
		pairs[i].qps[0] = make_qp(sender, sent);
		pairs[i].qps[1] = make_qp(receiver, received[i]);
		connect_to(&pairs[i], 0);
		connect_to(&pairs[i], 1);
	}
}

static struct ibv_cq *get_event(void)
{
	struct ibv_cq *cq;
	void *user;

	if (ibv_get_cq_event(channel, &cq, &user))
		return NULL;
	ibv_ack_cq_events(cq, 1);
	return cq;
}

static void *wait_for_one(void *nothing)
{
	(void)nothing;
	return get_event();
}

static void expect_one(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(found == 1 && wc.status == IBV_WC_SUCCESS);
}

static void set_blocking(int blocks)
{
	CHECK(!fcntl(channel->fd, F_SETFL, blocks ? 0 : O_NONBLOCK));
}

static void send_two(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	for (int i = 0; i < 2; i++)
		CHECK(!ibv_post_send(pairs[i].qps[0], &wr, &bad));
	for (int i = 0; i < 2; i++)
		expect_one(sent);
}

int main(void)
{
	struct pollfd poller;
	struct ibv_recv_wr wr = { 0 }, *bad;

	alarm(PATIENCE_S);
	make_pairs();
	poller = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t waiter;
		void *first;
		struct ibv_cq *second;

		for (int i = 0; i < 2; i++) {
			CHECK(!ibv_post_recv(pairs[i].qps[1], &wr, &bad));
			CHECK(!ibv_req_notify_cq(received[i], 0));
		}
		CHECK(!pthread_create(&waiter, NULL, wait_for_one, NULL));
		send_two();
		CHECK(!pthread_join(waiter, &first) && first);
		CHECK(poll(&poller, 1, -1) == 1 && poller.revents == POLLIN);
		second = get_event();
		CHECK(second && (void *)second != first);
		CHECK(!poll(&poller, 1, 0));
		set_blocking(0);
		CHECK(!get_event() && errno == EAGAIN);
		set_blocking(1);
		for (int i = 0; i < 2; i++)
			expect_one(received[i]);
	}
	return 0;
}
