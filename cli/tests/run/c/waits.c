// Waits for what does not come: `waits destroy` for the acknowledgement of an event that it has taken itself,
// `waits connect ADDRESS` for the answer to its request for a connection.

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what) {
    perror(what);
    return 1;
}

int main(int count, char **arguments) {
    int connects = count > 2 && strcmp(arguments[1], "connect") == 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7471)};
    inet_pton(AF_INET, connects ? arguments[2] : "127.0.0.1", &to.sin_addr);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct rdma_cm_event *event;
    if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
        return fail("rdma_create_id");
    if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000))
        return fail("rdma_resolve_addr");
    if (rdma_get_cm_event(channel, &event) || event->event != RDMA_CM_EVENT_ADDR_RESOLVED)
        return fail("RDMA_CM_EVENT_ADDR_RESOLVED");
    printf("%d\n", getpid());
    fflush(stdout);
    if (!connects)
        return rdma_destroy_id(id);
    rdma_ack_cm_event(event);
    if (rdma_resolve_route(id, 2000) || rdma_get_cm_event(channel, &event))
        return fail("rdma_resolve_route");
    rdma_ack_cm_event(event);
    struct ibv_qp_init_attr qp = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct rdma_conn_param parameters = {.retry_count = 7, .rnr_retry_count = 7};
    if (rdma_create_qp(id, NULL, &qp) || rdma_connect(id, &parameters))
        return fail("rdma_connect");
    return rdma_get_cm_event(channel, &event);
}
