/* Tests what the man pages promise, on the first device, with two QPs that are connected to each
 * other. Prints a line for each broken promise; exits with 0 if there is none. */

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static int broken;

#define CHECK(promise)                                                         \
	do {                                                                   \
		if (!(promise)) {                                              \
			printf("line %d: %s (errno %d)\n", __LINE__, #promise, \
			       errno);                                         \
			broken++;                                              \
		}                                                              \
	} while (0)

/* The call returns NULL, with this errno. */
#define FAILS(call, number) (errno = 0, !(call) && errno == (number))

enum { GID = 1, SIZE = 4096, PATIENCE_MS = 10000 };

/* IBV_ACCESS_FLUSH_PERSISTENT, which older headers don't have. Any QP can have it, but only the memory
 * of files. */
enum { FLUSH_TO_PERSISTENCE = 0x200 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_cq_ex *cq_ex;
static struct ibv_mr *mr;
static struct ibv_qp *from, *to;
static char *memory;

static int readable(int fd, int patience)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	return poll(&poller, 1, patience) == 1;
}

static void set_nonblocking(int fd)
{
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(cq_ex),
		.recv_cq = cq,
		.cap = { 16, 16, 2, 2, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	CHECK(qp && attr.cap.max_send_wr == 16 && attr.cap.max_inline_data == 64);
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	union ibv_gid gid;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | FLUSH_TO_PERSISTENCE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .sgid_index = GID, .hop_limit = 1 } },
	};
	struct ibv_qp_init_attr init;

	CHECK(!ibv_query_gid(context, 1, GID, &gid));
	attr.ah_attr.grh.dgid = gid;
	/* No transition without its port and partition. */
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) ==
	      EINVAL);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						IBV_QP_MAX_DEST_RD_ATOMIC |
						IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						IBV_QP_MAX_QP_RD_ATOMIC));
	memset(&attr, 0, sizeof(attr));
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && qp->state == IBV_QPS_RTS);
	CHECK(attr.dest_qp_num == peer->qp_num && attr.timeout == 14);
	CHECK(attr.qp_access_flags & FLUSH_TO_PERSISTENCE);
	CHECK(init.send_cq == ibv_cq_ex_to_cq(cq_ex) && init.cap.max_recv_sge == 2);
}

static void post_recv(uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(to, &wr, &bad));
}

static struct ibv_wc wait_for_receive(void)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	struct ibv_cq *announced = NULL;
	void *its_context = NULL;
	uint32_t acknowledged = cq->comp_events_completed;

	CHECK(!ibv_get_cq_event(channel, &announced, &its_context));
	CHECK(announced == cq && its_context == &cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(cq->comp_events_completed == acknowledged + 1);
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc;
}

/* When the last send completed, by the device's clock and by the wall clock. */
static uint64_t completed_at, completed_at_wallclock;

/* The next completion of a send, whose id it returns. */
static uint64_t sent(enum ibv_wc_opcode opcode)
{
	struct ibv_poll_cq_attr attr = {};
	uint64_t wr_id;
	int none;

	while ((none = ibv_start_poll(cq_ex, &attr)) == ENOENT)
		;
	CHECK(!none && cq_ex->status == IBV_WC_SUCCESS);
	CHECK(ibv_wc_read_opcode(cq_ex) == opcode);
	CHECK(ibv_wc_read_qp_num(cq_ex) == from->qp_num);
	wr_id = cq_ex->wr_id;
	completed_at = ibv_wc_read_completion_ts(cq_ex);
	completed_at_wallclock = ibv_wc_read_completion_wallclock_ns(cq_ex);
	/* It completes only once, even if the program keeps polling. */
	for (int i = 0; i < 1000; i++)
		CHECK(ibv_wc_read_completion_wallclock_ns(cq_ex) == completed_at_wallclock);
	CHECK(ibv_next_poll(cq_ex) == ENOENT);
	ibv_end_poll(cq_ex);
	return wr_id;
}

