/* Forks children that don't exec, while messages are in flight. A child's calls on objects of its
 * parent fail and do nothing; a device that the child opens itself works. */

#include "ends.h"

#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 4, ROUNDS = 50 };

static void try_what_is_the_parents(struct ends *ends)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_device_attr device;
	struct ibv_wc wc;

	CHECK(post_send(ends, 0, 3) == ENODEV && post_recv(ends, 1, 4) == ENODEV);
	CHECK(ibv_poll_cq(ends->cq, 1, &wc) == -1 && errno == ENODEV);
	CHECK(ibv_req_notify_cq(ends->cq, 0) == ENODEV);
	CHECK(ibv_modify_qp(ends->qps[0], &attr, IBV_QP_STATE) == ENODEV);
	CHECK(ibv_query_device(ends->context, &device) == ENODEV);
	CHECK(!ibv_alloc_pd(ends->context) && errno == ENODEV);
	CHECK(!ibv_reg_mr(ends->pd, ends->memory, MESSAGE, 0) && errno == ENODEV);
	CHECK(ibv_destroy_qp(ends->qps[0]) == ENODEV && ibv_dereg_mr(ends->mr) == ENODEV);
	CHECK(ibv_destroy_cq(ends->cq) == ENODEV && ibv_dealloc_pd(ends->pd) == ENODEV);
	CHECK(ibv_close_device(ends->context) == ENODEV);
	CHECK(!ibv_import_device(ends->context->cmd_fd) && errno == EOPNOTSUPP);
}

/* Each process has its own device memory. */
static void try_device_memory(struct ends *ends)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(ends->context, &attr);
	char text[4] = "abc";

	CHECK(dm && !ibv_memcpy_to_dm(dm, 60, text, 4));
	memset(text, 0, 4);
	CHECK(!ibv_memcpy_from_dm(text, dm, 60, 4) && !strcmp(text, "abc"));
	CHECK(!ibv_reg_dm_mr(ends->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED) && errno == ENODEV);
	CHECK(!ibv_free_dm(dm));
}

static void child(struct ends *parents)
{
	struct ends *ends;

	for (int i = 0; i < ROUNDS; i++)
		try_what_is_the_parents(parents);
	try_device_memory(parents);
	ends = make_ends();
	for (int i = 0; i < ROUNDS; i++)
		exchange(ends, (unsigned char)i);
	destroy_ends(ends);
	try_what_is_the_parents(parents);
}

int main(void)
{
	struct ends *ends = make_ends();
	pid_t children[CHILDREN];
	int status;

	alarm(60);
	CHECK(!ibv_fork_init());
	CHECK(!post_recv(ends, 1, 1));
	for (int i = 0; i < CHILDREN; i++) {
		/* One message is in flight during each fork. */
		CHECK(!post_send(ends, 0, 2));
		fflush(stdout);
		children[i] = fork();
		CHECK(children[i] >= 0);
		if (!children[i]) {
			child(ends);
			return 0;
		}
		for (int done = 0; done < 2;) {
			struct ibv_wc wc;
			int found = ibv_poll_cq(ends->cq, 1, &wc);

			CHECK(found >= 0 && (!found || wc.status == IBV_WC_SUCCESS));
			done += found;
		}
		for (int round = 0; round < ROUNDS; round++)
			exchange(ends, (unsigned char)round);
		CHECK(!post_recv(ends, 1, 1));
	}
	for (int i = 0; i < CHILDREN; i++)
		CHECK(waitpid(children[i], &status, 0) == children[i] && !status);
	destroy_ends(ends);
	return 0;
}
