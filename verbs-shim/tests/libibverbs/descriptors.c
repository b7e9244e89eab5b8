/* The descriptors of events behave as the kernel's. They are readable and never writable, each event is
 * an edge, and events of destroyed objects vanish. A call that waits goes on after a signal whose
 * handler has SA_RESTART, and fails with EINTR after another. */

#include "ends.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIGNALS = 3 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *completions;
static struct rdma_event_channel *connections;

static struct sockaddr *loopback(__be16 port)
{
	static struct sockaddr_in address;

	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port,
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	return (struct sockaddr *)&address;
}

/* What a descriptor is ready for. */
static int ready(int fd)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN | POLLOUT };

	CHECK(poll(&poller, 1, 0) >= 0);
	return poller.revents;
}

static void set_blocking(int fd, int blocks)
{
	CHECK(!fcntl(fd, F_SETFL, blocks ? 0 : O_NONBLOCK));
}

/* A QP in the error state, and its CQ, which has an event for a flushed receive. */
struct flushed {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct flushed flush(int capacity, int receives)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct flushed made = { .cq = ibv_create_cq(context, capacity, NULL, completions, 0) };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .send_cq = made.cq, .recv_cq = made.cq };

	CHECK(made.cq);
	made.qp = ibv_create_qp(pd, &init);
	CHECK(made.qp && !ibv_req_notify_cq(made.cq, 0));
	CHECK(!ibv_modify_qp(made.qp, &attr, IBV_QP_STATE));
	while (receives--)
		CHECK(!ibv_post_recv(made.qp, &wr, &bad));
	return made;
}

static void destroy_flushed(struct flushed made)
{
	CHECK(!ibv_destroy_qp(made.qp) && !ibv_destroy_cq(made.cq));
}

static void gets_event_of(struct ibv_cq *expected)
{
	struct ibv_cq *cq;
	void *its_context;

	CHECK(!ibv_get_cq_event(completions, &cq, &its_context) && cq == expected);
	ibv_ack_cq_events(cq, 1);
}

/* An SRQ with an event: it has fewer receives than its limit. */
static struct ibv_srq *limited(void)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	CHECK(srq && !ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	return srq;
}

static void gets_limit_of(struct ibv_srq *srq)
{
	struct ibv_async_event event;

	CHECK(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
}

/* An ID with the event that its address is resolved. */
static struct rdma_cm_id *resolved(__be16 port)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(connections, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, loopback(port), 1000));
	return id;
}

static void passes(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(connections, &event));
	CHECK(event->event == type && event->id == id && !rdma_ack_cm_event(event));
}

static void descriptors_are_only_ever_readable(void)
{
	struct flushed made;
	struct ibv_srq *srq;
	struct rdma_cm_id *id;

	CHECK(!ready(completions->fd) && !ready(context->async_fd) && !ready(connections->fd));
	made = flush(4, 1);
	srq = limited();
	id = resolved(1);
	CHECK(ready(completions->fd) == POLLIN && ready(context->async_fd) == POLLIN);
	CHECK(ready(connections->fd) == POLLIN);
	gets_event_of(made.cq);
	gets_limit_of(srq);
	passes(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	CHECK(!ready(completions->fd) && !ready(context->async_fd) && !ready(connections->fd));
	destroy_flushed(made);
	CHECK(!ibv_destroy_srq(srq) && !rdma_destroy_id(id));
}

static int edges(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 0);
}

/* Watches a descriptor for edges. */
static int watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	CHECK(!edges(epoll));
	return epoll;
}

/* Even while an event is unread. */
static void each_event_is_an_edge(void)
{
	struct flushed made[2];
	struct ibv_srq *srq[2];
	struct rdma_cm_id *id[2];
	int epoll[] = { watch(completions->fd), watch(context->async_fd), watch(connections->fd) };

	for (int i = 0; i < 2; i++) {
		made[i] = flush(4, 1);
		CHECK(edges(epoll[0]) == 1 && !edges(epoll[0]));
		srq[i] = limited();
		CHECK(edges(epoll[1]) == 1 && !edges(epoll[1]));
		id[i] = resolved(1);
		CHECK(edges(epoll[2]) == 1 && !edges(epoll[2]));
	}
	for (int i = 0; i < 2; i++) {
		gets_event_of(made[i].cq);
		gets_limit_of(srq[i]);
		passes(RDMA_CM_EVENT_ADDR_RESOLVED, id[i]);
		destroy_flushed(made[i]);
		CHECK(!ibv_destroy_srq(srq[i]) && !rdma_destroy_id(id[i]));
	}
	for (int i = 0; i < 3; i++)
		CHECK(!close(epoll[i]));
}

