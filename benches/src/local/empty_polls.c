// The time of a poll that finds nothing, in nanoseconds: the median of a million polls, read in groups of 100.
// Two open devices exchange messages first, so that lanes between them exist if they are on, and one of the
// CQs is polled then. The arguments are the device and the index of its GID.
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GROUPS = 10000, POLLS = 100, MESSAGES = 1000 };

struct end {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	union ibv_gid gid;
	char memory[64];
};

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void open_end(struct end *end, const char *name, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	check(list != NULL, "ibv_get_device_list");
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			end->context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	check(end->context != NULL, name);
	struct ibv_pd *pd = ibv_alloc_pd(end->context);
	check(pd != NULL, "ibv_alloc_pd");
	end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0);
	check(end->cq != NULL, "ibv_create_cq");
	end->mr = ibv_reg_mr(pd, end->memory, sizeof(end->memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(end->mr != NULL, "ibv_reg_mr");
	check(!ibv_query_gid(end->context, 1, gid_index, &end->gid), "ibv_query_gid");
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	end->qp = ibv_create_qp(pd, &init);
	check(end->qp != NULL, "ibv_create_qp");
}

static void connect_end(struct end *end, const struct end *peer, int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	check(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "to INIT");
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64 },
		},
	};
	check(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	      "to RTR");
	attr = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	check(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "to RTS");
}

static void write_to(struct end *from, struct end *to)
{
	struct ibv_sge sge = { (uintptr_t)from->memory, sizeof(from->memory), from->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)to->memory, to->mr->rkey },
	}, *bad;
	check(!ibv_post_send(from->qp, &wr, &bad), "ibv_post_send");
	struct ibv_wc wc;
	int found;
	while (!(found = ibv_poll_cq(from->cq, 1, &wc)))
		ibv_poll_cq(to->cq, 1, &wc);
	check(found == 1 && wc.status == IBV_WC_SUCCESS, "a WRITE");
}

static double now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
	static struct end ends[2];
	static double times[GROUPS];
	if (argc != 3) {
		fprintf(stderr, "usage: %s DEVICE GID-INDEX\n", argv[0]);
		return 2;
	}
	int gid_index = atoi(argv[2]);
	for (int i = 0; i < 2; i++)
		open_end(&ends[i], argv[1], gid_index);
	for (int i = 0; i < 2; i++)
		connect_end(&ends[i], &ends[!i], gid_index);
	for (int i = 0; i < MESSAGES; i++)
		write_to(&ends[i % 2], &ends[(i + 1) % 2]);
	struct ibv_wc wc;
	for (int group = 0; group < GROUPS; group++) {
		double start = now_ns();
		for (int i = 0; i < POLLS; i++)
			check(ibv_poll_cq(ends[0].cq, 1, &wc) == 0, "an empty CQ");
		times[group] = (now_ns() - start) / POLLS;
	}
	qsort(times, GROUPS, sizeof(times[0]), compare);
	printf("%f\n", times[GROUPS / 2]);
	return 0;
}
