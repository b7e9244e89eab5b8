/* Collective libraries put functions of their own into a context's table, and call the
 * original ones from there: each call of a program must go through the table, and work as before. */

#include "ends.h"

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

static struct ibv_context_ops original;

static struct {
	unsigned post_send, post_recv, post_srq_recv, poll_cq, req_notify_cq, bind_mw, alloc_mw,
		dealloc_mw;
} calls;

static int count_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	calls.post_send++;
	return original.post_send(qp, wr, bad);
}

static int count_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	calls.post_recv++;
	return original.post_recv(qp, wr, bad);
}

static int count_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad)
{
	calls.post_srq_recv++;
	return original.post_srq_recv(srq, wr, bad);
}

static int count_poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	calls.poll_cq++;
	return original.poll_cq(cq, entries, wc);
}

static int count_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	calls.req_notify_cq++;
	return original.req_notify_cq(cq, solicited_only);
}

static int count_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	calls.bind_mw++;
	return original.bind_mw(qp, mw, bind);
}

static struct ibv_mw *count_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	calls.alloc_mw++;
	return original.alloc_mw(pd, type);
}

static int count_dealloc_mw(struct ibv_mw *mw)
{
	calls.dealloc_mw++;
	return original.dealloc_mw(mw);
}

static void patch(struct ibv_context *context)
{
	original = context->ops;
	context->ops.post_send = count_post_send;
	context->ops.post_recv = count_post_recv;
	context->ops.post_srq_recv = count_post_srq_recv;
	context->ops.poll_cq = count_poll_cq;
	context->ops.req_notify_cq = count_req_notify_cq;
	context->ops.bind_mw = count_bind_mw;
	context->ops.alloc_mw = count_alloc_mw;
	context->ops.dealloc_mw = count_dealloc_mw;
}

/* The calls of librdmacm's header also go through the table: an ID has only its QP and CQs.
 * They wait for events of the CQ's channel, and demand that the CQ's context is the ID. */
static void calls_of_the_connection_manager(struct ends *ends)
{
	struct rdma_cm_id id = { .qp = ends->qps[0], .send_cq = ends->cq,
				 .send_cq_channel = ends->channel };
	unsigned sends = calls.post_send, receives = calls.post_recv, polls = calls.poll_cq;
	struct ibv_wc wc;

	ends->cq->cq_context = &id;
	CHECK(!post_recv(ends, 1, 1));
	CHECK(!rdma_post_send(&id, NULL, ends->memory, 16, ends->mr, IBV_SEND_SIGNALED));
	for (int done = 0; done < 2; done++) {
		CHECK(rdma_get_send_comp(&id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	}
	CHECK(calls.post_send == sends + 1 && calls.post_recv == receives + 1);
	CHECK(calls.poll_cq > polls);
	CHECK(!rdma_post_recv(&id, NULL, ends->memory, 16, ends->mr));
	CHECK(calls.post_recv == receives + 2);
}

static void windows_and_shared_queues(struct ends *ends)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(ends->pd, &init);
	struct ibv_sge sge = stretch(ends, 2);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_mw_bind bind = { .bind_info = { .mr = ends->mr, .length = 8 } };
	struct ibv_mw *mw = ibv_alloc_mw(ends->pd, IBV_MW_TYPE_1);

	CHECK(srq && mw && calls.alloc_mw == 1);
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad) && calls.post_srq_recv == 1);
	/* The region does not allow binding, so the bind completes in error. */
	bind.bind_info.addr = (uintptr_t)ends->memory;
	CHECK(!ibv_bind_mw(ends->qps[0], mw, &bind) && calls.bind_mw == 1);
	CHECK(!ibv_dealloc_mw(mw) && calls.dealloc_mw == 1 && !ibv_destroy_srq(srq));
}

int main(void)
{
	struct ends *ends;

	alarm(60);
	ends = make_ends();
	patch(ends->context);
	exchange(ends, 0x11);
	CHECK(calls.post_send == 1 && calls.post_recv == 1 && calls.poll_cq);
	CHECK(!calls.req_notify_cq);
	CHECK(!ibv_req_notify_cq(ends->cq, 0) && calls.req_notify_cq == 1);
	calls_of_the_connection_manager(ends);
	windows_and_shared_queues(ends);
	destroy_ends(ends);
	return 0;
}
