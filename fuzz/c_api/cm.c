/* The connection manager: IDs of both ends of connections, in any state, and what programs do
 * wrong with them. IDs whose calls would wait get a descriptor that does not wait. */

#include "fuzz.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

int c_cm_init(void);
void c_cm_run(const uint8_t *bytes, size_t len);

enum { IDS = 12, CHANNELS = 3, EVENTS = 4, WAIT_MS = 20 };

/* IDs and channels that there are, events that were not acknowledged, an ID that there was, and
 * one whose peer has asked for a connection. */
static void *ids[IDS], *channels[CHANNELS];
static struct rdma_cm_event *events[EVENTS];
static void *destroyed;
static struct rdma_cm_id *requested;
/* Whether a message is on its way, whose event may be worth waiting for. */
static int is_sent;

static int is_known(const struct rdma_cm_id *id)
{
	for (size_t i = 0; i < IDS; i++)
		if (ids[i] == id)
			return 1;
	return 0;
}

/* An ID, mostly one that there is. */
static struct rdma_cm_id *any_id(void)
{
	switch (byte() % 16) {
	case 0:
		return NULL;
	case 1:
		return own_memory(sizeof(struct rdma_cm_id));
	case 2:
		return destroyed;
	default:
		return live(ids, IDS);
	}
}

static struct rdma_event_channel *any_channel(void)
{
	return rarely(16) ? own_memory(sizeof(struct rdma_event_channel)) :
			    pick(channels, CHANNELS);
}

/* Calls that wait for an event end with an error instead. */
static void never_wait(struct rdma_cm_id *id)
{
	for (size_t i = 0; i < CHANNELS; i++)
		if (channels[i] && id->channel == channels[i])
			return;
	do_not_wait(id->channel->fd);
}

static void keep(void **slot, struct rdma_cm_id *id)
{
	CHECK(id && !is_known(id));
	never_wait(id);
	*slot = id;
}

/* Memory of the library that a program may read. */
static void read_all(const void *memory, size_t len)
{
	const volatile uint8_t *bytes = memory;

	for (size_t i = 0; i < len; i++)
		(void)bytes[i];
}

/* A port: that of an ID, or any. */
static uint16_t any_port(void)
{
	static const uint16_t PORTS[] = { 0, 1, 7471, 4791, 65535 };

	if (byte() % 4)
		return rdma_get_src_port(any_id());
	return htons(PORTS[byte() % COUNT(PORTS)]);
}

static struct sockaddr_storage storage;

/* An address of this host or another, of any family, whole or NULL. */
static struct sockaddr *any_sockaddr(void)
{
	static const char *const FOUR[] = { "127.0.0.1", "127.0.0.1", "0.0.0.0",  "127.9.9.9",
					    "224.0.0.9", "10.0.254.1", "255.255.255.255" };
	static const char *const SIX[] = { "::1", "::1", "::", "::ffff:127.0.0.1",
					   "ff02::9", "fe80::1", "2001:db8::1" };
	struct sockaddr_in *four = (struct sockaddr_in *)&storage;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&storage;
	uint8_t how = byte();

	memset(&storage, 0, sizeof(storage));
	switch (how % 16) {
	case 0:
		return NULL;
	case 1:
		storage.ss_family = two();
		break;
	case 2:
	case 3:
	case 4:
	case 5:
		six->sin6_family = AF_INET6;
		six->sin6_port = any_port();
		six->sin6_scope_id = rarely(8) ? (uint32_t)eight() : 0;
		CHECK(inet_pton(AF_INET6, SIX[byte() % COUNT(SIX)], &six->sin6_addr) == 1);
		break;
	default:
		four->sin_family = AF_INET;
		four->sin_port = any_port();
		CHECK(inet_pton(AF_INET, FOUR[byte() % COUNT(FOUR)], &four->sin_addr) == 1);
	}
	return (struct sockaddr *)&storage;
}

static enum rdma_port_space any_space(void)
{
	static const enum rdma_port_space SPACES[] = { RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP,
						       RDMA_PS_IB };

	return rarely(16) ? two() : SPACES[byte() % COUNT(SPACES)];
}

