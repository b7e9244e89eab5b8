/* Memory windows of implicit on-demand regions: a window of type 1 by ibv_bind_mw and of type 2
 * by a work request, written through its key, and unbound again. */

#include "ends.h"

#include <stdint.h>

/* The region's flags. Programs also pass them for its windows, where only the remote rights
 * count. */
enum {
	RIGHTS = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING,
};

static struct ibv_wc completion(struct ends *ends)
{
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(ends->cq, 1, &wc)))
		;
	CHECK(found == 1);
	return wc;
}

static void done(struct ends *ends, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = completion(ends);

	if (wc.status)
		printf("%s: ", ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(wc.opcode == opcode);
}

/* A WRITE from the first QP to the window that the second has bound. */
static void write_through(struct ends *ends, unsigned char *to, uint32_t rkey)
{
	struct ibv_sge sge = stretch(ends, 0);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { (uintptr_t)to, rkey } }, *bad;

	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
}

static struct ibv_mw_bind_info info(struct ibv_mr *mr, unsigned char *at, unsigned int rights)
{
	return (struct ibv_mw_bind_info){ mr, (uintptr_t)at, MESSAGE, rights };
}

static void of_type_1(struct ends *ends, struct ibv_mr *all, unsigned char *target,
		      unsigned int rights)
{
	struct ibv_mw *mw = ibv_alloc_mw(ends->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .bind_info = info(all, target, rights) };

	CHECK(mw);
	CHECK(!ibv_bind_mw(ends->qps[1], mw, &bind));
	done(ends, IBV_WC_BIND_MW);
	memset(ends->memory, 1, MESSAGE);
	write_through(ends, target, mw->rkey);
	done(ends, IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(ends->memory, target, MESSAGE));
	/* Zero bytes: the window is unbound. */
	memset(&bind.bind_info, 0, sizeof(bind.bind_info));
	CHECK(!ibv_bind_mw(ends->qps[1], mw, &bind));
	done(ends, IBV_WC_BIND_MW);
	CHECK(!ibv_dealloc_mw(mw));
}

static void of_type_2(struct ends *ends, struct ibv_mr *all, unsigned char *target)
{
	struct ibv_mw *mw = ibv_alloc_mw(ends->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW }, *bad;
	uint32_t rkey;

	CHECK(mw);
	rkey = mw->rkey;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = info(all, target, RIGHTS);
	CHECK(!ibv_post_send(ends->qps[1], &wr, &bad));
	done(ends, IBV_WC_BIND_MW);
	/* Only ibv_bind_mw stores the new key: here the program has chosen it. */
	CHECK(mw->rkey == rkey);
	memset(ends->memory, 2, MESSAGE);
	write_through(ends, target, wr.bind_mw.rkey);
	done(ends, IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(ends->memory, target, MESSAGE));
	/* One byte beyond the window. */
	write_through(ends, target + 1, wr.bind_mw.rkey);
	CHECK(completion(ends).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
}

int main(void)
{
	struct ends *ends = make_ends();
	unsigned char *target = calloc(1, 2 * MESSAGE);
	struct ibv_mr *all = ibv_reg_mr(ends->pd, NULL, SIZE_MAX, RIGHTS);

	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	CHECK(target && all);
	CHECK(!ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
	of_type_1(ends, all, target, IBV_ACCESS_REMOTE_WRITE);
	of_type_1(ends, all, target, RIGHTS);
	of_type_2(ends, all, target);
	CHECK(!ibv_dereg_mr(all));
	free(target);
	destroy_ends(ends);
	return 0;
}
