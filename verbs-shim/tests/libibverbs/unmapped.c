/* Memory is unmapped or protected while it is registered. Requests that need the missing bytes fail;
 * nobody gets a SIGSEGV. The program's own faults still reach its handler. */

#define _GNU_SOURCE
#include "ends.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

/* What happens to the second page. */
enum loss { UNMAPPED, HIDDEN, READ_ONLY, LOSSES };

static sigjmp_buf own_fault;

static void on_own_fault(int number)
{
	siglongjmp(own_fault, number);
}

static unsigned char *map_pages(void)
{
	unsigned char *bytes = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(bytes != MAP_FAILED);
	return bytes;
}

static void lose(unsigned char *page, enum loss loss)
{
	if (loss == UNMAPPED)
		CHECK(!munmap(page, PAGE));
	else
		CHECK(!mprotect(page, PAGE, loss == HIDDEN ? PROT_NONE : PROT_READ));
}

/* A request of the first QP. `local` is its memory there, `remote` that of the second QP. */
static void post(struct ends *ends, enum ibv_wr_opcode opcode, struct ibv_sge local,
		 struct ibv_sge remote)
{
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &local, .num_sge = 1,
				  .opcode = opcode }, *bad;
	struct ibv_recv_wr receive = { .wr_id = 2, .sg_list = &remote, .num_sge = 1 }, *bad_receive;

	if (opcode == IBV_WR_SEND) {
		CHECK(!ibv_post_recv(ends->qps[1], &receive, &bad_receive));
	} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote.addr;
		wr.wr.atomic.rkey = remote.lkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = remote.addr;
		wr.wr.rdma.rkey = remote.lkey;
	}
	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
}

/* The status of the first QP's request. */
static enum ibv_wc_status status(struct ends *ends)
{
	struct ibv_wc wc;
	int found;

	for (;;) {
		found = ibv_poll_cq(ends->cq, 1, &wc);
		CHECK(found >= 0);
		if (found && wc.wr_id == 1)
			return wc.status;
	}
}

/* A request from or to `length` bytes, of which the last reach into the second page. */
static void request(enum ibv_wr_opcode opcode, int is_local, uint32_t length, enum loss loss,
		    enum ibv_wc_status expected)
{
	struct ibv_qp_attr attr = { .qp_access_flags = RIGHTS & ~IBV_ACCESS_LOCAL_WRITE };
	struct ends *ends = make_ends();
	unsigned char *bytes = map_pages();
	struct ibv_mr *mr = ibv_reg_mr(ends->pd, bytes, 2 * PAGE, RIGHTS);
	int is_atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint64_t end = (uintptr_t)bytes + PAGE + (is_atomic ? 8 : length / 4);
	struct ibv_sge plain = stretch(ends, 0), there = { end - length, length, 0 }, other;
	enum ibv_wc_status found;

	CHECK(mr && !ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
	/* The peer of SEND needs no more rights; that of the others is a region with all of them. */
	other = stretch(ends, 3);
	there.lkey = mr->lkey;
	plain.length = other.length = length;
	if (is_local && opcode != IBV_WR_SEND) {
		other = (struct ibv_sge){ (uintptr_t)bytes, length, mr->lkey };
	}
	memset(ends->memory, 7, MESSAGE);
	post(ends, opcode, is_local ? there : plain, is_local ? other : there);
	CHECK(status(ends) == IBV_WC_SUCCESS);
	if (!is_local && opcode != IBV_WR_RDMA_READ)
		CHECK(((unsigned char *)(uintptr_t)(end - length))[0] == (is_atomic ? 5 : 7));
	lose(bytes + PAGE, loss);
	post(ends, opcode, is_local ? there : plain, is_local ? other : there);
	found = status(ends);
	if (found != expected)
		printf("opcode %d of %u bytes, local %d, loss %d: %s\n", opcode, length, is_local, loss,
		       ibv_wc_status_str(found));
	CHECK(found == expected);
	CHECK(!ibv_dereg_mr(mr) && !munmap(bytes, 2 * PAGE));
	destroy_ends(ends);
}

static void own_faults_reach_own_handler(void)
{
	volatile unsigned char *bytes = map_pages();

	lose((unsigned char *)bytes, HIDDEN);
	if (!sigsetjmp(own_fault, 1)) {
		bytes[0] = 1;
		CHECK(!"this page is protected");
	}
	CHECK(!munmap((void *)bytes, 2 * PAGE));
}

/* Runs in a child whose signals have their default actions. */
static void ends_with_sigsegv(int is_sent)
{
	volatile unsigned char *bytes = map_pages();
	int status, child;

	lose((unsigned char *)bytes, HIDDEN);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct ends *ends = make_ends();

		if (is_sent)
			kill(getpid(), SIGSEGV);
		else
			bytes[0] = (unsigned char)ends->qps[0]->qp_num;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(!munmap((void *)bytes, 2 * PAGE));
}

int main(void)
{
	/* The last two lengths are copied as several packets, and as the middle of one. */
	static const uint32_t LENGTHS[] = { 16, 900, 2048 };

	ends_with_sigsegv(0);
	ends_with_sigsegv(1);
	signal(SIGSEGV, on_own_fault);
	for (int loss = 0; loss < LOSSES; loss++) {
		for (int at = 0; at < 3; at++) {
			uint32_t length = LENGTHS[at];

			request(IBV_WR_SEND, 0, length, loss, IBV_WC_REM_OP_ERR);
			request(IBV_WR_RDMA_WRITE, 0, length, loss, IBV_WC_REM_ACCESS_ERR);
			request(IBV_WR_RDMA_READ, 1, length, loss, IBV_WC_LOC_PROT_ERR);
			if (loss == READ_ONLY)
				continue;
			request(IBV_WR_SEND, 1, length, loss, IBV_WC_LOC_PROT_ERR);
			request(IBV_WR_RDMA_WRITE, 1, length, loss, IBV_WC_LOC_PROT_ERR);
			request(IBV_WR_RDMA_READ, 0, length, loss, IBV_WC_REM_ACCESS_ERR);
		}
		request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, loss, IBV_WC_REM_ACCESS_ERR);
	}
	own_faults_reach_own_handler();
	return 0;
}
