/* The objects of an end, and what both ends do in most mistakes. */

#define _GNU_SOURCE
#include "ends.h"
#include <sys/random.h>

void note(struct end *end, const char *format, ...)
{
	size_t used = strlen(end->notes);
	va_list arguments;

	va_start(arguments, format);
	end->notes[used++] = ' ';
	vsnprintf(end->notes + used, sizeof(end->notes) - used, format, arguments);
	va_end(arguments);
}

static void find_gid(struct end *end)
{
	static const uint8_t TAIL[] = { 0xff, 0xff, 127, 0, 0, 1 };
	struct ibv_gid_entry entry;

	for (end->gid_index = 0; end->gid_index < 256; end->gid_index++)
		if (!ibv_query_gid_ex(end->context, 1, end->gid_index, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(entry.gid.raw + 10, TAIL, 6)) {
			end->own.gid = entry.gid;
			return;
		}
	CHECK(!"the device has 127.0.0.1");
}

void open_end(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;

	CHECK(list);
	while (*device && strcmp(ibv_get_device_name(*device), "roce_lo"))
		device++;
	end->context = ibv_open_device(*device);
	CHECK(end->context);
	ibv_free_device_list(list);
	find_gid(end);
	end->pd = ibv_alloc_pd(end->context);
	end->other_pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0);
	CHECK(end->pd && end->other_pd && end->cq);
	end->memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(end->memory != MAP_FAILED);
	register_with(end, ALL);
}

void register_with(struct end *end, int access)
{
	CHECK(!end->mr || !ibv_dereg_mr(end->mr));
	end->mr = ibv_reg_mr(end->pd, end->memory + REGION, PAGE, access);
	CHECK(end->mr);
	end->own.rkey = end->mr->rkey;
	end->own.addr = (uintptr_t)end->mr->addr;
}

void register_cut_file(struct end *end)
{
	int file = memfd_create("mistake", 0);

	CHECK(file >= 0 && !ftruncate(file, PAGE));
	CHECK(mmap(end->memory + REGION, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
	      MAP_FAILED);
	register_with(end, ALL);
	CHECK(!ftruncate(file, 0) && !close(file));
}

void make_qp(struct end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq, .recv_cq = end->cq, .srq = end->srq, .qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2,
			 .max_inline_data = 64 },
	};

	end->qp = ibv_create_qp(end->pd, &init);
	CHECK(end->qp);
	end->own.qpn = end->qp->qp_num;
	CHECK(getrandom(&end->own.psn, sizeof(end->own.psn), 0) == sizeof(end->own.psn));
	end->own.psn &= 0xffffff;
	end->attr = (struct ibv_qp_attr){
		.port_num = 1,
		.qp_access_flags = REMOTE,
		.qkey = QKEY,
		.path_mtu = IBV_MTU_1024,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		/* 67 ms. */
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = end->own.psn,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .hop_limit = 1, .sgid_index = (uint8_t)end->gid_index } },
	};
}

static void tell(struct end *end, const void *bytes, size_t length)
{
	CHECK(write(end->socket, bytes, length) == (ssize_t)length);
}

static void hear(struct end *end, void *bytes, size_t length)
{
	ssize_t count = read(end->socket, bytes, length);

	/* The peer has failed, and has said why. */
	if (count != (ssize_t)length)
		_exit(2);
}

void exchange(struct end *end)
{
	tell(end, &end->own, sizeof(end->own));
	hear(end, &end->peer, sizeof(end->peer));
	end->attr.dest_qp_num = end->peer.qpn;
	end->attr.rq_psn = end->peer.psn;
	end->attr.ah_attr.grh.dgid = end->peer.gid;
}

void meet(struct end *end)
{
	char byte = 0;

	tell(end, &byte, 1);
	hear(end, &byte, 1);
}