static enum ibv_qp_type any_type(void)
{
	static const enum ibv_qp_type TYPES[] = { IBV_QPT_RC,	    IBV_QPT_RC, IBV_QPT_UC,
						  IBV_QPT_UD,	    IBV_QPT_XRC_SEND,
						  IBV_QPT_XRC_RECV };

	return rarely(16) ? byte() : TYPES[byte() % COUNT(TYPES)];
}

static uint32_t any_depth(void)
{
	return rarely(8) ? four() : byte() % 16;
}

static struct ibv_qp_init_attr any_init(void)
{
	struct ibv_qp_init_attr init = {
		.cap = { any_depth(), any_depth(), byte() % 8, byte() % 8, any_depth() },
		.qp_type = any_type(),
		.sq_sig_all = byte() % 2,
	};

	return init;
}

static struct rdma_conn_param any_param(void)
{
	struct rdma_conn_param param = {
		.private_data_len = rarely(4) ? byte() : byte() % 57,
		.responder_resources = rarely(4) ? byte() : 1,
		.initiator_depth = rarely(4) ? byte() : 1,
		.flow_control = byte() % 2,
		.retry_count = byte(),
		.rnr_retry_count = byte(),
		.srq = byte() % 2,
		.qp_num = rarely(2) ? four() : 0x20000,
	};

	param.private_data = rarely(8) ? NULL : own_memory(param.private_data_len);
	return param;
}

static void make_channel(void)
{
	void **slot = room(channels, CHANNELS);
	struct rdma_event_channel *channel;

	if (!slot)
		return;
	channel = MADE(rdma_create_event_channel());
	CHECK(channel);
	do_not_wait(channel->fd);
	*slot = channel;
}

static void make_id(void)
{
	void **slot = room(ids, IDS);
	struct rdma_cm_id *id = NULL;
	struct rdma_event_channel *channel = any_channel();

	if (!MINUS_ONE(rdma_create_id(channel, slot ? &id : NULL, NULL, any_space())))
		keep(slot, id);
}

/* An endpoint at what the library resolves, with what a program may change in it. */
static void make_endpoint(void)
{
	static const char *const NODES[] = { "127.0.0.1", "::1", "0.0.0.0", "no address", "" };
	static const char *const SERVICES[] = { "0", "7471", "99999", "-1", "no service" };
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | byte() % 16,
		.ai_family = rarely(8) ? two() : AF_INET,
		.ai_qp_type = (int)any_type(),
		.ai_port_space = (int)any_space(),
	};
	const char *node = rarely(4) ? NULL : NODES[byte() % COUNT(NODES)];
	const char *service = rarely(4) ? NULL : SERVICES[byte() % COUNT(SERVICES)];
	struct ibv_qp_init_attr init = any_init();
	struct rdma_addrinfo *info = NULL;
	void **slot = room(ids, IDS);
	struct rdma_cm_id *id = NULL;
	void *connect = NULL;

	if (rarely(4)) {
		hints.ai_dst_addr = any_sockaddr();
		hints.ai_dst_len = byte() % 32;
	}
	errno = 0;
	if (rdma_getaddrinfo(node, service, rarely(4) ? NULL : &hints, &info))
		return;
	CHECK(info);
	if (rarely(4)) {
		info->ai_connect_len = byte();
		connect = info->ai_connect_len ? malloc(info->ai_connect_len) : NULL;
		if (connect)
			memset(connect, 1, info->ai_connect_len);
		info->ai_connect = connect;
	}
	if (rarely(8))
		info->ai_flags ^= RAI_PASSIVE;
	if (!MINUS_ONE(rdma_create_ep(slot ? &id : NULL, info, NULL, rarely(2) ? NULL : &init)))
		keep(slot, id);
	rdma_freeaddrinfo(info);
}

static void acknowledge_events(void)
{
	for (size_t i = 0; i < EVENTS; i++) {
		if (events[i])
			CHECK(!MINUS_ONE(rdma_ack_cm_event(events[i])));
		events[i] = NULL;
	}
}

