// All-reduce of two processes on one GPU, over NCCL's network, and the sums checked.
//
//   nccl_all_reduce libnccl.so.2
//
// NCCL treats processes with different NCCL_HOSTIDs as processes on different hosts, and so uses
// the network between them. The driver and NCCL are loaded at run time, so that the program
// compiles anywhere. Exits with 77 if there is no GPU.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 1 << 20, ROUNDS = 5, FLOAT = 7, SUM = 0, NO_GPU = 77 };

struct id { char bytes[128]; };

static int rank;

#define CHECK(condition, what)                                                 \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "rank %d: %s\n", rank, what);          \
			exit(1);                                               \
		}                                                              \
	} while (0)

static void *load(const char *path, int missing)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (library)
		return library;
	fprintf(stderr, "%s\n", dlerror());
	exit(missing);
}

static void *find(void *library, const char *name)
{
	void *symbol = dlsym(library, name);
	CHECK(symbol, name);
	return symbol;
}

static void run(const char *path, int ids_in, int ids_out)
{
	void *driver = load("libcuda.so.1", NO_GPU);
	int (*init)(unsigned) = find(driver, "cuInit");
	int (*device_count)(int *) = find(driver, "cuDeviceGetCount");
	int (*retain)(void **, int) = find(driver, "cuDevicePrimaryCtxRetain");
	int (*set_current)(void *) = find(driver, "cuCtxSetCurrent");
	int (*allocate)(uint64_t *, size_t) = find(driver, "cuMemAlloc_v2");
	int (*to_device)(uint64_t, const void *, size_t) = find(driver, "cuMemcpyHtoD_v2");
	int (*to_host)(void *, uint64_t, size_t) = find(driver, "cuMemcpyDtoH_v2");
	int (*synchronize)(void) = find(driver, "cuCtxSynchronize");
	int devices = 0;
	void *context;
	if (init(0) != 0 || device_count(&devices) != 0 || devices == 0) {
		fprintf(stderr, "no GPU\n");
		exit(NO_GPU);
	}
	CHECK(retain(&context, 0) == 0 && set_current(context) == 0, "no context on the GPU");

	void *nccl = load(path, 1);
	int (*make_id)(struct id *) = find(nccl, "ncclGetUniqueId");
	int (*join)(void **, int, struct id, int) = find(nccl, "ncclCommInitRank");
	int (*all_reduce)(const void *, void *, size_t, int, int, void *, void *) = find(nccl, "ncclAllReduce");
	int (*leave)(void *) = find(nccl, "ncclCommDestroy");
	struct id id;
	if (rank == 0) {
		CHECK(make_id(&id) == 0, "no unique id");
		CHECK(write(ids_out, &id, sizeof(id)) == sizeof(id), "the id is not sent");
	} else {
		CHECK(read(ids_in, &id, sizeof(id)) == sizeof(id), "no id came");
	}
	void *comm;
	CHECK(join(&comm, RANKS, id, rank) == 0, "ncclCommInitRank fails");

	float *values = malloc(COUNT * sizeof(*values));
	uint64_t from, to;
	CHECK(values && allocate(&from, COUNT * sizeof(*values)) == 0, "no memory");
	CHECK(allocate(&to, COUNT * sizeof(*values)) == 0, "no memory");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++)
			values[i] = (float)((i + round) % 1000 * (rank + 1));
		CHECK(to_device(from, values, COUNT * sizeof(*values)) == 0, "copying to the GPU fails");
		CHECK(all_reduce((void *)from, (void *)to, COUNT, FLOAT, SUM, comm, NULL) == 0, "ncclAllReduce fails");
		CHECK(synchronize() == 0, "the GPU reports an error");
		CHECK(to_host(values, to, COUNT * sizeof(*values)) == 0, "copying from the GPU fails");
		for (int i = 0; i < COUNT; i++)
			CHECK(values[i] == (float)((i + round) % 1000 * 3), "a sum is wrong");
	}
	CHECK(leave(comm) == 0, "ncclCommDestroy fails");
	if (rank == 0)
		printf("%d sums of %d ranks are right\n", ROUNDS * COUNT, RANKS);
}

int main(int count, char **arguments)
{
	CHECK(count == 2, "usage: nccl_all_reduce libnccl.so.2");
	int ids[2];
	CHECK(pipe(ids) == 0, "no pipe");
	pid_t other = fork();
	CHECK(other >= 0, "no second process");
	rank = other == 0;
	setenv("NCCL_HOSTID", rank ? "b" : "a", 1);
	run(arguments[1], ids[0], ids[1]);
	int status = 0;
	if (rank == 0) {
		CHECK(waitpid(other, &status, 0) == other, "the other rank is gone");
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other rank fails");
	}
	return 0;
}
