// Collective and point-to-point operations of MPI with sums and bytes that every rank checks.
// Prints one line from rank 0 if all ranks found what they expected.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

// Around the sizes at which implementations change from one protocol to another.
static const int COUNTS[] = { 1, 7, 1000, 20000, 300000 };
enum { ROUNDS = sizeof(COUNTS) / sizeof(*COUNTS) };

static int rank, ranks;

static void check(int right, const char *what, int count)
{
	if (right)
		return;
	fprintf(stderr, "rank %d of %d: wrong result: %s of %d\n", rank, ranks, what, count);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static int *numbers(size_t count)
{
	int *memory = malloc(count * sizeof(int));
	if (!memory)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return memory;
}

static void all_reduce(int count)
{
	int *from = numbers(count), *to = numbers(count);
	for (int i = 0; i < count; i++)
		from[i] = i + rank;
	MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		check(to[i] == ranks * i + ranks * (ranks - 1) / 2, "allreduce", count);
	free(from);
	free(to);
}

static void all_to_all(int count)
{
	int *from = numbers((size_t)count * ranks), *to = numbers((size_t)count * ranks);
	for (int peer = 0; peer < ranks; peer++)
		for (int i = 0; i < count; i++)
			from[peer * count + i] = 1000003 * rank + 10007 * peer + i;
	MPI_Alltoall(from, count, MPI_INT, to, count, MPI_INT, MPI_COMM_WORLD);
	for (int peer = 0; peer < ranks; peer++)
		for (int i = 0; i < count; i++)
			check(to[peer * count + i] == 1000003 * peer + 10007 * rank + i, "alltoall", count);
	free(from);
	free(to);
}

static void ring(int count)
{
	int *from = numbers(count), *to = numbers(count);
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	for (int i = 0; i < count; i++)
		from[i] = rank * 7919 + i;
	MPI_Sendrecv(from, count, MPI_INT, next, 5, to, count, MPI_INT, before, 5, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 0; i < count; i++)
		check(to[i] == before * 7919 + i, "sendrecv", count);
	free(from);
	free(to);
}

// Each rank puts into the window of the next and adds to that of rank 0.
static void one_sided(int count)
{
	int *memory, *from = numbers(count);
	MPI_Win window;
	MPI_Win_allocate((MPI_Aint)(count + 1) * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
			 &memory, &window);
	memory[count] = 0;
	for (int i = 0; i < count; i++)
		from[i] = rank * 104729 + i;
	MPI_Win_fence(0, window);
	MPI_Put(from, count, MPI_INT, (rank + 1) % ranks, 0, count, MPI_INT, window);
	int one = 1;
	MPI_Accumulate(&one, 1, MPI_INT, 0, count, 1, MPI_INT, MPI_SUM, window);
	MPI_Win_fence(0, window);
	int before = (rank + ranks - 1) % ranks;
	for (int i = 0; i < count; i++)
		check(memory[i] == before * 104729 + i, "put", count);
	check(rank != 0 || memory[count] == ranks, "accumulate", ranks);
	MPI_Win_free(&window);
	free(from);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int round = 0; round < ROUNDS; round++) {
		all_reduce(COUNTS[round]);
		all_to_all(COUNTS[round]);
		ring(COUNTS[round]);
		one_sided(COUNTS[round]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks: all sums are right\n", ranks);
	MPI_Finalize();
	return 0;
}
