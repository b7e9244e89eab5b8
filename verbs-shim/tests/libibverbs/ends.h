/* Two QPs of this process, connected to each other over loopback, with their objects. */

#ifndef ENDS_H
#define ENDS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exits if the condition is false. */
#define CHECK(promise)                                                                      \
	do {                                                                                \
		if (!(promise)) {                                                           \
			printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #promise, errno); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

enum { MESSAGE = 3000, DEPTH = 64 };

struct ends {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qps[2];
	unsigned char memory[4 * MESSAGE];
};

static inline struct ibv_context *open_loopback(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;
	struct ibv_context *context;

	CHECK(list);
	while (*device && strcmp(ibv_get_device_name(*device), "roce_lo"))
		device++;
	context = ibv_open_device(*device);
	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

/* The GID of 127.0.0.1. */
static inline int gid_index(struct ibv_context *context, union ibv_gid *gid)
{
	static const uint8_t TAIL[] = { 0xff, 0xff, 127, 0, 0, 1 };

	for (int i = 0; i < 256; i++)
		if (!ibv_query_gid(context, 1, i, gid) && !memcmp(gid->raw + 10, TAIL, 6))
			return i;
	CHECK(!"127.0.0.1 is there");
	return -1;
}

static inline void connect_to(struct ends *ends, int which)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = ends->qps[!which]->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } },
	};
	struct ibv_ah_attr *path = &attr.ah_attr;

	path->grh.sgid_index = (uint8_t)gid_index(ends->context, &path->grh.dgid);
	CHECK(!ibv_modify_qp(ends->qps[which], &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(ends->qps[which], &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(ends->qps[which], &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline struct ends *make_ends(void)
{
	struct ends *ends = calloc(1, sizeof(*ends));
	struct ibv_qp_init_attr attr = { .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };

	CHECK(ends);
	ends->context = open_loopback();
	ends->pd = ibv_alloc_pd(ends->context);
	ends->channel = ibv_create_comp_channel(ends->context);
	ends->cq = ibv_create_cq(ends->context, 8 * DEPTH, NULL, ends->channel, 0);
	CHECK(ends->channel && ends->pd && ends->cq);
	ends->mr = ibv_reg_mr(ends->pd, ends->memory, sizeof(ends->memory), IBV_ACCESS_LOCAL_WRITE);
	CHECK(ends->mr);
	attr.send_cq = attr.recv_cq = ends->cq;
	for (int i = 0; i < 2; i++) {
		ends->qps[i] = ibv_create_qp(ends->pd, &attr);
		CHECK(ends->qps[i]);
	}
	connect_to(ends, 0);
	connect_to(ends, 1);
	return ends;
}

/* A quarter of the memory. */
static inline struct ibv_sge stretch(struct ends *ends, int quarter)
{
	return (struct ibv_sge){ (uintptr_t)ends->memory + quarter * MESSAGE, MESSAGE,
				 ends->mr->lkey };
}

static inline int post_send(struct ends *ends, int which, uint64_t wr_id)
{
	struct ibv_sge sge = stretch(ends, which);
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND }, *bad;

	return ibv_post_send(ends->qps[which], &wr, &bad);
}

static inline int post_recv(struct ends *ends, int which, uint64_t wr_id)
{
	struct ibv_sge sge = stretch(ends, 2 + which);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(ends->qps[which], &wr, &bad);
}

/* Sends a message from the first to the second, and checks all its bytes. */
static inline void exchange(struct ends *ends, unsigned char fill)
{
	struct ibv_wc wc;
	int done = 0;

	memset(ends->memory, fill, MESSAGE);
	CHECK(!post_recv(ends, 1, 1) && !post_send(ends, 0, 2));
	while (done < 2) {
		int found = ibv_poll_cq(ends->cq, 1, &wc);

		CHECK(found >= 0 && (!found || wc.status == IBV_WC_SUCCESS));
		done += found;
	}
	CHECK(!memcmp(ends->memory, ends->memory + 3 * MESSAGE, MESSAGE));
}

static inline void destroy_ends(struct ends *ends)
{
	CHECK(!ibv_destroy_qp(ends->qps[0]) && !ibv_destroy_qp(ends->qps[1]));
	CHECK(!ibv_destroy_cq(ends->cq) && !ibv_dereg_mr(ends->mr) && !ibv_dealloc_pd(ends->pd));
	CHECK(!ibv_destroy_comp_channel(ends->channel) && !ibv_close_device(ends->context));
	free(ends);
}

#endif
