// An MPI program that goes on until the file that its argument names exists: all ranks add up
// numbers, and each one checks the sum. Rank 0 prints the number of the round now and then.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 20000, EVERY = 10 };

static int from[COUNT], to[COUNT];

int main(int argc, char **argv)
{
	int rank, ranks, stop = 0;
	if (argc != 2)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int round = 1; !stop; round++) {
		for (int i = 0; i < COUNT; i++)
			from[i] = i + rank + round;
		MPI_Allreduce(from, to, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < COUNT; i++) {
			if (to[i] != ranks * (i + round) + ranks * (ranks - 1) / 2) {
				fprintf(stderr, "rank %d: wrong sum in round %d\n", rank, round);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		}
		if (rank == 0 && round % EVERY == 0) {
			printf("round %d\n", round);
			fflush(stdout);
			stop = access(argv[1], F_OK) == 0;
		}
		MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("all sums are right\n");
	MPI_Finalize();
	return 0;
}
