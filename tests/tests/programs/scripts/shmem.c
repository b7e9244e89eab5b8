// OpenSHMEM: each process puts numbers into its neighbour's memory and gets them back, all add to a counter of
// process 0, and everyone compares. Prints one line from process 0 if it finds what it expects.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100000, ADDS = 100 };

static long counter;
static int me, all;

static void check(int right, const char *what, long number)
{
	if (right)
		return;
	fprintf(stderr, "process %d of %d: wrong result: %s %ld\n", me, all, what, number);
	shmem_global_exit(1);
}

int main(void)
{
	shmem_init();
	me = shmem_my_pe();
	all = shmem_n_pes();
	int next = (me + 1) % all, before = (me + all - 1) % all;
	long *memory = shmem_malloc(COUNT * sizeof(long));
	long *from = malloc(COUNT * sizeof(long)), *back = malloc(COUNT * sizeof(long));
	for (long i = 0; i < COUNT; i++) {
		from[i] = i * 31 + me;
		memory[i] = back[i] = -1;
	}
	// shmem_calloc's own barrier is not enough: Open MPI 4.1.4 clears the memory after it.
	shmem_barrier_all();
	shmem_long_put(memory, from, COUNT, next);
	for (int i = 0; i < ADDS; i++)
		shmem_long_atomic_add(&counter, me + 1, 0);
	shmem_barrier_all();
	for (long i = 0; i < COUNT; i++)
		check(memory[i] == i * 31 + before, "put of element", i);
	shmem_long_get(back, memory, COUNT, next);
	for (long i = 0; i < COUNT; i++)
		check(back[i] == from[i], "get of element", i);
	check(me != 0 || counter == (long)ADDS * all * (all + 1) / 2, "counter", counter);
	shmem_barrier_all();
	if (me == 0)
		printf("%d processes: all elements are right\n", all);
	shmem_finalize();
	return 0;
}
