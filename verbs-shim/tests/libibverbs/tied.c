/* With ROCE_TIE_MEMORY=1, a region ends with the mapping that it was made of: whatever the program
 * maps there later, peers don't reach it. */

#define _GNU_SOURCE
#include "ends.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static void *map_at(void *where, int kind)
{
	int fixed = where ? MAP_FIXED : 0;
	void *memory = mmap(where, 4 * PAGE, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | fixed,
			    -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Writes 8 bytes of 7 to the peer's region. */
static enum ibv_wc_status write_to(struct ends *ends, struct ibv_mr *mr, uint64_t offset)
{
	struct ibv_sge sge = stretch(ends, 0);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_wc wc;
	int found;

	sge.length = 8;
	memset(ends->memory, 7, 8);
	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + offset;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
	while (!(found = ibv_poll_cq(ends->cq, 1, &wc)))
		;
	CHECK(found == 1);
	return wc.status;
}

/* The QPs of the pair fail with the first refused request. */
static struct ends *make_writable_ends(void)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ends *ends = make_ends();

	CHECK(!ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
	return ends;
}

/* Replaces the second of four pages. The first three are one region, the fourth is another. */
static void what_replaces_a_page_is_out_of_reach(int kind, int moves)
{
	struct ends *ends = make_writable_ends();
	unsigned char *memory = map_at(NULL, kind), *elsewhere = map_at(NULL, kind);
	struct ibv_mr *mr = ibv_reg_mr(ends->pd, memory, 3 * PAGE, RIGHTS);
	struct ibv_mr *other = ibv_reg_mr(ends->pd, memory + 3 * PAGE, PAGE, RIGHTS);
	enum ibv_wc_status status;

	CHECK(mr && other);
	CHECK(write_to(ends, mr, PAGE) == IBV_WC_SUCCESS && memory[PAGE] == 7);
	if (moves)
		CHECK(mremap(memory + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			     elsewhere) == elsewhere);
	else
		CHECK(!munmap(memory + PAGE, PAGE));
	CHECK(mmap(memory + PAGE, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + PAGE);
	CHECK(write_to(ends, other, 0) == IBV_WC_SUCCESS && memory[3 * PAGE] == 7);
	/* The report of an unmapping may take effect a little later. */
	do {
		memory[PAGE] = 9;
		status = write_to(ends, mr, PAGE);
	} while (status == IBV_WC_SUCCESS);
	CHECK(status == IBV_WC_REM_ACCESS_ERR && memory[PAGE] == 9);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(other));
	/* The address can be registered again, with what is there now. */
	mr = ibv_reg_mr(ends->pd, memory, 3 * PAGE, RIGHTS);
	CHECK(mr && !ibv_dereg_mr(mr));
	CHECK(!munmap(memory, 4 * PAGE) && !munmap(elsewhere, 4 * PAGE));
	destroy_ends(ends);
}

static void what_can_not_be_tied_is_refused(void)
{
	struct ends *ends = make_ends();
	FILE *file = tmpfile();
	void *memory;

	CHECK(file && !ftruncate(fileno(file), PAGE));
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	CHECK(memory != MAP_FAILED);
	CHECK(!ibv_reg_mr(ends->pd, memory, PAGE, RIGHTS) && errno == EOPNOTSUPP);
	CHECK(!setenv("ROCE_TIE_MEMORY", "yes", 1));
	CHECK(!ibv_reg_mr(ends->pd, ends->memory, PAGE, RIGHTS) && errno == EINVAL);
	CHECK(!setenv("ROCE_TIE_MEMORY", "1", 1));
	CHECK(!munmap(memory, PAGE) && !fclose(file));
	destroy_ends(ends);
}

int main(void)
{
	/* Without ties, what follows would never end. */
	alarm(30);
	for (int moves = 0; moves < 2; moves++) {
		what_replaces_a_page_is_out_of_reach(MAP_PRIVATE, moves);
		what_replaces_a_page_is_out_of_reach(MAP_SHARED, moves);
	}
	what_can_not_be_tied_is_refused();
	return 0;
}
