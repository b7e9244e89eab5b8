/*
 * The textbook program: two processes connect a reliable queue pair each and move data with
 * SEND, RDMA WRITE and RDMA READ. Nothing in it knows which RDMA device it runs on.
 *
 *   textbook DEVICE GID_INDEX            the server; prints "listening" when it is ready
 *   textbook DEVICE GID_INDEX HOST       the client
 *
 * Build it against the system's libibverbs:
 *
 *   cc -Wall -o textbook textbook.c -libverbs
 *
 * The two exchange their addresses over TCP, as one line of hexadecimal numbers. Then
 *
 *   client                                          server
 *   SEND "hello"                        ────────►   receives it
 *   RDMA WRITE of a pattern             ────────►   (its program does nothing)
 *   RDMA READ of the same memory        ◄────────   (its program does nothing)
 *   compares, SEND "done"               ────────►   looks at the pattern in its memory
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { BYTES = 64 * 1024, HALF = BYTES / 2, PORT = 18516, DEPTH = 8 };

/* What one end must know of the other. */
struct address {
	uint32_t qpn, psn, rkey;
	uint64_t memory;
	union ibv_gid gid;
};

/* One end: all that is opened, and must be closed in the opposite order. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *memory;
	uint8_t gid_index;
	struct address mine, theirs;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fail(const char *what)
{
	fprintf(stderr, "textbook: %s\n", what);
	exit(1);
}

static void open_device(struct end *end, const char *name)
{
	int count, i;
	struct ibv_device **devices = ibv_get_device_list(&count);

	if (!devices)
		die("ibv_get_device_list");
	for (i = 0; i < count && !end->context; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			end->context = ibv_open_device(devices[i]);
	ibv_free_device_list(devices);
	if (!end->context)
		fail("there is no such device, or it does not open: see ibv_devices");
}

static void make_queue_pair(struct end *end)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_init_attr init = {
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	end->memory = calloc(1, BYTES);
	end->pd = ibv_alloc_pd(end->context);
	if (!end->memory || !end->pd)
		die("ibv_alloc_pd");
	end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, access);
	if (!end->mr)
		die("ibv_reg_mr");
	end->cq = ibv_create_cq(end->context, 2 * DEPTH, NULL, NULL, 0);
	if (!end->cq)
		die("ibv_create_cq");
	init.send_cq = init.recv_cq = end->cq;
	end->qp = ibv_create_qp(end->pd, &init);
	if (!end->qp)
		die("ibv_create_qp");
	if (ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		die("ibv_modify_qp to INIT");

	end->mine.qpn = end->qp->qp_num;
	end->mine.psn = (uint32_t)getpid() & 0xffffff;
	end->mine.rkey = end->mr->rkey;
	end->mine.memory = (uintptr_t)end->memory;
	if (ibv_query_gid(end->context, 1, end->gid_index, &end->mine.gid))
		die("ibv_query_gid");
}

/* One line each way: QPN, PSN, rkey, address, GID. */
static void exchange(struct end *end, int socket)
{
	struct address *mine = &end->mine, *theirs = &end->theirs;
	const uint8_t *raw = mine->gid.raw;
	char line[128], gid[33];
	size_t length = 0;
	int i;

	for (i = 0; i < 16; i++)
		sprintf(gid + 2 * i, "%02x", raw[i]);
	if (dprintf(socket, "%06x %06x %08x %016" PRIx64 " %s\n", mine->qpn, mine->psn, mine->rkey,
		    mine->memory, gid) < 0)
		die("sending the address");
	do {
		if (length + 1 >= sizeof line || read(socket, line + length, 1) != 1)
			fail("the other end sent no address");
	} while (line[length++] != '\n');
	line[length] = 0;
	if (sscanf(line, "%x %x %x %" SCNx64 " %32s", &theirs->qpn, &theirs->psn, &theirs->rkey,
		   &theirs->memory, gid) != 5)
		fail("the other end sent something else than an address");
	for (i = 0; i < 16; i++) {
		unsigned int byte;

		if (sscanf(gid + 2 * i, "%2x", &byte) != 1)
			fail("the other end sent half a GID");
		theirs->gid.raw[i] = (uint8_t)byte;
	}
}

static void connect_queue_pair(struct end *end)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr rtr, rts;

	if (ibv_query_port(end->context, 1, &port))
		die("ibv_query_port");
	memset(&rtr, 0, sizeof rtr);
	rtr.qp_state = IBV_QPS_RTR;
	rtr.path_mtu = port.active_mtu;
	rtr.dest_qp_num = end->theirs.qpn;
	rtr.rq_psn = end->theirs.psn;
	rtr.max_dest_rd_atomic = 1;
	rtr.min_rnr_timer = 12;
	rtr.ah_attr.is_global = 1;
	rtr.ah_attr.port_num = 1;
	rtr.ah_attr.grh.dgid = end->theirs.gid;
	rtr.ah_attr.grh.sgid_index = end->gid_index;
	rtr.ah_attr.grh.hop_limit = 64;
	if (ibv_modify_qp(end->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MIN_RNR_TIMER))
		die("ibv_modify_qp to RTR");
	memset(&rts, 0, sizeof rts);
	rts.qp_state = IBV_QPS_RTS;
	rts.timeout = 14;
	rts.retry_cnt = 7;
	rts.rnr_retry = 7;
	rts.sq_psn = end->mine.psn;
	rts.max_rd_atomic = 1;
	if (ibv_modify_qp(end->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("ibv_modify_qp to RTS");
}

static void receive(struct end *end)
{
	struct ibv_sge sge = { (uintptr_t)end->memory, HALF, end->mr->lkey };
	struct ibv_recv_wr request = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(end->qp, &request, &bad))
		die("ibv_post_recv");
}

