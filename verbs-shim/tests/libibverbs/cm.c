/* Connections behave as the man pages of librdmacm say; both ends are in one process. */

#include "ends.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

enum { SIZE = 2000 };

static struct rdma_event_channel *channel;
static unsigned char memory[2][SIZE + 40];
static int context_of_listener, context_of_group;

static struct sockaddr *loopback(__be16 port)
{
	static struct sockaddr_in address;

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port,
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	return (struct sockaddr *)&address;
}

/* The next event, which must be of this type. */
static struct rdma_cm_event *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		printf("%s (%d), not %s\n", rdma_event_str(event->event), event->status,
		       rdma_event_str(type));
	CHECK(event->event == type);
	return event;
}

static void passes(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event = next(type);

	CHECK(event->id == id && !event->status && !rdma_ack_cm_event(event));
}

static struct rdma_cm_id *listener(enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, &context_of_listener, space));
	CHECK(!rdma_bind_addr(id, loopback(0)) && !rdma_listen(id, 4));
	/* As for an ID bound to "any": with a device, the ID would be limited to that device. */
	CHECK(rdma_get_src_port(id) && !id->verbs && !id->pd && !id->port_num);
	return id;
}

static void give_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = type,
					 .sq_sig_all = 1 };

	CHECK(!rdma_create_qp(id, NULL, &init));
	CHECK(id->qp && id->send_cq == init.send_cq && id->recv_cq == init.recv_cq);
}

/* An ID with a route to a port, and a QP. */
static struct rdma_cm_id *routed(__be16 port, enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, space));
	CHECK(!rdma_resolve_addr(id, NULL, loopback(port), 1000));
	passes(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	CHECK(!rdma_resolve_route(id, 1000));
	passes(RDMA_CM_EVENT_ROUTE_RESOLVED, id);
	CHECK(id->route.num_paths == 1 && id->route.path_rec->mtu);
	CHECK(rdma_get_dst_port(id) == port && rdma_get_src_port(id));
	give_qp(id, space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC);
	return id;
}

static void begins(const void *private, unsigned int len, const char *with)
{
	CHECK(len >= strlen(with) && !memcmp(private, with, strlen(with)));
}

/* The other end of a requested connection. */
static struct rdma_cm_id *asked(struct rdma_cm_id *of, struct rdma_cm_id *by)
{
	struct rdma_cm_event *event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;

