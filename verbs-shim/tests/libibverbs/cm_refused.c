/* Wrong uses of the connection manager: each call returns an error. */

#include "ends.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define SAYS(number, call) (errno = 0, (call) == -1 && errno == (number))

static struct rdma_event_channel *channel;

static struct sockaddr *loopback(uint16_t port)
{
	static struct sockaddr_in address;

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	return (struct sockaddr *)&address;
}

static struct sockaddr *any(__be16 port)
{
	static struct sockaddr_in address;

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port };
	return (struct sockaddr *)&address;
}

static struct rdma_cm_id *new_id(enum rdma_port_space space)
{
	struct rdma_cm_id *id = NULL;

	CHECK(!rdma_create_id(channel, &id, NULL, space) && id);
	return id;
}

static struct sockaddr *any6(__be16 port)
{
	static struct sockaddr_in6 address;

	address = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = port };
	return (struct sockaddr *)&address;
}

/* A port of IPv4 and the same port of IPv6 are separate for programs that request one family. */
static void families(void)
{
	struct rdma_cm_id *four = new_id(RDMA_PS_TCP), *six = new_id(RDMA_PS_TCP);
	struct rdma_cm_id *both = new_id(RDMA_PS_TCP);
	int yes = 1;
	__be16 port;

	CHECK(!rdma_bind_addr(four, any(0)) && !four->verbs);
	port = rdma_get_src_port(four);
	CHECK(SAYS(EADDRNOTAVAIL, rdma_bind_addr(both, any(port))));
	CHECK(SAYS(EADDRNOTAVAIL, rdma_bind_addr(both, loopback(ntohs(port)))));
	/* Without the option, the port is also that of IPv4. */
	CHECK(SAYS(EADDRNOTAVAIL, rdma_bind_addr(both, any6(port))));
	CHECK(!rdma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes));
	CHECK(!rdma_bind_addr(six, any6(port)) && rdma_get_src_port(six) == port);
	CHECK(!rdma_listen(four, 1) && !rdma_listen(six, 1));
	CHECK(!rdma_destroy_id(four));
	CHECK(SAYS(EADDRNOTAVAIL, rdma_bind_addr(both, any6(port))));
	CHECK(!rdma_destroy_id(six));
	CHECK(!rdma_bind_addr(both, any6(port)) && !rdma_destroy_id(both));
}

/* Checks that each function that takes an ID refuses this one. */
static void no_id(struct rdma_cm_id *id)
{
	struct rdma_cm_join_mc_attr_ex group = { 3, 0, loopback(1) };
	struct ibv_qp_init_attr_ex init_ex = { 0 };
	struct ibv_qp_init_attr init = { 0 };
	struct ibv_srq_init_attr srq = { 0 };
	struct ibv_qp_attr attr = { 0 };
	struct rdma_cm_id *other;
	uint8_t tos = 0;
	int mask;

	CHECK(SAYS(EINVAL, rdma_bind_addr(id, loopback(0))));
	CHECK(SAYS(EINVAL, rdma_resolve_addr(id, NULL, loopback(1), 1)));
	CHECK(SAYS(EINVAL, rdma_resolve_route(id, 1)));
	CHECK(SAYS(EINVAL, rdma_connect(id, NULL)));
	CHECK(SAYS(EINVAL, rdma_establish(id)));
	CHECK(SAYS(EINVAL, rdma_listen(id, 1)));
	CHECK(SAYS(EINVAL, rdma_get_request(id, &other)));
	CHECK(SAYS(EINVAL, rdma_accept(id, NULL)));
	CHECK(SAYS(EINVAL, rdma_reject(id, NULL, 0)));
	CHECK(SAYS(EINVAL, rdma_notify(id, IBV_EVENT_COMM_EST)));
	CHECK(SAYS(EINVAL, rdma_disconnect(id)));
	CHECK(SAYS(EINVAL, rdma_join_multicast(id, loopback(1), NULL)));
	CHECK(SAYS(EINVAL, rdma_join_multicast_ex(id, &group, NULL)));
	CHECK(SAYS(EINVAL, rdma_leave_multicast(id, loopback(1))));
	CHECK(SAYS(EINVAL, rdma_create_qp(id, NULL, &init)));
	CHECK(SAYS(EINVAL, rdma_create_qp_ex(id, &init_ex)));
	CHECK(SAYS(EINVAL, rdma_create_srq(id, NULL, &srq)));
	CHECK(SAYS(EINVAL, rdma_init_qp_attr(id, &attr, &mask)));
	CHECK(SAYS(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1)));
	CHECK(SAYS(EINVAL, rdma_migrate_id(id, channel)));
	CHECK(SAYS(EINVAL, rdma_destroy_id(id)));
	CHECK(!rdma_get_src_port(id) && !rdma_get_dst_port(id));
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_ep(id);
}

