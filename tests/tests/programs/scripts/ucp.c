// Moves data with each of UCX's operations between two processes, and compares it.
//
//   ucp PORT          waits for a client
//   ucp PORT ADDRESS  is the client
//
// The processes exchange addresses and keys over TCP; all data goes over UCX.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static const size_t SIZES[] = { 1, 8, 200, 4096, 30000, 1 << 20 };
enum { ROUNDS = sizeof(SIZES) / sizeof(*SIZES), LARGEST = 1 << 20, MESSAGE = 7 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h peer;
static int link_to_peer, client;
static unsigned char *own, *window;
static uint64_t remote_window;
static ucp_rkey_h remote_key;
static size_t message_bytes;
static void *message_data;

static void require(int condition, const char *what, size_t size)
{
	if (condition)
		return;
	fprintf(stderr, "%s: %s of %zu bytes\n", client ? "client" : "server", what, size);
	_exit(1);
}

static void fill(unsigned char *to, size_t size, int seed)
{
	for (size_t i = 0; i < size; i++)
		to[i] = (unsigned char)(i * 13 + (i >> 8) + seed);
}

static void compare(const unsigned char *with, size_t size, int seed, const char *what)
{
	for (size_t i = 0; i < size; i++)
		require(with[i] == (unsigned char)(i * 13 + (i >> 8) + seed), what, size);
}

static void finish(ucs_status_ptr_t request, const char *what, size_t size)
{
	if (!request)
		return;
	require(!UCS_PTR_IS_ERR(request), what, size);
	while (ucp_request_check_status(request) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	require(ucp_request_check_status(request) == UCS_OK, what, size);
	ucp_request_free(request);
}

static void flush(void)
{
	ucp_request_param_t none = { 0 };
	finish(ucp_worker_flush_nbx(worker, &none), "flush", 0);
}

// Waits until both are here. Keeps making progress meanwhile, because the peer may need it.
static void meet(void)
{
	flush();
	char byte = 0;
	require(write(link_to_peer, &byte, 1) == 1, "meeting", 1);
	while (recv(link_to_peer, &byte, 1, MSG_DONTWAIT) != 1)
		ucp_worker_progress(worker);
}

static void exchange(const void *mine, size_t size, void **theirs, size_t *their_size)
{
	require(write(link_to_peer, &size, sizeof(size)) == sizeof(size), "exchange", size);
	require(write(link_to_peer, mine, size) == (ssize_t)size, "exchange", size);
	require(recv(link_to_peer, their_size, sizeof(size), MSG_WAITALL) == sizeof(size), "exchange", 0);
	*theirs = malloc(*their_size);
	require(recv(link_to_peer, *theirs, *their_size, MSG_WAITALL) == (ssize_t)*their_size, "exchange", 0);
}

static void meet_by_tcp(int port, const char *address)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (client) {
		inet_pton(AF_INET, address, &at.sin_addr);
		require(connect(s, (void *)&at, sizeof(at)) == 0, "connecting", 0);
		link_to_peer = s;
		return;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	require(bind(s, (void *)&at, sizeof(at)) == 0 && listen(s, 1) == 0, "listening", 0);
	link_to_peer = accept(s, NULL, NULL);
	require(link_to_peer >= 0, "accepting", 0);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_size, void *data, size_t size,
			       const ucp_am_recv_param_t *about)
{
	(void)arg, (void)header, (void)header_size;
	if (about->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
		// The data is received outside of this callback.
		message_data = data;
		message_bytes = size;
		return UCS_INPROGRESS;
	}
	memcpy(own, data, size);
	message_data = NULL;
	message_bytes = size;
	return UCS_OK;
}

static void start(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_STREAM | UCP_FEATURE_AM |
					    UCP_FEATURE_AMO64 };
	require(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init", 0);
	ucp_worker_params_t single = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCS_THREAD_MODE_SINGLE };
	require(ucp_worker_create(context, &single, &worker) == UCS_OK, "ucp_worker_create", 0);
	ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							 UCP_AM_HANDLER_PARAM_FIELD_CB,
					   .id = MESSAGE,
					   .cb = on_message };
	require(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK, "handler", 0);
}

static void connect_workers(void)
{
	ucp_address_t *mine;
	void *theirs;
	size_t size, their_size;
	require(ucp_worker_get_address(worker, &mine, &size) == UCS_OK, "address", 0);
	exchange(mine, size, &theirs, &their_size);
	ucp_ep_params_t to = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = theirs };
	require(ucp_ep_create(worker, &to, &peer) == UCS_OK, "ucp_ep_create", 0);
	ucp_worker_release_address(worker, mine);
	free(theirs);
}

