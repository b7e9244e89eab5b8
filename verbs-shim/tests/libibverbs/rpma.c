/* Debian's librpma, unchanged: a child writes to its parent's file, flushes to visibility and to
 * persistence, and writes atomically. librpma 1.2 does that by READs after WRITEs. The arguments are
 * an address and a folder. */

#include <errno.h>
#include <fcntl.h>
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(promise)                                                                      \
	do {                                                                                \
		if (!(promise)) {                                                           \
			printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #promise, errno); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

enum { LENGTH = 4096, RECORD = 1000 };

static const char PORT[] = "7204";

/* What the server tells its client. */
struct offer {
	char memory[64];
	size_t memory_size;
	char config[64];
	size_t config_size;
};

static struct rpma_peer *open_peer(const char *address, enum rpma_util_ibv_context_type which)
{
	struct ibv_context *context;
	struct rpma_peer *peer;

	CHECK(!rpma_utils_get_ibv_context(address, which, &context));
	CHECK(!rpma_peer_new(context, &peer));
	return peer;
}

static void wait_for(struct rpma_conn *conn, enum rpma_conn_event expected)
{
	enum rpma_conn_event event;

	CHECK(!rpma_conn_next_event(conn, &event) && event == expected);
}

static char *map_file(const char *folder)
{
	char path[4096], *bytes;
	int fd;

	snprintf(path, sizeof(path), "%s/memory", folder);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && !ftruncate(fd, LENGTH));
	bytes = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(bytes != MAP_FAILED && !close(fd));
	return bytes;
}

static void make_offer(struct rpma_mr_local *mr, struct offer *offer)
{
	struct rpma_peer_cfg *config;

	CHECK(!rpma_mr_get_descriptor_size(mr, &offer->memory_size));
	CHECK(offer->memory_size <= sizeof(offer->memory));
	CHECK(!rpma_mr_get_descriptor(mr, offer->memory));
	CHECK(!rpma_peer_cfg_new(&config));
	CHECK(!rpma_peer_cfg_set_direct_write_to_pmem(config, true));
	CHECK(!rpma_peer_cfg_get_descriptor_size(config, &offer->config_size));
	CHECK(offer->config_size <= sizeof(offer->config));
	CHECK(!rpma_peer_cfg_get_descriptor(config, offer->config));
	CHECK(!rpma_peer_cfg_delete(&config));
}

/* `ready` is closed when the server listens. */
static void serve(const char *address, const char *folder, int ready)
{
	struct rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	char *bytes = map_file(folder);
	struct offer offer = {};
	struct rpma_conn_private_data data = { &offer, sizeof(offer) };
	struct rpma_mr_local *mr;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	struct rpma_ep *ep;

	CHECK(!rpma_ep_listen(peer, address, PORT, &ep));
	CHECK(!rpma_mr_reg(peer, bytes, LENGTH, RPMA_MR_USAGE_WRITE_DST |
			   RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
			   RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, &mr));
	make_offer(mr, &offer);
	CHECK(!close(ready));
	CHECK(!rpma_ep_next_conn_req(ep, NULL, &request));
	CHECK(!rpma_conn_req_connect(&request, &data, &conn));
	wait_for(conn, RPMA_CONN_ESTABLISHED);
	wait_for(conn, RPMA_CONN_CLOSED);
	for (int i = 0; i < RECORD; i++)
		CHECK(bytes[8 + i] == 'a' + i % 26);
	CHECK(!memcmp(bytes, "written!", 8));
	CHECK(!rpma_conn_disconnect(conn) && !rpma_conn_delete(&conn));
	CHECK(!rpma_mr_dereg(&mr) && !rpma_ep_shutdown(&ep) && !rpma_peer_delete(&peer));
}

static void complete(struct rpma_conn *conn, const void *expected)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;

	CHECK(!rpma_conn_get_cq(conn, &cq) && !rpma_cq_wait(cq));
	CHECK(!rpma_cq_get_wc(cq, 1, &wc, NULL));
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)expected);
}

static struct rpma_mr_remote *take_offer(struct rpma_conn *conn)
{
	struct rpma_conn_private_data data;
	struct rpma_peer_cfg *config;
	struct rpma_mr_remote *remote;
	struct offer *offer;

	CHECK(!rpma_conn_get_private_data(conn, &data) && data.len >= sizeof(*offer));
	offer = data.ptr;
	CHECK(!rpma_peer_cfg_from_descriptor(offer->config, offer->config_size, &config));
	CHECK(!rpma_conn_apply_remote_peer_cfg(conn, config) && !rpma_peer_cfg_delete(&config));
	CHECK(!rpma_mr_remote_from_descriptor(offer->memory, offer->memory_size, &remote));
	return remote;
}

static void use(const char *address)
{
	static char record[RECORD];
	static const enum rpma_flush_type TYPES[] = { RPMA_FLUSH_TYPE_VISIBILITY,
						      RPMA_FLUSH_TYPE_PERSISTENT };
	struct rpma_peer *peer = open_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	struct rpma_mr_remote *remote;
	struct rpma_mr_local *mr;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;

	for (int i = 0; i < RECORD; i++)
		record[i] = 'a' + i % 26;
	CHECK(!rpma_mr_reg(peer, record, RECORD, RPMA_MR_USAGE_WRITE_SRC, &mr));
	CHECK(!rpma_conn_req_new(peer, address, PORT, NULL, &request));
	CHECK(!rpma_conn_req_connect(&request, NULL, &conn));
	wait_for(conn, RPMA_CONN_ESTABLISHED);
	remote = take_offer(conn);
	for (int i = 0; i < 2; i++) {
		CHECK(!rpma_write(conn, remote, 8, mr, 0, RECORD, RPMA_F_COMPLETION_ON_ERROR, NULL));
		CHECK(!rpma_flush(conn, remote, 8, RECORD, TYPES[i], RPMA_F_COMPLETION_ALWAYS,
				  &TYPES[i]));
		complete(conn, &TYPES[i]);
	}
	CHECK(!rpma_atomic_write(conn, remote, 0, "written!", RPMA_F_COMPLETION_ALWAYS, record));
	complete(conn, record);
	CHECK(!rpma_mr_remote_delete(&remote) && !rpma_conn_disconnect(conn));
	wait_for(conn, RPMA_CONN_CLOSED);
	CHECK(!rpma_conn_delete(&conn) && !rpma_mr_dereg(&mr) && !rpma_peer_delete(&peer));
}

int main(int argc, char **argv)
{
	int ready[2], status;
	pid_t child;
	char byte;

	CHECK(argc == 3 && !pipe(ready));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(ready[1]);
		CHECK(!read(ready[0], &byte, 1));
		use(argv[1]);
		return 0;
	}
	serve(argv[1], argv[2], ready[1]);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
	return 0;
}
