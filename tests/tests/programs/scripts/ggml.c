/* A matrix product by ggml, in this process and by a server of ggml's RPC backend, compared to the last bit.

     ggml serve 10.9.9.1:50052
     ggml compute 10.9.9.1:50052 [timed]

   The client sends two matrices and reads their product. With `timed`, it also prints how long a small graph and
   a copy of 16 MiB take. */
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-rpc.h>
#include <ggml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INNER = 1024, ROWS = 512, COLUMNS = 256, COPIED = 16 << 20 };

static void fail(const char *what) {
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

struct product {
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    struct ggml_tensor *a, *b, *result;
};

/* The product of two matrices in memory of `backend`. */
static struct product prepare(ggml_backend_t backend, int inner, int rows, int columns) {
    struct ggml_init_params params = {.mem_size = 1 << 20, .no_alloc = true};
    struct product p = {.context = ggml_init(params)};
    p.graph = ggml_new_graph(p.context);
    p.a = ggml_new_tensor_2d(p.context, GGML_TYPE_F32, inner, rows);
    p.b = ggml_new_tensor_2d(p.context, GGML_TYPE_F32, inner, columns);
    p.result = ggml_mul_mat(p.context, p.a, p.b);
    ggml_build_forward_expand(p.graph, p.result);
    if (!ggml_backend_alloc_ctx_tensors(p.context, backend))
        fail("allocation");
    return p;
}

static void multiply(ggml_backend_t backend, struct product p, const float *a, const float *b, float *result) {
    ggml_backend_tensor_set(p.a, a, 0, ggml_nbytes(p.a));
    ggml_backend_tensor_set(p.b, b, 0, ggml_nbytes(p.b));
    if (ggml_backend_graph_compute(backend, p.graph) != GGML_STATUS_SUCCESS)
        fail("computation");
    ggml_backend_tensor_get(p.result, result, 0, ggml_nbytes(p.result));
}

static float *numbers(size_t count) {
    float *all = malloc(count * sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = rand() / (float)RAND_MAX - 0.5f;
    return all;
}

static void compare(ggml_backend_t here, ggml_backend_t there) {
    float *a = numbers(INNER * ROWS), *b = numbers(INNER * COLUMNS);
    float *expected = numbers(ROWS * COLUMNS), *result = numbers(ROWS * COLUMNS);
    multiply(here, prepare(here, INNER, ROWS, COLUMNS), a, b, expected);
    multiply(there, prepare(there, INNER, ROWS, COLUMNS), a, b, result);
    if (memcmp(expected, result, ROWS * COLUMNS * sizeof *result) != 0)
        fail("comparison");
    printf("a product of %d numbers is the same\n", ROWS * COLUMNS);
}

static void measure(ggml_backend_t there) {
    enum { GRAPHS = 2000, COPIES = 20 };
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 1, 1, 1}, result[1];
    struct product small = prepare(there, 4, 1, 1);
    double start = now();
    for (int i = 0; i < GRAPHS; i++)
        multiply(there, small, a, b, result);
    printf("small graph: %.1f us\n", (now() - start) / GRAPHS * 1e6);

    struct product large = prepare(there, COPIED / sizeof(float), 1, 1);
    float *data = numbers(COPIED / sizeof(float));
    start = now();
    for (int i = 0; i < COPIES; i++)
        ggml_backend_tensor_set(large.a, data, 0, COPIED);
    /* The read waits for the last of them. */
    ggml_backend_tensor_get(large.a, data, 0, sizeof(float));
    printf("set: %.2f Gb/s\n", COPIES * 8.0 * COPIED / (now() - start) / 1e9);
    start = now();
    for (int i = 0; i < COPIES; i++)
        ggml_backend_tensor_get(large.a, data, 0, COPIED);
    printf("get: %.2f Gb/s\n", COPIES * 8.0 * COPIED / (now() - start) / 1e9);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s serve|compute ADDRESS:PORT [timed]\n", argv[0]);
        return 2;
    }
    if (strcmp(argv[1], "serve") == 0) {
        ggml_backend_dev_t device = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
        ggml_backend_rpc_start_server(argv[2], NULL, 1, 1, &device);
        return 1;
    }
    ggml_backend_t here = ggml_backend_cpu_init(), there = ggml_backend_rpc_init(argv[2], 0);
    if (!here || !there)
        fail("initialisation");
    ggml_backend_cpu_set_n_threads(here, 1);
    compare(here, there);
    if (argc > 3)
        measure(there);
    return 0;
}
