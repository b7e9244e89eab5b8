// Makes the calls of 3FS's RDMA layer (src/common/net/ib), in its order and with its parameters,
// between two processes: it looks for a RoCE v2 GID, connects, sends messages with acknowledgements
// by immediate data, reads and writes in batches, checks that the peer is alive by an empty WRITE,
// and closes by an empty WRITE with immediate data. Each process compares what it receives.
//
//   three_fs DEVICE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// The defaults of 3FS's configuration.
enum {
	MAX_SGE = 16, MAX_RDMA = 128, MAX_READS = 16, RNR_TIMER = 1, TIMEOUT = 14, RETRIES = 7, RNR_RETRIES = 0,
	BUFFER = 16 << 10, SENDS = 32, ACK_EVERY = 8, SIGNAL_EVERY = 8,
	ACKS = (SENDS + ACK_EVERY - 1) / ACK_EVERY + 4,
	SEND_DEPTH = SENDS + ACKS + MAX_RDMA + 2,
	RECEIVES = SENDS + ACKS + 1,
};
// A batch of requests with several buffers each.
enum { BATCH = 32, PIECES = 4, PIECE = 64 << 10, BYTES = BATCH * PIECES * PIECE };
// What immediate data say, in their upper byte.
enum { ACK = 0, CLOSE = 1 };
// What requests are, in wr_id. Receives have the numbers of their buffers.
enum { PROBE = 1000, SEND, ACKNOWLEDGE, RDMA, CHECK_ALIVE, CLOSING };

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s, line %d: %s: %s\n", role, __LINE__, #condition, strerror(errno)); \
			exit(1);                                               \
		}                                                              \
	} while (0)

static const char *role;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *messages, *memory;
static struct ibv_port_attr port;
static union ibv_gid gid;
static int gid_index = -1;
static unsigned events;

struct endpoint {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t address;
	enum ibv_mtu mtu;
};

static unsigned char byte_of(unsigned seed, size_t at) { return (unsigned char)(seed * 31 + at * 7 + (at >> 12)); }

static void fill(unsigned char *to, size_t size, unsigned seed)
{
	for (size_t at = 0; at < size; at++)
		to[at] = byte_of(seed, at);
}

static void compare(const unsigned char *with, size_t size, unsigned seed)
{
	for (size_t at = 0; at < size; at++)
		CHECK(with[at] == byte_of(seed, at));
}

static void open_device(const char *name)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count), *device = NULL;
	CHECK(devices && count > 0);
	for (int at = 0; at < count; at++)
		if (!strcmp(ibv_get_device_name(devices[at]), name))
			device = devices[at];
	CHECK(device);
	CHECK(context = ibv_open_device(device));
	CHECK(pd = ibv_alloc_pd(context));
	struct ibv_device_attr attributes;
	CHECK(!ibv_query_device(context, &attributes) && attributes.phys_port_cnt == 1);
	CHECK(!fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK));
	CHECK(!ibv_query_port(context, 1, &port));
	CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);

	// The first GID of RoCE v2 that is not link-local. Its type is in sysfs.
	for (int index = 0; index < 32 && gid_index < 0; index++) {
		static const union ibv_gid none;
		CHECK(!ibv_query_gid(context, 1, index, &gid));
		if (!memcmp(&gid, &none, sizeof gid) || (gid.raw[0] == 0xfe && gid.raw[1] >> 6 == 2))
			continue;
		char path[512], type[16] = "";
		snprintf(path, sizeof path, "%s/ports/1/gid_attrs/types/%d", device->ibdev_path, index);
		int file = open(path, O_RDONLY);
		CHECK(file >= 0 && read(file, type, sizeof type - 1) > 0);
		close(file);
		if (!strncmp(type, "RoCE v2", 7))
			gid_index = index;
	}
	CHECK(gid_index >= 0);
	ibv_free_device_list(devices);
}