static void without_pointers(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP), *none = NULL;
	struct rdma_addrinfo info = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	CHECK(SAYS(EINVAL, rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP)));
	CHECK(SAYS(EINVAL, rdma_create_id((void *)&info, &none, NULL, RDMA_PS_TCP)) && !none);
	CHECK(SAYS(EPROTONOSUPPORT, rdma_create_id(channel, &none, NULL, 7)));
	CHECK(SAYS(EOPNOTSUPP, rdma_create_id(channel, &none, NULL, RDMA_PS_IPOIB)));
	CHECK(SAYS(EINVAL, rdma_bind_addr(id, NULL)));
	CHECK(SAYS(EINVAL, rdma_resolve_addr(id, NULL, NULL, 1)));
	CHECK(SAYS(EINVAL, rdma_get_cm_event(NULL, &event)));
	CHECK(SAYS(EINVAL, rdma_get_cm_event(channel, NULL)));
	CHECK(SAYS(EINVAL, rdma_ack_cm_event(NULL)));
	CHECK(SAYS(EINVAL, rdma_ack_cm_event((void *)&info)));
	CHECK(SAYS(EINVAL, rdma_init_qp_attr(id, NULL, &mask)));
	CHECK(SAYS(EINVAL, rdma_init_qp_attr(id, &attr, &mask)));
	CHECK(SAYS(EINVAL, rdma_join_multicast_ex(id, NULL, NULL)));
	CHECK(SAYS(EINVAL, rdma_create_ep(NULL, &info, NULL, NULL)));
	CHECK(SAYS(EINVAL, rdma_create_ep(&none, NULL, NULL, NULL)) && !none);
	CHECK(SAYS(EINVAL, rdma_create_ep(&none, &info, NULL, NULL)) && !none);
	CHECK(SAYS(EINVAL, rdma_getaddrinfo(NULL, NULL, NULL, NULL)));
	rdma_freeaddrinfo(NULL);
	rdma_free_devices(NULL);
	rdma_destroy_event_channel(NULL);
	CHECK(!rdma_destroy_id(id));
}