void meet_after_packets(struct end *end)
{
	struct end aside = *end;
	struct ibv_sge sge = { 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	aside.srq = NULL;
	aside.cq = ibv_create_cq(end->context, 4, NULL, NULL, 0);
	aside.mr = ibv_reg_mr(end->pd, end->memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	CHECK(aside.cq && aside.mr);
	make_qp(&aside, IBV_QPT_UD);
	to_init(&aside);
	sge = (struct ibv_sge){ (uintptr_t)end->memory, GRH + 1, aside.mr->lkey };
	post_receive(&aside, sge);
	to_rtr(&aside);
	to_rts(&aside);
	exchange(&aside);
	wr.wr.ud.ah = ibv_create_ah(end->pd, &aside.attr.ah_attr);
	CHECK(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = aside.peer.qpn;
	wr.wr.ud.remote_qkey = QKEY;
	sge.length = 1;
	post(&aside, &wr);
	/* The own datagram, and the peer's. */
	expect(&aside, IBV_WC_SUCCESS);
	expect(&aside, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(aside.qp));
	meet(end);
}

static void modify(struct end *end, enum ibv_qp_state state, int mask)
{
	end->attr.qp_state = state;
	CHECK(!ibv_modify_qp(end->qp, &end->attr, IBV_QP_STATE | mask));
}

void to_init(struct end *end)
{
	int last = end->qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;

	modify(end, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

void to_rtr(struct end *end)
{
	int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	switch (end->qp->qp_type) {
	case IBV_QPT_UD:
		return modify(end, IBV_QPS_RTR, 0);
	case IBV_QPT_UC:
		return modify(end, IBV_QPS_RTR, connected);
	default:
		return modify(end, IBV_QPS_RTR, connected | reliable);
	}
}

void to_rts(struct end *end)
{
	int reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	int is_reliable = end->qp->qp_type != IBV_QPT_UD && end->qp->qp_type != IBV_QPT_UC;

	modify(end, IBV_QPS_RTS, IBV_QP_SQ_PSN | (is_reliable ? reliable : 0));
}

void connect_end(struct end *end)
{
	exchange(end);
	to_init(end);
	to_rtr(end);
	to_rts(end);
	/* No packet comes before both are ready. */
	meet(end);
}

struct ibv_sge usual_sge(struct end *end)
{
	return (struct ibv_sge){ (uintptr_t)end->mr->addr, LENGTH, end->mr->lkey };
}

struct ibv_send_wr usual_wr(struct end *end, enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		sge->length = 8;
		wr.wr.atomic.remote_addr = end->peer.addr;
		wr.wr.atomic.rkey = end->peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = end->peer.addr;
		wr.wr.rdma.rkey = end->peer.rkey;
	}
	return wr;
}

void post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	CHECK(!ibv_post_send(end->qp, wr, &bad));
}

void post_op(struct end *end, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = usual_sge(end);
	struct ibv_send_wr wr = usual_wr(end, opcode, &sge);

	post(end, &wr);
}

void post_receive(struct end *end, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (end->srq)
		CHECK(!ibv_post_srq_recv(end->srq, &wr, &bad));
	else
		CHECK(!ibv_post_recv(end->qp, &wr, &bad));
}

void expect(struct end *end, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int found;

	do {
		found = ibv_poll_cq(end->cq, 1, &wc);
		CHECK(found >= 0);
	} while (!found);
	if (wc.status != status)
		fprintf(stderr, "mistakes: %s: %s, not %s\n", end->name, ibv_wc_status_str(wc.status),
			ibv_wc_status_str(status));
	CHECK(wc.status == status);
}

void expect_event(struct end *end, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		CHECK(!ibv_get_async_event(end->context, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	if (event.event_type != type)
		fprintf(stderr, "mistakes: %s: %s, not %s\n", end->name,
			ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	CHECK(event.event_type == type);
}

void serve(struct end *end)
{
	connect_end(end);
	meet(end);
}

void serve_access_error(struct end *end)
{
	connect_end(end);
	expect_event(end, IBV_EVENT_QP_ACCESS_ERR);
	meet(end);
}

void serve_request_error(struct end *end)
{
	connect_end(end);
	expect_event(end, IBV_EVENT_QP_REQ_ERR);
	meet(end);
}
