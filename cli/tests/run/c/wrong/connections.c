/* Connections by address and port that are not made. */

#include "ends.h"
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

/* Each mistake has a port of its own. */
enum { NOBODY = 7001, REFUSES, DESTROYS, TWICE, OF_UDP, TAKEN,
       BROKEN, REFUSES_UD };

static struct rdma_event_channel *channel;

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	CHECK(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
	return address;
}

static struct rdma_cm_id *new_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	if (!channel)
		channel = rdma_create_event_channel();
	CHECK(channel && !rdma_create_id(channel, &id, NULL, space));
	return id;
}

/* Waits for the next event, which must be this one. Returns its ID and, if wanted, its status. */
static struct rdma_cm_id *next(struct end *end, enum rdma_cm_event_type type, int *status)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		fprintf(stderr, "mistakes: %s: %s (%d), not %s\n", end->name,
			rdma_event_str(event->event), event->status, rdma_event_str(type));
	CHECK(event->event == type);
	id = event->id;
	if (status)
		*status = event->status;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void note_local_port(struct end *end, struct rdma_cm_id *id)
{
	note(end, "port=%d", ntohs(rdma_get_src_port(id)));
}

static void make_cm_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .qp_type = id->qp_type,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	CHECK(!rdma_create_qp(id, NULL, &init));
}

/* An ID whose route is resolved, with a QP. */
static struct rdma_cm_id *resolve(struct end *end, enum rdma_port_space space, const char *ip, int port)
{
	struct rdma_cm_id *id = new_id(space);
	struct sockaddr_in to = address(ip, port);

	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	next(end, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	CHECK(!rdma_resolve_route(id, 1000));
	next(end, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	make_cm_qp(id);
	note_local_port(end, id);
	return id;
}

static void ask(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .retry_count = 7, .rnr_retry_count = 7 };

	CHECK(!rdma_connect(id, &param));
}

/* Requests a connection, and gets this event instead. */
static void fail_to_connect(struct end *end, const char *ip, int port, enum rdma_cm_event_type event)
{
	ask(resolve(end, RDMA_PS_TCP, ip, port));
	next(end, event, NULL);
}

static struct rdma_cm_id *listen_at(struct end *end, enum rdma_port_space space, int port)
{
	struct rdma_cm_id *id = new_id(space);
	struct sockaddr_in at = address("127.0.0.1", port);

	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at));
	CHECK(!rdma_listen(id, 1));
	meet(end);
	return id;
}

static void no_listener(struct end *end)
{
	fail_to_connect(end, "127.0.0.1", NOBODY, RDMA_CM_EVENT_REJECTED);
}

static void silent_host(struct end *end)
{
	fail_to_connect(end, "10.5.0.7", NOBODY, RDMA_CM_EVENT_UNREACHABLE);
}

static void refused(struct end *end)
{
	meet(end);
	fail_to_connect(end, "127.0.0.1", REFUSES, RDMA_CM_EVENT_REJECTED);
	meet(end);
}