static void make_all(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};

	pd = ibv_alloc_pd(context);
	CHECK(pd && pd->context == context);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(pd, memory, SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mr && mr->addr == memory && mr->length == SIZE && mr->pd == pd);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 16, &cq, channel, 0);
	CHECK(channel && cq && cq->channel == channel && cq->cqe == 16);
	cq_ex = ibv_create_cq_ex(context, &attr);
	CHECK(cq_ex);
	from = make_qp();
	to = make_qp();
	connect_to(from, to);
	connect_to(to, from);
}

static uint64_t device_clock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK(!ibv_query_rt_values_ex(context, &values));
	CHECK(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK && !values.raw_clock.tv_sec);
	return values.raw_clock.tv_nsec;
}

static uint64_t wall_clock(void)
{
	struct timespec now;

	CHECK(!clock_gettime(CLOCK_REALTIME, &now));
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Completions have timestamps, later than those before them, by either clock. */
static void completions_have_times(void)
{
	const uint64_t second = 1000000000;
	struct ibv_sge sge = { (uintptr_t)memory, 5, mr->lkey };
	struct ibv_send_wr write = {
		.wr_id = 3, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + 64, .rkey = mr->rkey },
	}, *bad;
	struct ibv_device_attr_ex device;
	uint64_t before = device_clock(), wall_before = wall_clock(), wall;

	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(device.hca_core_clock == 1000000 && device.completion_timestamp_mask == UINT64_MAX);
	CHECK(!ibv_post_send(from, &write, &bad) && sent(IBV_WC_RDMA_WRITE) == 3);
	wall = wall_clock();
	CHECK(before <= completed_at && completed_at <= device_clock());
	/* This tolerates adjustments of the wall clock below a second. */
	CHECK(wall_before < completed_at_wallclock + second);
	CHECK(completed_at_wallclock < wall + second);
}

static void completions_are_announced(void)
{
	struct ibv_sge sge = { (uintptr_t)memory + 64, 5, mr->lkey };
	struct ibv_send_wr second = { .wr_id = 2, .sg_list = &sge, .num_sge = 3 };
	struct ibv_send_wr first = {
		.wr_id = 1, .next = &second, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(0x01020304),
	}, *bad = NULL;
	struct ibv_cq *announced;
	void *its_context;
	struct ibv_wc wc;

	post_recv(7);
	CHECK(!readable(channel->fd, 0));
	CHECK(!ibv_req_notify_cq(cq, 0));
	memcpy(memory + 64, "hello", 5);
	/* The second has more elements than the queue was made for. */
	CHECK(ibv_post_send(from, &first, &bad) == EINVAL && bad == &second);
	CHECK(readable(channel->fd, PATIENCE_MS));
	wc = wait_for_receive();
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 7);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM && be32toh(wc.imm_data) == 0x01020304);
	CHECK(wc.byte_len == 5 && wc.qp_num == to->qp_num && !memcmp(memory, "hello", 5));
	CHECK(!readable(channel->fd, 0));
	CHECK(sent(IBV_WC_SEND) == 1);
	set_nonblocking(channel->fd);
	errno = 0;
	CHECK(ibv_get_cq_event(channel, &announced, &its_context) == -1 && errno == EAGAIN);
}

static void requests_are_put_together(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(from);
	uint64_t *counter = (uint64_t *)(memory + 1024);
	struct ibv_sge old = { (uintptr_t)memory + 2048, 8, mr->lkey };

	CHECK(qp);
	*counter = 40;
	ibv_wr_start(qp);
	qp->wr_id = 11;
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 512);
	ibv_wr_set_inline_data(qp, "written", 8);
	qp->wr_id = 12;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qp, mr->rkey, (uintptr_t)counter, 2);
	ibv_wr_set_sge_list(qp, 1, &old);
	CHECK(!ibv_wr_complete(qp));
	CHECK(sent(IBV_WC_FETCH_ADD) == 12);
	CHECK(!strcmp(memory + 512, "written") && *counter == 42);
	CHECK(*(uint64_t *)(memory + 2048) == 40);

	/* Neither an aborted batch nor one with an error is posted. */
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, memory, 65);
	CHECK(ibv_wr_complete(qp) == EINVAL);
	ibv_wr_start(qp);
	qp->wr_id = 13;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 1);
	CHECK(!ibv_wr_complete(qp));
	CHECK(sent(IBV_WC_RDMA_WRITE) == 13);
}

