/* A thread changes the opcode of a request again and again while another posts it. The request is one
 * of the two that the program wrote, a compare-and-swap that never swaps or a READ, and never a mixture
 * of both, such as a fetch-and-add. */

#include "ends.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { POSTS = 100000, QUIET = 0x7fffffff };

static atomic_int left = 1;
static struct ibv_send_wr wr;

static void *change(void *argument)
{
	volatile enum ibv_wr_opcode *opcode = &wr.opcode;

	while (atomic_load_explicit(&left, memory_order_relaxed)) {
		*opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		*opcode = IBV_WR_RDMA_READ;
	}
	return argument;
}

int main(void)
{
	static uint64_t remote;
	int swaps = 0, reads = 0;
	struct ends *ends;
	struct ibv_mr *mr;
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC |
						       IBV_ACCESS_REMOTE_READ };
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	pthread_t changer;

	alarm(120);
	ends = make_ends();
	mr = ibv_reg_mr(ends->pd, &remote, sizeof(remote),
			IBV_ACCESS_LOCAL_WRITE | (int)attr.qp_access_flags);
	CHECK(mr && !ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
	sge = (struct ibv_sge){ (uintptr_t)ends->memory, sizeof(remote), ends->mr->lkey };
	wr = (struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	/* Both operations have the address in the same place. The R_Key of a READ is in the low half of
	 * the number that is compared, so that is never what the memory has: 0. */
	wr.wr.atomic.remote_addr = (uintptr_t)&remote;
	wr.wr.atomic.compare_add = mr->rkey;
	wr.wr.atomic.swap = QUIET;
	wr.wr.atomic.rkey = mr->rkey;
	CHECK(wr.wr.rdma.rkey == mr->rkey && mr->rkey);
	CHECK(!pthread_create(&changer, NULL, change, NULL));
	for (int i = 0; i < POSTS; i++) {
		struct ibv_wc wc;
		int found;

		CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
		while (!(found = ibv_poll_cq(ends->cq, 1, &wc)))
			;
		CHECK(found == 1 && wc.status == IBV_WC_SUCCESS);
		CHECK(wc.opcode == IBV_WC_COMP_SWAP || wc.opcode == IBV_WC_RDMA_READ);
		swaps += wc.opcode == IBV_WC_COMP_SWAP;
		reads += wc.opcode == IBV_WC_RDMA_READ;
		CHECK(remote == 0);
	}
	atomic_store(&left, 0);
	CHECK(!pthread_join(changer, NULL));
	printf("%d swaps, %d reads\n", swaps, reads);
	CHECK(swaps && reads);
	CHECK(!ibv_dereg_mr(mr));
	destroy_ends(ends);
	return 0;
}