/* Waits for one completion. */
static struct ibv_wc complete(struct end *end)
{
	struct ibv_wc wc;
	int found;

	do
		found = ibv_poll_cq(end->cq, 1, &wc);
	while (found == 0);
	if (found < 0)
		die("ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS)
		fail(ibv_wc_status_str(wc.status));
	return wc;
}

/* Does one operation on `length` bytes at `from` of our memory, and waits for its end. The
 * second half of the other end's memory is what WRITE and READ are about. */
static void perform(struct end *end, enum ibv_wr_opcode opcode, const void *from, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)from, length, end->mr->lkey };
	struct ibv_send_wr request = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { end->theirs.memory + HALF, end->theirs.rkey },
	}, *bad;

	if (ibv_post_send(end->qp, &request, &bad))
		die("ibv_post_send");
	if (complete(end).wr_id != 2)
		fail("a completion of something else");
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static void check_pattern(const uint8_t *at)
{
	size_t i;

	for (i = 0; i < HALF; i++)
		if (at[i] != pattern(i))
			fail("the data differ");
}

static void expect(struct end *end, const char *message)
{
	struct ibv_wc wc = complete(end);

	if (wc.opcode != IBV_WC_RECV || wc.byte_len != strlen(message) ||
	    memcmp(end->memory, message, wc.byte_len))
		fail("another message was expected");
}

static void serve(struct end *end, int socket)
{
	receive(end);
	exchange(end, socket);
	connect_queue_pair(end);
	/* The client may send from here on. */
	if (write(socket, "\n", 1) != 1)
		die("telling the client");
	expect(end, "hello");
	receive(end);
	/* Tells the client that there is a receive again. */
	if (write(socket, "\n", 1) != 1)
		die("telling the client");
	expect(end, "done");
	check_pattern(end->memory + HALF);
}

static void await(int socket)
{
	char byte;

	if (read(socket, &byte, 1) != 1)
		fail("the server has gone");
}

static void ask(struct end *end, int socket)
{
	uint8_t *first = end->memory, *second = end->memory + HALF;
	size_t i;

	exchange(end, socket);
	connect_queue_pair(end);
	await(socket);
	memcpy(first, "hello", 5);
	perform(end, IBV_WR_SEND, first, 5);
	for (i = 0; i < HALF; i++)
		first[i] = pattern(i);
	perform(end, IBV_WR_RDMA_WRITE, first, HALF);
	perform(end, IBV_WR_RDMA_READ, second, HALF);
	check_pattern(second);
	await(socket);
	memcpy(first, "done", 4);
	perform(end, IBV_WR_SEND, first, 4);
}

static int listen_for_client(void)
{
	int on = 1, off = 0, server = socket(AF_INET6, SOCK_STREAM, 0), client;
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };

	if (server < 0 || setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    setsockopt(server, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) ||
	    bind(server, (struct sockaddr *)&any, sizeof any) || listen(server, 1))
		die("listening");
	puts("listening");
	fflush(stdout);
	client = accept(server, NULL, NULL);
	if (client < 0)
		die("accept");
	close(server);
	return client;
}

static int connect_to_server(const char *host)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *at;
	char port[8];
	int server = -1;

	snprintf(port, sizeof port, "%d", PORT);
	if (getaddrinfo(host, port, &hints, &found))
		fail("there is no such host");
	for (at = found; at && server < 0; at = at->ai_next) {
		server = socket(at->ai_family, at->ai_socktype, 0);
		if (server >= 0 && connect(server, at->ai_addr, at->ai_addrlen)) {
			close(server);
			server = -1;
		}
	}
	freeaddrinfo(found);
	if (server < 0)
		die("connecting");
	return server;
}

static void close_all(struct end *end)
{
	if (ibv_destroy_qp(end->qp) || ibv_destroy_cq(end->cq) || ibv_dereg_mr(end->mr) ||
	    ibv_dealloc_pd(end->pd) || ibv_close_device(end->context))
		fail("something does not close");
	free(end->memory);
}

int main(int argc, char **argv)
{
	struct end end = { 0 };
	int socket;

	if (argc < 3 || argc > 4)
		fail("usage: textbook DEVICE GID_INDEX [HOST]");
	end.gid_index = (uint8_t)atoi(argv[2]);
	open_device(&end, argv[1]);
	make_queue_pair(&end);
	if (argc == 3) {
		socket = listen_for_client();
		serve(&end, socket);
	} else {
		socket = connect_to_server(argv[3]);
		ask(&end, socket);
	}
	close(socket);
	close_all(&end);
	puts("ok");
	return 0;
}
