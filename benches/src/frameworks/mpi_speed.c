// Half round trips of 8 bytes, and bandwidths of 64 KiB and 1 MiB, between each even rank of MPI and
// the next, all pairs at once. Prints the averages of the pairs.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW = 16, LARGEST = 1 << 20 };

static int rank, peer;
static char *memory;

static double half_round_trip_us(int size, int rounds)
{
	double start = 0;
	for (int i = -rounds / 10; i < rounds; i++) {
		if (i == 0)
			start = MPI_Wtime();
		if (rank < peer)
			MPI_Send(memory, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
		MPI_Recv(memory, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank > peer)
			MPI_Send(memory, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / rounds / 2 * 1e6;
}

static double megabytes_per_second(int size, int windows)
{
	MPI_Request requests[WINDOW];
	MPI_Status statuses[WINDOW];
	double start = 0;
	for (int i = -1; i < windows; i++) {
		if (i == 0)
			start = MPI_Wtime();
		for (int n = 0; n < WINDOW; n++) {
			char *place = memory + (size_t)n * LARGEST;
			if (rank < peer)
				MPI_Isend(place, size, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &requests[n]);
			else
				MPI_Irecv(place, size, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &requests[n]);
		}
		MPI_Waitall(WINDOW, requests, statuses);
		if (rank > peer)
			MPI_Send(memory, 1, MPI_CHAR, peer, 3, MPI_COMM_WORLD);
		else
			MPI_Recv(memory, 1, MPI_CHAR, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	return (double)size * WINDOW * windows / (MPI_Wtime() - start) / 1e6;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int ranks;
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	peer = rank ^ 1;
	memory = calloc(WINDOW, LARGEST);
	double mine[] = {
		half_round_trip_us(8, 10000),
		megabytes_per_second(65536, 300),
		megabytes_per_second(LARGEST, 30),
	};
	double sum[3];
	MPI_Reduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("latency-us %f\nmedium-MB/s %f\nlarge-MB/s %f\n", sum[0] / ranks,
		       sum[1] / ranks, sum[2] / ranks);
	free(memory);
	MPI_Finalize();
	return 0;
}
