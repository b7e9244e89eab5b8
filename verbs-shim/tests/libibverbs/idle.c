/* One end of an idle connection: "idle server ADDRESS" or "idle client ADDRESS".
   Prints "connected", and "disconnected" on that event. */

#include "ends.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

enum { PORT = 7471 };

static struct rdma_event_channel *channel;

static struct rdma_cm_id *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		printf("%s (%d), not %s\n", rdma_event_str(event->event), event->status,
		       rdma_event_str(type));
	CHECK(event->event == type);
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	CHECK(!rdma_create_qp(id, NULL, &init));
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(argc == 3 && inet_pton(AF_INET, argv[2], &address.sin_addr) == 1);
	channel = rdma_create_event_channel();
	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	if (!strcmp(argv[1], "server")) {
		CHECK(!rdma_bind_addr(id, (struct sockaddr *)&address) && !rdma_listen(id, 1));
		id = next(RDMA_CM_EVENT_CONNECT_REQUEST);
		give_qp(id);
		CHECK(!rdma_accept(id, &param));
	} else {
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000));
		next(RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!rdma_resolve_route(id, 1000));
		next(RDMA_CM_EVENT_ROUTE_RESOLVED);
		give_qp(id);
		CHECK(!rdma_connect(id, &param));
	}
	next(RDMA_CM_EVENT_ESTABLISHED);
	printf("connected\n");
	next(RDMA_CM_EVENT_DISCONNECTED);
	printf("disconnected\n");
	return 0;
}