static void in_the_wrong_state(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP), *other = new_id(RDMA_PS_TCP);
	struct rdma_conn_param param = { .responder_resources = 200 };
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_cm_event *event;
	struct sockaddr far = { .sa_family = AF_UNIX };
	char private[200] = { 0 };

	CHECK(SAYS(EINVAL, rdma_resolve_route(id, 1)));
	CHECK(SAYS(EINVAL, rdma_connect(id, NULL)));
	CHECK(SAYS(EINVAL, rdma_accept(id, NULL)));
	CHECK(SAYS(EINVAL, rdma_reject(id, NULL, 0)));
	CHECK(SAYS(EINVAL, rdma_disconnect(id)));
	CHECK(SAYS(EINVAL, rdma_establish(id)));
	CHECK(SAYS(EINVAL, rdma_create_qp(id, NULL, &init)));
	CHECK(SAYS(EAFNOSUPPORT, rdma_bind_addr(id, &far)));
	CHECK(!rdma_bind_addr(id, loopback(0)) && rdma_get_src_port(id));
	CHECK(SAYS(EINVAL, rdma_bind_addr(id, loopback(0))));
	/* A loopback address counts as "any", where the kernel says EADDRNOTAVAIL. */
	CHECK(SAYS(EADDRNOTAVAIL, rdma_bind_addr(other, loopback(ntohs(rdma_get_src_port(id))))));
	CHECK(SAYS(EADDRNOTAVAIL, rdma_bind_addr(other, any(rdma_get_src_port(id)))));
	CHECK(!rdma_listen(id, 1) && SAYS(EINVAL, rdma_listen(id, 1)));
	CHECK(SAYS(EINVAL, rdma_resolve_addr(id, NULL, loopback(1), 1)));
	CHECK(SAYS(EINVAL, rdma_get_request(id, &other)));

	CHECK(!rdma_resolve_addr(other, NULL, loopback(1), 1));
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->id == other && event->event == RDMA_CM_EVENT_ADDR_RESOLVED && !event->status);
	CHECK(!rdma_ack_cm_event(event) && SAYS(EINVAL, rdma_ack_cm_event(event)));
	CHECK(SAYS(EINVAL, rdma_connect(other, NULL)));
	CHECK(!rdma_resolve_route(other, 1) && SAYS(EINVAL, rdma_resolve_route(other, 1)));
	CHECK(!rdma_get_cm_event(channel, &event) && event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_ack_cm_event(event));
	/* No QP, more READs than there can be, more private data than fits. */
	CHECK(SAYS(EINVAL, rdma_connect(other, NULL)));
	CHECK(!rdma_create_qp(other, NULL, &init));
	CHECK(SAYS(EINVAL, rdma_create_qp(other, NULL, &init)));
	CHECK(SAYS(EINVAL, rdma_connect(other, &param)));
	param = (struct rdma_conn_param){ .private_data = private, .private_data_len = 57 };
	CHECK(SAYS(EINVAL, rdma_connect(other, &param)));
	param.private_data = NULL;
	CHECK(SAYS(EINVAL, rdma_connect(other, &param)));
	CHECK(SAYS(EINVAL, rdma_join_multicast(other, loopback(1), NULL)));
	rdma_destroy_qp(other);
	CHECK(!other->qp && !other->send_cq && !other->recv_cq_channel);
	rdma_destroy_qp(other);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(other));
}

static void addresses_that_are_not_there(void)
{
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a00fe01) } };
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *event;

	CHECK(SAYS(ENODEV, rdma_bind_addr(id, (struct sockaddr *)&far)));
	CHECK(!rdma_resolve_addr(id, (struct sockaddr *)&far, loopback(1), 1));
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_ADDR_ERROR && event->status == -ENODEV);
	CHECK(!rdma_ack_cm_event(event) && !rdma_destroy_id(id));
}

static void options(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	uint8_t timeout = 32;
	int yes = 1;

	CHECK(SAYS(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, 4)));
	CHECK(SAYS(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1)));
	CHECK(SAYS(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, 1)));
	CHECK(SAYS(EINVAL,
		   rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1)));
	CHECK(SAYS(EOPNOTSUPP, rdma_set_option(id, RDMA_OPTION_ID, 99, &yes, 4)));
	CHECK(SAYS(EOPNOTSUPP, rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &yes, 4)));
	timeout = 31;
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)));
	CHECK(!rdma_destroy_id(id));
}

static void what_is_not_there(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct ibv_ece ece = { 0 };

	CHECK(SAYS(EOPNOTSUPP, rdma_set_local_ece(id, &ece)));
	CHECK(SAYS(EOPNOTSUPP, rdma_get_remote_ece(id, &ece)));
	CHECK(SAYS(EOPNOTSUPP, rdma_reject_ece(id, NULL, 0)));
	CHECK(!rdma_destroy_id(id));
}

/* Each call that may leak a descriptor is repeated this often. */
enum { ROUNDS = 40 };

/* Descriptors of this process. The library's own threads may open or close some meanwhile: far fewer
 * than calls would leak. */
