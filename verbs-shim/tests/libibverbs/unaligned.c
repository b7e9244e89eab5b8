/* A C program may keep its structures at any address, because this processor reads unaligned data.
 * Here, each structure passed to the library is one or four bytes off an aligned address. */

#include "ends.h"

#include <unistd.h>

#pragma GCC diagnostic ignored "-Waddress-of-packed-member"

/* As in libiscsi: the element is at offset 204. */
struct __attribute__((packed)) task {
	unsigned char header[204];
	struct ibv_sge sges[2];
};

struct __attribute__((packed)) odd {
	char beside;
	union {
		struct ibv_recv_wr recv;
		struct ibv_send_wr send;
		struct ibv_wc wc;
		struct ibv_qp_attr qp;
		struct ibv_qp_init_attr init;
		struct ibv_qp_init_attr_ex init_ex;
		struct ibv_srq_init_attr srq_init;
		struct ibv_srq_attr srq;
		struct ibv_ah_attr ah;
		struct ibv_device_attr device;
		struct ibv_port_attr port;
		struct ibv_recv_wr *bad_recv;
		struct ibv_send_wr *bad_send;
	};
};

/* The address, with the type that the functions take. */
#define AT(type, place) ((type *)(void *)&(place))

static struct ends *ends;
static struct task task;
static struct odd request, second, out;

static void set_elements(int quarter)
{
	struct ibv_sge sge = stretch(ends, quarter);

	/* The lengths differ: Soft-RoCE's library had added up the first one for each element. */
	task.sges[0] = (struct ibv_sge){ sge.addr, MESSAGE / 4, sge.lkey };
	task.sges[1] = (struct ibv_sge){ sge.addr + MESSAGE / 4, MESSAGE - MESSAGE / 4, sge.lkey };
	CHECK((uintptr_t)task.sges % 8 == 4);
}

static void set_receive(struct ibv_srq *srq)
{
	set_elements(3);
	request.recv = (struct ibv_recv_wr){ .wr_id = 1, .sg_list = AT(struct ibv_sge, task.sges),
					     .num_sge = 2 };
	if (srq)
		CHECK(!ibv_post_srq_recv(srq, AT(struct ibv_recv_wr, request.recv),
					 AT(struct ibv_recv_wr *, out.bad_recv)));
	else
		CHECK(!ibv_post_recv(ends->qps[1], AT(struct ibv_recv_wr, request.recv),
				     AT(struct ibv_recv_wr *, out.bad_recv)));
}

/* Both requests complete, the receive (1) and the send (2). */
static void both_complete(void)
{
	unsigned done = 0;

	while (done != 3) {
		int found = ibv_poll_cq(ends->cq, 1, AT(struct ibv_wc, out.wc));

		CHECK(found >= 0);
		if (!found)
			continue;
		CHECK(out.wc.status == IBV_WC_SUCCESS);
		done |= out.wc.wr_id;
	}
}

static void is_received(void)
{
	both_complete();
	CHECK(!memcmp(ends->memory, ends->memory + 3 * MESSAGE, MESSAGE));
}

static void requests_and_their_elements(void)
{
	memset(ends->memory, 0x5a, MESSAGE);
	set_receive(NULL);
	set_elements(0);
	request.send = (struct ibv_send_wr){ .wr_id = 2, .sg_list = AT(struct ibv_sge, task.sges),
					     .num_sge = 2, .opcode = IBV_WR_SEND };
	CHECK(!ibv_post_send(ends->qps[0], AT(struct ibv_send_wr, request.send),
			     AT(struct ibv_send_wr *, out.bad_send)));
	is_received();
}

/* The pointer to the faulty request is also stored at an unaligned address. */
static void the_request_at_fault(void)
{
	set_receive(NULL);
	second.send = (struct ibv_send_wr){ .wr_id = 3, .num_sge = 1000, .opcode = IBV_WR_SEND };
	request.send = (struct ibv_send_wr){ .wr_id = 2, .next = AT(struct ibv_send_wr, second.send),
					     .opcode = IBV_WR_SEND };
	CHECK(ibv_post_send(ends->qps[0], AT(struct ibv_send_wr, request.send),
			    AT(struct ibv_send_wr *, out.bad_send)));
	CHECK(out.bad_send == AT(struct ibv_send_wr, second.send));
	both_complete();
}

