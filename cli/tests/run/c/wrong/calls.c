/* Calls that are refused. Each is one process's mistake. */

#include "ends.h"

static void open_rc(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_RC);
	/* A peer that could be, for the calls that need one. */
	end->attr.dest_qp_num = end->own.qpn;
	end->attr.rq_psn = end->own.psn;
	end->attr.ah_attr.grh.dgid = end->own.gid;
}

/* The masks of the transitions of an RC QP. */
enum {
	INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	      IBV_QP_MAX_QP_RD_ATOMIC,
};

/* A transition that must fail. */
static void refuse(struct end *end, enum ibv_qp_state state, int mask)
{
	end->attr.qp_state = state;
	CHECK(ibv_modify_qp(end->qp, &end->attr, mask));
}

static void reset_to_rts(struct end *end)
{
	open_rc(end);
	refuse(end, IBV_QPS_RTS, RTS);
}

static void init_without_port(struct end *end)
{
	open_rc(end);
	refuse(end, IBV_QPS_INIT, INIT & ~IBV_QP_PORT);
}

static void init_without_access(struct end *end)
{
	open_rc(end);
	refuse(end, IBV_QPS_INIT, INIT & ~IBV_QP_ACCESS_FLAGS);
}

static void init_port_2(struct end *end)
{
	open_rc(end);
	end->attr.port_num = 2;
	refuse(end, IBV_QPS_INIT, INIT);
}

static void init_pkey_1(struct end *end)
{
	open_rc(end);
	end->attr.pkey_index = 1;
	refuse(end, IBV_QPS_INIT, INIT);
}

static void init_bad_access(struct end *end)
{
	open_rc(end);
	end->attr.qp_access_flags = 1 << 18;
	refuse(end, IBV_QPS_INIT, INIT);
}

static void rtr_without_path(struct end *end)
{
	open_rc(end);
	to_init(end);
	refuse(end, IBV_QPS_RTR, RTR & ~IBV_QP_AV);
}

static void rtr_without_psn(struct end *end)
{
	open_rc(end);
	to_init(end);
	refuse(end, IBV_QPS_RTR, RTR & ~IBV_QP_RQ_PSN);
}

static void rtr_path_mtu(struct end *end)
{
	open_rc(end);
	to_init(end);
	/* Bytes instead of the number of the enumeration. */
	end->attr.path_mtu = 1024;
	refuse(end, IBV_QPS_RTR, RTR);
}

/* A QP number that is still in the network's order. */
static void rtr_qpn(struct end *end)
{
	open_rc(end);
	to_init(end);
	end->attr.dest_qp_num = __builtin_bswap32(end->own.qpn | 0x01);
	note(end, "dest=%#x", end->attr.dest_qp_num);
	refuse(end, IBV_QPS_RTR, RTR);
}

static void rtr_gid_index(struct end *end)
{
	open_rc(end);
	to_init(end);
	end->attr.ah_attr.grh.sgid_index = 77;
	refuse(end, IBV_QPS_RTR, RTR);
}

static void rtr_family(struct end *end)
{
	open_rc(end);
	to_init(end);
	memset(end->attr.ah_attr.grh.dgid.raw, 0, 16);
	end->attr.ah_attr.grh.dgid.raw[0] = 0x20;
	end->attr.ah_attr.grh.dgid.raw[15] = 1;
	refuse(end, IBV_QPS_RTR, RTR);
}

static void rtr_reads(struct end *end)
{
	open_rc(end);
	to_init(end);
	end->attr.max_dest_rd_atomic = 200;
	refuse(end, IBV_QPS_RTR, RTR);
}

static void rtr_timer(struct end *end)
{
	open_rc(end);
	to_init(end);
	end->attr.min_rnr_timer = 32;
	refuse(end, IBV_QPS_RTR, RTR);
}

static void rts_with(struct end *end)
{
	open_rc(end);
	to_init(end);
	to_rtr(end);
}

static void rts_without_psn(struct end *end)
{
	rts_with(end);
	refuse(end, IBV_QPS_RTS, RTS & ~IBV_QP_SQ_PSN);
}

static void rts_timeout(struct end *end)
{
	rts_with(end);
	end->attr.timeout = 32;
	refuse(end, IBV_QPS_RTS, RTS);
}