static ucp_mem_h share_window(void)
{
	ucp_mem_h memory;
	void *key, *theirs, *place;
	size_t size, their_size;
	ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				     .address = window,
				     .length = LARGEST };
	require(ucp_mem_map(context, &map, &memory) == UCS_OK, "ucp_mem_map", LARGEST);
	require(ucp_rkey_pack(context, memory, &key, &size) == UCS_OK, "ucp_rkey_pack", 0);
	exchange(key, size, &theirs, &their_size);
	require(ucp_ep_rkey_unpack(peer, theirs, &remote_key) == UCS_OK, "ucp_ep_rkey_unpack", 0);
	ucp_rkey_buffer_release(key);
	free(theirs);
	exchange(&window, sizeof(window), &place, &their_size);
	memcpy(&remote_window, place, sizeof(remote_window));
	free(place);
	return memory;
}

static void tag(size_t size, int seed)
{
	ucp_request_param_t none = { 0 };
	if (client) {
		fill(own, size, seed);
		finish(ucp_tag_send_nbx(peer, own, size, seed, &none), "tag send", size);
	} else {
		memset(own, 0, LARGEST);
		finish(ucp_tag_recv_nbx(worker, own, size, seed, ~0ul, &none), "tag receive", size);
		compare(own, size, seed, "tag");
	}
	meet();
}

static void put_and_get(size_t size, int seed)
{
	ucp_request_param_t none = { 0 };
	memset(window, 0, LARGEST);
	meet();
	if (client) {
		fill(own, size, seed);
		finish(ucp_put_nbx(peer, own, size, remote_window, remote_key, &none), "put", size);
	}
	meet();
	if (!client)
		compare(window, size, seed, "put");
	meet();
	if (client) {
		memset(own, 0, LARGEST);
		finish(ucp_get_nbx(peer, own, size, remote_window, remote_key, &none), "get", size);
		compare(own, size, seed, "get");
	}
	meet();
}

static void stream(size_t size, int seed)
{
	if (client) {
		ucp_request_param_t none = { 0 };
		fill(own, size, seed);
		finish(ucp_stream_send_nbx(peer, own, size, &none), "stream send", size);
	} else {
		ucp_request_param_t all = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					    .flags = UCP_STREAM_RECV_FLAG_WAITALL };
		size_t got = 0;
		memset(own, 0, LARGEST);
		finish(ucp_stream_recv_nbx(peer, own, size, &got, &all), "stream receive", size);
		compare(own, size, seed, "stream");
	}
	meet();
}

static void message(size_t size, int seed)
{
	ucp_request_param_t none = { 0 };
	message_bytes = 0;
	meet();
	if (client) {
		fill(own, size, seed);
		finish(ucp_am_send_nbx(peer, MESSAGE, NULL, 0, own, size, &none), "message send", size);
	} else {
		while (message_bytes == 0)
			ucp_worker_progress(worker);
		require(message_bytes == size, "message's length", size);
		if (message_data)
			finish(ucp_am_recv_data_nbx(worker, message_data, own, size, &none), "message data", size);
		compare(own, size, seed, "message");
	}
	meet();
}

// Both add to the server's window; the client fetches the sum.
static void atomics(void)
{
	uint64_t one = 1, before = 0;
	memset(window, 0, sizeof(one));
	meet();
	ucp_request_param_t wide = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
				     .datatype = ucp_dt_make_contig(8),
				     .reply_buffer = &before };
	for (uint64_t i = 0; client && i < 20; i++) {
		finish(ucp_atomic_op_nbx(peer, UCP_ATOMIC_OP_ADD, &one, 1, remote_window, remote_key, &wide),
		       "atomic", 8);
		require(before == i, "atomic's result", 8);
	}
	meet();
	require(client || *(uint64_t *)window == 20, "atomic sum", 8);
}

int main(int count, char **arguments)
{
	if (count < 2)
		return 2;
	client = count > 2;
	own = aligned_alloc(4096, LARGEST);
	window = aligned_alloc(4096, LARGEST);
	meet_by_tcp(atoi(arguments[1]), client ? arguments[2] : NULL);
	start();
	connect_workers();
	ucp_mem_h memory = share_window();
	for (int round = 0; round < ROUNDS; round++) {
		tag(SIZES[round], 10 * round + 1);
		put_and_get(SIZES[round], 10 * round + 2);
		stream(SIZES[round], 10 * round + 3);
		message(SIZES[round], 10 * round + 4);
	}
	atomics();
	printf("%s: all bytes are right\n", client ? "client" : "server");
	ucp_rkey_destroy(remote_key);
	ucp_request_param_t none = { 0 };
	finish(ucp_ep_close_nbx(peer, &none), "close", 0);
	meet();
	ucp_mem_unmap(context, memory);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	return 0;
}
