/* FLUSH to persistence: which memory can have the right, and a FLUSH of a file from end to end. The
 * argument is a folder on a disk. */

#define _GNU_SOURCE
#include "ends.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 4, LENGTH = PAGES * PAGE };

/* What headers before rdma-core 56 lack. */
enum { FLUSH_TO_PERSISTENCE = 0x200, WITH_FLUSH = 1 << 11, COMPLETED_FLUSH = 8, PERSISTENT = 2,
       RANGE = 0, REGION = 1 };

enum { RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | FLUSH_TO_PERSISTENCE };

typedef void (*flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		      uint8_t level);

/* The last member of `ibv_qp_ex` since rdma-core 56. */
static flush wr_flush(struct ibv_qp_ex *qp)
{
	return *(flush *)((char *)&qp->wr_atomic_write + sizeof(qp->wr_atomic_write));
}

static char *map(int flags, int fd)
{
	char *bytes = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);

	CHECK(bytes != MAP_FAILED);
	return bytes;
}

static int new_file(const char *folder)
{
	char path[4096];
	int fd;

	CHECK(snprintf(path, sizeof(path), "%s/memory", folder) < (int)sizeof(path));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, LENGTH));
	return fd;
}

static void refused(struct ends *ends, char *bytes)
{
	errno = 0;
	CHECK(!ibv_reg_mr(ends->pd, bytes, LENGTH, RIGHTS) && errno == EINVAL);
	CHECK(!munmap(bytes, LENGTH));
}

static void only_files_are_registered(struct ends *ends, int fd)
{
	int in_memory = memfd_create("in memory", 0);
	char *bytes = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr;

	CHECK(in_memory >= 0 && !ftruncate(in_memory, LENGTH));
	refused(ends, map(MAP_PRIVATE | MAP_ANONYMOUS, -1));
	refused(ends, map(MAP_SHARED | MAP_ANONYMOUS, -1));
	refused(ends, map(MAP_PRIVATE, fd));
	refused(ends, map(MAP_SHARED, in_memory));
	/* Nor does memory get the right later. */
	mr = ibv_reg_mr(ends->pd, bytes, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS));
	CHECK(!ibv_dereg_mr(mr) && !munmap(bytes, LENGTH) && !close(in_memory));
	/* Half of the range is of a file. */
	bytes = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	CHECK(mmap(bytes, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == bytes);
	refused(ends, bytes);
}

/* A QP in place of the first one, which can FLUSH. */
static struct ibv_qp_ex *flushing_qp(struct ends *ends)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ends->cq, .recv_cq = ends->cq, .cap = { DEPTH, DEPTH, 1, 1, 0 },
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = ends->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | WITH_FLUSH,
	};

	CHECK(!ibv_destroy_qp(ends->qps[0]) && !ibv_destroy_qp(ends->qps[1]));
	for (int i = 0; i < 2; i++) {
		ends->qps[i] = ibv_create_qp_ex(ends->context, &attr);
		CHECK(ends->qps[i]);
	}
	connect_to(ends, 0);
	connect_to(ends, 1);
	return ibv_qp_to_qp_ex(ends->qps[0]);
}

static void allow(struct ends *ends, unsigned int access)
{
	struct ibv_qp_attr attr = { .qp_access_flags = access };

	CHECK(!ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
}

static void expect(struct ends *ends, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int found;

	do
		found = ibv_poll_cq(ends->cq, 1, &wc);
	while (!found);
	CHECK(found == 1 && wc.status == status);
	CHECK(status != IBV_WC_SUCCESS || (int)wc.opcode == COMPLETED_FLUSH);
}

static void flush_file(struct ends *ends, int fd, unsigned int access, enum ibv_wc_status expected)
{
	struct ibv_qp_ex *qp = flushing_qp(ends);
	char *bytes = map(MAP_SHARED, fd);
	struct ibv_mr *mr = ibv_reg_mr(ends->pd, bytes + 100, LENGTH - 200, RIGHTS);
	static const uint8_t LEVELS[] = { RANGE, REGION };

	CHECK(mr);
	allow(ends, access);
	for (int i = 0; i < 2; i++) {
		memset(bytes, 'a' + i, LENGTH);
		ibv_wr_start(qp);
		wr_flush(qp)(qp, mr->rkey, (uintptr_t)bytes + 200, PAGE, PERSISTENT, LEVELS[i]);
		CHECK(!ibv_wr_complete(qp));
		expect(ends, expected);
		if (expected != IBV_WC_SUCCESS)
			break;
	}
	CHECK(!ibv_dereg_mr(mr) && !munmap(bytes, LENGTH));
}

int main(int argc, char **argv)
{
	struct ends *ends = make_ends();
	int fd;

	CHECK(argc == 2);
	fd = new_file(argv[1]);
	only_files_are_registered(ends, fd);
	flush_file(ends, fd, FLUSH_TO_PERSISTENCE, IBV_WC_SUCCESS);
	flush_file(ends, fd, IBV_ACCESS_REMOTE_WRITE, IBV_WC_REM_INV_REQ_ERR);
	CHECK(!close(fd));
	destroy_ends(ends);
	return 0;
}