static void rts_retries(struct end *end)
{
	rts_with(end);
	end->attr.retry_cnt = 8;
	refuse(end, IBV_QPS_RTS, RTS);
}

static void rts_rnr_retries(struct end *end)
{
	rts_with(end);
	end->attr.rnr_retry = 8;
	refuse(end, IBV_QPS_RTS, RTS);
}

static void rts_reads(struct end *end)
{
	rts_with(end);
	end->attr.max_rd_atomic = 255;
	refuse(end, IBV_QPS_RTS, RTS);
}

static void rts_current_state(struct end *end)
{
	rts_with(end);
	end->attr.cur_qp_state = IBV_QPS_RTS;
	refuse(end, IBV_QPS_RTS, RTS | IBV_QP_CUR_STATE);
}

static void bad_state(struct end *end)
{
	open_rc(end);
	refuse(end, (enum ibv_qp_state)9, IBV_QP_STATE);
}

static void resize_qp(struct end *end)
{
	open_rc(end);
	to_init(end);
	CHECK(ibv_modify_qp(end->qp, &end->attr, IBV_QP_CAP));
}

/* Work requests. */
static void refuse_post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	CHECK(ibv_post_send(end->qp, wr, &bad));
	CHECK(bad == wr);
}

static void send_in_init(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rc(end);
	to_init(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_SEND, &sge);
	refuse_post(end, &wr);
}

static void receive_in_reset(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	open_rc(end);
	sge = usual_sge(end);
	CHECK(ibv_post_recv(end->qp, &wr, &bad));
}

static void open_rts(struct end *end)
{
	rts_with(end);
	to_rts(end);
}

static void too_many_elements(struct end *end)
{
	struct ibv_sge sges[3];
	struct ibv_send_wr wr;

	open_rts(end);
	sges[0] = sges[1] = sges[2] = usual_sge(end);
	wr = usual_wr(end, IBV_WR_SEND, sges);
	wr.num_sge = 3;
	refuse_post(end, &wr);
}

static void absurd_elements(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rts(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_SEND, &sge);
	wr.num_sge = 1000;
	refuse_post(end, &wr);
}

static void too_many_receive_elements(struct end *end)
{
	struct ibv_sge sges[3];
	struct ibv_recv_wr wr = { .sg_list = sges, .num_sge = 3 }, *bad;

	open_rts(end);
	sges[0] = sges[1] = sges[2] = usual_sge(end);
	CHECK(ibv_post_recv(end->qp, &wr, &bad));
}

static void inline_too_long(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rts(end);
	sge = usual_sge(end);
	sge.length = 65;
	wr = usual_wr(end, IBV_WR_SEND, &sge);
	wr.send_flags |= IBV_SEND_INLINE;
	refuse_post(end, &wr);
}

static void inline_read(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rts(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_RDMA_READ, &sge);
	wr.send_flags |= IBV_SEND_INLINE;
	refuse_post(end, &wr);
}

static void short_atomic(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rts(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	sge.length = 4;
	refuse_post(end, &wr);
}

static void unknown_flag(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rts(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_SEND, &sge);
	wr.send_flags |= IBV_SEND_IP_CSUM;
	refuse_post(end, &wr);
}

static void unknown_opcode(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_rts(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_TSO, &sge);
	refuse_post(end, &wr);
}

static void queue_full(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	int refused = 0;

	open_rts(end);
	sge = usual_sge(end);
	for (int i = 0; i < 1000 && !refused; i++) {
		wr = usual_wr(end, IBV_WR_SEND, &sge);
		refused = ibv_post_send(end->qp, &wr, &bad);
	}
	CHECK(refused == ENOMEM);
}

static void receive_queue_full(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int refused = 0;

	open_rts(end);
	sge = usual_sge(end);
	for (int i = 0; i < 1000 && !refused; i++)
		refused = ibv_post_recv(end->qp, &wr, &bad);
	CHECK(refused == ENOMEM);
}

static void open_uc(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_UC);
	end->attr.dest_qp_num = end->own.qpn;
	end->attr.rq_psn = end->own.psn;
	end->attr.ah_attr.grh.dgid = end->own.gid;
	to_init(end);
	to_rtr(end);
	to_rts(end);
}

static void uc_read(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_uc(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_RDMA_READ, &sge);
	refuse_post(end, &wr);
}

static void uc_atomic(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_uc(end);
	sge = usual_sge(end);
	wr = usual_wr(end, IBV_WR_ATOMIC_CMP_AND_SWP, &sge);
	refuse_post(end, &wr);
}