/* Destroying an ID waits for events, and leaves its queues. */
static void destroy_id(struct rdma_cm_id *id)
{
	int known = id && is_known(id);

	acknowledge_events();
	if (byte() % 2) {
		rdma_destroy_ep(id);
	} else {
		rdma_destroy_qp(id);
		rdma_destroy_srq(id);
		CHECK((MINUS_ONE(rdma_destroy_id(id)) == 0) == known);
	}
	if (known) {
		forget(ids, IDS, id);
		destroyed = id;
	}
}

static void destroy_channel(void)
{
	struct rdma_event_channel *channel = any_channel();

	/* IDs may use it still: their events go nowhere from now on. */
	rdma_destroy_event_channel(channel);
	forget(channels, CHANNELS, channel);
}

static void make_or_destroy(void)
{
	switch (byte() % 8) {
	case 0:
		make_channel();
		break;
	case 1:
		make_endpoint();
		break;
	case 2:
		destroy_id(any_id());
		break;
	case 3:
		if (rarely(4))
			destroy_channel();
		break;
	default:
		make_id();
	}
}

static void check_event(const struct rdma_cm_event *event)
{
	CHECK(event->event <= RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(rdma_event_str(event->event));
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		CHECK(is_known(event->listen_id) && !is_known(event->id));
	else
		CHECK(is_known(event->id));
	if (event->id->ps == RDMA_PS_UDP)
		read_all(event->param.ud.private_data,
			 event->event == RDMA_CM_EVENT_MULTICAST_JOIN ?
				 0 :
				 event->param.ud.private_data_len);
	else
		read_all(event->param.conn.private_data, event->param.conn.private_data_len);
}

/* Waits a little for the event of a message. */
static void await_event(const struct rdma_event_channel *channel)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	if (is_sent && !poll(&ready, 1, WAIT_MS))
		is_sent = 0;
}

static void take_event(void)
{
	struct rdma_event_channel *channel = any_channel();
	void **slot = room((void **)events, EVENTS), **place = room(ids, IDS);
	struct rdma_cm_event *event = NULL;

	if (!slot || !place)
		acknowledge_events();
	if (channel && channel == live(channels, CHANNELS))
		await_event(channel);
	if (!slot || MINUS_ONE(rdma_get_cm_event(channel, rarely(16) ? NULL : &event)))
		return;
	check_event(event);
	*slot = event;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return;
	if (place) {
		keep(place, event->id);
		requested = event->id;
		return;
	}
	/* There is no room for it. */
	MINUS_ONE(rdma_reject(event->id, NULL, 0));
	{
		struct rdma_cm_id *id = event->id;

		acknowledge_events();
		CHECK(!MINUS_ONE(rdma_destroy_id(id)));
	}
}

static void resolve(void)
{
	struct rdma_cm_id *id = any_id();
	struct sockaddr_storage source;
	struct sockaddr *from = NULL;

	switch (byte() % 6) {
	case 0:
		MINUS_ONE(rdma_bind_addr(id, any_sockaddr()));
		break;
	case 1:
	case 2:
		if (rarely(3)) {
			from = any_sockaddr();
			source = storage;
			from = from ? (struct sockaddr *)&source : NULL;
		}
		MINUS_ONE(rdma_resolve_addr(id, from, any_sockaddr(), (int)two()));
		break;
	case 3:
	case 4:
		MINUS_ONE(rdma_resolve_route(id, (int)two()));
		break;
	default:
		MINUS_ONE(rdma_listen(id, rarely(4) ? (int)four() : byte() % 4));
	}
}

static void accept_or_reject(void)
{
	struct rdma_conn_param param = any_param();
	struct rdma_conn_param *given = rarely(4) ? NULL : &param;
	struct rdma_cm_id *id = any_id(), *new = NULL;
	void **slot = room(ids, IDS);

	switch (byte() % 8) {
	case 0:
	case 1:
	case 2:
		is_sent |= !MINUS_ONE(rdma_connect(id, given));
		break;
	case 3:
	case 4:
		is_sent |= !MINUS_ONE(rdma_accept(id, given));
		break;
	case 5:
		is_sent |= !MINUS_ONE(rdma_reject(id, param.private_data, param.private_data_len));
		break;
	case 6:
		if (!MINUS_ONE(rdma_get_request(id, slot ? &new : NULL)))
			keep(slot, new);
		break;
	default:
		MINUS_ONE(rdma_reject_ece(id, param.private_data, param.private_data_len));
	}
}

