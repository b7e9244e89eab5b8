/* Sends messages of 1 MiB from one process of MPI to another, which looks at every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1 << 20, MESSAGES = 20 };

static char pattern(int at, int message) { return (char)(at * 7 + message); }

int main(int argc, char **argv) {
    int rank;
    char *data = malloc(BYTES);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int message = 0; message < MESSAGES; message++) {
        if (rank == 0) {
            for (int at = 0; at < BYTES; at++) data[at] = pattern(at, message);
            MPI_Send(data, BYTES, MPI_CHAR, 1, message, MPI_COMM_WORLD);
            continue;
        }
        MPI_Recv(data, BYTES, MPI_CHAR, 0, message, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < BYTES; at++) {
            if (data[at] != pattern(at, message)) {
                fprintf(stderr, "message %d is wrong at byte %d\n", message, at);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    MPI_Finalize();
    if (rank == 1) printf("all right\n");
    return 0;
}
