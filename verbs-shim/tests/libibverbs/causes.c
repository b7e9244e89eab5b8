/* Mistakes that programs make. Each completion that is not a success names its cause in vendor_err,
 * and each flushed one that of the failure before it. */

#include "ends.h"

enum { REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

/* What a mistake consists of, and what must come of it. */
struct mistake {
	enum ibv_wr_opcode opcode;
	/* The rights of the local region, of the remote one, and of the peer's QP. */
	int own_rights, rights, qp_rights;
	/* Added to the key, to the address and to the length of 64 bytes. */
	int wrong_lkey, wrong_rkey, offset;
	/* The length of the peer's receive; none if negative. */
	int receive;
	int peer_is_gone;
	enum ibv_wc_status status;
	unsigned int cause;
};

static void post(struct ends *ends, struct mistake *mistake, struct ibv_mr *own, struct ibv_mr *peer)
{
	struct ibv_sge sge = { (uintptr_t)own->addr, 64, own->lkey ^ mistake->wrong_lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1,
				  .opcode = mistake->opcode }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)peer->addr + mistake->offset;
	wr.wr.rdma.rkey = peer->rkey ^ mistake->wrong_rkey;
	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
	wr.wr_id = 2;
	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
}

/* Binds a window to a region that forbids it, or invalidates a key that nothing has. */
static void make_of_windows(int invalidates)
{
	struct ends *ends = make_ends();
	struct ibv_mr *mr = ibv_reg_mr(ends->pd, ends->memory, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mw *mw = ibv_alloc_mw(ends->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_BIND_MW }, *bad;
	struct ibv_wc wc;

	CHECK(mr && mw);
	if (invalidates) {
		wr.opcode = IBV_WR_LOCAL_INV;
		wr.invalidate_rkey = mw->rkey;
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = mr, .addr = (uintptr_t)mr->addr, .length = 64,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ,
		};
	}
	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
	while (!ibv_poll_cq(ends->cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_MW_BIND_ERR);
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr));
	destroy_ends(ends);
}

static void post_receive(struct ends *ends, int length)
{
	struct ibv_sge sge = stretch(ends, 3);
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad;

	sge.length = length;
	CHECK(!ibv_post_recv(ends->qps[1], &wr, &bad));
}

/* Polls the completions of the two sends, and of the receive if there is one. */
static void check_completions(struct ends *ends, struct mistake *mistake)
{
	int expected = mistake->receive >= 0 ? 3 : 2;
	struct ibv_wc wc;

	for (int done = 0; done < expected; done++) {
		int found;

		do {
			found = ibv_poll_cq(ends->cq, 1, &wc);
			CHECK(found >= 0);
		} while (!found);
		if (wc.wr_id == 3) {
			CHECK(wc.status == IBV_WC_LOC_LEN_ERR && wc.vendor_err == 0x430);
			continue;
		}
		if (wc.status != (wc.wr_id == 1 ? mistake->status : IBV_WC_WR_FLUSH_ERR) ||
		    wc.vendor_err != mistake->cause)
			printf("request %d: %s, cause %#x instead of %#x\n", (int)wc.wr_id,
			       ibv_wc_status_str(wc.status), wc.vendor_err, mistake->cause);
		CHECK(wc.status == (wc.wr_id == 1 ? mistake->status : IBV_WC_WR_FLUSH_ERR));
		CHECK(wc.vendor_err == mistake->cause);
	}
}

static void make(struct mistake mistake)
{
	struct ends *ends = make_ends();
	struct ibv_qp_attr attr = { .qp_access_flags = mistake.qp_rights };
	struct ibv_mr *own = ibv_reg_mr(ends->pd, ends->memory, 64, mistake.own_rights);
	struct ibv_mr *peer = ibv_reg_mr(ends->pd, ends->memory + MESSAGE, 64, mistake.rights);

	CHECK(own && peer);
	CHECK(!ibv_modify_qp(ends->qps[1], &attr, IBV_QP_ACCESS_FLAGS));
	if (mistake.receive >= 0)
		post_receive(ends, mistake.receive);
	if (mistake.peer_is_gone) {
		CHECK(!ibv_destroy_qp(ends->qps[1]));
		ends->qps[1] = NULL;
	}
	post(ends, &mistake, own, peer);
	check_completions(ends, &mistake);
	CHECK(!ibv_dereg_mr(own) && !ibv_dereg_mr(peer));
	for (int i = 0; i < 2; i++)
		CHECK(!ends->qps[i] || !ibv_destroy_qp(ends->qps[i]));
	CHECK(!ibv_dereg_mr(ends->mr) && !ibv_destroy_cq(ends->cq) && !ibv_dealloc_pd(ends->pd));
	CHECK(!ibv_close_device(ends->context));
	free(ends);
}

int main(void)
{
	const struct mistake right = {
		.opcode = IBV_WR_RDMA_WRITE,
		.own_rights = IBV_ACCESS_LOCAL_WRITE,
		.rights = IBV_ACCESS_LOCAL_WRITE | REMOTE,
		.qp_rights = REMOTE,
		.receive = -1,
	};
	struct mistake mistake = right;

	mistake.wrong_lkey = 1;
	mistake.status = IBV_WC_LOC_PROT_ERR;
	mistake.cause = 0x111;
	make(mistake);

	make_of_windows(0);
	make_of_windows(1);

	mistake = right;
	mistake.opcode = IBV_WR_RDMA_READ;
	mistake.own_rights = 0;
	mistake.status = IBV_WC_LOC_PROT_ERR;
	mistake.cause = 0x113;
	make(mistake);

	mistake = right;
	mistake.wrong_rkey = 1;
	mistake.status = IBV_WC_REM_ACCESS_ERR;
	mistake.cause = 0x320;
	make(mistake);

	mistake = right;
	mistake.offset = 1;
	mistake.status = IBV_WC_REM_ACCESS_ERR;
	mistake.cause = 0x320;
	make(mistake);

	mistake = right;
	mistake.qp_rights = IBV_ACCESS_REMOTE_READ;
	mistake.status = IBV_WC_REM_INV_REQ_ERR;
	mistake.cause = 0x310;
	make(mistake);

	mistake = right;
	mistake.opcode = IBV_WR_SEND;
	mistake.receive = 63;
	mistake.status = IBV_WC_REM_INV_REQ_ERR;
	mistake.cause = 0x310;
	make(mistake);

	mistake = right;
	mistake.peer_is_gone = 1;
	mistake.status = IBV_WC_RETRY_EXC_ERR;
	mistake.cause = 0x211;
	make(mistake);
	return 0;
}
