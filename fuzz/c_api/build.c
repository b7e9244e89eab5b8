/* Requests that are put together by calls, in any order. */

#include "fuzz.h"

static void begin_rdma(struct ibv_qp_ex *qp, uint8_t way)
{
	uint64_t addr = remote_address(any_mr());
	uint32_t key = any_key();

	switch (way % 6) {
	case 0:
		ibv_wr_rdma_read(qp, key, addr);
		break;
	case 1:
		ibv_wr_rdma_write(qp, key, addr);
		break;
	case 2:
		ibv_wr_rdma_write_imm(qp, key, addr, four());
		break;
	case 3:
		ibv_wr_atomic_cmp_swp(qp, key, addr & ~7ULL, byte(), eight());
		break;
	case 4:
		ibv_wr_atomic_fetch_add(qp, key, addr & ~7ULL, eight());
		break;
	default:
		ibv_wr_local_inv(qp, key);
	}
}

static void begin_send(struct ibv_qp_ex *qp, uint8_t way)
{
	struct ibv_mw_bind_info info;

	switch (way % 4) {
	case 0:
		ibv_wr_send(qp);
		break;
	case 1:
		ibv_wr_send_imm(qp, four());
		break;
	case 2:
		ibv_wr_send_inv(qp, any_key());
		break;
	default:
		info = any_bind_info();
		ibv_wr_bind_mw(qp, PICK(mws), any_key() + byte() % 3, rarely(8) ? NULL : &info);
	}
}

static void set_inline(struct ibv_qp_ex *qp)
{
	static const size_t COUNTS[] = { 0, 1, 2, 4, SIZE_MAX, 1 };
	struct ibv_data_buf parts[4];
	size_t count = COUNTS[byte() % COUNT(COUNTS)];

	for (size_t i = 0; i < COUNT(parts); i++) {
		parts[i].length = rarely(8) ? two() : byte();
		parts[i].addr = rarely(8) ? NULL : own_memory(parts[i].length);
	}
	if (byte() % 2)
		/* Of a list that is too long, nothing may be read. */
		ibv_wr_set_inline_data_list(qp, count, count == SIZE_MAX ? NULL : parts);
	else
		ibv_wr_set_inline_data(qp, parts[0].addr, parts[0].length);
}

static void set_elements(struct ibv_qp_ex *qp)
{
	static const size_t COUNTS[] = { 0, 1, 2, 8, 40, SIZE_MAX };
	struct ibv_sge sges[40] = { 0 };
	size_t count = COUNTS[byte() % COUNT(COUNTS)];

	for (size_t i = 0; i < 3; i++)
		sges[i] = any_sge();
	if (byte() % 2)
		ibv_wr_set_sge(qp, sges[0].lkey, sges[0].addr, sges[0].length);
	else
		ibv_wr_set_sge_list(qp, count, count == SIZE_MAX || rarely(16) ? NULL : sges);
}

static void set_address(struct ibv_qp_ex *qp)
{
	struct ibv_srq *srq = LIVE(srqs);
	struct ibv_qp *to = LIVE(qps);
	uint32_t number = four();

	if (byte() % 2) {
		ibv_wr_set_ud_addr(qp, PICK(ahs), rarely(8) ? four() : to->qp_num,
				   rarely(8) ? four() : 0x11111111);
		return;
	}
	if (srq)
		TOLD(ibv_get_srq_num(srq, &number));
	ibv_wr_set_xrc_srqn(qp, number);
}

static void step(struct ibv_qp_ex *qp, uint8_t *building)
{
	uint8_t way = byte();

	switch (way % 12) {
	case 0:
	case 1:
		/* Who has begun would wait for himself. */
		if (!*building)
			ibv_wr_start(qp);
		*building = 1;
		break;
	case 2:
		TOLD(ibv_wr_complete(qp));
		*building = 0;
		break;
	case 3:
		if (rarely(4))
			ibv_wr_abort(qp);
		else
			TOLD(ibv_wr_complete(qp));
		*building = 0;
		break;
	case 4:
	case 5:
		qp->wr_id = next_request();
		begin_send(qp, way >> 4);
		break;
	case 6:
	case 7:
		qp->wr_id = next_request();
		begin_rdma(qp, way >> 4);
		break;
	case 8:
		set_inline(qp);
		break;
	case 9:
		set_elements(qp);
		break;
	case 10:
		set_address(qp);
		break;
	default:
		qp->wr_flags = rarely(8) ? four() : byte() % 16;
	}
}

void put_together(void)
{
	struct ibv_qp *qp = LIVE(qps);
	struct ibv_qp_ex *extended;

	if (!qp)
		return;
	extended = MADE(ibv_qp_to_qp_ex(qp));
	for (int i = byte() % 8; extended && i >= 0; i--)
		step(extended, &world.building[index_of_qp(qp)]);
}
