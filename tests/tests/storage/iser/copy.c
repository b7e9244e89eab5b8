// Copies between a disk over iSCSI and a pipe, by libiscsi, with several requests in flight.
//
//   copy write URL CHUNK <bytes     from stdin to the beginning of the disk
//   copy read URL CHUNK BYTES >out  from the beginning of the disk to stdout
//
// CHUNK is the number of bytes of a request. Two environment variables are needed: INITIATOR, the
// name of the initiator, and SILENCE, the number of seconds without any answer after which the copy
// fails: libiscsi over iSER does not notice that its target has disconnected. Exits with 0 only if every request has succeeded. Otherwise, or when it is
// killed, the last line on stderr says how many bytes from the beginning are known to be written.
#include <errno.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512, DEPTH = 8 };

struct copy;

// A request in flight.
struct request {
	struct copy *copy;
	uint64_t offset;
	uint32_t length;
	int done;
};

struct copy {
	struct iscsi_context *iscsi;
	int writes, lun, silence_ms, logged_in, failed;
	uint32_t chunk;
	unsigned char *bytes;
	uint64_t total, next, finished;
	// That of offset o is number o / chunk modulo DEPTH.
	struct request requests[DEPTH];
};

static void require(int condition, const char *what, struct iscsi_context *iscsi)
{
	if (condition)
		return;
	fprintf(stderr, "%s: %s\n", what, iscsi ? iscsi_get_error(iscsi) : strerror(errno));
	exit(1);
}

// All of stdin.
static unsigned char *all_input(uint64_t *length)
{
	uint64_t room = 1 << 20;
	unsigned char *bytes = malloc(room);
	ssize_t some;
	for (*length = 0; bytes && (some = read(0, bytes + *length, room - *length)) > 0;)
		if ((*length += some) == room)
			bytes = realloc(bytes, room *= 2);
	require(bytes != NULL, "no memory for the input", NULL);
	return bytes;
}

// Counts what is finished without a gap from the beginning, and reports it.
static void advance(struct copy *copy)
{
	struct request *first;
	uint64_t before = copy->finished;
	while (first = &copy->requests[copy->finished / copy->chunk % DEPTH],
	       first->done && first->offset == copy->finished && copy->finished < copy->total) {
		first->done = 0;
		copy->finished += first->length;
	}
	if (copy->writes && copy->finished != before)
		fprintf(stderr, "written %llu\n", (unsigned long long)copy->finished);
}

static void finished(struct iscsi_context *iscsi, int status, void *data, void *private)
{
	struct scsi_task *task = data;
	struct request *request = private;
	struct copy *copy = request->copy;
	if (status != SCSI_STATUS_GOOD) {
		fprintf(stderr, "the request at %llu fails with status %d: %s\n",
			(unsigned long long)request->offset, status, iscsi_get_error(iscsi));
		copy->failed = 1;
	} else if (!copy->writes && task->datain.size != (int)request->length) {
		fprintf(stderr, "the read at %llu has %d bytes\n", (unsigned long long)request->offset,
			task->datain.size);
		copy->failed = 1;
	} else {
		if (!copy->writes)
			memcpy(copy->bytes + request->offset, task->datain.data, request->length);
		request->done = 1;
	}
	if (task)
		scsi_free_scsi_task(task);
	if (!copy->failed)
		advance(copy);
}

static void start_next(struct copy *copy)
{
	struct request *request = &copy->requests[copy->next / copy->chunk % DEPTH];
	uint64_t left = copy->total - copy->next;
	uint32_t block = (uint32_t)(copy->next / BLOCK);
	struct scsi_task *task;
	request->copy = copy;
	request->offset = copy->next;
	request->length = left < copy->chunk ? (uint32_t)left : copy->chunk;
	if (copy->writes)
		task = iscsi_write10_task(copy->iscsi, copy->lun, block, copy->bytes + copy->next, request->length,
					  BLOCK, 0, 0, 0, 0, 0, finished, request);
	else
		task = iscsi_read10_task(copy->iscsi, copy->lun, block, request->length, BLOCK, 0, 0, 0, 0, 0,
					 finished, request);
	require(task != NULL, "no request", copy->iscsi);
	copy->next += request->length;
}

// Waits for answers, and handles them. libiscsi's own functions that wait end the session when there
// is none for a second, which a lost packet of Soft-RoCE may take.
static void wait_once(struct copy *copy)
{
	struct pollfd ready = { .fd = iscsi_get_fd(copy->iscsi), .events = iscsi_which_events(copy->iscsi) };
	int count = poll(&ready, 1, copy->silence_ms);
	require(count >= 0, "poll", NULL);
	if (count == 0 || iscsi_service(copy->iscsi, ready.revents) < 0) {
		fprintf(stderr, "the session fails: %s\n", count ? iscsi_get_error(copy->iscsi) : "no answer");
		copy->failed = 1;
	}
}

static void logged_in(struct iscsi_context *iscsi, int status, void *data, void *private)
{
	struct copy *copy = private;
	(void)data;
	require(status == 0, "no session", iscsi);
	copy->logged_in = 1;
}

static void run(struct copy *copy)
{
	while (copy->finished < copy->total && !copy->failed) {
		while (copy->next < copy->total && copy->next - copy->finished < (uint64_t)DEPTH * copy->chunk)
			start_next(copy);
		wait_once(copy);
	}
}

int main(int count, char **arguments)
{
	require(count >= 4 && getenv("SILENCE"), "usage: SILENCE=N copy write|read URL CHUNK [BYTES]", NULL);
	struct copy copy = { .writes = strcmp(arguments[1], "write") == 0, .chunk = atoi(arguments[3]) };
	copy.silence_ms = 1000 * atoi(getenv("SILENCE"));
	struct iscsi_context *iscsi = copy.iscsi = iscsi_create_context(getenv("INITIATOR"));
	require(iscsi != NULL, "no context", NULL);
	if (copy.writes)
		copy.bytes = all_input(&copy.total);
	else
		copy.bytes = malloc(copy.total = strtoull(arguments[4], NULL, 10));
	require(copy.bytes != NULL && copy.chunk % BLOCK == 0 && copy.total % BLOCK == 0, "no whole blocks", NULL);
	struct iscsi_url *url = iscsi_parse_full_url(iscsi, arguments[2]);
	require(url != NULL, "no URL", iscsi);
	require(iscsi_init_transport(iscsi, url->transport) == 0, "no transport", iscsi);
	iscsi_set_targetname(iscsi, url->target);
	iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
	iscsi_set_header_digest(iscsi, ISCSI_HEADER_DIGEST_NONE);
	// The session takes the place of one that a killed copy has left.
	require(iscsi_set_isid_en(iscsi, 1, 1) == 0, "no ISID", iscsi);
	// A session that fails is an error: it is not made again.
	iscsi_set_noautoreconnect(iscsi, 1);
	copy.lun = url->lun;
	require(iscsi_full_connect_async(iscsi, url->portal, url->lun, logged_in, &copy) == 0, "no session", iscsi);
	while (!copy.logged_in && !copy.failed)
		wait_once(&copy);
	run(&copy);
	if (copy.failed)
		return 1;
	iscsi_logout_sync(iscsi);
	iscsi_destroy_url(url);
	iscsi_destroy_context(iscsi);
	return copy.writes || fwrite(copy.bytes, 1, copy.total, stdout) == copy.total ? 0 : 1;
}