static struct ibv_qp *finished_with(struct ibv_srq *srq, struct ibv_cq *cq)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .send_cq = cq, .recv_cq = cq, .srq = srq };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	return qp;
}

static void events_of_destroyed_objects_vanish(void)
{
	struct flushed gone = flush(4, 1), stays = flush(4, 1);
	struct ibv_srq *srq[] = { limited(), limited() };
	struct rdma_cm_id *id[] = { resolved(1), resolved(1) };
	struct rdma_cm_event *cm_event;
	struct ibv_async_event event;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	void *its_context;

	destroy_flushed(gone);
	CHECK(!ibv_destroy_srq(srq[0]) && !rdma_destroy_id(id[0]));
	gets_event_of(stays.cq);
	gets_limit_of(srq[1]);
	passes(RDMA_CM_EVENT_ADDR_RESOLVED, id[1]);
	CHECK(!ready(completions->fd) && !ready(context->async_fd) && !ready(connections->fd));

	/* A QP that takes no more receives of its SRQ, and a CQ that overruns. */
	qp = finished_with(srq[1], stays.cq);
	CHECK(ready(context->async_fd) == POLLIN);
	CHECK(!ibv_destroy_qp(qp) && !ready(context->async_fd));
	gone = flush(1, 3);
	CHECK(ready(context->async_fd) == POLLIN && ready(completions->fd) == POLLIN);
	destroy_flushed(gone);
	CHECK(!ready(context->async_fd) && !ready(completions->fd));

	destroy_flushed(stays);
	CHECK(!ibv_destroy_srq(srq[1]) && !rdma_destroy_id(id[1]));
	set_blocking(completions->fd, 0);
	set_blocking(context->async_fd, 0);
	set_blocking(connections->fd, 0);
	CHECK(ibv_get_cq_event(completions, &cq, &its_context) && errno == EAGAIN);
	CHECK(ibv_get_async_event(context, &event) && errno == EAGAIN);
	CHECK(rdma_get_cm_event(connections, &cm_event) && errno == EAGAIN);
	set_blocking(completions->fd, 1);
	set_blocking(context->async_fd, 1);
	set_blocking(connections->fd, 1);
}

static pthread_t waiter;
static pid_t waiter_tid;
static atomic_int handled, is_over;

static void count(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

static void handle(int signal, int flags)
{
	struct sigaction action = { .sa_handler = count, .sa_flags = flags };

	CHECK(!sigaction(signal, &action, NULL));
}

static void handle_signals(int flags)
{
	handle(SIGUSR1, flags);
}

static int waiter_sleeps(void)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", waiter_tid);
	file = fopen(path, "r");
	CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	fclose(file);
	return state == 'S';
}

/* Interrupts the waiter's sleep once, unless its call is over. */
static void interrupt(void)
{
	int before = atomic_load(&handled);

	while (!waiter_sleeps() && !atomic_load(&is_over))
		sched_yield();
	CHECK(!pthread_kill(waiter, SIGUSR1));
	while (atomic_load(&handled) == before)
		sched_yield();
}

static void *interrupt_until_over(void *nothing)
{
	while (!atomic_load(&is_over))
		interrupt();
	return nothing;
}

/* Interrupts the waiter a few times, and then ends its wait. */
static void *interrupt_and_end(void *end)
{
	for (int i = 0; i < SIGNALS; i++)
		interrupt();
	CHECK(!atomic_load(&is_over));
	((void (*)(void))end)();
	return NULL;
}

static struct flushed made;
static struct ibv_srq *made_srq;
static struct rdma_cm_id *made_id, *server, *asked;
static struct rdma_event_channel *clients;

static void end_cq_wait(void) { made = flush(4, 1); }
static void end_async_wait(void) { made_srq = limited(); }
static void end_cm_wait(void) { made_id = resolved(1); }

static void client_passes(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_get_cm_event(clients, &event));
	CHECK(event->event == type && !rdma_ack_cm_event(event));
}

static void end_request_wait(void)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	CHECK(!rdma_create_id(clients, &made_id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(made_id, NULL, loopback(rdma_get_src_port(server)), 1000));
	client_passes(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(made_id, 1000));
	client_passes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_create_qp(made_id, NULL, &init) && !rdma_connect(made_id, &param));
}

