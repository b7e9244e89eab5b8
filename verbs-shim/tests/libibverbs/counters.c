/* Completion counters, which are in the header and in the library of rdma-core since release 65: this
 * program has its own declarations, and looks the functions up. */

#define _GNU_SOURCE
#include "ends.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SENDS = 1, RECVS = 2, READS = 4, REMOTE_READS = 8, WRITES = 16, REMOTE_WRITES = 32,
       ALL = SENDS | RECVS | READS | WRITES, REQUESTS = 0, BYTES = 1, MAX_COUNTERS = 1 << 17 };

struct counter {
	struct ibv_context *context;
	uint32_t handle;
};

struct caps {
	uint64_t max_value;
	uint32_t max_counters, ops;
};

struct init {
	uint32_t comp_mask, type, flags;
};

struct attach {
	uint32_t comp_mask, ops;
};

static int (*query)(struct ibv_context *, void *, size_t);
static struct counter *(*create)(struct ibv_context *, struct init *);
static int (*destroy)(struct counter *);
static int (*set)(struct counter *, uint64_t), (*set_err)(struct counter *, uint64_t);
static int (*inc)(struct counter *, uint64_t), (*inc_err)(struct counter *, uint64_t);
static int (*read_it)(struct counter *, uint64_t *), (*read_err)(struct counter *, uint64_t *);
static int (*attach)(struct ibv_qp *, struct counter *, struct attach *);

static void look_up(void)
{
	const struct {
		void *to;
		const char *name;
	} wanted[] = {
		{ &query, "_ibv_query_comp_cntr_caps" }, { &create, "ibv_create_comp_cntr" },
		{ &destroy, "ibv_destroy_comp_cntr" },	 { &set, "ibv_set_comp_cntr" },
		{ &set_err, "ibv_set_err_comp_cntr" },	 { &inc, "ibv_inc_comp_cntr" },
		{ &inc_err, "ibv_inc_err_comp_cntr" },	 { &read_it, "ibv_read_comp_cntr" },
		{ &read_err, "ibv_read_err_comp_cntr" }, { &attach, "ibv_qp_attach_comp_cntr" },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		void *found = dlvsym(RTLD_DEFAULT, wanted[i].name, "IBVERBS_1.18");

		CHECK(found);
		memcpy(wanted[i].to, &found, sizeof(found));
	}
}

static struct counter *make(struct ends *ends, uint32_t type)
{
	struct counter *made = create(ends->context, &(struct init){ .type = type });

	CHECK(made && made->context == ends->context);
	return made;
}

static int attach_to(struct ibv_qp *qp, struct counter *counter, uint32_t ops)
{
	return attach(qp, counter, &(struct attach){ 0, ops });
}

static uint64_t value(struct counter *counter)
{
	uint64_t found;

	CHECK(!read_it(counter, &found));
	return found;
}

static uint64_t errors(struct counter *counter)
{
	uint64_t found;

	CHECK(!read_err(counter, &found));
	return found;
}

/* Nothing but these calls drives the NIC. */
static void wait_for(struct counter *counter, uint64_t wanted)
{
	while (value(counter) < wanted)
		;
	CHECK(value(counter) == wanted && errors(counter) == 0);
}

static void capabilities(struct ends *ends)
{
	struct caps caps;
	struct {
		struct caps caps;
		uint64_t newer;
	} longer = { .newer = 7 };

	CHECK(!query(ends->context, &caps, sizeof(caps)));
	CHECK(caps.max_value == UINT64_MAX && caps.max_counters == MAX_COUNTERS && caps.ops == ALL);
	CHECK(!query(ends->context, &longer, sizeof(longer)));
	CHECK(longer.caps.ops == ALL && longer.newer == 0);
	CHECK(query(ends->context, &caps, sizeof(caps) - 1) == EINVAL);
	CHECK(query(ends->context, NULL, sizeof(caps)) == EINVAL);
	CHECK(query(NULL, &caps, sizeof(caps)) == EINVAL);
}

static int refuses(struct ibv_context *context, struct init *init)
{
	errno = 0;
	CHECK(!create(context, init));
	return errno;
}

