/* Threads that are cancelled while they wait for an event, or poll. Each ends, and leaves nothing
 * locked and no descriptor open: the other threads go on. */

#include "ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { ROUNDS = 50, MAX_DESCRIPTORS = 1024 };

static struct ends *ends;
static struct ibv_comp_channel *completions;
static struct rdma_event_channel *connections;
static atomic_int turns;

static void *wait_for_completions(void *argument)
{
	struct ibv_cq *cq;
	void *context;

	atomic_fetch_add(&turns, 1);
	ibv_get_cq_event(completions, &cq, &context);
	return argument;
}

static void *wait_for_async_events(void *argument)
{
	struct ibv_async_event event;

	atomic_fetch_add(&turns, 1);
	ibv_get_async_event(ends->context, &event);
	return argument;
}

static void *wait_for_connections(void *argument)
{
	struct rdma_cm_event *event;

	atomic_fetch_add(&turns, 1);
	rdma_get_cm_event(connections, &event);
	return argument;
}

/* Sends and polls. The calls are no cancellation points, although they make system calls. */
static void *poll_for_ever(void *argument)
{
	struct ibv_wc wc;

	for (;;) {
		post_recv(ends, 1, 1);
		post_send(ends, 0, 2);
		for (int i = 0; i < 100; i++)
			ibv_poll_cq(ends->cq, 1, &wc);
		atomic_fetch_add(&turns, 1);
		pthread_testcancel();
	}
	return argument;
}

static void cancel(void *(*work)(void *))
{
	pthread_t thread;
	void *result;
	int before = atomic_load(&turns);

	CHECK(!pthread_create(&thread, NULL, work, NULL));
	while (atomic_load(&turns) == before)
		sched_yield();
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < MAX_DESCRIPTORS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int main(void)
{
	void *(*const works[])(void *) = { wait_for_completions, wait_for_async_events,
					   wait_for_connections, poll_for_ever };
	struct ibv_wc wc;
	int descriptors;

	alarm(60);
	ends = make_ends();
	completions = ibv_create_comp_channel(ends->context);
	connections = rdma_create_event_channel();
	CHECK(completions && connections);
	descriptors = open_descriptors();
	for (int i = 0; i < ROUNDS; i++)
		for (size_t which = 0; which < sizeof(works) / sizeof(*works); which++)
			cancel(works[which]);

	/* The background threads have some. */
	CHECK(open_descriptors() < descriptors + ROUNDS);
	/* Everything still works. */
	while (ibv_poll_cq(ends->cq, 1, &wc))
		;
	CHECK(!ibv_destroy_comp_channel(completions));
	rdma_destroy_event_channel(connections);
	destroy_ends(ends);
	return 0;
}
