// Calls that are refused. With ROCE_LOG the library prints the reason on stderr; the test that runs
// this program reads it.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                        \
	do {                                                     \
		if (!(condition)) {                              \
			printf("line %d: %s\n", __LINE__, #condition); \
			return 1;                                \
		}                                                \
	} while (0)

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	EXPECT(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	EXPECT(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	EXPECT(pd && cq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	EXPECT(qp);

	struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND}, *bad_send;
	EXPECT(ibv_post_send(qp, &send, &bad_send) == EINVAL);
	send.num_sge = 99;
	EXPECT(ibv_post_send(qp, &send, &bad_send) == EINVAL);

	// The same, with the calls that build a request.
	struct ibv_qp_init_attr_ex init_ex = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = init.cap, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *extended = ibv_create_qp_ex(context, &init_ex);
	EXPECT(extended);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(extended);
	EXPECT(ex);
	ibv_wr_start(ex);
	ex->wr_flags = 1 << 20;
	ibv_wr_send(ex);
	EXPECT(ibv_wr_complete(ex) == EOPNOTSUPP);

	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	EXPECT(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS));
	// Attributes that have one value, and bits that mean nothing.
	attr.port_num = 2;
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_PORT) == EINVAL);
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_CUR_STATE) == EINVAL);
	EXPECT(ibv_modify_qp(qp, &attr, 1 << 30) == EINVAL);
	// A program that posts until the queue is full, over and over.
	struct ibv_recv_wr recv = {.wr_id = 2}, *bad_recv;
	int full = 0;
	for (int i = 0; i < 200000; i++)
		full += ibv_post_recv(qp, &recv, &bad_recv) == ENOMEM;
	EXPECT(full > 199000);
	return 0;
}
