/* Posting chains of requests. */

#include "fuzz.h"

enum { CHAIN = 4, ELEMENTS = 64 };

static struct ibv_sge elements[CHAIN][ELEMENTS];

/* A list of elements, and how many it is said to have. */
static struct ibv_sge *any_list(size_t which, int *count)
{
	static const int COUNTS[] = { 32, 33, ELEMENTS, -1, INT32_MIN, INT32_MAX };
	uint8_t how = byte();
	size_t filled = how % 4;

	for (size_t i = 0; i < ELEMENTS; i++)
		elements[which][i] = (struct ibv_sge){ .addr = (uintptr_t)arena };
	for (size_t i = 0; i < filled; i++)
		elements[which][i] = any_sge();
	*count = (int)filled;
	if (how < 240)
		return elements[which];
	*count = COUNTS[how % COUNT(COUNTS)];
	return how % 2 ? NULL : elements[which];
}

/* Inline data is read at once: from where there is memory, or nowhere. */
static void make_readable(struct ibv_sge *list, int count)
{
	for (int i = 0; list && i < count && i < ELEMENTS; i++) {
		uint64_t offset = list[i].addr - (uintptr_t)arena;

		if (offset < ARENA && list[i].length <= ARENA - offset)
			continue;
		list[i].addr = list[i].length % 2 ? 0 : (uintptr_t)arena;
		if (list[i].length <= ARENA)
			list[i].addr = (uintptr_t)arena;
	}
}

struct ibv_mw_bind_info any_bind_info(void)
{
	struct ibv_mr *mr = PICK(mrs);

	return (struct ibv_mw_bind_info){
		.mr = mr,
		.addr = remote_address(mr),
		.length = any_length(),
		.mw_access_flags = (uint32_t)any_access(),
	};
}

static void aim(struct ibv_send_wr *wr, const struct ibv_qp *qp)
{
	struct ibv_qp *to = LIVE(qps);
	struct ibv_srq *srq = LIVE(srqs);
	uint64_t addr;
	uint32_t key, number;

	if (qp->qp_type == IBV_QPT_UD) {
		wr->wr.ud.ah = PICK(ahs);
		wr->wr.ud.remote_qpn = rarely(8) ? four() : to->qp_num;
		wr->wr.ud.remote_qkey = rarely(8) ? four() : 0x11111111;
		return;
	}
	addr = remote_address(any_mr());
	key = any_key();
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = rarely(4) ? addr : addr & ~7ULL;
		wr->wr.atomic.compare_add = byte();
		wr->wr.atomic.swap = eight();
		wr->wr.atomic.rkey = key;
	} else {
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = key;
	}
	if (srq && !rarely(8) && !TOLD(ibv_get_srq_num(srq, &number)))
		wr->qp_type.xrc.remote_srqn = number;
	else
		wr->qp_type.xrc.remote_srqn = four();
	if (wr->opcode == IBV_WR_BIND_MW) {
		wr->bind_mw.mw = PICK(mws);
		wr->bind_mw.rkey = any_key() + byte() % 3;
		wr->bind_mw.bind_info = any_bind_info();
	}
}

static void any_send(struct ibv_send_wr *wr, size_t which, const struct ibv_qp *qp)
{
	*wr = (struct ibv_send_wr){ .wr_id = next_request() };
	wr->sg_list = any_list(which, &wr->num_sge);
	wr->opcode = rarely(16) ? four() : byte() % 16;
	wr->send_flags = rarely(16) ? four() : byte() % 16;
	wr->imm_data = rarely(2) ? any_key() : four();
	aim(wr, qp);
	if (wr->send_flags & IBV_SEND_INLINE)
		make_readable(wr->sg_list, wr->num_sge);
}

void post_sends(void)
{
	struct ibv_send_wr chain[CHAIN], *bad = NULL;
	struct ibv_qp *qp = LIVE(qps);
	size_t count = 1 + byte() % CHAIN;

	if (!qp)
		return;
	for (size_t i = 0; i < count; i++) {
		any_send(&chain[i], i, qp);
		if (i)
			chain[i - 1].next = &chain[i];
	}
	if (TOLD(ibv_post_send(qp, chain, &bad)))
		CHECK(bad >= chain && bad < chain + count);
	else
		CHECK(!bad);
}

void post_receives(void)
{
	struct ibv_recv_wr chain[CHAIN], *bad = NULL;
	struct ibv_qp *qp = LIVE(qps);
	struct ibv_srq *srq = LIVE(srqs);
	size_t count = 1 + byte() % CHAIN;
	int result;

	for (size_t i = 0; i < count; i++) {
		chain[i] = (struct ibv_recv_wr){ .wr_id = next_request() };
		chain[i].sg_list = any_list(i, &chain[i].num_sge);
		if (i)
			chain[i - 1].next = &chain[i];
	}
	if (srq && rarely(2))
		result = TOLD(ibv_post_srq_recv(srq, chain, &bad));
	else if (qp)
		result = TOLD(ibv_post_recv(qp, chain, &bad));
	else
		return;
	if (result)
		CHECK(bad >= chain && bad < chain + count);
	else
		CHECK(!bad);
}

void bind_any(void)
{
	struct ibv_mw *mw = LIVE(mws);
	struct ibv_qp *qp = LIVE(qps);
	struct ibv_mw_bind bind = { .wr_id = next_request(),
				    .send_flags = rarely(16) ? four() : byte() % 16 };

	bind.bind_info = any_bind_info();
	if (mw && qp)
		SAID(ibv_bind_mw(qp, mw, &bind));
}