static void arguments(struct ends *ends, struct ibv_qp *fresh)
{
	struct counter *counter = make(ends, REQUESTS), *other;
	struct ibv_context *elsewhere = open_loopback();
	uint64_t found;

	CHECK(refuses(NULL, &(struct init){ 0 }) == EINVAL);
	CHECK(refuses(ends->context, NULL) == EINVAL);
	CHECK(refuses(ends->context, &(struct init){ .comp_mask = 1 }) == EOPNOTSUPP);
	CHECK(refuses(ends->context, &(struct init){ .type = 2 }) == EOPNOTSUPP);
	CHECK(refuses(ends->context, &(struct init){ .flags = 1 }) == EOPNOTSUPP);

	CHECK(attach_to(NULL, counter, SENDS) == EINVAL && attach_to(fresh, NULL, SENDS) == EINVAL);
	CHECK(attach(fresh, counter, NULL) == EINVAL && attach_to(fresh, counter, 0) == EINVAL);
	CHECK(attach(fresh, counter, &(struct attach){ 1, SENDS }) == EOPNOTSUPP);
	CHECK(attach_to(fresh, counter, SENDS | 64) == EOPNOTSUPP);
	/* A peer may send one of its WRITEs as several messages. */
	CHECK(attach_to(fresh, counter, REMOTE_READS) == EOPNOTSUPP);
	CHECK(attach_to(fresh, counter, WRITES | REMOTE_WRITES) == EOPNOTSUPP);
	other = create(elsewhere, &(struct init){ 0 });
	CHECK(other && attach_to(fresh, other, SENDS) == EINVAL && !destroy(other));
	/* Its QPs are in RTS. */
	CHECK(attach_to(ends->qps[0], counter, SENDS) == EINVAL);

	CHECK(set(NULL, 1) == EINVAL && set_err(NULL, 1) == EINVAL && destroy(NULL) == EINVAL);
	CHECK(inc(NULL, 1) == EINVAL && inc_err(NULL, 1) == EINVAL);
	CHECK(read_it(NULL, &found) == EINVAL && read_err(NULL, &found) == EINVAL);
	CHECK(read_it(counter, NULL) == EINVAL && read_err(counter, NULL) == EINVAL);
	CHECK(!destroy(counter) && !ibv_close_device(elsewhere));
}

static void numbers(struct ends *ends)
{
	struct counter *counter = make(ends, REQUESTS);

	CHECK(value(counter) == 0 && errors(counter) == 0);
	CHECK(!set(counter, UINT64_MAX - 1) && !set_err(counter, 7));
	CHECK(value(counter) == UINT64_MAX - 1 && errors(counter) == 7);
	CHECK(!inc(counter, 1) && value(counter) == UINT64_MAX);
	CHECK(!inc(counter, 1) && value(counter) == 0);
	CHECK(!inc_err(counter, 3) && errors(counter) == 10 && value(counter) == 0);
	CHECK(!destroy(counter));
}

static void too_many(struct ends *ends)
{
	static struct counter *all[MAX_COUNTERS];

	for (int i = 0; i < MAX_COUNTERS; i++)
		all[i] = make(ends, REQUESTS);
	CHECK(refuses(ends->context, &(struct init){ 0 }) == ENOMEM);
	for (int i = 0; i < MAX_COUNTERS; i++)
		CHECK(!destroy(all[i]));
}

static struct ibv_qp *make_qp(struct ends *ends)
{
	struct ibv_qp_init_attr attr = { .send_cq = ends->cq, .recv_cq = ends->cq,
					 .cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(ends->pd, &attr);

	CHECK(qp);
	return qp;
}

/* Puts two fresh QPs, which signal nothing unless asked to, in the place of those of `ends`. */
static void renew(struct ends *ends)
{
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_destroy_qp(ends->qps[i]));
		ends->qps[i] = make_qp(ends);
	}
}

