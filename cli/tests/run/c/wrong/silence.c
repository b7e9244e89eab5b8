/* Peers that do not answer, and packets that a QP does not take. */

#include "ends.h"
#include <signal.h>

/* The device receives from now on, for another QP: before any has left INIT, it does not. */
static void receive_packets(struct end *end)
{
	struct end other = *end;

	make_qp(&other, IBV_QPT_UD);
	to_init(&other);
	to_rtr(&other);
}

static void open_rc(struct end *end)
{
	open_end(end);
	receive_packets(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.retry_cnt = 3;
}

/* The PSN of the second packet. */
static void note_second_psn(struct end *end)
{
	note(end, "second_psn=0x%06x", (end->own.psn + 1) & 0xffffff);
}

/* WRITEs until all retries are used up. */
static void write_in_vain(struct end *end)
{
	post_op(end, IBV_WR_RDMA_WRITE);
	expect(end, IBV_WC_RETRY_EXC_ERR);
	meet_after_packets(end);
}

static void unanswered(struct end *end)
{
	open_rc(end);
	connect_end(end);
	write_in_vain(end);
}

static void open_and_serve(struct end *end)
{
	open_rc(end);
	connect_end(end);
	meet_after_packets(end);
}

/* The server's QP gets no further than this. */
static void serve_in_reset(struct end *end)
{
	open_rc(end);
	exchange(end);
	meet(end);
	meet_after_packets(end);
}

static void serve_in_init(struct end *end)
{
	open_rc(end);
	exchange(end);
	to_init(end);
	meet(end);
	meet_after_packets(end);
}

static void serve_in_error(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	open_rc(end);
	exchange(end);
	to_init(end);
	to_rtr(end);
	to_rts(end);
	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE));
	meet(end);
	meet_after_packets(end);
}

static void serve_destroyed(struct end *end)
{
	open_rc(end);
	exchange(end);
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	meet(end);
	meet_after_packets(end);
}

/* The first WRITE arrives, the second does not. */
static void answered_once(struct end *end)
{
	open_rc(end);
	note_second_psn(end);
	connect_end(end);
	post_op(end, IBV_WR_RDMA_WRITE);
	expect(end, IBV_WC_SUCCESS);
	meet(end);
	meet(end);
	write_in_vain(end);
}

static void serve_destroyed_later(struct end *end)
{
	open_rc(end);
	connect_end(end);
	meet(end);
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	meet(end);
	meet_after_packets(end);
}

static void serve_killed(struct end *end)
{
	open_rc(end);
	connect_end(end);
	meet(end);
	raise(SIGTERM);
}

static void peer_killed(struct end *end)
{
	char byte;

	open_rc(end);
	note_second_psn(end);
	connect_end(end);
	post_op(end, IBV_WR_RDMA_WRITE);
	expect(end, IBV_WC_SUCCESS);
	meet(end);
	CHECK(!read(end->socket, &byte, 1));
	post_op(end, IBV_WR_RDMA_WRITE);
	expect(end, IBV_WC_RETRY_EXC_ERR);
}

static void wrong_qpn(struct end *end)
{
	open_rc(end);
	exchange(end);
	end->attr.dest_qp_num ^= 1;
	note(end, "wrong_qpn=0x%06x", end->attr.dest_qp_num);
	to_init(end);
	to_rtr(end);
	to_rts(end);
	meet(end);
	write_in_vain(end);
}

/* No process has this address of the loopback. */
static void wrong_address(struct end *end)
{
	open_rc(end);
	exchange(end);
	end->attr.ah_attr.grh.dgid.raw[15] = 99;
	to_init(end);
	to_rtr(end);
	to_rts(end);
	meet(end);
	write_in_vain(end);
}

/* The server's QP belongs to another peer. */
static void serve_other_peer(struct end *end)
{
	open_rc(end);
	exchange(end);
	end->attr.ah_attr.grh.dgid.raw[15] = 99;
	to_init(end);
	to_rtr(end);
	to_rts(end);
	meet(end);
	meet_after_packets(end);
}

/* Answers go to another QP. */
static void serve_wrong_qpn(struct end *end)
{
	open_rc(end);
	exchange(end);
	end->attr.dest_qp_num ^= 1;
	note(end, "wrong_qpn=0x%06x", end->attr.dest_qp_num);
	to_init(end);
	to_rtr(end);
	to_rts(end);
	meet(end);
	meet_after_packets(end);
}

/* The client begins with another PSN than the server expects. */
static void serve_psn(struct end *end, int difference)
{
	open_rc(end);
	exchange(end);
	end->attr.rq_psn = (end->attr.rq_psn + difference) & 0xffffff;
	note(end, "rq_psn=0x%06x", end->attr.rq_psn);
	to_init(end);
	to_rtr(end);
	to_rts(end);
	meet(end);
	meet_after_packets(end);
}

static void serve_psn_before(struct end *end)
{
	serve_psn(end, -100000);
}

static void serve_psn_behind(struct end *end)
{
	serve_psn(end, 1000);
}

const struct mistake ALONE[] = {
	{ "peer killed", peer_killed, serve_killed },
	{ 0 },
};

const struct mistake SILENCE[] = {
	{ "peer's QP in RESET", unanswered, serve_in_reset },
	{ "peer's QP in INIT", unanswered, serve_in_init },
	{ "peer's QP in ERR", unanswered, serve_in_error },
	{ "peer's QP destroyed", unanswered, serve_destroyed },
	{ "peer's QP destroyed later", answered_once, serve_destroyed_later },
	{ "wrong QP number", wrong_qpn, open_and_serve },
	{ "address of nobody", wrong_address, open_and_serve },
	{ "peer's QP connected to another host", unanswered, serve_other_peer },
	{ "peer's QP connected to another QP", unanswered, serve_wrong_qpn },
	{ "rq_psn far before the peer's sq_psn", unanswered, serve_psn_before },
	{ "rq_psn behind the peer's sq_psn", unanswered, serve_psn_behind },
	{ 0 },
};