static void events_are_told_and_acknowledged(void)
{
	struct ibv_srq_init_attr init = { .srq_context = &broken, .attr = { 4, 1, 0 } };
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_async_event event;

	CHECK(srq);
	/* First, the two QPs that are connected to each other raise their events of that. */
	set_nonblocking(context->async_fd);
	while (!ibv_get_async_event(context, &event)) {
		struct ibv_qp *qp = event.element.qp;
		uint32_t acknowledged = qp->events_completed;

		CHECK(event.event_type == IBV_EVENT_COMM_EST);
		ibv_ack_async_event(&event);
		CHECK(qp->events_completed == acknowledged + 1);
	}
	CHECK(errno == EAGAIN && !readable(context->async_fd, 0));
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK(readable(context->async_fd, PATIENCE_MS));
	CHECK(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	CHECK(srq->events_completed == 0);
	ibv_ack_async_event(&event);
	CHECK(srq->events_completed == 1);
	CHECK(!ibv_query_srq(srq, &attr) && attr.max_wr == 4 && attr.srq_limit == 0);
	CHECK(!ibv_destroy_srq(srq));
}

static void what_is_in_use_is_busy(void)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_xrcd_init_attr file = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_srq *srq;
	uint32_t number = 0;

	init.xrcd = ibv_open_xrcd(context, &file);
	CHECK(init.xrcd);
	srq = ibv_create_srq_ex(context, &init);
	CHECK(srq && !ibv_get_srq_num(srq, &number) && number);
	CHECK(ibv_close_xrcd(init.xrcd) == EBUSY);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == EBUSY);
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	CHECK(!ibv_destroy_srq(srq) && !ibv_close_xrcd(init.xrcd));
}

static void memory_of_every_kind(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 128 };
	struct ibv_td_init_attr none = {};
	struct ibv_parent_domain_init_attr parent = { .pd = pd };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	struct ibv_mr *region;
	struct ibv_pd *domain;
	char text[4] = "abc";

	CHECK(dm && !ibv_memcpy_to_dm(dm, 124, text, 4));
	memset(text, 0, 4);
	CHECK(!ibv_memcpy_from_dm(text, dm, 124, 4) && !strcmp(text, "abc"));
	CHECK(ibv_memcpy_to_dm(dm, 125, text, 4) == EINVAL);
	region = ibv_reg_dm_mr(pd, dm, 64, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	CHECK(region && region->length == 64 && ibv_free_dm(dm) == EBUSY);
	/* A region that has moved elsewhere uses it no longer. */
	CHECK(!ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 16, 0));
	CHECK(!ibv_free_dm(dm) && !ibv_dereg_mr(region));
	region = ibv_alloc_null_mr(pd);
	CHECK(region && !ibv_dereg_mr(region));

	parent.td = ibv_alloc_td(context, &none);
	domain = ibv_alloc_parent_domain(context, &parent);
	CHECK(parent.td && domain && ibv_dealloc_td(parent.td) == EBUSY);
	region = ibv_reg_mr(domain, memory, SIZE, 0);
	CHECK(region && ibv_dealloc_pd(domain) == EBUSY && !ibv_dereg_mr(region));
	CHECK(!ibv_dealloc_pd(domain) && !ibv_dealloc_td(parent.td));

	region = ibv_reg_mr(pd, memory, SIZE, 0);
	CHECK(!ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 16, 0));
	CHECK(region->length == 16 && !ibv_dereg_mr(region));
	region = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	CHECK(region && !ibv_dereg_mr(region));
}

