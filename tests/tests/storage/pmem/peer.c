/* One end of a connection that FLUSHes, for tests: run on the library of a newer rdma-core in the lab's
 * guest, over Soft-RoCE. Its arguments are the device, the index of the GID, and a file or device to
 * map, with its length, or only a length for ordinary memory.
 *
 * It prints "endpoint QPN GID ADDR RKEY", and then answers each line of its input by one line:
 *
 *   connect QPN PSN GID ADDR RKEY   its own PSNs begin with 0
 *   write OFFSET TEXT               the name of the completion's status, as for the next two
 *   flush OFFSET LENGTH TYPE LEVEL
 *   atomic_write OFFSET TEXT        eight characters
 *   show OFFSET LENGTH              its own memory, with "." for zeros
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHECK(promise)                                                       \
	do {                                                                 \
		if (!(promise)) {                                            \
			printf("failed: line %d: %s: %m\n", __LINE__, #promise); \
			exit(1);                                             \
		}                                                            \
	} while (0)

/* What headers before rdma-core 56 lack. */
enum { FLUSH_RIGHTS = 0x300, WITH_ATOMIC_WRITE = 1 << 12, WITH_FLUSH = 1 << 11 };

typedef void (*flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		      uint8_t level);

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp_ex *qp;
static struct ibv_mr *region, *local;
static char *memory, text[4096];
static int gid_index;
static uint64_t peer_addr;
static uint32_t peer_rkey;

/* The last member of `ibv_qp_ex` since rdma-core 56. */
static flush wr_flush(void)
{
	return *(flush *)((char *)&qp->wr_atomic_write + sizeof(qp->wr_atomic_write));
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;

	CHECK(list);
	while (*device && strcmp(ibv_get_device_name(*device), name))
		device++;
	CHECK(*device && (context = ibv_open_device(*device)));
	CHECK((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
}

static void register_memory(const char *path, size_t length)
{
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;

	if (path) {
		fd = open(path, O_RDWR);
		CHECK(fd >= 0);
		flags = MAP_SHARED;
		rights |= FLUSH_RIGHTS;
	}
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 0, length);
	CHECK((region = ibv_reg_mr(pd, memory, length, rights)));
	CHECK((local = ibv_reg_mr(pd, text, sizeof(text), IBV_ACCESS_LOCAL_WRITE)));
}

static void create_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
		.sq_sig_all = 1, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | WITH_ATOMIC_WRITE | WITH_FLUSH,
	};
	struct ibv_qp *plain = ibv_create_qp_ex(context, &attr);

	CHECK(plain);
	qp = ibv_qp_to_qp_ex(plain);
	CHECK(qp);
}

static void connect_to(uint32_t qpn, uint32_t psn, const char *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | FLUSH_RIGHTS,
		.dest_qp_num = qpn, .rq_psn = psn, .sq_psn = 0, .max_rd_atomic = 4,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12, .timeout = 18, .retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } },
	};

	attr.ah_attr.grh.sgid_index = gid_index;
	CHECK(inet_pton(AF_INET6, gid, &attr.ah_attr.grh.dgid) == 1);
	CHECK(!ibv_modify_qp(&qp->qp_base, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(&qp->qp_base, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(&qp->qp_base, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void finish(void)
{
	struct ibv_wc wc;
	int found;

	CHECK(!ibv_wr_complete(qp));
	do
		found = ibv_poll_cq(cq, 1, &wc);
	while (!found);
	CHECK(found == 1);
	printf("%s\n", ibv_wc_status_str(wc.status));
}

static void execute(const char *line)
{
	static char word[sizeof(text)], gid[64];
	size_t offset, length;
	unsigned int qpn, psn, type, level;

	if (sscanf(line, "connect %u %u %63s %" SCNu64 " %" SCNu32, &qpn, &psn, gid, &peer_addr,
		   &peer_rkey) == 5) {
		connect_to(qpn, psn, gid);
		printf("connected\n");
	} else if (sscanf(line, "write %zu %4095s", &offset, text) == 2) {
		ibv_wr_start(qp);
		ibv_wr_rdma_write(qp, peer_rkey, peer_addr + offset);
		ibv_wr_set_sge(qp, local->lkey, (uintptr_t)text, strlen(text));
		finish();
	} else if (sscanf(line, "flush %zu %zu %u %u", &offset, &length, &type, &level) == 4) {
		ibv_wr_start(qp);
		wr_flush()(qp, peer_rkey, peer_addr + offset, length, type, level);
		finish();
	} else if (sscanf(line, "atomic_write %zu %8s", &offset, word) == 2) {
		ibv_wr_start(qp);
		ibv_wr_atomic_write(qp, peer_rkey, peer_addr + offset, word);
		finish();
	} else {
		CHECK(sscanf(line, "show %zu %zu", &offset, &length) == 2);
		for (size_t i = 0; i < length; i++)
			putchar(memory[offset + i] ? memory[offset + i] : '.');
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	char gid_text[INET6_ADDRSTRLEN], line[8192];
	union ibv_gid gid;

	setlinebuf(stdout);
	CHECK(argc == 4 || argc == 5);
	open_device(argv[1]);
	gid_index = atoi(argv[2]);
	register_memory(argc == 5 ? argv[3] : NULL, strtoul(argv[argc - 1], NULL, 0));
	create_qp();
	CHECK(!ibv_query_gid(context, 1, gid_index, &gid));
	CHECK(inet_ntop(AF_INET6, &gid, gid_text, sizeof(gid_text)));
	printf("endpoint %u %s %" PRIu64 " %u\n", qp->qp_base.qp_num, gid_text,
	       (uint64_t)(uintptr_t)memory, region->rkey);
	while (fgets(line, sizeof(line), stdin))
		execute(line);
	return 0;
}