static void create_qp(void)
{
	CHECK(channel = ibv_create_comp_channel(context));
	CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	CHECK(cq = ibv_create_cq(context, SEND_DEPTH + RECEIVES, NULL, channel, 0));
	CHECK(!ibv_req_notify_cq(cq, 0));
	struct ibv_qp_init_attr create = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SEND_DEPTH, .max_recv_wr = RECEIVES, .max_send_sge = MAX_SGE, .max_recv_sge = 1 },
	};
	CHECK(qp = ibv_create_qp(pd, &create));
	size_t size = (size_t)BUFFER * (SENDS + RECEIVES);
	CHECK(messages = ibv_reg_mr(pd, aligned_alloc(4096, size), size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
	CHECK(memory = ibv_reg_mr(pd, aligned_alloc(4096, BYTES), BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING));
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static unsigned char *send_buffer(int at) { return (unsigned char *)messages->addr + (size_t)BUFFER * at; }
static unsigned char *receive_buffer(int at) { return send_buffer(SENDS + at); }

static void post_receive(int at)
{
	struct ibv_sge part = { .addr = (uintptr_t)receive_buffer(at), .length = BUFFER, .lkey = messages->lkey };
	struct ibv_recv_wr request = { .wr_id = at, .sg_list = &part, .num_sge = 1 }, *bad;
	CHECK(!ibv_post_recv(qp, &request, &bad));
}

static void connect_qp(const struct endpoint *peer)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer->mtu < port.active_mtu ? peer->mtu : port.active_mtu,
		.dest_qp_num = peer->qpn, .max_dest_rd_atomic = MAX_READS, .min_rnr_timer = RNR_TIMER,
		.ah_attr = { .is_global = 1, .port_num = 1,
			.grh = { .dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 255 } },
	};
	CHECK(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
		| IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	for (int at = 0; at < RECEIVES; at++)
		post_receive(at);
	struct ibv_qp_attr ready = {
		.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = RETRIES, .rnr_retry = RNR_RETRIES,
		.max_rd_atomic = MAX_READS,
	};
	CHECK(!ibv_modify_qp(qp, &ready, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
		| IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

// A request without data. The QP was created without room for inline data, and has an inline request
// for nothing.
static void post_empty(uint64_t id, enum ibv_wr_opcode opcode, unsigned flags, uint32_t immediate)
{
	struct ibv_send_wr request = {
		.wr_id = id, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags, .imm_data = htonl(immediate),
	}, *bad;
	CHECK(!ibv_post_send(qp, &request, &bad));
}

static void post_message(int at)
{
	struct ibv_sge part = { .addr = (uintptr_t)send_buffer(at), .length = BUFFER, .lkey = messages->lkey };
	struct ibv_send_wr request = {
		.wr_id = SEND, .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = at % SIGNAL_EVERY == SIGNAL_EVERY - 1 ? IBV_SEND_SIGNALED : 0,
	}, *bad;
	CHECK(!ibv_post_send(qp, &request, &bad));
}

static void post_batch(enum ibv_wr_opcode opcode, const struct endpoint *peer)
{
	struct ibv_send_wr requests[BATCH] = { 0 }, *bad;
	struct ibv_sge parts[BATCH][PIECES];
	for (size_t at = 0; at < BATCH; at++) {
		for (size_t piece = 0; piece < PIECES; piece++)
			parts[at][piece] = (struct ibv_sge){
				.addr = (uintptr_t)memory->addr + (at * PIECES + piece) * PIECE, .length = PIECE, .lkey = memory->lkey,
			};
		requests[at] = (struct ibv_send_wr){
			.wr_id = RDMA, .sg_list = parts[at], .num_sge = PIECES, .opcode = opcode,
			.next = at + 1 < BATCH ? &requests[at + 1] : NULL,
			.send_flags = at + 1 < BATCH ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = peer->address + at * PIECES * PIECE, .rkey = peer->rkey },
		};
	}
	CHECK(!ibv_post_send(qp, requests, &bad));
}

// The next completion. It waits for the channel's event, as 3FS's event loop does.
static struct ibv_wc next(void)
{
	struct ibv_wc completion;
	int polled;
	while (!(polled = ibv_poll_cq(cq, 1, &completion))) {
		struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
		CHECK(poll(&wait, 1, 20000) == 1);
		struct ibv_cq *which;
		void *cookie;
		CHECK(!ibv_get_cq_event(channel, &which, &cookie) && which == cq);
		events++;
		CHECK(!ibv_req_notify_cq(cq, 0));
	}
	CHECK(polled == 1);
	return completion;
}

static void expect(uint64_t id)
{
	struct ibv_wc completion = next();
	CHECK(completion.status == IBV_WC_SUCCESS && completion.wr_id == id);
}

static void be_client(const struct endpoint *peer)
{
	post_empty(PROBE, IBV_WR_SEND_WITH_IMM, 0, ACK << 24);
	expect(PROBE);
	for (int at = 0; at < SENDS; at++) {
		fill(send_buffer(at), BUFFER, at);
		post_message(at);
	}
	int acknowledged = 0, completed = 0;
	while (acknowledged < SENDS || completed < SENDS / SIGNAL_EVERY) {
		struct ibv_wc completion = next();
		CHECK(completion.status == IBV_WC_SUCCESS);
		if (completion.wr_id == SEND) {
			completed++;
		} else {
			CHECK(completion.opcode == IBV_WC_RECV && completion.wc_flags & IBV_WC_WITH_IMM && !completion.byte_len);
			acknowledged += ntohl(completion.imm_data) & 0xffffff;
			post_receive(completion.wr_id);
		}
	}
	post_batch(IBV_WR_RDMA_READ, peer);
	expect(RDMA);
	compare(memory->addr, BYTES, 100);
	fill(memory->addr, BYTES, 200);
	post_batch(IBV_WR_RDMA_WRITE, peer);
	expect(RDMA);
	post_empty(CHECK_ALIVE, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, 0);
	expect(CHECK_ALIVE);
	post_empty(CLOSING, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_INLINE, CLOSE << 24);
	expect(CLOSING);
}

static void be_server(void)
{
	for (int received = 0;;) {
		struct ibv_wc completion = next();
		CHECK(completion.status == IBV_WC_SUCCESS);
		if (completion.wr_id == ACKNOWLEDGE)
			continue;
		CHECK(completion.wr_id < RECEIVES);
		if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
			CHECK(ntohl(completion.imm_data) == CLOSE << 24 && !completion.byte_len && received == SENDS);
			post_receive(completion.wr_id);
			compare(memory->addr, BYTES, 200);
			return;
		}
		CHECK(completion.opcode == IBV_WC_RECV);
		if (!(completion.wc_flags & IBV_WC_WITH_IMM)) {
			CHECK(completion.byte_len == BUFFER);
			compare(receive_buffer(completion.wr_id), BUFFER, received);
			if (++received % ACK_EVERY == 0)
				post_empty(ACKNOWLEDGE, IBV_WR_SEND_WITH_IMM, 0, ACK << 24 | ACK_EVERY);
		}
		post_receive(completion.wr_id);
	}
}

static void close_qp(void)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr create;
	CHECK(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE));
	CHECK(!ibv_query_qp(qp, &attributes, IBV_QP_STATE, &create) && attributes.qp_state == IBV_QPS_ERR);
	for (int flushed = 0; flushed < RECEIVES; flushed++)
		CHECK(next().status == IBV_WC_WR_FLUSH_ERR);
	ibv_ack_cq_events(cq, events);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dereg_mr(messages) && !ibv_dereg_mr(memory));
	struct ibv_async_event none;
	CHECK(ibv_get_async_event(context, &none) && errno == EAGAIN);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

