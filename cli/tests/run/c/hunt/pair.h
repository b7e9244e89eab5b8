/* Two queue pairs of one process, connected to each other over the loopback device. */
#ifndef PAIR_H
#define PAIR_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 256, BYTES = 1024 };

/* The sending end is `qp[0]` with `cq[0]`, the receiving end `qp[1]` with `cq[1]`. */
struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	uint8_t retry_cnt, rnr_retry, timeout;
	uint32_t psn;
	/* Slots for messages of BYTES bytes. */
	uint8_t slots[2 * DEPTH][BYTES];
};

static inline void fail(const char *what, int value)
{
	fprintf(stderr, "%s (%d)\n", what, value);
	exit(1);
}

/* Moves both QPs to RTS, from whatever state, and drops what they had to do. Late packets of the
 * connection before this one must not pass for packets of this one, so it begins at another PSN. */
static inline void connect_pair(struct pair *p)
{
	struct ibv_wc wc;

	p->psn = (p->psn + 1000003) & 0xffffff;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

		if (ibv_modify_qp(p->qp[i], &reset, IBV_QP_STATE))
			fail("a QP can't be reset", i);
		while (ibv_poll_cq(p->cq[i], 1, &wc) > 0)
			;
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = p->qp[!i]->qp_num,
			.sq_psn = p->psn,
			.rq_psn = p->psn,
			.min_rnr_timer = 1,
			.timeout = p->timeout,
			.retry_cnt = p->retry_cnt,
			.rnr_retry = p->rnr_retry,
			.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } },
		};
		int bad;

		if (ibv_query_gid(p->context, 1, 0, &attr.ah_attr.grh.dgid))
			fail("there is no GID", 0);
		bad = ibv_modify_qp(p->qp[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS);
		attr.qp_state = IBV_QPS_RTR;
		bad = bad || ibv_modify_qp(p->qp[i], &attr, IBV_QP_STATE | IBV_QP_AV |
					   IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
		attr.qp_state = IBV_QPS_RTS;
		bad = bad || ibv_modify_qp(p->qp[i], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
					   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
		if (bad)
			fail("a QP can't be connected", i);
	}
}

static inline struct pair *open_pair(uint8_t retry_cnt, uint8_t rnr_retry, uint8_t timeout)
{
	struct pair *p = calloc(1, sizeof *p);
	struct ibv_qp_init_attr init = { .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;

	while (device && *device && strcmp(ibv_get_device_name(*device), "roce_lo"))
		device++;
	if (!p || !device || !*device || !(p->context = ibv_open_device(*device)))
		fail("no roce_lo: run this under `roce run`", 0);
	ibv_free_device_list(list);
	p->retry_cnt = retry_cnt;
	p->rnr_retry = rnr_retry;
	p->timeout = timeout;
	p->pd = ibv_alloc_pd(p->context);
	p->mr = p->pd ? ibv_reg_mr(p->pd, p->slots, sizeof p->slots, IBV_ACCESS_LOCAL_WRITE) : NULL;
	for (int i = 0; i < 2; i++) {
		p->cq[i] = ibv_create_cq(p->context, 4 * DEPTH, NULL, NULL, 0);
		init.send_cq = init.recv_cq = p->cq[i];
		p->qp[i] = p->mr && p->cq[i] ? ibv_create_qp(p->pd, &init) : NULL;
		if (!p->qp[i])
			fail("an object can't be made", i);
	}
	connect_pair(p);
	return p;
}

static inline void post_send(struct pair *p, int end, int slot, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)p->slots[slot], bytes, p->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1,
					.opcode = IBV_WR_SEND };

	if (ibv_post_send(p->qp[end], &wr, &bad))
		fail("a send can't be posted", slot);
}

static inline void post_receive(struct pair *p, int end, int slot)
{
	struct ibv_sge sge = { (uintptr_t)p->slots[slot], BYTES, p->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = (uint64_t)slot, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(p->qp[end], &wr, &bad))
		fail("a receive can't be posted", slot);
}

static inline int poll(struct pair *p, int end, struct ibv_wc *wc)
{
	int found = ibv_poll_cq(p->cq[end], 1, wc);

	if (found < 0)
		fail("a CQ can't be polled", end);
	return found;
}

static inline void succeeded(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		fail(ibv_wc_status_str(wc->status), wc->status);
}

static inline double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Polls until there is a completion, or for some time and 1,000 polls: a process that the system does
 * not schedule for a while does not give up. */
static inline int wait_a_little(struct pair *p, int end, struct ibv_wc *wc, double ms)
{
	double begin = now_ms();

	for (int polls = 0; polls < 1000 || now_ms() < begin + ms; polls++)
		if (poll(p, end, wc))
			return 1;
	return 0;
}

#endif