/* An event that waits for more completions is raised without them after its period. */
static void events_are_moderated(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 8, 1000 },
	};
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_device_attr_ex device;

	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(device.cq_mod_caps.max_cq_count == 0xffff);
	CHECK(device.cq_mod_caps.max_cq_period == 0xffff);
	CHECK(!ibv_modify_cq(cq, &attr));
	post_recv(8);
	CHECK(!ibv_req_notify_cq(cq, 0));
	CHECK(!ibv_post_send(from, &send, &bad) && sent(IBV_WC_SEND) == 0);
	CHECK(readable(channel->fd, PATIENCE_MS));
	CHECK(wait_for_receive().wr_id == 8);
	attr.moderate.cq_period = 0;
	CHECK(!ibv_modify_cq(cq, &attr));
	attr.attr_mask = 2;
	CHECK(ibv_modify_cq(cq, &attr) == EOPNOTSUPP);
}

static uint32_t rate_limit(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init));
	return attr.rate_limit;
}

/* The rate of a QP in RTS can be limited, is reported, and can be unlimited again. */
static void rates_are_limited(void)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000000, .max_burst_sz = 4096 };
	struct ibv_qp_attr attr = { .rate_limit = 2000000 };
	struct ibv_qp *idle = make_qp();
	struct ibv_qp_init_attr init;
	struct ibv_device_attr_ex device;

	CHECK(!ibv_query_device_ex(context, NULL, &device));
	CHECK(device.packet_pacing_caps.qp_rate_limit_min == 1);
	CHECK(device.packet_pacing_caps.qp_rate_limit_max > 100000000);
	CHECK(device.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_RC);
	CHECK(device.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_UD);
	CHECK(!(device.packet_pacing_caps.supported_qpts & 1 << IBV_QPT_RAW_PACKET));
	CHECK(rate_limit(from) == 0);
	CHECK(!ibv_modify_qp_rate_limit(from, &limit) && rate_limit(from) == 1000000);
	CHECK(!ibv_modify_qp(from, &attr, IBV_QP_RATE_LIMIT) && rate_limit(from) == 2000000);
	/* A burst smaller than a packet: than the path MTU, and than the stated packet size. */
	limit.max_burst_sz = 1023;
	CHECK(ibv_modify_qp_rate_limit(from, &limit) == EINVAL);
	limit.typical_pkt_sz = 1024;
	CHECK(ibv_modify_qp_rate_limit(from, &limit) == EINVAL);
	limit.typical_pkt_sz = 1000;
	CHECK(!ibv_modify_qp_rate_limit(from, &limit));
	limit.comp_mask = 1;
	CHECK(ibv_modify_qp_rate_limit(from, &limit) == EINVAL);
	memset(&limit, 0, sizeof(limit));
	limit.typical_pkt_sz = 64;
	CHECK(ibv_modify_qp_rate_limit(from, &limit) == EINVAL);
	CHECK(rate_limit(from) == 1000000);
	limit.typical_pkt_sz = 0;
	CHECK(!ibv_modify_qp_rate_limit(from, &limit) && rate_limit(from) == 0);
	/* A path with a rate code that is not defined. */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD };
	CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE));
	CHECK(!ibv_query_qp(from, &attr, IBV_QP_AV, &init) && !attr.ah_attr.static_rate);
	attr.ah_attr.static_rate = 1;
	CHECK(ibv_modify_qp(from, &attr, IBV_QP_AV) == EINVAL);
	attr.ah_attr.static_rate = IBV_RATE_10_GBPS;
	CHECK(!ibv_modify_qp(from, &attr, IBV_QP_AV) && rate_limit(from) == 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE));
	/* One that can't send has no rate. */
	CHECK(ibv_modify_qp_rate_limit(idle, &limit) == EINVAL);
	CHECK(!ibv_destroy_qp(idle));
}