static int run(const char *device, int other)
{
	open_device(device);
	create_qp();
	int is_server = !strcmp(role, "server");
	fill(memory->addr, BYTES, is_server ? 100 : 0);
	struct endpoint own = {
		.gid = gid, .qpn = qp->qp_num, .rkey = memory->rkey, .address = (uintptr_t)memory->addr, .mtu = port.active_mtu,
	}, peer;
	CHECK(write(other, &own, sizeof own) == sizeof own && read(other, &peer, sizeof peer) == sizeof peer);
	connect_qp(&peer);
	// The client sends only when the server can receive: it does not retry when the server is not ready.
	char ready = 1;
	CHECK(write(other, &ready, 1) == 1 && read(other, &ready, 1) == 1);
	if (is_server)
		be_server();
	else
		be_client(&peer);
	CHECK(write(other, &ready, 1) == 1 && read(other, &ready, 1) == 1);
	close_qp();
	printf("%s: all bytes are right\n", role);
	return 0;
}

int main(int argc, char **argv)
{
	role = "server";
	int pair[2], status;
	CHECK(argc == 2 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK(!ibv_fork_init());
	pid_t server = fork();
	CHECK(server >= 0);
	close(pair[server == 0]);
	if (server == 0)
		return run(argv[1], pair[0]);
	role = "client";
	run(argv[1], pair[1]);
	CHECK(waitpid(server, &status, 0) == server);
	return status != 0;
}
