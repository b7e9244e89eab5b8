/* Messages and requests that the server's QP can't take. */

#include "ends.h"

/* Sends, and sees it fail. */
static void send_one(struct end *end, enum ibv_wr_opcode opcode, enum ibv_wc_status status)
{
	post_op(end, opcode);
	expect(end, status);
	meet(end);
}

static void open_and_connect(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	connect_end(end);
}

static void send_refused(struct end *end)
{
	open_and_connect(end);
	send_one(end, IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR);
}

static void send_imm_refused(struct end *end)
{
	open_and_connect(end);
	send_one(end, IBV_WR_SEND_WITH_IMM, IBV_WC_REM_INV_REQ_ERR);
}

static void send_not_done(struct end *end)
{
	open_and_connect(end);
	send_one(end, IBV_WR_SEND, IBV_WC_REM_OP_ERR);
}

static void write_refused(struct end *end)
{
	open_and_connect(end);
	send_one(end, IBV_WR_RDMA_WRITE, IBV_WC_REM_INV_REQ_ERR);
}

static void read_refused(struct end *end)
{
	open_and_connect(end);
	send_one(end, IBV_WR_RDMA_READ, IBV_WC_REM_INV_REQ_ERR);
}

static void atomic_refused(struct end *end)
{
	open_and_connect(end);
	send_one(end, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_INV_REQ_ERR);
}

/* Posts this receive before the client sends, and sees it fail. */
static void receive(struct end *end, struct ibv_sge sge, enum ibv_wc_status status)
{
	note(end, "addr=%#llx lkey=0x%08x receive=%u region=%#llx", (unsigned long long)sge.addr,
	     sge.lkey, sge.length, (unsigned long long)(uintptr_t)end->mr->addr);
	exchange(end);
	to_init(end);
	post_receive(end, sge);
	to_rtr(end);
	to_rts(end);
	meet(end);
	expect(end, status);
	meet(end);
}

static void serve_short(struct end *end)
{
	struct ibv_sge sge;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	sge = usual_sge(end);
	sge.length = LENGTH - 1;
	receive(end, sge, IBV_WC_LOC_LEN_ERR);
}

static void serve_empty(struct end *end)
{
	struct ibv_sge sge;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	sge = usual_sge(end);
	sge.length = 1;
	receive(end, sge, IBV_WC_LOC_LEN_ERR);
}

static void make_srq(struct end *end)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	end->srq = ibv_create_srq(end->pd, &init);
	CHECK(end->srq);
}

static void serve_short_srq(struct end *end)
{
	struct ibv_sge sge;

	open_end(end);
	make_srq(end);
	make_qp(end, IBV_QPT_RC);
	sge = usual_sge(end);
	sge.length = 32;
	receive(end, sge, IBV_WC_LOC_LEN_ERR);
}

static void serve_no_lkey(struct end *end)
{
	struct ibv_sge sge;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	sge = usual_sge(end);
	sge.lkey = 0;
	receive(end, sge, IBV_WC_LOC_PROT_ERR);
}

static void serve_other_domain(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_mr *other;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	other = ibv_reg_mr(end->other_pd, end->memory + REGION, PAGE, ALL);
	CHECK(other);
	sge = usual_sge(end);
	sge.lkey = other->lkey;
	receive(end, sge, IBV_WC_LOC_PROT_ERR);
}

static void serve_read_only(struct end *end)
{
	open_end(end);
	register_with(end, IBV_ACCESS_REMOTE_READ);
	make_qp(end, IBV_QPT_RC);
	receive(end, usual_sge(end), IBV_WC_LOC_PROT_ERR);
}

static void serve_past(struct end *end)
{
	struct ibv_sge sge;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	sge = usual_sge(end);
	sge.addr += PAGE - 16;
	receive(end, sge, IBV_WC_LOC_PROT_ERR);
}

static void serve_unmapped(struct end *end)
{
	open_end(end);
	register_with(end, ALL | IBV_ACCESS_ON_DEMAND);
	make_qp(end, IBV_QPT_RC);
	CHECK(!munmap(end->memory + REGION, PAGE));
	receive(end, usual_sge(end), IBV_WC_LOC_PROT_ERR);
}

/* The server's QP lacks these rights, though its region has all. */
static void serve_without(struct end *end, int rights)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.qp_access_flags = REMOTE & ~rights;
	serve_request_error(end);
}

static void serve_no_writes(struct end *end)
{
	serve_without(end, IBV_ACCESS_REMOTE_WRITE);
}

static void serve_no_reads(struct end *end)
{
	serve_without(end, IBV_ACCESS_REMOTE_READ);
}

