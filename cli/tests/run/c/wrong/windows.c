/* Memory windows that are bound, used and invalidated wrongly. */

#include "ends.h"

static struct ibv_mw *alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *window = ibv_alloc_mw(pd, type);

	CHECK(window);
	return window;
}

/* A request that binds a window of type 2 to the middle of the region. */
static struct ibv_send_wr binding(struct end *end, struct ibv_mw *window)
{
	return (struct ibv_send_wr){
		.wr_id = 9,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = window,
			.rkey = ibv_inc_rkey(window->rkey),
			.bind_info = { .mr = end->mr, .addr = (uintptr_t)end->mr->addr + 1024,
				       .length = 1024, .mw_access_flags = REMOTE },
		},
	};
}

/* Binds on this QP. Returns the key. */
static uint32_t bind(struct end *end, struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad));
	expect(end, IBV_WC_SUCCESS);
	return wr.bind_mw.rkey;
}

/* A second QP of this process, whose peer is itself. */
static struct ibv_qp *make_spare(struct end *end)
{
	struct end spare = *end;

	make_qp(&spare, IBV_QPT_RC);
	spare.attr.dest_qp_num = spare.qp->qp_num;
	spare.attr.rq_psn = spare.own.psn;
	spare.attr.ah_attr.grh.dgid = end->own.gid;
	to_init(&spare);
	to_rtr(&spare);
	to_rts(&spare);
	return spare.qp;
}

static void open_and_connect(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
}

/* Uses the key that the server tells after the QPs are connected. */
static void use(struct end *end, enum ibv_wr_opcode opcode, long offset)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_and_connect(end);
	exchange(end);
	sge = usual_sge(end);
	wr = usual_wr(end, opcode, &sge);
	wr.wr.rdma.remote_addr += offset;
	note(end, "addr=%#llx rkey=0x%08x window=%#llx",
	     (unsigned long long)wr.wr.rdma.remote_addr, wr.wr.rdma.rkey,
	     (unsigned long long)end->peer.addr);
	post(end, &wr);
	expect(end, IBV_WC_REM_ACCESS_ERR);
	meet(end);
}

static void write_window(struct end *end)
{
	use(end, IBV_WR_RDMA_WRITE, 0);
}

static void write_past(struct end *end)
{
	use(end, IBV_WR_RDMA_WRITE, 1024 - LENGTH + 4);
}

static void read_before(struct end *end)
{
	use(end, IBV_WR_RDMA_READ, -16);
}

/* Tells the client the window's key and address, and sees its request denied. */
static void serve_window(struct end *end, uint32_t key)
{
	end->own.rkey = key;
	end->own.addr = (uintptr_t)end->mr->addr + 1024;
	exchange(end);
	expect_event(end, IBV_EVENT_QP_ACCESS_ERR);
	meet(end);
}

static void serve_unbound(struct end *end)
{
	open_and_connect(end);
	serve_window(end, alloc(end->pd, IBV_MW_TYPE_2)->rkey);
}

static void serve_bound(struct end *end)
{
	open_and_connect(end);
	serve_window(end, bind(end, end->qp, binding(end, alloc(end->pd, IBV_MW_TYPE_2))));
}

static void serve_bound_by_another(struct end *end)
{
	open_and_connect(end);
	serve_window(end, bind(end, make_spare(end), binding(end, alloc(end->pd, IBV_MW_TYPE_2))));
}

static void serve_read_only(struct end *end)
{
	struct ibv_send_wr wr;

	open_and_connect(end);
	wr = binding(end, alloc(end->pd, IBV_MW_TYPE_2));
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	serve_window(end, bind(end, end->qp, wr));
}

static void serve_invalidated(struct end *end)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };

	open_and_connect(end);
	wr.invalidate_rkey = bind(end, end->qp, binding(end, alloc(end->pd, IBV_MW_TYPE_2)));
	post(end, &wr);
	expect(end, IBV_WC_SUCCESS);
	serve_window(end, wr.invalidate_rkey);
}

/* A window of type 1 gets a new key when it is bound again. */
static void serve_bound_again(struct end *end)
{
	struct ibv_mw *window;
	struct ibv_mw_bind binding = { .send_flags = IBV_SEND_SIGNALED };
	uint32_t first;

	open_and_connect(end);
	window = alloc(end->pd, IBV_MW_TYPE_1);
	binding.bind_info = (struct ibv_mw_bind_info){ end->mr, (uintptr_t)end->mr->addr + 1024, 1024,
						       REMOTE };
	CHECK(!ibv_bind_mw(end->qp, window, &binding));
	expect(end, IBV_WC_SUCCESS);
	first = window->rkey;
	CHECK(!ibv_bind_mw(end->qp, window, &binding));
	expect(end, IBV_WC_SUCCESS);
	serve_window(end, first);
}

/* The bindings that fail, all at the client. */
static void refuse(struct end *end, struct ibv_send_wr wr)
{
	post(end, &wr);
	expect(end, IBV_WC_MW_BIND_ERR);
	meet(end);
}

static void bind_other_domain(struct end *end)
{
	open_and_connect(end);
	refuse(end, binding(end, alloc(end->other_pd, IBV_MW_TYPE_2)));
}

static void bind_twice(struct end *end)
{
	struct ibv_mw *window;

	open_and_connect(end);
	window = alloc(end->pd, IBV_MW_TYPE_2);
	bind(end, end->qp, binding(end, window));
	refuse(end, binding(end, window));
}