static void serve_refusal(struct end *end)
{
	struct rdma_cm_id *id;

	listen_at(end, RDMA_PS_TCP, REFUSES);
	id = next(end, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	CHECK(!rdma_reject(id, "full", 5));
	meet(end);
}

static void dropped(struct end *end)
{
	meet(end);
	fail_to_connect(end, "127.0.0.1", DESTROYS, RDMA_CM_EVENT_REJECTED);
	meet(end);
}

static void serve_destruction(struct end *end)
{
	struct rdma_cm_id *id;

	listen_at(end, RDMA_PS_TCP, DESTROYS);
	id = next(end, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	CHECK(!rdma_destroy_id(id));
	meet(end);
}

/* The listener is of another port space. */
static void other_space(struct end *end)
{
	meet(end);
	fail_to_connect(end, "127.0.0.1", OF_UDP, RDMA_CM_EVENT_REJECTED);
	meet(end);
}

static void serve_udp(struct end *end)
{
	listen_at(end, RDMA_PS_UDP, OF_UDP);
	meet(end);
}

/* A datagram service that nobody offers. */
static void no_service(struct end *end)
{
	ask(resolve(end, RDMA_PS_UDP, "127.0.0.1", NOBODY));
	next(end, RDMA_CM_EVENT_UNREACHABLE, NULL);
}

static void service_refused(struct end *end)
{
	meet(end);
	ask(resolve(end, RDMA_PS_UDP, "127.0.0.1", REFUSES_UD));
	next(end, RDMA_CM_EVENT_UNREACHABLE, NULL);
	meet(end);
}

static void serve_service_refusal(struct end *end)
{
	listen_at(end, RDMA_PS_UDP, REFUSES_UD);
	CHECK(!rdma_reject(next(end, RDMA_CM_EVENT_CONNECT_REQUEST, NULL), NULL, 0));
	meet(end);
}

/* The server accepts the same request twice. */
static void connected(struct end *end)
{
	meet(end);
	ask(resolve(end, RDMA_PS_TCP, "127.0.0.1", TWICE));
	next(end, RDMA_CM_EVENT_ESTABLISHED, NULL);
	meet(end);
}

static void accept_twice(struct end *end)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_id *id;

	listen_at(end, RDMA_PS_TCP, TWICE);
	id = next(end, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	make_cm_qp(id);
	CHECK(!rdma_accept(id, &param));
	CHECK(rdma_accept(id, &param));
	meet(end);
}

/* The client takes back what the server has accepted: its own QP is gone. */
static void no_qp_any_more(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct rdma_cm_id *id;

	meet(end);
	id = resolve(end, RDMA_PS_TCP, "127.0.0.1", BROKEN);
	ask(id);
	CHECK(!ibv_modify_qp(id->qp, &attr, IBV_QP_STATE));
	next(end, RDMA_CM_EVENT_CONNECT_ERROR, NULL);
	meet(end);
}

static void serve_broken(struct end *end)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_id *id;

	listen_at(end, RDMA_PS_TCP, BROKEN);
	id = next(end, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	make_cm_qp(id);
	CHECK(!rdma_accept(id, &param));
	note(end, "client_port=%d", ntohs(rdma_get_dst_port(id)));
	next(end, RDMA_CM_EVENT_REJECTED, NULL);
	meet(end);
}

/* Addresses. */
static void no_route(struct end *end)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in to = address("10.99.0.1", NOBODY);

	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	next(end, RDMA_CM_EVENT_ADDR_ERROR, NULL);
}

static void foreign_source(struct end *end)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in from = address("10.99.0.1", 0), to = address("127.0.0.1", NOBODY);

	CHECK(!rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1000));
	next(end, RDMA_CM_EVENT_ADDR_ERROR, NULL);
}

static void bind_foreign(struct end *end)
{
	struct sockaddr_in at = address("10.99.0.1", NOBODY);

	(void)end;
	CHECK(rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&at));
}

static void bind_taken(struct end *end)
{
	struct sockaddr_in at = address("10.5.0.1", TAKEN);

	meet(end);
	note(end, "holder=%d", end->peer.qpn);
	CHECK(rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&at) && errno == EADDRINUSE);
	meet(end);
}

static void serve_taken(struct end *end)
{
	struct sockaddr_in at = address("10.5.0.1", TAKEN);
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at));
	CHECK(!rdma_listen(id, 1));
	meet(end);
	meet(end);
}

static void bind_no_family(struct end *end)
{
	struct sockaddr_storage at = { .ss_family = 99 };

	(void)end;
	CHECK(rdma_bind_addr(new_id(RDMA_PS_TCP), (struct sockaddr *)&at));
}