	CHECK(event->listen_id == of && id != of && id->context == &context_of_listener);
	begins(event->param.conn.private_data, event->param.conn.private_data_len, "please");
	CHECK(rdma_get_src_port(id) == rdma_get_src_port(of));
	CHECK(rdma_get_dst_port(id) == rdma_get_src_port(by));
	if (id->ps == RDMA_PS_TCP) {
		CHECK(event->param.conn.private_data_len == 56);
		CHECK(event->param.conn.responder_resources == 3);
		CHECK(event->param.conn.initiator_depth == 2);
		CHECK(event->param.conn.qp_num == by->qp->qp_num);
		CHECK(event->param.conn.rnr_retry_count == 6);
	}
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

/* Sends SIZE bytes from one end of a connection to the other, and compares them. */
static void exchange_over(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	struct ibv_mr *mr[] = { rdma_reg_msgs(from, memory[0], SIZE),
				rdma_reg_msgs(to, memory[1], SIZE) };
	struct ibv_wc wc;

	CHECK(mr[0] && mr[1]);
	memset(memory[0], 7, SIZE);
	CHECK(!rdma_post_recv(to, NULL, memory[1], SIZE, mr[1]));
	CHECK(!rdma_post_send(from, NULL, memory[0], SIZE, mr[0], 0));
	CHECK(rdma_get_send_comp(from, &wc) == 1 && !wc.status);
	CHECK(rdma_get_recv_comp(to, &wc) == 1 && !wc.status && wc.byte_len == SIZE);
	CHECK(!memcmp(memory[0], memory[1], SIZE));
	CHECK(!rdma_dereg_mr(mr[0]) && !rdma_dereg_mr(mr[1]));
}

static void end(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

static const struct rdma_conn_param PLEASE = {
	.private_data = "please", .private_data_len = 6, .responder_resources = 2,
	.initiator_depth = 3, .retry_count = 5, .rnr_retry_count = 6,
};

static void connections(void)
{
	struct rdma_cm_id *of = listener(RDMA_PS_TCP), *there, *here;
	struct rdma_conn_param param = PLEASE;
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint8_t timeout = 20;

	here = routed(rdma_get_src_port(of), RDMA_PS_TCP);
	CHECK(!rdma_set_option(here, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
	CHECK(!rdma_connect(here, &param));
	there = asked(of, here);
	give_qp(there, IBV_QPT_RC);
	param = (struct rdma_conn_param){ .private_data = "yes", .private_data_len = 3,
					  .responder_resources = 3, .initiator_depth = 1,
					  .rnr_retry_count = 4 };
	CHECK(!rdma_accept(there, &param));
	event = next(RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == here && event->param.conn.private_data_len == 196);
	begins(event->param.conn.private_data, 196, "yes");
	CHECK(event->param.conn.qp_num == there->qp->qp_num && !rdma_ack_cm_event(event));
	passes(RDMA_CM_EVENT_ESTABLISHED, there);
	CHECK(!ibv_query_qp(here->qp, &attr, IBV_QP_TIMEOUT, &init) && attr.timeout == 20);
	CHECK(attr.max_rd_atomic == 3 && attr.max_dest_rd_atomic == 1 && attr.rnr_retry == 4);
	CHECK(attr.min_rnr_timer == 0);
	CHECK(!ibv_query_qp(there->qp, &attr, IBV_QP_TIMEOUT, &init) && attr.timeout == 20);
	CHECK(attr.max_rd_atomic == 1 && attr.max_dest_rd_atomic == 3 && attr.rnr_retry == 6);
	CHECK(attr.min_rnr_timer == 0);
	exchange_over(here, there);
	exchange_over(there, here);
	CHECK(!rdma_disconnect(there));
	passes(RDMA_CM_EVENT_DISCONNECTED, here);
	CHECK(!rdma_disconnect(here));
	passes(RDMA_CM_EVENT_DISCONNECTED, there);
	end(here);
	end(there);
	CHECK(!rdma_destroy_id(of));
}

static void refusals(void)
{
	struct rdma_cm_id *of = listener(RDMA_PS_TCP), *there, *here;
	struct rdma_conn_param param = PLEASE;
	struct rdma_cm_event *event;
	__be16 port = rdma_get_src_port(of);

	here = routed(port, RDMA_PS_TCP);
	CHECK(!rdma_connect(here, &param));
	there = asked(of, here);
	CHECK(!rdma_reject(there, "never", 5) && !rdma_destroy_id(there));
	event = next(RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == here && event->status == 28);
	CHECK(event->param.conn.private_data_len == 148);
	begins(event->param.conn.private_data, 148, "never");
	CHECK(!rdma_ack_cm_event(event));
	end(here);
	/* Destroying an ID also rejects its request, whether or not the program has seen the request. */
	here = routed(port, RDMA_PS_TCP);
	CHECK(!rdma_connect(here, &param));
	there = asked(of, here);
	CHECK(!rdma_destroy_id(there) && !rdma_destroy_id(of));
	event = next(RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == here && event->status && !rdma_ack_cm_event(event));
	end(here);
	/* Nobody listens there. */
	here = routed(port, RDMA_PS_TCP);
	CHECK(!rdma_connect(here, &param));
	event = next(RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == here && event->status == 8 && !rdma_ack_cm_event(event));
	end(here);
}

static void datagrams(void)
{
	struct rdma_cm_id *of = listener(RDMA_PS_UDP), *there, *here;
	struct rdma_conn_param param = PLEASE;
	struct rdma_cm_event *event;
	struct ibv_mr *mr[2];
	struct ibv_wc wc;
	struct ibv_ah *ah;

	here = routed(rdma_get_src_port(of), RDMA_PS_UDP);
	CHECK(!rdma_connect(here, &param));
	there = asked(of, here);
	give_qp(there, IBV_QPT_UD);
	param.private_data = "here";
	param.private_data_len = 4;
	CHECK(!rdma_accept(there, &param));
	event = next(RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == here && event->param.ud.qp_num == there->qp->qp_num);
	CHECK(event->param.ud.qkey == RDMA_UDP_QKEY && event->param.ud.private_data_len == 136);
	begins(event->param.ud.private_data, 136, "here");
	ah = ibv_create_ah(here->pd, &event->param.ud.ah_attr);
	CHECK(ah);
	mr[0] = rdma_reg_msgs(here, memory[0], SIZE);
	mr[1] = rdma_reg_msgs(there, memory[1], SIZE + 40);
	memset(memory[0], 9, SIZE);
	CHECK(!rdma_post_recv(there, NULL, memory[1], SIZE + 40, mr[1]));
	CHECK(!rdma_post_ud_send(here, NULL, memory[0], SIZE, mr[0], 0, ah,
				 event->param.ud.qp_num));
	CHECK(rdma_get_send_comp(here, &wc) == 1 && !wc.status);
	CHECK(rdma_get_recv_comp(there, &wc) == 1 && !wc.status && wc.byte_len == SIZE + 40);
	CHECK(!memcmp(memory[0], memory[1] + 40, SIZE) && !rdma_ack_cm_event(event));
	CHECK(!ibv_destroy_ah(ah) && !rdma_dereg_mr(mr[0]) && !rdma_dereg_mr(mr[1]));
	end(here);
	end(there);
	CHECK(!rdma_destroy_id(of));
}

static void groups(void)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr = { htonl(0xe6000001) } };
	struct sockaddr *address = (struct sockaddr *)&group;
	struct rdma_cm_join_mc_attr_ex send_only = { 3, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
						     address };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) && !rdma_bind_addr(id, loopback(0)) && !id->verbs);
	CHECK(rdma_join_multicast(id, address, NULL) && errno == EINVAL);
	/* The source is the address that the ID is bound to, whatever the route of the group. */
	CHECK(!rdma_resolve_addr(id, NULL, address, 1000));
	passes(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	CHECK(id->verbs);
	give_qp(id, IBV_QPT_UD);
	CHECK(!rdma_join_multicast(id, address, &context_of_group));
	event = next(RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->id == id && event->param.ud.private_data == &context_of_group);
	CHECK(event->param.ud.qp_num == 0xffffff && event->param.ud.qkey == RDMA_UDP_QKEY);
	CHECK(event->param.ud.ah_attr.is_global && event->param.ud.ah_attr.grh.dgid.raw[12] == 230);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(rdma_join_multicast(id, address, NULL) && errno == EADDRINUSE);
	CHECK(!rdma_leave_multicast(id, address));
	CHECK(rdma_leave_multicast(id, address) && errno == EADDRNOTAVAIL);
	CHECK(!rdma_join_multicast_ex(id, &send_only, NULL));
	passes(RDMA_CM_EVENT_MULTICAST_JOIN, id);
	CHECK(!rdma_leave_multicast(id, address));
	send_only.comp_mask = 7;
	CHECK(rdma_join_multicast_ex(id, &send_only, NULL) && errno == EINVAL);
	end(id);
}

static void *destroy(void *id)
{
	CHECK(!rdma_destroy_id(id));
	return NULL;
}

/* Calls wait for the acknowledgement of events; an ID takes its events to its new channel. */
static void acknowledgements(void)
{
	struct rdma_event_channel *other = rdma_create_event_channel(), *first = channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;

	CHECK(other && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, loopback(htons(1)), 1000));
	CHECK(!rdma_migrate_id(id, other) && id->channel == other);
	channel = other;
	event = next(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!pthread_create(&thread, NULL, destroy, id));
	CHECK(event->id == id && !rdma_ack_cm_event(event));
	CHECK(!pthread_join(thread, NULL));
	rdma_destroy_event_channel(other);
	channel = first;
}

