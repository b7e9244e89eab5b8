/* Threads that share everything: one device, one CQ, one pair of QPs. Some post, some poll,
 * some create and destroy objects; each request completes exactly once. */

#include "ends.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { POSTERS = 2, POLLERS = 2, EACH = 1500, ALL = POSTERS * EACH };

static struct ends *ends;
static atomic_uchar completed[2 * ALL];
static atomic_int done, left;

/* Posts again while the queue is full: a completed receive makes room. */
static void until_posted(int (*post)(struct ends *, int, uint64_t), int which, uint64_t wr_id)
{
	int result;

	while ((result = post(ends, which, wr_id)) == ENOMEM)
		sched_yield();
	CHECK(!result);
}

static void *poster(void *argument)
{
	uint64_t first = (uint64_t)(uintptr_t)argument * EACH;

	for (uint64_t i = first; i < first + EACH; i++) {
		until_posted(post_recv, 1, ALL + i);
		until_posted(post_send, 0, i);
	}
	return NULL;
}

static void *poller(void *argument)
{
	struct ibv_wc wc[4];

	while (atomic_load(&done) < 2 * ALL) {
		int found = ibv_poll_cq(ends->cq, 4, wc);

		CHECK(found >= 0);
		for (int i = 0; i < found; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id < 2 * ALL);
			CHECK(!atomic_exchange(&completed[wc[i].wr_id], 1));
		}
		atomic_fetch_add(&done, found);
		if (!found)
			sched_yield();
	}
	return argument;
}

/* Meanwhile creates and destroys objects, in the same domain and on the same CQ. */
static void *maker(void *argument)
{
	struct ibv_qp_init_attr attr = { .send_cq = ends->cq, .recv_cq = ends->cq,
					 .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr made;

	while (atomic_load(&left)) {
		char memory[64];
		struct ibv_mr *mr = ibv_reg_mr(ends->pd, memory, sizeof(memory), 0);
		struct ibv_qp *qp = ibv_create_qp(ends->pd, &attr);

		CHECK(mr && qp && ibv_destroy_cq(ends->cq) == EBUSY);
		CHECK(!ibv_query_qp(ends->qps[0], &now, IBV_QP_STATE, &made));
		CHECK(now.qp_state == IBV_QPS_RTS);
		CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
	}
	return argument;
}

int main(void)
{
	pthread_t threads[POSTERS + POLLERS], other;

	alarm(120);
	ends = make_ends();
	atomic_store(&left, 1);
	CHECK(!pthread_create(&other, NULL, maker, NULL));
	for (uintptr_t i = 0; i < POSTERS + POLLERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, i < POSTERS ? poster : poller, (void *)i));
	for (int i = 0; i < POSTERS + POLLERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	atomic_store(&left, 0);
	CHECK(!pthread_join(other, NULL));
	for (int i = 0; i < 2 * ALL; i++)
		CHECK(atomic_load(&completed[i]));
	destroy_ends(ends);
	return 0;
}