static void requests_by_calls(struct ibv_qp_ex *qp)
{
	struct __attribute__((packed)) {
		char beside;
		struct ibv_data_buf parts[2];
	} odd = { 0, { { "out of ", 7 }, { "line", 5 } } };

	memset(ends->memory, 0xa5, MESSAGE);
	set_receive(NULL);
	set_elements(0);
	ibv_wr_start(qp);
	qp->wr_id = 2;
	qp->wr_flags = 0;
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 2, AT(struct ibv_sge, task.sges));
	/* The list has been read. */
	memset(task.sges, 0, sizeof(task.sges));
	CHECK(!ibv_wr_complete(qp));
	is_received();

	memset(ends->memory + 3 * MESSAGE, 0, MESSAGE);
	set_receive(NULL);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data_list(qp, 2, AT(struct ibv_data_buf, odd.parts));
	CHECK(!ibv_wr_complete(qp));
	memset(ends->memory, 0, MESSAGE);
	memcpy(ends->memory, "out of line", 12);
	is_received();
}

static void attributes(void)
{
	union ibv_gid gid;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;

	request.srq_init = (struct ibv_srq_init_attr){ .attr = { 4, 2, 0 } };
	srq = ibv_create_srq(ends->pd, AT(struct ibv_srq_init_attr, request.srq_init));
	CHECK(srq);
	CHECK(!ibv_query_srq(srq, AT(struct ibv_srq_attr, out.srq)) && out.srq.max_wr == 4);
	set_receive(srq);
	request.init = (struct ibv_qp_init_attr){ .send_cq = ends->cq, .recv_cq = ends->cq,
						  .srq = srq, .cap = { 1, 7, 1, 1, 8 },
						  .qp_type = IBV_QPT_RC };
	qp = ibv_create_qp(ends->pd, AT(struct ibv_qp_init_attr, request.init));
	CHECK(qp && request.init.cap.max_recv_wr == 0 && request.init.cap.max_inline_data >= 8);
	request.qp = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	CHECK(!ibv_modify_qp(qp, AT(struct ibv_qp_attr, request.qp),
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_query_qp(qp, AT(struct ibv_qp_attr, out.qp), IBV_QP_STATE,
			    AT(struct ibv_qp_init_attr, request.init)));
	CHECK(out.qp.qp_state == IBV_QPS_INIT && request.init.srq == srq);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));

	request.ah = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	request.ah.grh.sgid_index = (uint8_t)gid_index(ends->context, &gid);
	request.ah.grh.dgid = gid;
	ah = ibv_create_ah(ends->pd, AT(struct ibv_ah_attr, request.ah));
	CHECK(ah && !ibv_destroy_ah(ah));
	CHECK(!ibv_query_device(ends->context, AT(struct ibv_device_attr, out.device)));
	CHECK(out.device.phys_port_cnt == 1);
	CHECK(!ibv_query_port(ends->context, 1, AT(struct ibv_port_attr, out.port)));
	CHECK(out.port.state == IBV_PORT_ACTIVE);
}

/* Two QPs, the first of which is made for requests by calls. */
static struct ends *make_extended_ends(void)
{
	ends = make_ends();
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_qp(ends->qps[i]));
	for (int i = 0; i < 2; i++) {
		request.init_ex = (struct ibv_qp_init_attr_ex){
			.send_cq = ends->cq, .recv_cq = ends->cq,
			.cap = { DEPTH, DEPTH, 2, 2, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = ends->pd, .send_ops_flags = IBV_QP_EX_WITH_SEND,
		};
		ends->qps[i] = ibv_create_qp_ex(ends->context,
						AT(struct ibv_qp_init_attr_ex, request.init_ex));
		CHECK(ends->qps[i]);
	}
	connect_to(ends, 0);
	connect_to(ends, 1);
	return ends;
}

int main(void)
{
	alarm(60);
	ends = make_extended_ends();
	requests_and_their_elements();
	the_request_at_fault();
	requests_by_calls(ibv_qp_to_qp_ex(ends->qps[0]));
	attributes();
	destroy_ends(ends);
	return 0;
}