/* A connection as it should be, up to a step that the script chooses. */
static void connect_properly(void)
{
	struct sockaddr_in there = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .retry_count = 7, .private_data = arena,
					 .private_data_len = byte() % 57 };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_event_channel *channel = live(channels, CHANNELS);
	void **one = room(ids, IDS), **other;
	struct rdma_cm_id *listener = NULL, *id = NULL;
	uint8_t steps = byte() % 8;

	if (!one || !channel)
		return;
	CHECK(!MINUS_ONE(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP)));
	keep(one, listener);
	other = room(ids, IDS);
	if (MINUS_ONE(rdma_bind_addr(listener, (struct sockaddr *)&there)) ||
	    MINUS_ONE(rdma_listen(listener, 2)) || !other)
		return;
	there.sin_port = rdma_get_src_port(listener);
	CHECK(there.sin_port);
	CHECK(!MINUS_ONE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)));
	keep(other, id);
	if (steps > 0 && MINUS_ONE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 1)))
		return;
	if (steps > 1 && MINUS_ONE(rdma_resolve_route(id, 1)))
		return;
	if (steps > 2 && MINUS_ONE(rdma_create_qp(id, NULL, &init)))
		return;
	if (steps > 3)
		is_sent = !MINUS_ONE(rdma_connect(id, &param));
}

/* Accepts the latest request as it should be. */
static void accept_properly(void)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .private_data = arena, .private_data_len = byte() % 197 };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	if (!requested || !is_known(requested))
		return;
	MINUS_ONE(rdma_create_qp(requested, NULL, &init));
	is_sent |= !MINUS_ONE(rdma_accept(requested, &param));
}

static void use_connection(void)
{
	struct rdma_cm_id *id = any_id();
	struct ibv_ece ece = { 0 };
	int result;

	switch (byte() % 8) {
	case 0:
	case 1:
		is_sent |= !MINUS_ONE(rdma_disconnect(id));
		break;
	case 2:
		MINUS_ONE(rdma_establish(id));
		break;
	case 3:
		MINUS_ONE(rdma_notify(id, rarely(4) ? four() : IBV_EVENT_COMM_EST));
		break;
	case 4:
		MINUS_ONE(rdma_set_local_ece(id, rarely(2) ? NULL : &ece));
		break;
	case 5:
		MINUS_ONE(rdma_get_remote_ece(id, rarely(2) ? NULL : &ece));
		break;
	case 6:
		/* It waits for events, too. */
		acknowledge_events();
		result = MINUS_ONE(rdma_migrate_id(id, any_channel()));
		if (!result)
			never_wait(id);
		break;
	default:
		rdma_get_dst_port(id);
		CHECK(rdma_event_str(four()));
	}
}

static void make_queues(void)
{
	struct rdma_cm_id *id = any_id();
	struct ibv_qp_init_attr init = any_init();
	struct ibv_qp_init_attr_ex extended = {
		.cap = init.cap,
		.qp_type = init.qp_type,
		.sq_sig_all = init.sq_sig_all,
		.comp_mask = rarely(8) ? four() : byte() % 2 * IBV_QP_INIT_ATTR_PD,
	};
	struct ibv_srq_init_attr srq = { .attr = { any_depth(), byte() % 8, byte() } };
	struct ibv_srq_init_attr_ex xrc = {
		.attr = srq.attr,
		.srq_type = byte() % 3,
		.comp_mask = rarely(8) ? four() : IBV_SRQ_INIT_ATTR_TYPE,
	};

	if (id && is_known(id) && rarely(2))
		extended.pd = id->pd;
	switch (byte() % 8) {
	case 0:
	case 1:
	case 2:
		MINUS_ONE(rdma_create_qp(id, NULL, rarely(16) ? NULL : &init));
		break;
	case 3:
		MINUS_ONE(rdma_create_qp_ex(id, rarely(16) ? NULL : &extended));
		break;
	case 4:
		MINUS_ONE(rdma_create_srq(id, NULL, rarely(16) ? NULL : &srq));
		break;
	case 5:
		MINUS_ONE(rdma_create_srq_ex(id, rarely(16) ? NULL : &xrc));
		break;
	case 6:
		rdma_destroy_qp(id);
		break;
	default:
		rdma_destroy_srq(id);
	}
}

