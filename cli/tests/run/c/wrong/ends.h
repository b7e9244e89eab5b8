/* Mistakes that programs make, each by two processes. Both run the function of their end, with a
 * socket between them. What a mistake consists of, such as a wrong key, the process prints, so that a
 * report can be compared with it. */

#ifndef MISTAKES_ENDS_H
#define MISTAKES_ENDS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ends the process if the condition is false. */
#define CHECK(promise)                                                                      \
	do {                                                                                \
		if (!(promise)) {                                                           \
			fprintf(stderr, "mistakes: %s:%d: %s (errno %d)\n", __FILE__,       \
				__LINE__, #promise, errno);                                 \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)

enum {
	PAGE = 4096,
	PAGES = 4,
	/* The region: the second page. */
	REGION = PAGE,
	LENGTH = 64,
	GRH = 40,
	REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	ALL = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND,
	QKEY = 0x11111111,
};

/* What the ends tell each other. */
struct contact {
	uint32_t qpn, psn, rkey, srqn;
	uint64_t addr;
	union ibv_gid gid;
};

struct end {
	const char *name;
	int is_client;
	/* To the other process. */
	int socket;
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
	int gid_index;
	struct contact own, peer;
	/* How the QP is connected: the usual values, which a mistake changes. */
	struct ibv_qp_attr attr;
	/* What is printed. */
	char notes[1024];
};

typedef void part(struct end *end);

struct mistake {
	const char *name;
	part *client;
	part *server;
};

/* A mistake of which packets go on to a process that has ended. Another one may get its QP numbers, so
 * these are made when nobody else is there. */
extern const struct mistake ALONE[];


extern const struct mistake REMOTE_MEMORY[], OWN_MEMORY[], WINDOWS[], RECEIVES[], SILENCE[], DATAGRAMS[],
	CALLS[],
	CONNECTIONS[];

/* Adds "name=value" to what the process prints. The names of a mistake are those in its report. */
__attribute__((format(printf, 2, 3))) void note(struct end *end, const char *format, ...);

/* The device, with a domain, a completion queue, memory, and a region that allows everything. */
void open_end(struct end *end);
/* A QP of this type, in RESET, with the values in `attr` to connect it. */
void make_qp(struct end *end, enum ibv_qp_type type);
/* Tells the peer of this end, and learns of the peer. */
void exchange(struct end *end);
/* Waits until the peer calls it, too. */
void meet(struct end *end);
/* As above, and the peer has handled all packets of this end: a datagram came after them. */
void meet_after_packets(struct end *end);
/* Takes the QP to INIT, RTR, RTS by the values in `attr` and `peer`. */
void to_init(struct end *end);
void to_rtr(struct end *end);
void to_rts(struct end *end);
/* All of these, for an RC QP. */
void connect_end(struct end *end);

/* Registers the usual part of the memory with these rights instead. On-demand memory may be unmapped
 * later. */
void register_with(struct end *end, int access);
/* Registers memory of a file that is cut off afterwards, so that the memory is mapped but gone. */
void register_cut_file(struct end *end);
struct ibv_sge usual_sge(struct end *end);
struct ibv_send_wr usual_wr(struct end *end, enum ibv_wr_opcode opcode, struct ibv_sge *sge);
void post(struct end *end, struct ibv_send_wr *wr);
/* Posts a request, as `usual_wr` makes it, with one element. */
void post_op(struct end *end, enum ibv_wr_opcode opcode);
void post_receive(struct end *end, struct ibv_sge sge);
/* Polls for the next completion, which must have this status. */
void expect(struct end *end, enum ibv_wc_status status);
/* Waits for the next asynchronous event, which must be this one. */
void expect_event(struct end *end, enum ibv_event_type type);

/* Parts that many mistakes share. */
/* Connects, and waits for the end of the mistake. */
void serve(struct end *end);
/* As above, and the QP is to report the event. */
void serve_access_error(struct end *end);
void serve_request_error(struct end *end);

#endif