static void bind_nothing(struct end *end)
{
	struct ibv_send_wr wr;

	open_and_connect(end);
	wr = binding(end, alloc(end->pd, IBV_MW_TYPE_2));
	wr.bind_mw.bind_info.length = 0;
	refuse(end, wr);
}

static void bind_zero_based(struct end *end)
{
	struct ibv_mw *window;
	struct ibv_mw_bind binding = { .send_flags = IBV_SEND_SIGNALED };

	open_and_connect(end);
	window = alloc(end->pd, IBV_MW_TYPE_1);
	binding.bind_info = (struct ibv_mw_bind_info){ end->mr, (uintptr_t)end->mr->addr, 1024,
						       REMOTE | IBV_ACCESS_ZERO_BASED };
	CHECK(!ibv_bind_mw(end->qp, window, &binding));
	expect(end, IBV_WC_MW_BIND_ERR);
	meet(end);
}

static void bind_to(struct end *end, int access)
{
	open_end(end);
	register_with(end, access);
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
	refuse(end, binding(end, alloc(end->pd, IBV_MW_TYPE_2)));
}

static void bind_without_right(struct end *end)
{
	bind_to(end, ALL & ~IBV_ACCESS_MW_BIND);
}

static void bind_without_local_write(struct end *end)
{
	bind_to(end, IBV_ACCESS_MW_BIND);
}

/* Refused by the call, which knows the region. */
static void bind_past(struct end *end)
{
	struct ibv_send_wr wr, *bad;

	open_and_connect(end);
	wr = binding(end, alloc(end->pd, IBV_MW_TYPE_2));
	wr.bind_mw.bind_info.length = PAGE;
	note(end, "region=%#llx", (unsigned long long)(uintptr_t)end->mr->addr);
	CHECK(ibv_post_send(end->qp, &wr, &bad));
	meet(end);
}

static void open_and_serve(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	serve(end);
}

/* Local invalidations that fail. */
static void invalidate(struct end *end, uint32_t key)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = key };

	note(end, "key=0x%08x", key);
	post(end, &wr);
	expect(end, IBV_WC_MW_BIND_ERR);
	meet(end);
}

static void invalidate_unbound(struct end *end)
{
	open_and_connect(end);
	invalidate(end, alloc(end->pd, IBV_MW_TYPE_2)->rkey);
}

static void invalidate_region(struct end *end)
{
	open_and_connect(end);
	invalidate(end, end->mr->rkey);
}

static void invalidate_of_another(struct end *end)
{
	open_and_connect(end);
	invalidate(end, bind(end, make_spare(end), binding(end, alloc(end->pd, IBV_MW_TYPE_2))));
}

/* The client's SENDs, which invalidate a key of the server's. */
static void send_invalidating(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.retry_cnt = 3;
	connect_end(end);
	exchange(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_SEND_WITH_INV, &sge);
	wr.invalidate_rkey = end->peer.rkey;
	note(end, "key=0x%08x", wr.invalidate_rkey);
	post(end, &wr);
	/* The server does not answer such a request (9.9.6.3, class J). */
	expect(end, IBV_WC_RETRY_EXC_ERR);
	meet(end);
}

static void serve_invalidation(struct end *end, uint32_t key)
{
	post_receive(end, usual_sge(end));
	end->own.rkey = key;
	exchange(end);
	expect(end, IBV_WC_REM_INV_REQ_ERR);
	meet(end);
}

static void serve_invalidation_unbound(struct end *end)
{
	open_and_connect(end);
	serve_invalidation(end, alloc(end->pd, IBV_MW_TYPE_2)->rkey);
}

static void serve_invalidation_of_region(struct end *end)
{
	open_and_connect(end);
	serve_invalidation(end, end->mr->rkey);
}

static void serve_invalidation_of_another(struct end *end)
{
	open_and_connect(end);
	serve_invalidation(end,
			   bind(end, make_spare(end), binding(end, alloc(end->pd, IBV_MW_TYPE_2))));
}

const struct mistake WINDOWS[] = {
	{ "window not bound", write_window, serve_unbound },
	{ "WRITE past the end of a window", write_past, serve_bound },
	{ "READ before a window", read_before, serve_bound },
	{ "window of another QP", write_window, serve_bound_by_another },
	{ "WRITE to a window without REMOTE_WRITE", write_window, serve_read_only },
	{ "window invalidated", write_window, serve_invalidated },
	{ "window of type 1 bound again", write_window, serve_bound_again },
	{ "window of another protection domain", bind_other_domain, open_and_serve },
	{ "window of type 2 bound twice", bind_twice, open_and_serve },
	{ "window of type 2 bound to no bytes", bind_nothing, open_and_serve },
	{ "window of type 1 zero-based", bind_zero_based, open_and_serve },
	{ "window bound to a region without MW_BIND", bind_without_right, open_and_serve },
	{ "window bound to a region without LOCAL_WRITE", bind_without_local_write, open_and_serve },
	{ "window bound past the end of its region", bind_past, open_and_serve },
	{ "invalidation of a window not bound", invalidate_unbound, open_and_serve },
	{ "invalidation of a region", invalidate_region, open_and_serve },
	{ "invalidation of a window of another QP", invalidate_of_another, open_and_serve },
	{ "SEND that invalidates a window not bound", send_invalidating, serve_invalidation_unbound },
	{ "SEND that invalidates a region", send_invalidating, serve_invalidation_of_region },
	{ "SEND that invalidates a window of another QP", send_invalidating,
	  serve_invalidation_of_another },
	{ 0 },
};