static void open_ud(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_UD);
	to_init(end);
	to_rtr(end);
	to_rts(end);
}

/* A datagram to this QP itself. */
static struct ibv_send_wr datagram(struct end *end, enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = usual_wr(end, opcode, sge);

	end->attr.ah_attr.grh.dgid = end->own.gid;
	wr.wr.ud.ah = ibv_create_ah(end->pd, &end->attr.ah_attr);
	CHECK(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = end->own.qpn;
	wr.wr.ud.remote_qkey = QKEY;
	return wr;
}

static void ud_write(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_ud(end);
	sge = usual_sge(end);
	wr = datagram(end, IBV_WR_SEND, &sge);
	wr.opcode = IBV_WR_RDMA_WRITE;
	refuse_post(end, &wr);
}

static void ud_without_ah(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_ud(end);
	sge = usual_sge(end);
	wr = datagram(end, IBV_WR_SEND, &sge);
	wr.wr.ud.ah = NULL;
	refuse_post(end, &wr);
}

static void ud_qpn(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	open_ud(end);
	sge = usual_sge(end);
	wr = datagram(end, IBV_WR_SEND, &sge);
	wr.wr.ud.remote_qpn = 0x1000000;
	refuse_post(end, &wr);
}

static void ud_without_qkey(struct end *end)
{
	open_end(end);
	make_qp(end, IBV_QPT_UD);
	refuse(end, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
}

/* Objects. */
static void create_qp(struct end *end, struct ibv_qp_init_attr init)
{
	CHECK(!ibv_create_qp(end->pd, &init) && errno);
}

static void qp_without_cq(struct end *end)
{
	open_end(end);
	create_qp(end, (struct ibv_qp_init_attr){ .send_cq = end->cq, .qp_type = IBV_QPT_RC,
						  .cap = { 1, 1, 1, 1, 0 } });
}

static void raw_qp(struct end *end)
{
	open_end(end);
	create_qp(end, (struct ibv_qp_init_attr){ .send_cq = end->cq, .recv_cq = end->cq,
						  .qp_type = IBV_QPT_RAW_PACKET,
						  .cap = { 1, 1, 1, 1, 0 } });
}

static void qp_of_two_contexts(struct end *end)
{
	struct end other = *end;

	open_end(end);
	open_end(&other);
	create_qp(end, (struct ibv_qp_init_attr){ .send_cq = other.cq, .recv_cq = other.cq,
						  .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } });
}

static void cq_too_large(struct end *end)
{
	open_end(end);
	CHECK(!ibv_create_cq(end->context, 1 << 30, NULL, NULL, 0) && errno == EINVAL);
}

static void cq_empty(struct end *end)
{
	open_end(end);
	CHECK(!ibv_create_cq(end->context, 0, NULL, NULL, 0) && errno == EINVAL);
}

static void cq_vector(struct end *end)
{
	open_end(end);
	CHECK(!ibv_create_cq(end->context, 1, NULL, NULL, 3) && errno == EINVAL);
}

static void cq_resized(struct end *end)
{
	open_end(end);
	CHECK(ibv_resize_cq(end->cq, 1 << 30));
}

static void cq_in_use(struct end *end)
{
	open_rc(end);
	CHECK(ibv_destroy_cq(end->cq) == EBUSY);
}

static void pd_in_use(struct end *end)
{
	open_end(end);
	CHECK(ibv_dealloc_pd(end->pd) == EBUSY);
}

static void refuse_mr(struct end *end, char *from, size_t length, int access)
{
	note(end, "addr=%#llx", (unsigned long long)(uintptr_t)from);
	CHECK(!ibv_reg_mr(end->pd, from, length, access) && errno);
}

static void mr_remote_write(struct end *end)
{
	open_end(end);
	refuse_mr(end, end->memory, PAGE, IBV_ACCESS_REMOTE_WRITE);
}

static void mr_remote_atomic(struct end *end)
{
	open_end(end);
	refuse_mr(end, end->memory, PAGE, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ);
}

static void mr_unknown_access(struct end *end)
{
	open_end(end);
	refuse_mr(end, end->memory, PAGE, IBV_ACCESS_LOCAL_WRITE | 1 << 18);
}

static void mr_empty(struct end *end)
{
	open_end(end);
	refuse_mr(end, end->memory, 0, IBV_ACCESS_LOCAL_WRITE);
}

static void mr_unmapped(struct end *end)
{
	open_end(end);
	CHECK(!munmap(end->memory + 3 * PAGE, PAGE));
	refuse_mr(end, end->memory, PAGES * PAGE, IBV_ACCESS_LOCAL_WRITE);
}

static void mr_read_only(struct end *end)
{
	open_end(end);
	CHECK(!mprotect(end->memory + 2 * PAGE, PAGE, PROT_READ));
	refuse_mr(end, end->memory + 2 * PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
}

static void mr_null(struct end *end)
{
	open_end(end);
	refuse_mr(end, NULL, PAGE, 0);
}

static void mr_with_windows(struct end *end)
{
	struct ibv_mw *window;
	struct ibv_send_wr wr;

	open_rts(end);
	window = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
	CHECK(window);
	wr = (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = window, .rkey = ibv_inc_rkey(window->rkey),
			     .bind_info = { .mr = end->mr, .addr = (uintptr_t)end->mr->addr, .length = 8,
					    .mw_access_flags = IBV_ACCESS_REMOTE_READ } },
	};
	post(end, &wr);
	expect(end, IBV_WC_SUCCESS);
	CHECK(ibv_dereg_mr(end->mr) == EBUSY);
}

static void window_type(struct end *end)
{
	open_end(end);
	CHECK(!ibv_alloc_mw(end->pd, (enum ibv_mw_type)3));
}

static void srq_too_large(struct end *end)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1 << 30, .max_sge = 1 } };

	open_end(end);
	CHECK(!ibv_create_srq(end->pd, &init));
}

