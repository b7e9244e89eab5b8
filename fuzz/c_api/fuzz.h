/* A program that calls every function of verbs.h as a script says. Whoever reads of
 * `script` gets its next bytes, zeros at its end. */

#ifndef FUZZ_H
#define FUZZ_H

#define _GNU_SOURCE

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What must hold whatever the script says. */
#define CHECK(promise)                                                               \
	do {                                                                         \
		if (!(promise)) {                                                    \
			fprintf(stderr, "%s:%d: not kept: %s (errno %d)\n", __FILE__, \
				__LINE__, #promise, errno);                          \
			abort();                                                     \
		}                                                                    \
	} while (0)

/* A call of the library that returns 0 or an error's number. */
#define TOLD(call) (errno = 0, told(call))
/* The same where verbs.h itself may refuse, and leaves errno as it is. */
#define SAID(call) (errno = 0, said(call))
/* One that returns 0, or -1 and errno. */
#define MINUS_ONE(call) (errno = 0, minus_one(call))
/* One that returns an object, or NULL and errno. */
#define MADE(call) (errno = 0, made(call))

int told(int result);
int said(int result);
int minus_one(int result);
void *made(void *object);

/* Descriptors of this process. */
size_t descriptors(void);
/* Calls that would wait for the descriptor fail instead. */
void do_not_wait(int fd);

/* The number of all requests of the second thread. */
#define OF_THREAD (1ULL << 63)

/* The script. */
void script_is(const uint8_t *bytes, size_t len);
int script_ended(void);
uint8_t byte(void);
uint16_t two(void);
uint32_t four(void);
uint64_t eight(void);
/* Once in so many times. */
int rarely(unsigned times);

/* The objects of one kind; NULL where there is none. */
enum { SLOTS = 8 };

struct world {
	struct ibv_device *device;
	void *contexts[2];
	void *pds[4], *tds[2], *parents[2];
	void *mrs[SLOTS], *mws[4], *dms[2];
	void *channels[2], *cqs[SLOTS], *srqs[4], *xrcds[2];
	void *qps[SLOTS], *ahs[4];
	/* Of each CQ: whether it is extended, is being polled, and how many events of
	 * it were not acknowledged. */
	uint8_t extended[SLOTS], polling[SLOTS];
	unsigned announced[SLOTS];
	/* Of each QP: whether requests are being put together. */
	uint8_t building[SLOTS];
	struct ibv_async_event events[8];
	size_t unacknowledged;
	/* Requests are numbered from 1. */
	_Atomic uint64_t requests;
	_Atomic uint8_t completed[1 << 13];
};

extern struct world world;

int c_api_init(void);

/* An object that the script chooses, NULL if it chooses an empty place. */
#define PICK(kind) pick(world.kind, COUNT(world.kind))
/* One that is there; NULL if there is none. */
#define LIVE(kind) live(world.kind, COUNT(world.kind))
/* Room for one more; NULL if there is none. */
#define ROOM(kind) room(world.kind, COUNT(world.kind))
/* Forgets one. */
#define FORGET(kind, object) forget(world.kind, COUNT(world.kind), object)

void *pick(void *const *slots, size_t count);
void *live(void *const *slots, size_t count);
void **room(void **slots, size_t count);
void forget(void **slots, size_t count, const void *object);

/* Memory: 64 KiB, then what is not there, then what nobody registers. */
enum { ARENA = 1 << 16, PAGE = 4096 };

extern uint8_t *arena;
void make_arena(void);
void begin_memory(void);
void check_unregistered(void);
/* Addresses and lengths as programs get them wrong. */
uint64_t any_address(void);
uint64_t any_length(void);
int any_access(void);
/* What the library may read or write, so many bytes of it. */
void *own_memory(size_t len);
/* Stretches of registered memory, mostly. */
struct ibv_sge any_sge(void);
struct ibv_mr *any_mr(void);
uint64_t remote_address(const struct ibv_mr *mr);
uint32_t any_key(void);
uint64_t next_request(void);

void make_mr(void);
void other_memory(void);
void destroy_mr(struct ibv_mr *mr);

/* The second thread. What makes or destroys objects is done alone. */
void begin_thread(void);
void end_thread(void);
void alone(void (*operation)(void));

void make_object(void);
void destroy_object(void);
/* 1 if a second thread is wanted. */
int begin_world(void);
void end_world(void);

void make_cq(void);
void make_srq(void);
void poll_queues(void);
void use_cq(void);
void use_srq(void);
void use_events(void);
void acknowledge_all(void);
size_t index_of_cq(const struct ibv_cq *cq);
void check_completion(const struct ibv_wc *wc);

void begin_qps(enum ibv_qp_type type, uint8_t extended);
void any_qp(void);
void connect_qps(struct ibv_qp *one, struct ibv_qp *other);
void connect_any(void);
void modify_any(void);
void use_qp(void);
size_t index_of_qp(const struct ibv_qp *qp);

void post_sends(void);
void post_receives(void);
void bind_any(void);
struct ibv_mw_bind_info any_bind_info(void);
void put_together(void);
void query_any(void);
void unsupported_any(void);

#endif
