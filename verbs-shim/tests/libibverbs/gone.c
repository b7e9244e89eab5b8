/* Processes end without rdma_disconnect, and their peers on the same host get an event. The
   connections are idle, so no retransmission could detect it. */

#include "ends.h"

#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rdma_event_channel *channel;

static struct sockaddr *loopback(__be16 port)
{
	static struct sockaddr_in address;

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port,
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	return (struct sockaddr *)&address;
}

/* The ID of the next event, which must be of this type. */
static struct rdma_cm_id *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	if (event->event != type)
		printf("%s (%d), not %s\n", rdma_event_str(event->event), event->status,
		       rdma_event_str(type));
	CHECK(event->event == type && !event->status);
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	CHECK(!rdma_create_qp(id, NULL, &init));
}

static struct rdma_cm_id *listener(void)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, loopback(0)) && !rdma_listen(id, 4));
	return id;
}

static struct rdma_cm_id *accepted(void)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id = next(RDMA_CM_EVENT_CONNECT_REQUEST);

	give_qp(id);
	CHECK(!rdma_accept(id, &param));
	CHECK(next(RDMA_CM_EVENT_ESTABLISHED) == id);
	return id;
}

static struct rdma_cm_id *connected(__be16 port)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, loopback(port), 1000));
	next(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	next(RDMA_CM_EVENT_ROUTE_RESOLVED);
	give_qp(id);
	CHECK(!rdma_connect(id, &param));
	CHECK(next(RDMA_CM_EVENT_ESTABLISHED) == id);
	return id;
}

static void put(int fd, __be16 what)
{
	CHECK(write(fd, &what, sizeof what) == sizeof what);
}

static __be16 get(int fd)
{
	__be16 what;

	CHECK(read(fd, &what, sizeof what) == sizeof what);
	return what;
}

static void terminated(int number)
{
	(void)number;
	exit(0);
}

/* A process that is told how to end: by returning, by a handler that a signal calls at any
   moment, or by being killed. */
static int other(const char *role, const char *ends)
{
	struct rdma_cm_id *of, *id;
	struct ibv_wc wc;

	signal(SIGTERM, terminated);
	if (!strcmp(role, "server")) {
		of = listener();
		put(1, rdma_get_src_port(of));
		id = accepted();
	} else {
		id = connected(get(0));
	}
	put(1, 1);
	if (!strcmp(ends, "returns"))
		return 0;
	for (;;)
		CHECK(ibv_poll_cq(id->send_cq, 1, &wc) == 0);
}

static pid_t start(const char *role, const char *ends, int *in, int *out)
{
	int to[2], from[2];
	pid_t pid;

	CHECK(!pipe(to) && !pipe(from));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		close(from[0]);
		execl("/proc/self/exe", "gone", role, ends, NULL);
		_exit(126);
	}
	close(to[0]);
	close(from[1]);
	*in = from[0];
	*out = to[1];
	return pid;
}

/* Posted requests complete as flushed once the program calls rdma_disconnect. */
static void comes_back(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	int count;

	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
	CHECK(!rdma_disconnect(id));
	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
	do {
		count = ibv_poll_cq(id->recv_cq, 1, &wc);
	} while (!count);
	CHECK(count == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
}

static void ends_without_a_word(const char *role, const char *ends)
{
	struct ibv_recv_wr receive = { .wr_id = 1 }, *bad;
	struct rdma_cm_id *of = NULL, *id;
	int in, out, status;
	pid_t pid;

	pid = start(role, ends, &in, &out);
	if (!strcmp(role, "server")) {
		id = connected(get(in));
	} else {
		of = listener();
		put(out, rdma_get_src_port(of));
		id = accepted();
	}
	CHECK(get(in) == 1);
	CHECK(!ibv_post_recv(id->qp, &receive, &bad));
	if (!strcmp(ends, "killed"))
		CHECK(!kill(pid, SIGKILL));
	if (!strcmp(ends, "handler"))
		CHECK(!kill(pid, SIGTERM));
	CHECK(next(RDMA_CM_EVENT_DISCONNECTED) == id);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(!strcmp(ends, "killed") ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
	comes_back(id);
	CHECK(next(RDMA_CM_EVENT_TIMEWAIT_EXIT) == id);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && (!of || !rdma_destroy_id(of)));
	close(in);
	close(out);
}

/* The parent's channel is not known to a child that does not exec. */
static void child_has_no_channel(void)
{
	struct rdma_cm_id *id;
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == EINVAL);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

int main(int argc, char **argv)
{
	static const char *const roles[] = { "server", "client" };
	static const char *const ends[] = { "killed", "returns", "handler" };

	channel = rdma_create_event_channel();
	CHECK(channel);
	if (argc == 3)
		return other(argv[1], argv[2]);
	child_has_no_channel();
	for (int role = 0; role < 2; role++) {
		for (int how = 0; how < 3; how++)
			ends_without_a_word(roles[role], ends[how]);
	}
	rdma_destroy_event_channel(channel);
	return 0;
}