static void serve_no_atomics(struct end *end)
{
	serve_without(end, IBV_ACCESS_REMOTE_ATOMIC);
}

static void serve_bad_request(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	serve_request_error(end);
}

static void unaligned(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_and_connect(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
	wr.wr.atomic.remote_addr += 4;
	note(end, "addr=%#llx", (unsigned long long)wr.wr.atomic.remote_addr);
	post(end, &wr);
	expect(end, IBV_WC_REM_INV_REQ_ERR);
	meet(end);
}

/* Has more READs outstanding than the server allows. */
static void too_many_reads(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wrs[4], *bad;
	/* Of the first packet that was not answered: each READ before took a packet for each 1,024 bytes. */
	uint32_t psn;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.max_rd_atomic = 4;
	psn = end->own.psn;
	connect_end(end);
	sge = usual_sge(end);
	sge.length = PAGE;
	for (int i = 0; i < 4; i++) {
		wrs[i] = usual_wr(end, IBV_WR_RDMA_READ, &sge);
		wrs[i].next = i < 3 ? &wrs[i + 1] : NULL;
	}
	CHECK(!ibv_post_send(end->qp, wrs, &bad));
	/* Those before the limit may succeed. */
	for (;;) {
		struct ibv_wc wc;
		int found = ibv_poll_cq(end->cq, 1, &wc);

		CHECK(found >= 0);
		if (!found)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR);
			break;
		}
		psn += PAGE / 1024;
	}
	note(end, "refused_psn=0x%06x", psn & 0xffffff);
	meet(end);
}

static void serve_path_mtu(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.path_mtu = IBV_MTU_256;
	serve_request_error(end);
}

static void write_page(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_and_connect(end);
	sge = usual_sge(end);
	sge.length = PAGE;
	wr = usual_wr(end, IBV_WR_RDMA_WRITE, &sge);
	post(end, &wr);
	expect(end, IBV_WC_REM_INV_REQ_ERR);
	meet(end);
}

/* The answer has larger packets than the client's path MTU. */
static void read_page(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.path_mtu = IBV_MTU_512;
	connect_end(end);
	sge = usual_sge(end);
	sge.length = PAGE;
	wr = usual_wr(end, IBV_WR_RDMA_READ, &sge);
	post(end, &wr);
	expect(end, IBV_WC_BAD_RESP_ERR);
	meet(end);
}

static void open_and_serve(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	serve(end);
}

/* Nobody posts a receive. */
static void send_unheard(struct end *end, enum ibv_wr_opcode opcode, uint8_t rnr_retry)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.rnr_retry = rnr_retry;
	connect_end(end);
	send_one(end, opcode, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void rnr_0(struct end *end)
{
	send_unheard(end, IBV_WR_SEND, 0);
}

static void rnr_3(struct end *end)
{
	send_unheard(end, IBV_WR_SEND_WITH_IMM, 3);
}

static void rnr_write(struct end *end)
{
	send_unheard(end, IBV_WR_RDMA_WRITE_WITH_IMM, 1);
}

static void serve_srq(struct end *end)
{
	open_end(end);
	make_srq(end);
	make_qp(end, IBV_QPT_RC);
	end->attr.min_rnr_timer = 14;
	serve(end);
}

const struct mistake RECEIVES[] = {
	{ "receive one byte too short", send_refused, serve_short },
	{ "receive of one byte", send_imm_refused, serve_empty },
	{ "receive of an SRQ too short", send_refused, serve_short_srq },
	{ "receive with an lkey of 0", send_not_done, serve_no_lkey },
	{ "receive into another protection domain", send_not_done, serve_other_domain },
	{ "receive into a region without LOCAL_WRITE", send_not_done, serve_read_only },
	{ "receive past the end of its region", send_not_done, serve_past },
	{ "receive into unmapped memory", send_not_done, serve_unmapped },
	{ "QP without REMOTE_WRITE", write_refused, serve_no_writes },
	{ "QP without REMOTE_READ", read_refused, serve_no_reads },
	{ "QP without REMOTE_ATOMIC", atomic_refused, serve_no_atomics },
	{ "atomic at an unaligned address", unaligned, serve_bad_request },
	{ "more READs than max_dest_rd_atomic", too_many_reads, serve_bad_request },
	{ "path MTU of the server too small", write_page, serve_path_mtu },
	{ "path MTU of the client too small", read_page, open_and_serve },
	{ "no receive, rnr_retry 0", rnr_0, open_and_serve },
	{ "no receive, rnr_retry 3", rnr_3, open_and_serve },
	{ "no receive for WRITE with immediate", rnr_write, open_and_serve },
	{ "SRQ empty", rnr_0, serve_srq },
	{ 0 },
};