static void make_srq(struct end *end)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };

	open_end(end);
	end->srq = ibv_create_srq(end->pd, &init);
	CHECK(end->srq);
}

static void srq_limit(struct end *end)
{
	struct ibv_srq_attr attr = { .srq_limit = 100 };

	make_srq(end);
	CHECK(ibv_modify_srq(end->srq, &attr, IBV_SRQ_LIMIT));
}

static void srq_in_use(struct end *end)
{
	make_srq(end);
	make_qp(end, IBV_QPT_RC);
	CHECK(ibv_destroy_srq(end->srq));
}

static void receive_beside_srq(struct end *end)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	uint32_t number;

	make_srq(end);
	CHECK(!ibv_get_srq_num(end->srq, &number));
	note(end, "srqn=0x%06x", number);
	make_qp(end, IBV_QPT_RC);
	to_init(end);
	sge = usual_sge(end);
	CHECK(ibv_post_recv(end->qp, &wr, &bad));
}

static void ah_gid_index(struct end *end)
{
	open_ud(end);
	end->attr.ah_attr.grh.dgid = end->own.gid;
	end->attr.ah_attr.grh.sgid_index = 200;
	CHECK(!ibv_create_ah(end->pd, &end->attr.ah_attr));
}

static void ah_port(struct end *end)
{
	open_ud(end);
	end->attr.ah_attr.grh.dgid = end->own.gid;
	end->attr.ah_attr.port_num = 0;
	CHECK(!ibv_create_ah(end->pd, &end->attr.ah_attr));
}

static void attach_no_group(struct end *end)
{
	open_ud(end);
	CHECK(ibv_attach_mcast(end->qp, &end->own.gid, 0));
}

static void attach_rc(struct end *end)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };

	open_rc(end);
	CHECK(ibv_attach_mcast(end->qp, &group, 0));
}

static void detach_unattached(struct end *end)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };

	open_ud(end);
	CHECK(ibv_detach_mcast(end->qp, &group, 0));
}

static void gid_index(struct end *end)
{
	union ibv_gid gid;

	open_end(end);
	CHECK(ibv_query_gid(end->context, 1, 1000, &gid));
}

static void port_2(struct end *end)
{
	struct ibv_port_attr attr;

	open_end(end);
	CHECK(ibv_query_port(end->context, 2, &attr));
}

