/* Programs probe what a device can do by creating objects: whatever it can't do is refused when the
 * object is created, and unknown bits are. */

#include "ends.h"

#include <fcntl.h>

enum { OPS = 13, FLUSH_AND_ATOMIC_WRITE_ON_DEMAND = 1 << 6 | 1 << 7,
       ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2 };

/* IBV_WR_BIND_MW and the others have the number of their bit in send_ops_flags, up to TSO. */
static const struct {
	enum ibv_qp_type type;
	const char *can;
} KINDS[] = {
	/* WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FADD, LOCAL_INV, BIND, SEND_INV, TSO,
	 * FLUSH, ATOMIC_WRITE */
	{ IBV_QPT_RC, "1111111111011" },
	{ IBV_QPT_UC, "1111000110000" },
	{ IBV_QPT_UD, "0011000000000" },
	{ IBV_QPT_XRC_SEND, "1111111111011" },
	{ IBV_QPT_XRC_RECV, "0000000000000" },
};

static struct ibv_xrcd *xrcd;

static struct ibv_qp *make_qp(struct ends *ends, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ends->cq, .recv_cq = ends->cq, .cap = { 1, 1, 1, 1, 0 },
		.qp_type = type, .pd = ends->pd, .xrcd = xrcd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			     (type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD),
	};

	errno = 0;
	return ibv_create_qp_ex(ends->context, &attr);
}

static int is_accepted(struct ends *ends, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp *qp = make_qp(ends, type, ops);

	CHECK(qp || errno == EOPNOTSUPP);
	return qp && !ibv_destroy_qp(qp);
}

/* Whether a QP that has failed takes the request, and flushes it. */
static int posts(struct ends *ends, struct ibv_ah *ah, enum ibv_qp_type type,
		 enum ibv_wr_opcode opcode)
{
	struct ibv_qp *qp = make_qp(ends, type, 0);
	struct ibv_mw *mw = ibv_alloc_mw(ends->pd, IBV_MW_TYPE_2);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge word = stretch(ends, 0);
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &word, .num_sge = 1 }, *bad;
	struct ibv_wc wc;
	int refused;

	CHECK(qp && mw && !ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	word.length = 8;
	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
	} else if (opcode == IBV_WR_BIND_MW || opcode == IBV_WR_LOCAL_INV) {
		wr.num_sge = 0;
		wr.bind_mw.mw = mw;
		wr.bind_mw.bind_info.mr = ends->mr;
		wr.bind_mw.bind_info.addr = word.addr;
		wr.bind_mw.bind_info.length = word.length;
	}
	refused = ibv_post_send(qp, &wr, &bad);
	if (!refused)
		while (!ibv_poll_cq(ends->cq, 1, &wc))
			;
	CHECK(!ibv_destroy_qp(qp) && !ibv_dealloc_mw(mw));
	return !refused;
}

static void operations_of_qps(struct ends *ends)
{
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah;

	path.grh.sgid_index = (uint8_t)gid_index(ends->context, &path.grh.dgid);
	ah = ibv_create_ah(ends->pd, &path);
	CHECK(ah);
	for (unsigned int kind = 0; kind < sizeof(KINDS) / sizeof(*KINDS); kind++) {
		enum ibv_qp_type type = KINDS[kind].type;

		for (int op = 0; op < OPS; op++) {
			int can = KINDS[kind].can[op] == '1';
			/* These need a number of READs that a peer allows. */
			int fetches = op >= IBV_WR_RDMA_READ && op <= IBV_WR_ATOMIC_FETCH_AND_ADD;

			if (is_accepted(ends, type, 1ull << op) != can)
				printf("type %d, operation %d\n", type, op);
			CHECK(is_accepted(ends, type, 1ull << op) == can);
			if (type != IBV_QPT_XRC_RECV && op < IBV_WR_TSO && !(fetches && can))
				CHECK(posts(ends, ah, type, op) == can);
		}
		CHECK(!is_accepted(ends, type, 1ull << OPS) && !is_accepted(ends, type, 1ull << 63));
	}
	CHECK(!ibv_destroy_ah(ah));
}

static struct ibv_pd *make_parent(struct ends *ends, uint32_t mask)
{
	struct ibv_parent_domain_init_attr attr = { .pd = ends->pd, .comp_mask = mask };

	errno = 0;
	return ibv_alloc_parent_domain(ends->context, &attr);
}

static void parent_domains(struct ends *ends)
{
	struct ibv_pd *parent = make_parent(ends, ALLOW_CC_UNPROTECTED_ALLOC);
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .parent_domain = ends->pd,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_td_init_attr td = { .comp_mask = 1 };
	struct ibv_cq_ex *cq;

	CHECK(parent);
	CHECK(!make_parent(ends, 1 << 3) && errno == EINVAL);
	CHECK(!ibv_alloc_td(ends->context, &td) && errno == EINVAL);
	/* A CQ uses its parent domain, which has to be one. */
	CHECK(!ibv_create_cq_ex(ends->context, &attr) && errno == EINVAL);
	attr.parent_domain = NULL;
	CHECK(!ibv_create_cq_ex(ends->context, &attr) && errno == EINVAL);
	attr.parent_domain = parent;
	cq = ibv_create_cq_ex(ends->context, &attr);
	CHECK(cq && ibv_dealloc_pd(parent) == EBUSY);
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) && !ibv_dealloc_pd(parent));
}

static void xrc_domains(struct ends *ends)
{
	struct ibv_xrcd_init_attr attr = { .fd = -1, .oflags = O_CREAT };

	for (attr.comp_mask = 0; attr.comp_mask < 8; attr.comp_mask++) {
		struct ibv_xrcd *made = ibv_open_xrcd(ends->context, &attr);

		CHECK(!made == (attr.comp_mask != 3));
		CHECK(made ? !ibv_close_xrcd(made) :
			     errno == (attr.comp_mask < 3 ? EINVAL : EOPNOTSUPP));
	}
	attr.comp_mask = 3;
	xrcd = ibv_open_xrcd(ends->context, &attr);
	CHECK(xrcd);
}

int main(void)
{
	struct ibv_device_attr_ex caps;
	struct ends *ends = make_ends();

	CHECK(!ibv_query_device_ex(ends->context, NULL, &caps));
	CHECK((caps.odp_caps.per_transport_caps.rc_odp_caps & FLUSH_AND_ATOMIC_WRITE_ON_DEMAND) ==
	      FLUSH_AND_ATOMIC_WRITE_ON_DEMAND);
	CHECK(!(caps.odp_caps.per_transport_caps.uc_odp_caps & FLUSH_AND_ATOMIC_WRITE_ON_DEMAND));
	xrc_domains(ends);
	operations_of_qps(ends);
	parent_domains(ends);
	CHECK(!ibv_close_xrcd(xrcd));
	destroy_ends(ends);
	return 0;
}