/* The RTU leaves when the client gets its event. */
static void end_accept_wait(void)
{
	client_passes(RDMA_CM_EVENT_ESTABLISHED);
}

static int wait_for_cq(void)
{
	struct ibv_cq *cq;
	void *its_context;

	return ibv_get_cq_event(completions, &cq, &its_context);
}

static int wait_for_async(void)
{
	struct ibv_async_event event;

	return ibv_get_async_event(context, &event);
}

static int wait_for_cm(void)
{
	struct rdma_cm_event *event;

	return rdma_get_cm_event(connections, &event);
}

static int wait_for_request(void)
{
	return rdma_get_request(server, &asked);
}

static int wait_for_accept(void)
{
	return rdma_accept(asked, NULL);
}

/* Calls `wait` while another thread interrupts the call. */
static int interrupted(int (*wait)(void), void *(*how)(void *), void (*end)(void))
{
	pthread_t other;
	int result, error;

	atomic_store(&is_over, 0);
	CHECK(!pthread_create(&other, NULL, how, (void *)end));
	result = wait();
	error = errno;
	atomic_store(&is_over, 1);
	CHECK(!pthread_join(other, NULL));
	errno = error;
	return result;
}

static void goes_on(int (*wait)(void), void (*end)(void))
{
	CHECK(!interrupted(wait, interrupt_and_end, end));
}

static void signals_interrupt_calls_unless_their_handlers_restart_them(void)
{
	int (*const waits[])(void) = { wait_for_cq, wait_for_async, wait_for_cm,
				       wait_for_request };
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	clients = rdma_create_event_channel();
	CHECK(clients && !rdma_create_id(NULL, &server, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(server, loopback(0)) && !rdma_listen(server, 4));
	waiter = pthread_self();
	waiter_tid = (pid_t)syscall(SYS_gettid);

	handle_signals(0);
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		CHECK(interrupted(waits[i], interrupt_until_over, NULL) && errno == EINTR);

	handle_signals(SA_RESTART);
	goes_on(wait_for_cq, end_cq_wait);
	ibv_ack_cq_events(made.cq, 1);
	destroy_flushed(made);
	goes_on(wait_for_async, end_async_wait);
	ibv_ack_async_event(&(struct ibv_async_event){ { .srq = made_srq },
						       IBV_EVENT_SRQ_LIMIT_REACHED });
	CHECK(!ibv_destroy_srq(made_srq));
	/* The program ends before it acknowledges the event of this one. */
	goes_on(wait_for_cm, end_cm_wait);
	goes_on(wait_for_request, end_request_wait);
	CHECK(!rdma_create_qp(asked, NULL, &init));
	goes_on(wait_for_accept, end_accept_wait);
	CHECK(!ready(completions->fd) && !ready(context->async_fd) && !ready(connections->fd));
}

static void waits_in_this_thread(void)
{
	waiter = pthread_self();
	waiter_tid = (pid_t)syscall(SYS_gettid);
}

static void *is_interrupted(void *nothing)
{
	waits_in_this_thread();
	CHECK(interrupted(wait_for_cq, interrupt_until_over, NULL) && errno == EINTR);
	return nothing;
}

static void *is_restarted(void *nothing)
{
	waits_in_this_thread();
	goes_on(wait_for_cq, end_cq_wait);
	ibv_ack_cq_events(made.cq, 1);
	destroy_flushed(made);
	return nothing;
}

/* The program has handlers of both kinds, and each signal does what its own asks for. */
static void handlers_may_differ(void)
{
	static const struct {
		int flags, others;
		void *(*waits)(void *);
	} cases[] = { { 0, SA_RESTART, is_interrupted }, { SA_RESTART, 0, is_restarted } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pthread_t thread;

		handle(SIGUSR1, cases[i].flags);
		handle(SIGUSR2, cases[i].others);
		CHECK(!pthread_create(&thread, NULL, cases[i].waits, NULL));
		CHECK(!pthread_join(thread, NULL));
	}
}

int main(void)
{
	alarm(60);
	context = open_loopback();
	pd = ibv_alloc_pd(context);
	completions = ibv_create_comp_channel(context);
	connections = rdma_create_event_channel();
	CHECK(pd && completions && connections);
	descriptors_are_only_ever_readable();
	each_event_is_an_edge();
	events_of_destroyed_objects_vanish();
	signals_interrupt_calls_unless_their_handlers_restart_them();
	handlers_may_differ();
	return 0;
}
