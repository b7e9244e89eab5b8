/* A client whose own memory is wrong. It fails before anything is sent. */

#include "ends.h"

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
	serve(end);
}

/* Posts a request with this element, and sees it fail. */
static void use(struct end *end, enum ibv_wr_opcode opcode, struct ibv_sge sge)
{
	struct ibv_send_wr wr = usual_wr(end, opcode, &sge);

	note(end, "addr=%#llx lkey=0x%08x region=%#llx", (unsigned long long)sge.addr, sge.lkey,
	     (unsigned long long)(uintptr_t)end->mr->addr);
	post(end, &wr);
	expect(end, IBV_WC_LOC_PROT_ERR);
	meet(end);
}

/* As if the field was never set. */
static void no_key(struct end *end)
{
	struct ibv_sge sge;

	open_and_connect(end);
	sge = usual_sge(end);
	sge.lkey = 0;
	use(end, IBV_WR_SEND, sge);
}

static void deregistered(struct end *end)
{
	struct ibv_sge sge;

	open_and_connect(end);
	sge = usual_sge(end);
	CHECK(!ibv_dereg_mr(end->mr));
	use(end, IBV_WR_RDMA_WRITE, sge);
}

static void other_domain(struct end *end)
{
	struct ibv_mr *other;
	struct ibv_sge sge;

	open_and_connect(end);
	other = ibv_reg_mr(end->other_pd, end->memory + REGION, PAGE, ALL);
	CHECK(other);
	sge = usual_sge(end);
	sge.lkey = other->lkey;
	use(end, IBV_WR_SEND, sge);
}

static void read_into_read_only(struct end *end)
{
	open_end(end);
	register_with(end, 0);
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
	use(end, IBV_WR_RDMA_READ, usual_sge(end));
}

static void atomic_into_read_only(struct end *end)
{
	open_end(end);
	register_with(end, IBV_ACCESS_REMOTE_READ);
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
	use(end, IBV_WR_ATOMIC_FETCH_AND_ADD, usual_sge(end));
}

static void too_far(struct end *end)
{
	struct ibv_sge sge;

	open_and_connect(end);
	sge = usual_sge(end);
	sge.length = PAGE + 1;
	use(end, IBV_WR_SEND, sge);
}

/* The address of a local variable instead of that of the buffer. */
static void other_memory(struct end *end)
{
	struct ibv_sge sge;

	open_and_connect(end);
	sge = usual_sge(end);
	sge.addr -= PAGE;
	use(end, IBV_WR_RDMA_WRITE, sge);
}

static void second_element(struct end *end)
{
	struct ibv_sge sges[2];
	struct ibv_send_wr wr;

	open_and_connect(end);
	sges[0] = sges[1] = usual_sge(end);
	sges[1].addr += PAGE - 32;
	wr = usual_wr(end, IBV_WR_SEND, sges);
	wr.num_sge = 2;
	note(end, "addr=%#llx lkey=0x%08x region=%#llx", (unsigned long long)sges[1].addr, sges[1].lkey,
	     (unsigned long long)(uintptr_t)end->mr->addr);
	post(end, &wr);
	expect(end, IBV_WC_LOC_PROT_ERR);
	meet(end);
}

static void unmapped(struct end *end)
{
	open_and_connect(end);
	register_with(end, ALL | IBV_ACCESS_ON_DEMAND);
	CHECK(!munmap(end->memory + REGION, PAGE));
	use(end, IBV_WR_RDMA_WRITE, usual_sge(end));
}

static void cut_file(struct end *end)
{
	open_and_connect(end);
	register_cut_file(end);
	use(end, IBV_WR_SEND, usual_sge(end));
}

/* The queue has room for 4 completions, and nobody polls it. */
static void overrun(struct end *end)
{
	struct ibv_cq *small;

	open_end(end);
	small = ibv_create_cq(end->context, 4, NULL, NULL, 0);
	CHECK(small);
	note(end, "capacity=%d", small->cqe);
	end->cq = small;
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
	for (int i = 0; i <= small->cqe; i++)
		post_op(end, IBV_WR_RDMA_WRITE);
	expect_event(end, IBV_EVENT_CQ_ERR);
	meet(end);
}

const struct mistake OWN_MEMORY[] = {
	{ "lkey of 0", no_key, open_and_serve },
	{ "lkey of a deregistered region", deregistered, open_and_serve },
	{ "lkey of another protection domain", other_domain, open_and_serve },
	{ "READ into a region without LOCAL_WRITE", read_into_read_only, open_and_serve },
	{ "atomic into a region without LOCAL_WRITE", atomic_into_read_only, open_and_serve },
	{ "SEND one byte longer than its region", too_far, open_and_serve },
	{ "SEND from other memory", other_memory, open_and_serve },
	{ "second element past the end", second_element, open_and_serve },
	{ "own memory unmapped", unmapped, open_and_serve },
	{ "own memory of a file cut off", cut_file, open_and_serve },
	{ "completion queue too small", overrun, open_and_serve },
	{ 0 },
};
