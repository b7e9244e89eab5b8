/* Packets of UC and UD QPs, which nobody answers. What does not fit, the QP that drops them knows. */

#include "ends.h"

/* A datagram to this number at the peer. */
static void send_datagram(struct end *end, uint32_t qpn, uint32_t qkey)
{
	struct ibv_sge sge = usual_sge(end);
	struct ibv_send_wr wr = usual_wr(end, IBV_WR_SEND, &sge);

	wr.wr.ud.ah = ibv_create_ah(end->pd, &end->attr.ah_attr);
	CHECK(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	post(end, &wr);
	expect(end, IBV_WC_SUCCESS);
	meet_after_packets(end);
}

static void open_with(struct end *end, enum ibv_qp_type type)
{
	open_end(end);
	make_qp(end, type);
	connect_end(end);
}

static void wrong_qkey(struct end *end)
{
	open_with(end, IBV_QPT_UD);
	note(end, "sent=0x%08x own=0x%08x", 0x22222222, QKEY);
	send_datagram(end, end->peer.qpn, 0x22222222);
}

static void right_datagram(struct end *end)
{
	open_with(end, IBV_QPT_UD);
	send_datagram(end, end->peer.qpn, QKEY);
}

static void wrong_qpn(struct end *end)
{
	open_with(end, IBV_QPT_UD);
	note(end, "wrong_qpn=0x%06x", end->peer.qpn ^ 1);
	send_datagram(end, end->peer.qpn ^ 1, QKEY);
}

static void long_datagram(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	struct ibv_mr *whole;

	open_with(end, IBV_QPT_UD);
	whole = ibv_reg_mr(end->pd, end->memory, PAGES * PAGE, 0);
	CHECK(whole);
	sge = (struct ibv_sge){ (uintptr_t)end->memory, PAGE + 1, whole->lkey };
	wr = usual_wr(end, IBV_WR_SEND, &sge);
	wr.wr.ud.ah = ibv_create_ah(end->pd, &end->attr.ah_attr);
	CHECK(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = end->peer.qpn;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(ibv_post_send(end->qp, &wr, &bad));
	meet(end);
}

static void serve_datagrams(struct end *end)
{
	open_with(end, IBV_QPT_UD);
	post_receive(end, usual_sge(end));
	meet_after_packets(end);
}

static void serve_nothing(struct end *end)
{
	open_with(end, IBV_QPT_UD);
	meet_after_packets(end);
}

static void serve_without_call(struct end *end)
{
	open_with(end, IBV_QPT_UD);
	meet(end);
}

/* Connects a QP that has this receive. */
static void serve_receive(struct end *end, enum ibv_qp_type type, uint32_t length)
{
	struct ibv_sge sge;

	open_end(end);
	make_qp(end, type);
	exchange(end);
	to_init(end);
	sge = usual_sge(end);
	sge.length = length;
	post_receive(end, sge);
	note(end, "receive=%u", length);
	to_rtr(end);
	to_rts(end);
	meet(end);
	meet_after_packets(end);
}

/* No room for the network header, which comes before the message. */
static void serve_without_grh(struct end *end)
{
	serve_receive(end, IBV_QPT_UD, LENGTH);
}

static void serve_rc(struct end *end)
{
	open_with(end, IBV_QPT_RC);
	meet_after_packets(end);
}

/* Sends one message by UC, of which nobody says that it is lost. */
static void send_uc(struct end *end, enum ibv_wr_opcode opcode, long offset, uint32_t wrong)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_with(end, IBV_QPT_UC);
	sge = usual_sge(end);
	wr = usual_wr(end, opcode, &sge);
	wr.wr.rdma.remote_addr += offset;
	wr.wr.rdma.rkey ^= wrong;
	note(end, "addr=%#llx rkey=0x%08x region=%#llx", (unsigned long long)wr.wr.rdma.remote_addr,
	     wr.wr.rdma.rkey, (unsigned long long)end->peer.addr);
	post(end, &wr);
	expect(end, IBV_WC_SUCCESS);
	meet_after_packets(end);
}

static void uc_write(struct end *end)
{
	send_uc(end, IBV_WR_RDMA_WRITE, 0, 0);
}

static void uc_wrong_key(struct end *end)
{
	send_uc(end, IBV_WR_RDMA_WRITE, 0, 0x100);
}

static void uc_past(struct end *end)
{
	send_uc(end, IBV_WR_RDMA_WRITE, PAGE - 60, 0);
}

static void uc_send(struct end *end)
{
	send_uc(end, IBV_WR_SEND, 0, 0);
}

static void uc_page(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_with(end, IBV_QPT_UC);
	sge = usual_sge(end);
	sge.length = PAGE;
	wr = usual_wr(end, IBV_WR_RDMA_WRITE, &sge);
	post(end, &wr);
	expect(end, IBV_WC_SUCCESS);
	meet_after_packets(end);
}

static void serve_uc(struct end *end)
{
	open_with(end, IBV_QPT_UC);
	meet_after_packets(end);
}

static void serve_uc_read_only(struct end *end)
{
	open_end(end);
	register_with(end, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	make_qp(end, IBV_QPT_UC);
	connect_end(end);
	meet_after_packets(end);
}

static void serve_uc_no_writes(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_UC);
	end->attr.qp_access_flags = 0;
	connect_end(end);
	meet_after_packets(end);
}

static void serve_uc_mtu(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_UC);
	end->attr.path_mtu = IBV_MTU_512;
	connect_end(end);
	meet_after_packets(end);
}

static void serve_uc_short(struct end *end)
{
	serve_receive(end, IBV_QPT_UC, LENGTH - 1);
}

/* RC to a QP of another service, which does not answer. */
static void rc_write(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.retry_cnt = 3;
	connect_end(end);
	post_op(end, IBV_WR_RDMA_WRITE);
	expect(end, IBV_WC_RETRY_EXC_ERR);
	meet_after_packets(end);
}

const struct mistake DATAGRAMS[] = {
	{ "datagram with another Q_Key", wrong_qkey, serve_datagrams },
	{ "datagram without a receive", right_datagram, serve_nothing },
	{ "datagram whose receive has no room for the GRH", right_datagram, serve_without_grh },
	{ "datagram to a QP number of nobody", wrong_qpn, serve_datagrams },
	{ "datagram to an RC QP", right_datagram, serve_rc },
	{ "datagram longer than the MTU", long_datagram, serve_without_call },
	{ "WRITE by UC with an unknown rkey", uc_wrong_key, serve_uc },
	{ "WRITE by UC past the end", uc_past, serve_uc },
	{ "WRITE by UC to a region without REMOTE_WRITE", uc_write, serve_uc_read_only },
	{ "WRITE by UC to a QP without REMOTE_WRITE", uc_write, serve_uc_no_writes },
	{ "WRITE by UC with another path MTU", uc_page, serve_uc_mtu },
	{ "SEND by UC without a receive", uc_send, serve_uc },
	{ "SEND by UC longer than its receive", uc_send, serve_uc_short },
	{ "WRITE by UC to an RC QP", uc_write, serve_rc },
	{ "WRITE by RC to a UC QP", rc_write, serve_uc },
	{ 0 },
};