static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	CHECK(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static int differ_by_few(int some, int others)
{
	return abs(some - others) < ROUNDS / 2;
}

/* The queues that the library makes for a QP are gone when there is no QP. */
static void queues(void)
{
	static const uint32_t DEPTHS[] = { 1 << 17, UINT32_MAX, INT32_MAX };
	static const struct ibv_qp_init_attr INIT = { .cap = { 1, 1, 1, 1, 0 },
						      .qp_type = IBV_QPT_RC };
	/* A call that succeeds puts the queues here. */
	struct ibv_qp_init_attr init = INIT;
	struct ibv_srq_init_attr_ex srq = { .attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_XRC,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE };
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *event;
	int before;

	CHECK(!rdma_resolve_addr(id, NULL, loopback(1), 1));
	CHECK(!rdma_get_cm_event(channel, &event) && !rdma_ack_cm_event(event));
	/* What the device opens for its first QP stays open. */
	CHECK(!rdma_create_qp(id, NULL, &init));
	rdma_destroy_qp(id);
	before = descriptors();
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 3; i++) {
			init = INIT;
			init.cap.max_recv_wr = DEPTHS[i];
			CHECK(SAYS(EINVAL, rdma_create_qp(id, NULL, &init)) && !init.send_cq);
			init = INIT;
			init.cap.max_send_wr = DEPTHS[i];
			CHECK(SAYS(EINVAL, rdma_create_qp(id, NULL, &init)) && !init.recv_cq);
		}
	}
	CHECK(differ_by_few(descriptors(), before));
	/* The SRQ's queue takes the place of the QP's in the ID. */
	for (int round = 0; round < ROUNDS; round++) {
		init = INIT;
		CHECK(!rdma_create_qp(id, NULL, &init) && !rdma_create_srq_ex(id, &srq));
		rdma_destroy_qp(id);
		rdma_destroy_srq(id);
	}
	CHECK(differ_by_few(descriptors(), before) && !id->recv_cq && !rdma_destroy_id(id));
}

/* A synchronous ID's own channel goes with it, and also if there is no ID in the end. */
static void own_channels(void)
{
	struct rdma_cm_id *ids[ROUNDS] = { NULL };
	int before = descriptors();

	for (int i = 0; i < ROUNDS; i++)
		CHECK(rdma_create_id(NULL, &ids[i], NULL, 0x1234) == -1);
	CHECK(differ_by_few(descriptors(), before));
	for (int i = 0; i < ROUNDS; i++)
		CHECK(!rdma_create_id(NULL, &ids[i], NULL, RDMA_PS_TCP));
	CHECK(differ_by_few(descriptors(), before + ROUNDS));
	for (int i = 0; i < ROUNDS; i++) {
		/* The program has written over its event. */
		ids[i]->event = (void *)&channel;
		CHECK(SAYS(EINVAL, rdma_destroy_id(ids[i])));
	}
	CHECK(differ_by_few(descriptors(), before));
}

static void channels(void)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_id *id = new_id(RDMA_PS_UDP);
	struct rdma_cm_event *event = NULL;
	int flags = fcntl(channel->fd, F_GETFL);

	CHECK(!fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
	CHECK(SAYS(EAGAIN, rdma_get_cm_event(channel, &event)) && !poll(&ready, 1, 0));
	CHECK(!rdma_resolve_addr(id, NULL, loopback(1), 1) && poll(&ready, 1, 0) == 1);
	CHECK(!rdma_get_cm_event(channel, &event) && !poll(&ready, 1, 0));
	CHECK(!rdma_ack_cm_event(event));
	/* An event that the program does not get is dropped with its ID. */
	CHECK(!rdma_resolve_route(id, 1) && poll(&ready, 1, 0) == 1);
	CHECK(!rdma_destroy_id(id) && !poll(&ready, 1, 0));
	CHECK(!fcntl(channel->fd, F_SETFL, flags));
}

int main(void)
{
	struct rdma_cm_id *id;

	channel = rdma_create_event_channel();
	CHECK(channel);
	no_id(NULL);
	id = new_id(RDMA_PS_TCP);
	no_id((void *)&channel);
	CHECK(!rdma_destroy_id(id));
	/* It was destroyed. */
	no_id(id);
	without_pointers();
	in_the_wrong_state();
	families();
	addresses_that_are_not_there();
	options();
	what_is_not_there();
	queues();
	own_channels();
	channels();
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(channel);
	return 0;
}
