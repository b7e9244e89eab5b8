// Moves data by NCCL's own InfiniBand transport, between two processes, without a GPU.
//
//   nccl libnccl.so.2 DEVICE [TRANSPORT]
//
// With TRANSPORT, which is ncclNetIb or ncclNetSocket, it also measures. Each message waits for the end
// of the one before.
//
// NCCL does not export the table of its transport's functions. The library keeps its symbol
// table, so the program reads the table's address from there. Host memory takes the same path
// through the transport as a GPU's memory does: init, devices, getProperties, listen, connect,
// accept, regMr, isend, irecv, test. The layout below is that of version 12 of the interface
// (NCCL 2.30 and later).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANDLE_BYTES = 128, POINTER_HOST = 1, LARGEST = 4 << 20 };

struct properties {
	char *name;
	char *pci_path;
	uint64_t guid;
	int pointer_support, region_is_global, force_flush, speed_mbps, port;
	float latency;
	int max_comms, max_receives, device_type, device_version;
	struct { int count, devices[8]; } virtual_nic;
	size_t max_p2p_bytes, max_collective_bytes;
	int max_multi_request;
	int16_t rail, plane;
	// Room for what later versions add.
	char reserved[512];
};

typedef void (*logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

struct transport {
	const char *name;
	int (*init)(void **context, uint64_t comm, const int *traffic_class, logger, void *profiler);
	int (*devices)(int *count);
	int (*get_properties)(int device, struct properties *);
	int (*listen)(void *context, int device, void *handle, void **listener);
	int (*connect)(void *context, int device, void *handle, void **comm, void **offload);
	int (*accept)(void *listener, void **comm, void **offload);
	int (*register_memory)(void *comm, void *data, size_t size, int type, void **key);
	int (*register_dma_buffer)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **key);
	int (*deregister)(void *comm, void *key);
	int (*send)(void *comm, void *data, size_t size, int tag, void *key, void *profile, void **request);
	int (*receive)(void *comm, int n, void **data, size_t *sizes, int *tags, void **keys, void **profiles, void **request);
	int (*flush)(void *comm, int n, void **data, int *sizes, void **keys, void **request);
	int (*test)(void *request, int *done, int *sizes);
	int (*close_send)(void *comm);
	int (*close_receive)(void *comm);
	int (*close_listener)(void *listener);
};

static const char *role = "sender";
static bool measures;

#define CHECK(condition, ...)                                                  \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s: ", role);                         \
			fprintf(stderr, __VA_ARGS__);                          \
			fputc('\n', stderr);                                   \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define CALL(what)                                                             \
	do {                                                                   \
		int result_ = (what);                                          \
		CHECK(result_ == 0, "%s returns %d", #what, result_);          \
	} while (0)

static void say(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)flags;
	// 1 is VERSION, 2 WARN, 3 INFO.
	if (level > 3)
		return;
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "%s: NCCL %s:%d: ", role, file, line);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

// The address of a symbol that the library defines and does not export.
static void *hidden_symbol(const char *path, void *exported, const char *name)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0, "%s can't be opened", path);
	struct stat about;
	CHECK(fstat(file, &about) == 0, "%s has no size", path);
	const char *image = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	CHECK(image != MAP_FAILED, "%s can't be mapped", path);
	close(file);
	Dl_info loaded;
	CHECK(dladdr(exported, &loaded) != 0, "the library's address is unknown");
	const ElfW(Ehdr) *header = (const void *)image;
	const ElfW(Shdr) *sections = (const void *)(image + header->e_shoff);
	for (int i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		const ElfW(Sym) *symbols = (const void *)(image + sections[i].sh_offset);
		const char *names = image + sections[sections[i].sh_link].sh_offset;
		for (size_t n = 0; n < sections[i].sh_size / sizeof(*symbols); n++)
			if (strcmp(names + symbols[n].st_name, name) == 0)
				return (char *)loaded.dli_fbase + symbols[n].st_value;
	}
	CHECK(0, "%s has no symbol %s: this NCCL was stripped", path, name);
	return NULL;
}

static unsigned char byte_of(size_t round, size_t at)
{
	return (unsigned char)(at * 31 + (at >> 9) + round * 7 + 1);
}

static int device_named(const struct transport *net, int count, const char *wanted)
{
	int chosen = -1;
	for (int device = 0; device < count; device++) {
		struct properties about;
		memset(&about, 0, sizeof(about));
		CALL(net->get_properties(device, &about));
		CHECK(about.speed_mbps > 0, "%s has speed %d", about.name, about.speed_mbps);
		CHECK(about.port == 1 || measures, "%s has port %d", about.name, about.port);
		CHECK(about.pointer_support & POINTER_HOST, "%s takes no host memory", about.name);
		CHECK(about.max_comms > 0 && about.max_receives > 0, "%s takes no connections", about.name);
		printf("%s: device %d is %s, port %d, %d Mb/s\n", role, device, about.name, about.port,
		       about.speed_mbps);
		if (strcmp(about.name, wanted) == 0)
			chosen = device;
	}
	CHECK(chosen >= 0, "NCCL finds %d devices, and none is %s", count, wanted);
	return chosen;
}

static const size_t sizes[] = { 1, 8, 4096, 65536, 1 << 20, LARGEST };
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static void wait_for(const struct transport *net, void *request, size_t size)
{
	int done = 0, told = -1;
	while (!done)
		CALL(net->test(request, &done, &told));
	CHECK(told == (int)size, "a request of %zu bytes moved %d", size, told);
}

