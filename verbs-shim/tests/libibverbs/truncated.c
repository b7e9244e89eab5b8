/* Files that stand behind registered memory are truncated. Requests that need the missing pages
 * fail; nobody gets a SIGBUS. The program's own accesses to such pages still reach its handler. */

#define _GNU_SOURCE
#include "ends.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static sigjmp_buf own_fault;

static void on_own_fault(int number)
{
	siglongjmp(own_fault, number);
}

struct file {
	int fd;
	unsigned char *bytes;
	struct ibv_mr *mr;
	uint64_t addr;
};

static struct file make_file(struct ends *ends, int as_dmabuf)
{
	struct file file = { .fd = memfd_create("shared", 0) };

	CHECK(file.fd >= 0 && !ftruncate(file.fd, 2 * PAGE));
	file.bytes = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	CHECK(file.bytes != MAP_FAILED);
	file.addr = as_dmabuf ? 0 : (uintptr_t)file.bytes;
	file.mr = as_dmabuf ? ibv_reg_dmabuf_mr(ends->pd, 0, 2 * PAGE, 0, file.fd, RIGHTS) :
			      ibv_reg_mr(ends->pd, file.bytes, 2 * PAGE, RIGHTS);
	CHECK(file.mr);
	return file;
}

static void allow_access(struct ends *ends)
{
	struct ibv_qp_attr attr = { .qp_access_flags = RIGHTS & ~IBV_ACCESS_LOCAL_WRITE };

	CHECK(!ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
}

/* Posts a request of the first QP, and a receive of `length` bytes in the file to the second. */
static void post(struct ends *ends, struct file *file, enum ibv_wr_opcode opcode, int page,
		 int from_file)
{
	struct ibv_sge plain = stretch(ends, 0), there = { file->addr + page * PAGE, 8,
							    file->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = from_file ? &there : &plain, .num_sge = 1,
				  .opcode = opcode }, *bad;
	struct ibv_recv_wr receive = { .wr_id = 2, .sg_list = &there, .num_sge = 1 }, *bad_receive;

	plain.length = 8;
	if (opcode == IBV_WR_SEND) {
		CHECK(!ibv_post_recv(ends->qps[1], &receive, &bad_receive));
	} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = there.addr;
		wr.wr.atomic.rkey = file->mr->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = there.addr;
		wr.wr.rdma.rkey = file->mr->rkey;
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

static void request_for_missing_pages(enum ibv_wr_opcode opcode, int as_dmabuf, int from_file,
				      enum ibv_wc_status expected)
{
	struct ends *ends = make_ends();
	struct file file = make_file(ends, as_dmabuf);
	enum ibv_wc_status found;

	allow_access(ends);
	memset(ends->memory, 7, 8);
	post(ends, &file, opcode, 1, 0);
	CHECK(status(ends) == IBV_WC_SUCCESS);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK(file.bytes[PAGE] == 5);
	else if (opcode != IBV_WR_RDMA_READ)
		CHECK(file.bytes[PAGE] == 7 && file.bytes[PAGE + 7] == 7);
	CHECK(!ftruncate(file.fd, PAGE));
	post(ends, &file, opcode, 1, from_file);
	found = status(ends);
	if (found != expected)
		printf("opcode %d: %s\n", opcode, ibv_wc_status_str(found));
	CHECK(found == expected);
	CHECK(!ibv_dereg_mr(file.mr) && !munmap(file.bytes, 2 * PAGE) && !close(file.fd));
	destroy_ends(ends);
}

static void own_faults_reach_own_handler(void)
{
	struct ends *ends = make_ends();
	struct file file = make_file(ends, 0);

	CHECK(!ftruncate(file.fd, 0));
	if (!sigsetjmp(own_fault, 1)) {
		file.bytes[0] = 1;
		CHECK(!"this page is missing");
	}
	CHECK(!ibv_dereg_mr(file.mr) && !munmap(file.bytes, 2 * PAGE) && !close(file.fd));
	destroy_ends(ends);
}

int main(void)
{
	signal(SIGBUS, on_own_fault);
	for (int as_dmabuf = 0; as_dmabuf < 2; as_dmabuf++) {
		request_for_missing_pages(IBV_WR_SEND, as_dmabuf, 0, IBV_WC_REM_OP_ERR);
		request_for_missing_pages(IBV_WR_SEND, as_dmabuf, 1, IBV_WC_LOC_PROT_ERR);
		request_for_missing_pages(IBV_WR_RDMA_WRITE, as_dmabuf, 0, IBV_WC_REM_ACCESS_ERR);
		request_for_missing_pages(IBV_WR_RDMA_READ, as_dmabuf, 0, IBV_WC_REM_ACCESS_ERR);
		request_for_missing_pages(IBV_WR_ATOMIC_FETCH_AND_ADD, as_dmabuf, 0,
					  IBV_WC_REM_ACCESS_ERR);
	}
	own_faults_reach_own_handler();
	return 0;
}