static void mistakes_are_errors(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RAW_PACKET };
	struct ibv_device_attr_ex device;
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_qp_attr change = { .alt_timeout = 1 };
	struct ibv_gid_entry entries[256];
	union ibv_gid gid;
	char *hole = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(FAILS(ibv_open_device(NULL), EINVAL));
	CHECK(FAILS(ibv_alloc_pd(NULL), EINVAL));
	CHECK(FAILS(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL));
	CHECK(FAILS(ibv_create_cq(context, 1, NULL, NULL, 1), EINVAL));
	CHECK(FAILS(ibv_create_qp(pd, &attr), EOPNOTSUPP));
	attr.qp_type = IBV_QPT_RC;
	CHECK(FAILS(ibv_create_qp(pd, &attr), EINVAL));
	CHECK(FAILS(ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_REMOTE_WRITE), EINVAL));
	CHECK(FAILS(ibv_reg_mr(pd, hole, SIZE, IBV_ACCESS_LOCAL_WRITE), EFAULT));
	munmap(hole, SIZE);
	CHECK(FAILS(ibv_reg_mr(pd, hole, SIZE, 0), EFAULT));
	CHECK(ibv_query_device_ex(context, &input, &device) == EINVAL);
	CHECK(!ibv_query_device_ex(context, NULL, &device) && device.phys_port_cnt_ex == 1);
	CHECK((device.device_cap_flags_ex >> 38 & 7) == 7);
	CHECK(ibv_query_gid(context, 2, 0, &gid) == -1);
	CHECK(ibv_query_gid(context, 1, 256, &gid) == -1);
	CHECK(_ibv_query_gid_table(context, entries, 256, 0, SIZE_MAX / 2) == -EINVAL);
	CHECK(_ibv_query_gid_table(context, entries, 256, 0, sizeof(*entries) - 1) == -EINVAL);
	CHECK(_ibv_query_gid_table(context, entries, 0, 0, sizeof(*entries)) == -EINVAL);
	CHECK(_ibv_query_gid_table(context, entries, 256, 0, sizeof(*entries)) > 0);
	CHECK(ibv_modify_qp(from, &change, IBV_QP_ALT_PATH) == EOPNOTSUPP);
	CHECK(ibv_modify_qp(from, &change, IBV_QP_PORT) == EINVAL);
	CHECK(ibv_modify_qp(from, &change, 1 << 30) == EINVAL);
	CHECK(FAILS(ibv_reg_mr(pd, memory, SIZE, FLUSH_TO_PERSISTENCE), EINVAL));
}

static void what_is_not_there_says_so(void)
{
	struct ibv_wq_init_attr wq = {};
	struct ibv_flow_attr flow = {};
	struct ibv_counters_init_attr counters = {};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RESERVED };
	struct ibv_ece ece = {};
	struct ibv_qp_init_attr_ex tso = {
		.qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
	};
	struct ibv_cq_init_attr_ex tagged = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };

	CHECK(FAILS(ibv_create_wq(context, &wq), EOPNOTSUPP));
	CHECK(FAILS(ibv_create_flow(from, &flow), EOPNOTSUPP));
	CHECK(FAILS(ibv_create_counters(context, &counters), EOPNOTSUPP));
	CHECK(FAILS(ibv_create_qp_ex(context, &tso), EOPNOTSUPP));
	CHECK(FAILS(ibv_create_cq_ex(context, &tagged), EOPNOTSUPP));
	CHECK(ibv_query_rt_values_ex(context, &values) == EOPNOTSUPP);
	CHECK(ibv_query_ece(from, &ece) == EOPNOTSUPP);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!context) {
		printf("no device is open: errno %d\n", errno);
		return 1;
	}
	make_all();
	if (broken)
		return 1;
	completions_are_announced();
	completions_have_times();
	requests_are_put_together();
	events_are_told_and_acknowledged();
	what_is_in_use_is_busy();
	memory_of_every_kind();
	rates_are_limited();
	events_are_moderated();
	mistakes_are_errors();
	what_is_not_there_says_so();
	CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to));
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
	CHECK(!ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return broken != 0;
}
