/* Queue pairs: making them, connecting them, and changing them in any other way. */

#include "fuzz.h"

#include <string.h>

size_t index_of_qp(const struct ibv_qp *qp)
{
	for (size_t i = 0; i < COUNT(world.qps); i++)
		if (world.qps[i] == qp)
			return i;
	CHECK(!"a QP that there is");
	return 0;
}

static uint32_t any_cap(void)
{
	uint8_t kind = byte();

	return kind < 4 ? four() : kind % 16;
}

static struct ibv_qp_cap any_caps(void)
{
	struct ibv_qp_cap cap = { .max_send_wr = any_cap(), .max_recv_wr = any_cap(),
				  .max_send_sge = any_cap(), .max_recv_sge = any_cap() };

	cap.max_inline_data = rarely(8) ? four() : byte();
	return cap;
}

static struct ibv_qp *take_slot(void **slot, struct ibv_qp *qp)
{
	*slot = qp;
	if (qp)
		world.building[index_of_qp(qp)] = 0;
	return qp;
}

/* As it should be. */
static struct ibv_qp *right_qp(enum ibv_qp_type type, int extended)
{
	void **slot = ROOM(qps);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = world.cqs[1],
		.recv_cq = world.cqs[0],
		.srq = type == IBV_QPT_RC || type == IBV_QPT_UD ? world.srqs[0] : NULL,
		.cap = { 16, 16, 4, 4, 128 },
		.qp_type = type,
		.pd = world.pds[0],
		.xrcd = world.xrcds[0],
		.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD :
							IBV_QP_INIT_ATTR_PD,
	};

	if (!slot)
		return NULL;
	if (extended && type != IBV_QPT_XRC_RECV) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	}
	return take_slot(slot, MADE(ibv_create_qp_ex(world.contexts[0], &attr)));
}

void any_qp(void)
{
	static const uint8_t TYPES[] = { IBV_QPT_RC,	   IBV_QPT_UC,	     IBV_QPT_UD,
					 IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET };
	void **slot = ROOM(qps);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = PICK(cqs),
		.recv_cq = PICK(cqs),
		.srq = PICK(srqs),
		.cap = any_caps(),
		.qp_type = rarely(16) ? byte() : TYPES[byte() % COUNT(TYPES)],
		.sq_sig_all = byte() % 2,
		.pd = PICK(pds),
		.xrcd = PICK(xrcds),
	};
	struct ibv_qp_init_attr plain;

	if (!slot)
		return;
	attr.comp_mask = byte() % 8 | (byte() % 2 ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
	attr.send_ops_flags = rarely(4) ? eight() : byte();
	attr.create_flags = rarely(8) ? four() : 0;
	memcpy(&plain, &attr, sizeof(plain));
	if (byte() % 2)
		take_slot(slot, MADE(ibv_create_qp(attr.pd, &plain)));
	else
		take_slot(slot, MADE(ibv_create_qp_ex(LIVE(contexts), &attr)));
}

/* What it takes to get to a state. */
static int mask_for(enum ibv_qp_type type, enum ibv_qp_state state)
{
	int connected = type != IBV_QPT_UD, reliable = connected && type != IBV_QPT_UC;

	switch (state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (connected ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
	case IBV_QPS_RTR:
		return IBV_QP_STATE |
		       (connected ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN :
				    0) |
		       (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					   IBV_QP_MAX_QP_RD_ATOMIC :
				   0);
	default:
		return IBV_QP_STATE;
	}
}

enum { QKEY = 0x11111111 };

static struct ibv_qp_attr right_attr(uint32_t peer, uint8_t gid_index)
{
	struct ibv_qp_attr attr = {
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.qkey = QKEY,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 7,
		.rnr_retry = 6,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .sgid_index = gid_index, .hop_limit = 1 } },
	};

	CHECK(!ibv_query_gid(world.contexts[0], 1, gid_index, &attr.ah_attr.grh.dgid));
	return attr;
}