/* Calls that come too early, too late, or with wrong numbers. */
static void connect_early(struct end *end)
{
	struct rdma_conn_param param = { .qp_num = 2 };
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct sockaddr_in to = address("127.0.0.1", NOBODY);

	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	next(end, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	CHECK(rdma_connect(id, &param));
}

static void route_early(struct end *end)
{
	(void)end;
	CHECK(rdma_resolve_route(new_id(RDMA_PS_TCP), 1000));
}

static void accept_nothing(struct end *end)
{
	struct rdma_conn_param param = { .qp_num = 2 };

	CHECK(rdma_accept(resolve(end, RDMA_PS_TCP, "127.0.0.1", NOBODY), &param));
}

static void accept_destroyed(struct end *end)
{
	struct rdma_conn_param param = { .qp_num = 2 };
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	note(end, "id=%p", (void *)id);
	CHECK(!rdma_destroy_id(id));
	CHECK(rdma_accept(id, &param));
}

static void listen_while_resolved(struct end *end)
{
	CHECK(rdma_listen(resolve(end, RDMA_PS_TCP, "127.0.0.1", NOBODY), 1));
}

static void qp_without_device(struct end *end)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };

	(void)end;
	CHECK(rdma_create_qp(new_id(RDMA_PS_TCP), NULL, &init));
}

static void disconnect_unconnected(struct end *end)
{
	CHECK(rdma_disconnect(resolve(end, RDMA_PS_TCP, "127.0.0.1", NOBODY)));
}

static void connect_with(struct end *end, struct rdma_conn_param param)
{
	CHECK(rdma_connect(resolve(end, RDMA_PS_TCP, "127.0.0.1", NOBODY), &param));
}

static void long_private_data(struct end *end)
{
	static const char BYTES[200];

	connect_with(end, (struct rdma_conn_param){ .private_data = BYTES,
						    .private_data_len = sizeof(BYTES) });
}

static void too_many_reads(struct end *end)
{
	connect_with(end, (struct rdma_conn_param){ .initiator_depth = 200 });
}

static void connect_without_qp(struct end *end)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_id *id = resolve(end, RDMA_PS_TCP, "127.0.0.1", NOBODY);

	rdma_destroy_qp(id);
	CHECK(rdma_connect(id, &param));
}

static void over_infiniband(struct end *end)
{
	struct rdma_cm_id *id;

	channel = rdma_create_event_channel();
	(void)end;
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB));
}

static void no_space(struct end *end)
{
	struct rdma_cm_id *id;

	channel = rdma_create_event_channel();
	(void)end;
	CHECK(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)6));
}

static void join_no_group(struct end *end)
{
	struct rdma_cm_id *id = resolve(end, RDMA_PS_UDP, "127.0.0.1", NOBODY);
	struct sockaddr_in group = address("127.0.0.1", 0);

	CHECK(rdma_join_multicast(id, (struct sockaddr *)&group, NULL));
}

const struct mistake CONNECTIONS[] = {
	/* First, as it takes half a minute. */
	{ "connection to a host that is not there", silent_host, 0 },
	{ "connection to a port where nobody listens", no_listener, 0 },
	{ "connection that the server refuses", refused, serve_refusal },
	{ "connection whose ID the server destroys", dropped, serve_destruction },
	{ "connection to a listener of another port space", other_space, serve_udp },
	{ "datagram service that nobody offers", no_service, 0 },
	{ "datagram service that refuses", service_refused, serve_service_refusal },
	{ "connection accepted twice", connected, accept_twice },
	{ "connection whose QP the client has reset", no_qp_any_more, serve_broken },
	{ "address without a route", no_route, 0 },
	{ "source address of no device", foreign_source, 0 },
	{ "listener at an address of no device", bind_foreign, 0 },
	{ "port in use", bind_taken, serve_taken },
	{ "address of no family", bind_no_family, 0 },
	{ "connection before the route is resolved", connect_early, 0 },
	{ "route before the address is resolved", route_early, 0 },
	{ "accepted without a request", accept_nothing, 0 },
	{ "destroyed ID accepted", accept_destroyed, 0 },
	{ "listening with an ID that has a peer", listen_while_resolved, 0 },
	{ "QP before the ID has a device", qp_without_device, 0 },
	{ "disconnected without a connection", disconnect_unconnected, 0 },
	{ "too much private data", long_private_data, 0 },
	{ "connection with initiator_depth 200", too_many_reads, 0 },
	{ "connection without a QP", connect_without_qp, 0 },
	{ "ID for IP over InfiniBand", over_infiniband, 0 },
	{ "ID of an unknown port space", no_space, 0 },
	{ "multicast group that is a host", join_no_group, 0 },
	{ 0 },
};