const struct mistake CALLS[] = {
	{ "QP from RESET to RTS", reset_to_rts, 0 },
	{ "INIT without the port", init_without_port, 0 },
	{ "INIT without access flags", init_without_access, 0 },
	{ "INIT with port 2", init_port_2, 0 },
	{ "INIT with pkey_index 1", init_pkey_1, 0 },
	{ "INIT with unknown access flags", init_bad_access, 0 },
	{ "RTR without a path", rtr_without_path, 0 },
	{ "RTR without rq_psn", rtr_without_psn, 0 },
	{ "RTR with a path MTU in bytes", rtr_path_mtu, 0 },
	{ "RTR with a QP number in the wrong byte order", rtr_qpn, 0 },
	{ "RTR with an empty entry of the GID table", rtr_gid_index, 0 },
	{ "RTR with GIDs of two families", rtr_family, 0 },
	{ "RTR with max_dest_rd_atomic 200", rtr_reads, 0 },
	{ "RTR with min_rnr_timer 32", rtr_timer, 0 },
	{ "RTS without sq_psn", rts_without_psn, 0 },
	{ "RTS with timeout 32", rts_timeout, 0 },
	{ "RTS with retry_cnt 8", rts_retries, 0 },
	{ "RTS with rnr_retry 8", rts_rnr_retries, 0 },
	{ "RTS with max_rd_atomic 255", rts_reads, 0 },
	{ "RTS with a wrong cur_qp_state", rts_current_state, 0 },
	{ "QP to no state", bad_state, 0 },
	{ "QP resized", resize_qp, 0 },
	{ "UD QP to INIT without a Q_Key", ud_without_qkey, 0 },
	{ "SEND in INIT", send_in_init, 0 },
	{ "receive in RESET", receive_in_reset, 0 },
	{ "more elements than max_send_sge", too_many_elements, 0 },
	{ "1000 elements", absurd_elements, 0 },
	{ "more elements than max_recv_sge", too_many_receive_elements, 0 },
	{ "more bytes than max_inline_data", inline_too_long, 0 },
	{ "READ with inline data", inline_read, 0 },
	{ "atomic of four bytes", short_atomic, 0 },
	{ "flag of raw packets", unknown_flag, 0 },
	{ "opcode of raw packets", unknown_opcode, 0 },
	{ "send queue full", queue_full, 0 },
	{ "receive queue full", receive_queue_full, 0 },
	{ "READ by a UC QP", uc_read, 0 },
	{ "atomic by a UC QP", uc_atomic, 0 },
	{ "WRITE by a UD QP", ud_write, 0 },
	{ "datagram without an address handle", ud_without_ah, 0 },
	{ "datagram to a QP number of 25 bits", ud_qpn, 0 },
	{ "QP without a receive CQ", qp_without_cq, 0 },
	{ "QP for raw packets", raw_qp, 0 },
	{ "QP with a CQ of another context", qp_of_two_contexts, 0 },
	{ "CQ too large", cq_too_large, 0 },
	{ "CQ of no entries", cq_empty, 0 },
	{ "CQ with completion vector 3", cq_vector, 0 },
	{ "CQ resized beyond its maximum", cq_resized, 0 },
	{ "CQ destroyed before its QP", cq_in_use, 0 },
	{ "PD deallocated before its region", pd_in_use, 0 },
	{ "region with REMOTE_WRITE and without LOCAL_WRITE", mr_remote_write, 0 },
	{ "region with REMOTE_ATOMIC and without LOCAL_WRITE", mr_remote_atomic, 0 },
	{ "region with unknown access flags", mr_unknown_access, 0 },
	{ "region of no bytes", mr_empty, 0 },
	{ "region that is partly unmapped", mr_unmapped, 0 },
	{ "region of memory that can only be read", mr_read_only, 0 },
	{ "region at NULL", mr_null, 0 },
	{ "region deregistered before its window", mr_with_windows, 0 },
	{ "window of no type", window_type, 0 },
	{ "SRQ too large", srq_too_large, 0 },
	{ "SRQ limit beyond its size", srq_limit, 0 },
	{ "SRQ destroyed before its QP", srq_in_use, 0 },
	{ "receive posted to a QP with an SRQ", receive_beside_srq, 0 },
	{ "address handle with an empty entry of the GID table", ah_gid_index, 0 },
	{ "address handle with port 0", ah_port, 0 },
	{ "multicast group that is none", attach_no_group, 0 },
	{ "multicast group of an RC QP", attach_rc, 0 },
	{ "multicast group left without joining", detach_unattached, 0 },
	{ "GID beyond the table", gid_index, 0 },
	{ "port 2 queried", port_2, 0 },
	{ 0 },
};