static void use_group(void)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = rarely(8) ? four() : 3,
		.join_flags = byte() % 3,
	};
	struct rdma_cm_id *id = any_id();

	switch (byte() % 3) {
	case 0:
		MINUS_ONE(rdma_join_multicast(id, any_sockaddr(), NULL));
		break;
	case 1:
		attr.addr = any_sockaddr();
		MINUS_ONE(rdma_join_multicast_ex(id, rarely(16) ? NULL : &attr, NULL));
		break;
	default:
		MINUS_ONE(rdma_leave_multicast(id, any_sockaddr()));
	}
}

static void set_or_query(void)
{
	struct rdma_cm_id *id = any_id();
	static const size_t LENGTHS[] = { 1, 4, 0, 8, ARENA };
	struct ibv_qp_attr attr = { .qp_state = byte() % 8 };
	size_t length = LENGTHS[byte() % COUNT(LENGTHS)];
	int mask = 0, count = 0;
	struct ibv_context **list;

	switch (byte() % 4) {
	case 0:
	case 1:
		MINUS_ONE(rdma_set_option(id, rarely(8) ? byte() : RDMA_OPTION_ID,
					  rarely(8) ? (int)four() : byte() % 4,
					  rarely(8) ? NULL : own_memory(length), length));
		break;
	case 2:
		MINUS_ONE(rdma_init_qp_attr(id, rarely(8) ? NULL : &attr,
					    rarely(8) ? NULL : &mask));
		break;
	default:
		list = MADE(rdma_get_devices(rarely(2) ? NULL : &count));
		CHECK(list && (!count || list[0]));
		rdma_free_devices(list);
	}
}

static void (*const OPERATIONS[])(void) = {
	make_or_destroy, make_or_destroy,  connect_properly, take_event,  take_event,
	take_event,	 resolve,	   resolve,	     make_queues, make_queues,
	accept_or_reject, accept_or_reject, use_connection,   use_group,   set_or_query,
	accept_properly,
};

/* The library's threads keep a few descriptors: of sockets that they wait for, and of the process
 * that a peer is in. Leaks add up: an input that leaves one open fails when it is repeated. */
enum { OPERATIONS_AT_MOST = 120, SPARE = 16 };
static size_t before;

static void destroy_all(void)
{
	acknowledge_events();
	for (size_t i = 0; i < IDS; i++)
		if (ids[i])
			destroy_id(ids[i]);
	for (size_t i = 0; i < CHANNELS; i++) {
		if (channels[i])
			rdma_destroy_event_channel(channels[i]);
		channels[i] = NULL;
	}
	destroyed = NULL;
	requested = NULL;
	is_sent = 0;
}

static void play(const uint8_t *bytes, size_t len)
{
	script_is(bytes, len);
	begin_memory();
	make_channel();
	for (int i = 0; i < OPERATIONS_AT_MOST && !script_ended(); i++) {
		OPERATIONS[byte() % COUNT(OPERATIONS)]();
		check_unregistered();
	}
	destroy_all();
}

void c_cm_run(const uint8_t *bytes, size_t len)
{
	play(bytes, len);
	CHECK(descriptors() <= before + SPARE);
}

/* The library never closes its device: what an address needs is open from now on. */
int c_cm_init(void)
{
	int alone = c_api_init();
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr *const addresses[] = { (struct sockaddr *)&four, (struct sockaddr *)&six };

	for (size_t i = 0; i < COUNT(addresses); i++) {
		struct rdma_cm_id *id = NULL;

		CHECK(!MINUS_ONE(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)));
		MINUS_ONE(rdma_resolve_addr(id, NULL, addresses[i], 1));
		CHECK(!MINUS_ONE(rdma_destroy_id(id)));
	}
	before = descriptors();
	return alone;
}