static void in_use(struct ends *ends)
{
	struct counter *counter = make(ends, REQUESTS), *other = make(ends, REQUESTS);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	renew(ends);
	CHECK(!attach_to(ends->qps[0], counter, SENDS | RECVS));
	CHECK(attach_to(ends->qps[0], other, RECVS | WRITES) == EBUSY);
	CHECK(attach_to(ends->qps[0], counter, SENDS) == EBUSY);
	CHECK(!attach_to(ends->qps[0], other, WRITES) && !attach_to(ends->qps[1], counter, ALL));
	CHECK(destroy(counter) == EBUSY && destroy(other) == EBUSY);
	CHECK(!set(counter, 5) && value(counter) == 5);
	/* There is no way to detach a counter but to destroy the QP. */
	connect_to(ends, 0);
	CHECK(!ibv_modify_qp(ends->qps[0], &reset, IBV_QP_STATE) && destroy(other) == EBUSY);
	CHECK(!ibv_destroy_qp(ends->qps[0]));
	CHECK(!destroy(other) && destroy(counter) == EBUSY);
	CHECK(!ibv_destroy_qp(ends->qps[1]) && !destroy(counter));
	ends->qps[0] = make_qp(ends);
	ends->qps[1] = make_qp(ends);
}

static void write_to_peer(struct ends *ends)
{
	struct ibv_sge sge = { (uintptr_t)ends->memory, 8, ends->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)ends->memory + 3 * MESSAGE;
	wr.wr.rdma.rkey = ends->mr->rkey;
	CHECK(!ibv_post_send(ends->qps[0], &wr, &bad));
}

/* The man page: work requests are counted, whether or not they generate a completion. */
static void traffic(struct ends *ends)
{
	struct counter *sent = make(ends, REQUESTS), *arrived = make(ends, BYTES);
	struct ibv_wc wc;

	renew(ends);
	CHECK(!attach_to(ends->qps[0], sent, SENDS | WRITES));
	CHECK(!attach_to(ends->qps[1], arrived, RECVS));
	connect_to(ends, 0);
	connect_to(ends, 1);
	for (int i = 0; i < 3; i++)
		CHECK(!post_recv(ends, 1, 1) && !post_send(ends, 0, 2));
	memset(ends->memory, 0x5a, MESSAGE);
	CHECK(!post_recv(ends, 1, 1) && !post_send(ends, 0, 2));
	wait_for(arrived, 4 * MESSAGE);
	CHECK(!memcmp(ends->memory, ends->memory + 3 * MESSAGE, MESSAGE));
	wait_for(sent, 4);
	/* Receives are in the CQ all the same. */
	for (int i = 0; i < 4; i++)
		CHECK(ibv_poll_cq(ends->cq, 1, &wc) == 1 && wc.opcode == IBV_WC_RECV);
	CHECK(ibv_poll_cq(ends->cq, 1, &wc) == 0);

	/* The peer refuses WRITEs: the first has failed, and the rest are flushed. */
	for (int i = 0; i < 3; i++)
		write_to_peer(ends);
	while (errors(sent) < 3)
		;
	CHECK(errors(sent) == 3 && value(sent) == 4);
	/* So is a receive that is posted afterwards, at once. */
	CHECK(!post_recv(ends, 1, 1));
	CHECK(errors(arrived) == 1 && value(arrived) == 4 * MESSAGE);
	renew(ends);
	CHECK(!destroy(sent) && !destroy(arrived));
}

static void *increment(void *counter)
{
	for (int i = 0; i < 10000; i++)
		CHECK(!inc(counter, 1) && !inc_err(counter, 2));
	return NULL;
}

static void threads(struct ends *ends)
{
	struct counter *counter = make(ends, REQUESTS);
	pthread_t all[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&all[i], NULL, increment, counter));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(all[i], NULL));
	CHECK(value(counter) == 40000 && errors(counter) == 80000);
	CHECK(!destroy(counter));
}

/* The NIC stays with the parent, and so do its counters. */
static void forked(struct ends *ends)
{
	struct counter *counter = make(ends, REQUESTS);
	uint64_t found;
	int status;
	pid_t child = fork();

	if (!child) {
		CHECK(refuses(ends->context, &(struct init){ 0 }) == ENODEV);
		CHECK(read_it(counter, &found) == ENODEV && inc(counter, 1) == ENODEV);
		CHECK(destroy(counter) == ENODEV);
		exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	CHECK(value(counter) == 0 && !destroy(counter));
}

int main(void)
{
	struct ends *ends = make_ends();
	struct ibv_qp *fresh = make_qp(ends);

	look_up();
	capabilities(ends);
	arguments(ends, fresh);
	CHECK(!ibv_destroy_qp(fresh));
	numbers(ends);
	in_use(ends);
	traffic(ends);
	threads(ends);
	forked(ends);
	too_many(ends);
	destroy_ends(ends);
	return 0;
}