/* A request goes to the channel that its listener has moved to, and its ID as well. A peer that gives up
 * before the request is accepted raises no event: the program may not know of the request yet. */
static void requests_of_a_listener_that_moves(void)
{
	struct rdma_event_channel *other = rdma_create_event_channel(), *first = channel;
	struct rdma_cm_id *of = listener(RDMA_PS_TCP), *gone, *here, *asked_first, *asked_next;
	struct pollfd ready = { .fd = first->fd, .events = POLLIN };
	struct rdma_conn_param param = PLEASE;
	struct rdma_cm_event *event;

	CHECK(other);
	gone = routed(rdma_get_src_port(of), RDMA_PS_TCP);
	CHECK(!rdma_connect(gone, &param) && poll(&ready, 1, -1) == 1);
	CHECK(!rdma_migrate_id(of, other) && !poll(&ready, 1, 0));
	end(gone);
	/* Messages stay in order: when this request is there, the first one has been given up. */
	here = routed(rdma_get_src_port(of), RDMA_PS_TCP);
	CHECK(!rdma_connect(here, &param));
	channel = other;
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	asked_first = event->id;
	CHECK(asked_first->channel == other && !rdma_ack_cm_event(event));
	event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	asked_next = event->id;
	CHECK(asked_next->channel == other && !rdma_ack_cm_event(event));
	CHECK(!poll(&ready, 1, 0));
	give_qp(asked_first, IBV_QPT_RC);
	CHECK(rdma_accept(asked_first, &param) == -1);
	end(asked_first);
	CHECK(!rdma_destroy_id(asked_next) && !rdma_destroy_id(of));
	channel = first;
	event = next(RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == here && !rdma_ack_cm_event(event));
	end(here);
	rdma_destroy_event_channel(other);
}

