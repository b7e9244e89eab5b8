/* The completion of a datagram, and two ways to answer its sender: by an address handle that the
 * library makes from the completion, and by one that the program makes itself, with the service
 * level that the completion seems to have. ROCE_QOS gives level 2 DSCP 46. */

#include "ends.h"

#include <unistd.h>

enum { GRH = 40, TEXT = 16, QKEY = 0x11, DSCP_OF_LEVEL_2 = 46 };

/* The packet type, as ConnectX has it: UDP, and the network header. */
enum { OVER_IPV6 = 0x9, OVER_IPV4 = 0xa };

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	unsigned char memory[256];
};

static struct side side;

static void make(void)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_qp_init_attr init = { .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_UD,
					 .sq_sig_all = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	side.context = open_loopback();
	side.pd = ibv_alloc_pd(side.context);
	side.cq_ex = ibv_create_cq_ex(side.context, &cq);
	CHECK(side.pd && side.cq_ex);
	side.cq = ibv_cq_ex_to_cq(side.cq_ex);
	side.mr = ibv_reg_mr(side.pd, side.memory, sizeof(side.memory), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = side.cq;
	side.qp = ibv_create_qp(side.pd, &init);
	CHECK(side.mr && side.qp);
	CHECK(!ibv_modify_qp(side.qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(side.qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

/* The traffic class of the received datagram. */
static unsigned traffic_class(int over)
{
	const unsigned char *header = side.memory;

	return over == OVER_IPV4 ? header[21] : (header[0] << 4 | header[1] >> 4) & 0xff;
}

/* Sends a datagram to this same QP, and returns the completion of its receive. */
static struct ibv_wc to_myself(struct ibv_ah *ah, int over, unsigned dscp)
{
	struct ibv_sge in = { (uintptr_t)side.memory, GRH + TEXT, side.mr->lkey };
	struct ibv_sge out = { (uintptr_t)side.memory + 128, TEXT, side.mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &in, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .sg_list = &out, .num_sge = 1,
				    .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc, received = {};
	int done = 0;

	CHECK(ah);
	memset(side.memory, 0, 128);
	memset(side.memory + 128, 0x3c, TEXT);
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = side.qp->qp_num;
	send.wr.ud.remote_qkey = QKEY;
	CHECK(!ibv_post_recv(side.qp, &recv, &bad_recv) && !ibv_post_send(side.qp, &send, &bad));
	while (done < 2) {
		int found = ibv_poll_cq(side.cq, 1, &wc);

		CHECK(found >= 0 && (!found || wc.status == IBV_WC_SUCCESS));
		if (found && wc.wr_id == 1)
			received = wc;
		done += found;
	}
	CHECK(received.byte_len == GRH + TEXT && received.wc_flags & IBV_WC_GRH);
	CHECK(!memcmp(side.memory + GRH, side.memory + 128, TEXT));
	CHECK(received.sl == over && received.src_qp == side.qp->qp_num);
	CHECK(traffic_class(over) >> 2 == dscp);
	CHECK(!ibv_destroy_ah(ah));
	return received;
}

/* The same, through the calls of an extended CQ. */
static void read_by_calls(int over)
{
	struct ibv_sge in = { (uintptr_t)side.memory, GRH + TEXT, side.mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &in, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_poll_cq_attr none = {};
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	int received = 0;

	send.wr.ud.ah = ibv_create_ah_from_wc(side.pd, &wc, (void *)side.memory, 1);
	CHECK(send.wr.ud.ah);
	send.wr.ud.remote_qpn = side.qp->qp_num;
	send.wr.ud.remote_qkey = QKEY;
	CHECK(!ibv_post_recv(side.qp, &recv, &bad_recv) && !ibv_post_send(side.qp, &send, &bad));
	for (int done = 0; done < 2; done++) {
		while (ibv_start_poll(side.cq_ex, &none))
			;
		if (side.cq_ex->wr_id == 1) {
			CHECK(ibv_wc_read_sl(side.cq_ex) == over);
			received++;
		} else {
			CHECK(ibv_wc_read_sl(side.cq_ex) == 0);
		}
		ibv_end_poll(side.cq_ex);
	}
	CHECK(received == 1 && !ibv_destroy_ah(send.wr.ud.ah));
}

static void try(const union ibv_gid *gid, int index, int over)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
				    .grh = { .dgid = *gid, .sgid_index = (uint8_t)index,
					     .hop_limit = 1 } };
	struct ibv_ah_attr answer;
	struct ibv_wc wc;

	wc = to_myself(ibv_create_ah(side.pd, &attr), over, 0);
	/* A valid service level selects its DSCP. */
	attr.sl = 2;
	to_myself(ibv_create_ah(side.pd, &attr), over, DSCP_OF_LEVEL_2);
	/* The value in a completion is not a valid service level. */
	attr.sl = wc.sl;
	CHECK(attr.sl == over);
	to_myself(ibv_create_ah(side.pd, &attr), over, 0);
	/* The library's handle has the DSCP of the datagram that it answers, and no service level. */
	CHECK(!ibv_init_ah_from_wc(side.context, 1, &wc, (void *)side.memory, &answer));
	CHECK(answer.sl == 0 && answer.is_global && answer.grh.sgid_index == index);
	CHECK(!memcmp(&answer.grh.dgid, gid, sizeof(*gid)));
	to_myself(ibv_create_ah(side.pd, &answer), over, 0);
	to_myself(ibv_create_ah_from_wc(side.pd, &wc, (void *)side.memory, 1), over, 0);
	attr.sl = 0;
	attr.grh.traffic_class = 26 << 2;
	wc = to_myself(ibv_create_ah(side.pd, &attr), over, 26);
	to_myself(ibv_create_ah_from_wc(side.pd, &wc, (void *)side.memory, 1), over, 26);
	read_by_calls(over);
}

int main(void)
{
	static const uint8_t LOOPBACK6[16] = { [15] = 1 };
	union ibv_gid gid;
	int six = -1;

	alarm(60);
	make();
	try(&gid, gid_index(side.context, &gid), OVER_IPV4);
	for (int i = 0; i < 256 && six < 0; i++)
		if (!ibv_query_gid(side.context, 1, i, &gid) && !memcmp(gid.raw, LOOPBACK6, 16))
			six = i;
	/* Not every machine has IPv6. */
	if (six >= 0)
		try(&gid, six, OVER_IPV6);
	CHECK(!ibv_destroy_qp(side.qp) && !ibv_destroy_cq(side.cq) && !ibv_dereg_mr(side.mr));
	CHECK(!ibv_dealloc_pd(side.pd) && !ibv_close_device(side.context));
	return 0;
}
