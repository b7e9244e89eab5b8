/* A program that arms a CQ, polls some of its completions and waits for an event. The others
 * raise none, because they arrived earlier, but the program does not wait for ever. */

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "ends.h"

/* Longer than any step takes. */
enum { PATIENCE_S = 60 };

static struct ibv_comp_channel *channel;
static struct ibv_cq *watched;

/* Like `make_ends`, but the second QP's receives complete on a CQ of their own. */
static struct ends *make_watched_ends(void)
{
	struct ends *ends = make_ends();
	struct ibv_qp_init_attr attr = { .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .send_cq = ends->cq, .sq_sig_all = 1 };

	channel = ibv_create_comp_channel(ends->context);
	CHECK(channel);
	watched = ibv_create_cq(ends->context, DEPTH, NULL, channel, 0);
	CHECK(watched);
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(ends->qps[i]));
		attr.recv_cq = i ? watched : ends->cq;
		ends->qps[i] = ibv_create_qp(ends->pd, &attr);
		CHECK(ends->qps[i]);
	}
	connect_to(ends, 0);
	connect_to(ends, 1);
	return ends;
}

/* The acknowledgement of a message comes after its completion at the other end. */
static void complete_receives(struct ends *ends, int count)
{
	struct ibv_wc wc;
	int done = 0;

	for (int i = 0; i < count; i++)
		CHECK(!post_recv(ends, 1, 1) && !post_send(ends, 0, 2));
	while (done < count) {
		int found = ibv_poll_cq(ends->cq, 1, &wc);

		CHECK(found >= 0 && (!found || wc.status == IBV_WC_SUCCESS));
		done += found;
	}
}

static void take(int count)
{
	struct ibv_wc wc;

	while (count--)
		CHECK(ibv_poll_cq(watched, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

static int get_event(void)
{
	struct ibv_cq *cq;
	void *user;

	if (ibv_get_cq_event(channel, &cq, &user))
		return -1;
	CHECK(cq == watched);
	ibv_ack_cq_events(cq, 1);
	return 0;
}

static int is_readable(void)
{
	struct pollfd poller = { .fd = channel->fd, .events = POLLIN };

	return poll(&poller, 1, 0);
}

static void set_blocking(int blocks)
{
	CHECK(!fcntl(channel->fd, F_SETFL, blocks ? 0 : O_NONBLOCK));
}

int main(void)
{
	struct ends *ends = make_watched_ends();

	alarm(PATIENCE_S);
	CHECK(!ibv_req_notify_cq(watched, 0));
	complete_receives(ends, 3);
	CHECK(!get_event() && !ibv_req_notify_cq(watched, 0));
	take(1);
	CHECK(!is_readable() && !get_event());
	/* One event for each request for notification. */
	set_blocking(0);
	CHECK(get_event() && errno == EAGAIN);
	CHECK(!ibv_req_notify_cq(watched, 1));
	CHECK(get_event() && errno == EAGAIN);
	/* A non-blocking channel has no such event: a loop until EAGAIN would not end. */
	CHECK(!ibv_req_notify_cq(watched, 0));
	CHECK(get_event() && errno == EAGAIN);
	set_blocking(1);
	CHECK(!get_event() && !ibv_req_notify_cq(watched, 0));
	take(2);
	/* The CQ is empty: the next completion raises an event. */
	complete_receives(ends, 1);
	CHECK(is_readable() && !get_event());
	set_blocking(0);
	CHECK(get_event() && errno == EAGAIN);
	take(1);
	CHECK(!ibv_destroy_qp(ends->qps[1]) && !ibv_destroy_cq(watched));
	CHECK(!ibv_destroy_comp_channel(channel));
	return 0;
}
