/* A client that uses the server's memory wrongly. The server, whose memory it is, knows what is wrong. */

#include "ends.h"

/* Posts a request with this address and key, and sees it denied. */
static void use(struct end *end, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = usual_sge(end);
	struct ibv_send_wr wr = usual_wr(end, opcode, &sge);

	if (sge.length == 8) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	note(end, "addr=%#llx rkey=0x%08x region=%#llx", (unsigned long long)addr, rkey,
	     (unsigned long long)end->peer.addr);
	post(end, &wr);
	expect(end, IBV_WC_REM_ACCESS_ERR);
	meet(end);
}

static void open_and_connect(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
}

static void open_and_serve(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	serve_access_error(end);
}

/* The region has these rights. */
static void serve_with(struct end *end, int access)
{
	open_end(end);
	register_with(end, access);
	make_qp(end, IBV_QPT_RC);
	serve_access_error(end);
}

/* What a program sends that forgets to convert the key from the network's order. */
static void swapped_key(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_WRITE, end->peer.addr, __builtin_bswap32(end->peer.rkey));
}

static void no_key(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_READ, end->peer.addr, 0);
}

static void write_as_told(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_WRITE, end->peer.addr, end->peer.rkey);
}

static void read_as_told(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_READ, end->peer.addr, end->peer.rkey);
}

static void add_as_told(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_ATOMIC_FETCH_AND_ADD, end->peer.addr, end->peer.rkey);
}

static void serve_deregistered(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	CHECK(!ibv_dereg_mr(end->mr));
	serve_access_error(end);
}

/* The region is registered again before the client uses the old key. */
static void serve_registered_again(struct end *end)
{
	struct contact old;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	old = end->own;
	register_with(end, ALL);
	end->own = old;
	serve_access_error(end);
}

static void serve_other_domain(struct end *end)
{
	struct ibv_pd *own;

	open_end(end);
	own = end->pd;
	end->pd = end->other_pd;
	make_qp(end, IBV_QPT_RC);
	end->pd = own;
	serve_access_error(end);
}

static void serve_read_only(struct end *end)
{
	serve_with(end, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

static void serve_write_only(struct end *end)
{
	serve_with(end, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void serve_no_atomics(struct end *end)
{
	serve_with(end, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

static void serve_private(struct end *end)
{
	serve_with(end, IBV_ACCESS_LOCAL_WRITE);
}

static void one_byte_too_far(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_WRITE, end->peer.addr + PAGE - LENGTH + 1, end->peer.rkey);
}

static void read_too_far(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_READ, end->peer.addr + PAGE - 16, end->peer.rkey);
}

static void at_the_end(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_WRITE, end->peer.addr + PAGE, end->peer.rkey);
}

static void far_past(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_WRITE, end->peer.addr + 3 * PAGE, end->peer.rkey);
}

static void before(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_RDMA_READ, end->peer.addr - 8, end->peer.rkey);
}

/* An address that was kept in an int. */
static void cut_off(struct end *end)
{
	open_and_connect(end);
	note(end, "before=%llu", (unsigned long long)(end->peer.addr - (uint32_t)end->peer.addr));
	use(end, IBV_WR_RDMA_WRITE, (uint32_t)end->peer.addr, end->peer.rkey);
}

/* An address that the server has never told. */
static void null_address(struct end *end)
{
	open_and_connect(end);
	note(end, "before=%llu", (unsigned long long)end->peer.addr);
	use(end, IBV_WR_RDMA_WRITE, 0, end->peer.rkey);
}

/* An index as an address, as only a zero-based region takes it. */
static void atomic_past(struct end *end)
{
	open_and_connect(end);
	use(end, IBV_WR_ATOMIC_CMP_AND_SWP, end->peer.addr + PAGE, end->peer.rkey);
}

/* Offsets count from the region's begin, but the client uses addresses. */
static void serve_zero_based(struct end *end)
{
	serve_with(end, ALL | IBV_ACCESS_ZERO_BASED);
}

static void write_zero_based(struct end *end)
{
	open_and_connect(end);
	note(end, "past=%llu", (unsigned long long)(end->peer.addr - PAGE));
	use(end, IBV_WR_RDMA_WRITE, end->peer.addr, end->peer.rkey);
}

/* The memory of the region is gone. */
static void serve_unmapped(struct end *end)
{
	open_end(end);
	register_with(end, ALL | IBV_ACCESS_ON_DEMAND);
	CHECK(!munmap(end->memory + REGION, PAGE));
	make_qp(end, IBV_QPT_RC);
	serve_access_error(end);
}

/* The memory can no longer be written. */
static void serve_protected(struct end *end)
{
	open_end(end);
	register_with(end, ALL | IBV_ACCESS_ON_DEMAND);
	CHECK(!mprotect(end->memory + REGION, PAGE, PROT_READ));
	make_qp(end, IBV_QPT_RC);
	serve_access_error(end);
}

static void serve_cut_file(struct end *end)
{
	open_end(end);
	register_cut_file(end);
	make_qp(end, IBV_QPT_RC);
	serve_access_error(end);
}

const struct mistake REMOTE_MEMORY[] = {
	{ "rkey in the wrong byte order", swapped_key, open_and_serve },
	{ "rkey of 0", no_key, open_and_serve },
	{ "rkey of a deregistered region", write_as_told, serve_deregistered },
	{ "rkey from before the region was registered again", read_as_told, serve_registered_again },
	{ "rkey of another protection domain", write_as_told, serve_other_domain },
	{ "WRITE to a region without REMOTE_WRITE", write_as_told, serve_read_only },
	{ "READ of a region without REMOTE_READ", read_as_told, serve_write_only },
	{ "atomic on a region without REMOTE_ATOMIC", add_as_told, serve_no_atomics },
	{ "WRITE to a region for local use", write_as_told, serve_private },
	{ "WRITE one byte past the end", one_byte_too_far, open_and_serve },
	{ "READ past the end", read_too_far, open_and_serve },
	{ "WRITE that begins at the end", at_the_end, open_and_serve },
	{ "WRITE far past the end", far_past, open_and_serve },
	{ "atomic past the end", atomic_past, open_and_serve },
	{ "READ before the region", before, open_and_serve },
	{ "address cut off to 32 bits", cut_off, open_and_serve },
	{ "address of 0", null_address, open_and_serve },
	{ "address instead of an offset", write_zero_based, serve_zero_based },
	{ "remote memory unmapped", write_as_told, serve_unmapped },
	{ "remote memory write-protected", write_as_told, serve_protected },
	{ "remote memory of a file cut off", read_as_told, serve_cut_file },
	{ 0 },
};