static void receive(const struct transport *net, void *comm, void *data, size_t size, int tag, void *key)
{
	void *request = NULL, *profile = NULL;
	size_t room = size;
	while (!request)
		CALL(net->receive(comm, 1, &data, &room, &tag, &key, &profile, &request));
	wait_for(net, request, size);
}

static void send(const struct transport *net, void *comm, void *data, size_t size, int tag, void *key)
{
	void *request = NULL;
	while (!request)
		CALL(net->send(comm, data, size, tag, key, NULL, &request));
	wait_for(net, request, size);
}

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

// The average time in us of `count` messages that `move` sends or receives.
static double time_us(typeof(send) move, const struct transport *net, void *comm, void *data, size_t size, void *key, int count)
{
	double start = 0;
	for (int i = -count / 10; i < count; i++) {
		if (i == 0)
			start = now_us();
		move(net, comm, data, size, 0, key);
	}
	return (now_us() - start) / count;
}

static void measure(typeof(send) move, const struct transport *net, void *comm, void *data, void *key)
{
	double small = time_us(move, net, comm, data, 8, key, 10000);
	double medium = time_us(move, net, comm, data, 65536, key, 5000);
	double large = time_us(move, net, comm, data, 1 << 20, key, 1000);
	if (move == send)
		printf("latency-us %f\nmedium-MB/s %f\nlarge-MB/s %f\n", small, 65536 / medium, (1 << 20) / large);
}

static void receive_all(const struct transport *net, void *context, int device, int handle_to)
{
	char handle[HANDLE_BYTES] = { 0 };
	void *listener, *comm = NULL, *offload = NULL, *key;
	CALL(net->listen(context, device, handle, &listener));
	CHECK(write(handle_to, handle, sizeof(handle)) == sizeof(handle), "the handle is not sent");
	while (!comm)
		CALL(net->accept(listener, &comm, &offload));
	unsigned char *data = aligned_alloc(4096, LARGEST);
	CALL(net->register_memory(comm, data, LARGEST, POINTER_HOST, &key));
	if (measures)
		measure(receive, net, comm, data, key);
	for (size_t round = 0; round < SIZES; round++) {
		memset(data, 0, LARGEST);
		receive(net, comm, data, sizes[round], (int)round, key);
		for (size_t at = 0; at < sizes[round]; at++)
			CHECK(data[at] == byte_of(round, at), "byte %zu of %zu is wrong", at, sizes[round]);
	}
	CALL(net->deregister(comm, key));
	CALL(net->close_receive(comm));
	CALL(net->close_listener(listener));
}

static void send_all(const struct transport *net, void *context, int device, int handle_from)
{
	char handle[HANDLE_BYTES];
	CHECK(read(handle_from, handle, sizeof(handle)) == sizeof(handle), "no handle came");
	void *comm = NULL, *offload = NULL, *key;
	while (!comm)
		CALL(net->connect(context, device, handle, &comm, &offload));
	unsigned char *data = aligned_alloc(4096, LARGEST);
	CALL(net->register_memory(comm, data, LARGEST, POINTER_HOST, &key));
	if (measures)
		measure(send, net, comm, data, key);
	for (size_t round = 0; round < SIZES; round++) {
		for (size_t at = 0; at < sizes[round]; at++)
			data[at] = byte_of(round, at);
		send(net, comm, data, sizes[round], (int)round, key);
	}
	CALL(net->deregister(comm, key));
	CALL(net->close_send(comm));
}

// NCCL's transport over sockets asks the CUDA inside NCCL for the current device, which it does not use, and fails without
// a GPU. This makes it device 0.
static void answer_get_device(unsigned char *function)
{
	// mov dword [rdi], 0; xor eax, eax; ret
	static const unsigned char answer[] = { 0xc7, 0x07, 0, 0, 0, 0, 0x31, 0xc0, 0xc3 };
	void *page = (void *)((uintptr_t)function & ~(uintptr_t)4095);
	CHECK(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "CUDA's code stays as it is");
	memcpy(function, answer, sizeof(answer));
}

int main(int count, char **arguments)
{
	CHECK(count == 3 || count == 4, "usage: nccl libnccl.so.2 DEVICE [TRANSPORT]");
	measures = count == 4;
	int handles[2];
	CHECK(pipe(handles) == 0, "no pipe");
	pid_t receiver = fork();
	CHECK(receiver >= 0, "no second process");
	if (receiver == 0)
		role = "receiver";

	void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
	CHECK(library, "%s", dlerror());
	void *exported = dlsym(library, "ncclGetVersion");
	CHECK(exported, "%s", dlerror());
	int version = 0;
	CALL(((int (*)(int *))exported)(&version));
	CHECK(version >= 23000, "NCCL %d is older than 2.30, and its tables differ", version);
	const struct transport *net = hidden_symbol(arguments[1], exported, measures ? arguments[3] : "ncclNetIb");
	CHECK(measures || strcmp(net->name, "IB") == 0, "the transport is named %s", net->name);

	if (measures)
		answer_get_device(hidden_symbol(arguments[1], exported, "cudaGetDevice"));

	void *context = NULL;
	int traffic_class = -1, devices = 0;
	CALL(net->init(&context, 1, &traffic_class, say, NULL));
	CALL(net->devices(&devices));
	int device = device_named(net, devices, arguments[2]);
	if (receiver == 0) {
		receive_all(net, context, device, handles[1]);
		exit(0);
	}
	send_all(net, context, device, handles[0]);
	int status;
	CHECK(waitpid(receiver, &status, 0) == receiver, "the receiver is gone");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the receiver ends with status %d", status);
	printf("NCCL %d moved %d messages\n", version, SIZES);
	return 0;
}
