/* A second thread, which uses the same objects while the script is played. */

#include "fuzz.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_t thread;
static atomic_int goes_on;
/* Held by who uses objects, and alone by who makes or destroys them: that two threads don't
 * do that to one object is for programs to see to. */
static pthread_rwlock_t objects;

static void poll_all(void)
{
	struct ibv_wc wc[4];

	for (size_t i = 0; i < COUNT(world.cqs); i++) {
		int found = world.cqs[i] ? ibv_poll_cq(world.cqs[i], 4, wc) : 0;

		for (int j = 0; j < found; j++)
			check_completion(&wc[j]);
	}
}

static void use_all(unsigned turn)
{
	for (size_t i = 0; i < COUNT(world.qps); i++) {
		struct ibv_recv_wr receive = { .wr_id = OF_THREAD }, *bad_receive;
		struct ibv_send_wr send = { .wr_id = OF_THREAD, .opcode = IBV_WR_SEND }, *bad_send;
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;
		struct ibv_qp *qp = world.qps[i];

		if (!qp)
			continue;
		said(ibv_post_recv(qp, &receive, &bad_receive));
		if (turn % 4 == 0 && qp->qp_type != IBV_QPT_UD)
			said(ibv_post_send(qp, &send, &bad_send));
		said(ibv_query_qp(qp, &attr, 0, &init));
	}
	for (size_t i = 0; i < COUNT(world.cqs); i++)
		if (world.cqs[i])
			said(ibv_req_notify_cq(world.cqs[i], 0));
}

static void *play(void *nothing)
{
	for (unsigned turn = 0; atomic_load(&goes_on); turn++) {
		CHECK(!pthread_rwlock_rdlock(&objects));
		poll_all();
		use_all(turn);
		CHECK(!pthread_rwlock_unlock(&objects));
		sched_yield();
	}
	return nothing;
}

void begin_thread(void)
{
	pthread_rwlockattr_t attr;

	CHECK(!pthread_rwlockattr_init(&attr));
	/* Who uses objects all the time must let the other one in. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	CHECK(!pthread_rwlock_init(&objects, &attr));
	pthread_rwlockattr_destroy(&attr);
	atomic_store(&goes_on, 1);
	CHECK(!pthread_create(&thread, NULL, play, NULL));
}

void end_thread(void)
{
	atomic_store(&goes_on, 0);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!pthread_rwlock_destroy(&objects));
}

void alone(void (*operation)(void))
{
	CHECK(!pthread_rwlock_wrlock(&objects));
	operation();
	CHECK(!pthread_rwlock_unlock(&objects));
}