static void *serve(void *arg)
{
	struct rdma_cm_id *of = arg, *id;

	CHECK(!rdma_listen(of, 1) && !rdma_get_request(of, &id) && id->qp && id->event);
	CHECK(id->event->listen_id == of && !rdma_accept(id, NULL));
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	rdma_destroy_ep(of);
	return NULL;
}

/* On an ID without a channel, calls wait for their events. */
static void endpoints(void)
{
	/* rdma_create_ep writes the QP's queues into its attributes. */
	const struct ibv_qp_init_attr fresh = { .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_init_attr init = fresh;
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *of, *id;
	struct ibv_qp_attr attr;
	pthread_t thread;
	char port[8];

	CHECK(!rdma_getaddrinfo("127.0.0.1", "0", &hints, &info) && info->ai_src_len == 16);
	CHECK(info->ai_qp_type == IBV_QPT_RC && !info->ai_dst_addr);
	CHECK(!rdma_create_ep(&of, info, NULL, &init));
	rdma_freeaddrinfo(info);
	snprintf(port, sizeof(port), "%d", ntohs(rdma_get_src_port(of)));
	hints.ai_flags = 0;
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &info) && info->ai_dst_len == 16);
	CHECK(!rdma_create_ep(&id, info, NULL, &init) && id->qp && id->event);
	/* The passive end does not listen yet. */
	CHECK(rdma_connect(id, NULL) && errno == ECONNREFUSED);
	rdma_destroy_ep(id);
	CHECK(!pthread_create(&thread, NULL, serve, of));
	do {
		init = fresh;
		CHECK(!rdma_create_ep(&id, info, NULL, &init));
		if (!rdma_connect(id, NULL))
			break;
		CHECK(errno == ECONNREFUSED);
		rdma_destroy_ep(id);
	} while (1);
	/* Without parameters, the peer retries for ever, at short intervals. */
	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_MIN_RNR_TIMER, &init));
	CHECK(attr.min_rnr_timer == 12);
	CHECK(!rdma_disconnect(id) && !pthread_join(thread, NULL));
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
}

static void devices(void)
{
	int count = 0;
	struct ibv_context **list = rdma_get_devices(&count), **found = list;

	while (*found && strcmp(ibv_get_device_name((*found)->device), "roce_lo"))
		found++;
	CHECK(count > 0 && *found && !list[count]);
	rdma_free_devices(list);
}

int main(void)
{
	channel = rdma_create_event_channel();
	CHECK(channel && channel->fd >= 0);
	devices();
	connections();
	refusals();
	datagrams();
	groups();
	acknowledgements();
	requests_of_a_listener_that_moves();
	endpoints();
	rdma_destroy_event_channel(channel);
	return 0;
}