/* Takes both to RTS, as far as they let it happen. */
void connect_qps(struct ibv_qp *one, struct ibv_qp *other)
{
	static const enum ibv_qp_state STATES[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (size_t i = 0; i < COUNT(STATES); i++) {
		struct ibv_qp_attr attr = right_attr(other->qp_num, 0);

		attr.qp_state = STATES[i];
		TOLD(ibv_modify_qp(one, &attr, mask_for(one->qp_type, STATES[i])));
		attr.dest_qp_num = one->qp_num;
		TOLD(ibv_modify_qp(other, &attr, mask_for(other->qp_type, STATES[i])));
	}
}

/* Two that are connected to each other, or to nobody if they can't be. */
void begin_qps(enum ibv_qp_type type, uint8_t extended)
{
	enum ibv_qp_type other_type = type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : type;
	struct ibv_qp *one = right_qp(type, extended & 16);
	struct ibv_qp *other = right_qp(other_type, extended & 32);

	CHECK(one && other);
	connect_qps(one, other);
}

void connect_any(void)
{
	struct ibv_qp *one = LIVE(qps), *other = LIVE(qps);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	if (!one)
		return;
	if (byte() % 2) {
		TOLD(ibv_modify_qp(one, &reset, IBV_QP_STATE));
		TOLD(ibv_modify_qp(other, &reset, IBV_QP_STATE));
	}
	connect_qps(one, other);
}

/* Makes one attribute what the script says. */
static void spoil(struct ibv_qp_attr *attr)
{
	uint32_t value = four();

	switch (byte() % 20) {
	case 0:
		attr->cur_qp_state = value % 9;
		break;
	case 1:
		attr->path_mtu = value;
		break;
	case 2:
		attr->qkey = value;
		break;
	case 3:
		attr->rq_psn = value;
		break;
	case 4:
		attr->sq_psn = value;
		break;
	case 5:
		attr->dest_qp_num = value;
		break;
	case 6:
		attr->qp_access_flags = value;
		break;
	case 7:
		attr->cap.max_send_wr = value;
		break;
	case 8:
		attr->ah_attr.is_global = (uint8_t)value;
		break;
	case 9:
		attr->ah_attr.grh.sgid_index = (uint8_t)value;
		break;
	case 10:
		attr->ah_attr.grh.dgid.raw[value % 16] = (uint8_t)(value >> 8);
		break;
	case 11:
		attr->pkey_index = (uint16_t)value;
		break;
	case 12:
		attr->port_num = (uint8_t)value;
		break;
	case 13:
		attr->ah_attr.port_num = (uint8_t)value;
		break;
	case 14:
		attr->max_rd_atomic = (uint8_t)value;
		break;
	case 15:
		attr->max_dest_rd_atomic = (uint8_t)value;
		break;
	case 16:
		attr->min_rnr_timer = (uint8_t)value;
		break;
	case 17:
		attr->timeout = (uint8_t)value;
		break;
	case 18:
		attr->retry_cnt = (uint8_t)value;
		attr->rate_limit = value;
		break;
	default:
		attr->rnr_retry = (uint8_t)value;
	}
}

static void limit_rate(struct ibv_qp *qp)
{
	struct ibv_qp_rate_limit_attr limit = {
		.rate_limit = four(),
		.max_burst_sz = byte() % 2 ? four() : 0,
		.typical_pkt_sz = byte() % 2 ? byte() : 0,
		.comp_mask = rarely(16),
	};

	TOLD(ibv_modify_qp_rate_limit(qp, &limit));
}

void modify_any(void)
{
	struct ibv_qp *qp = LIVE(qps), *peer = LIVE(qps);
	struct ibv_qp_attr attr;
	int mask;

	if (!qp)
		return;
	attr = right_attr(peer->qp_num, byte() % 2 ? 0 : byte() % 2);
	attr.qp_state = byte() % 9;
	mask = mask_for(qp->qp_type, attr.qp_state);
	for (int i = byte() % 4; i > 0; i--)
		spoil(&attr);
	if (rarely(4))
		mask ^= 1 << byte() % 32;
	if (rarely(16))
		mask = (int)four();
	TOLD(ibv_modify_qp(qp, &attr, mask));
	if (rarely(8))
		limit_rate(qp);
}

static void query_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (TOLD(ibv_query_qp(qp, &attr, (int)four(), &init)))
		return;
	CHECK(attr.qp_state <= IBV_QPS_ERR && init.qp_type == qp->qp_type);
	CHECK(init.send_cq == qp->send_cq && init.srq == qp->srq);
}

void use_qp(void)
{
	struct ibv_qp *qp = LIVE(qps);
	union ibv_gid group = { .raw = { 0xff, 0x0e } };

	if (!qp)
		return;
	switch (byte() % 3) {
	case 0:
		query_qp(qp);
		break;
	default:
		if (rarely(4))
			group.raw[byte() % 16] = byte();
		group.raw[15] = byte() % 4;
		if (byte() % 2)
			TOLD(ibv_attach_mcast(PICK(qps), &group, two()));
		else
			TOLD(ibv_detach_mcast(PICK(qps), &group, two()));
	}
}
