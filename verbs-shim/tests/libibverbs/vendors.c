/* Loads the libraries of hardware vendors next to this one, with all their symbols bound at once.
 * They must deny that this stack's devices are theirs. */

#include "ends.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <unistd.h>

static void *load(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		printf("%s\n", dlerror());
	CHECK(library);
	return library;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		printf("%s\n", dlerror());
	CHECK(found);
	return found;
}

/* Room for the structures that the program requests, which the libraries must not write. */
static uint64_t room[512];

#define FUNCTION(library, name, type) ((type)symbol(library, #name))

static void mlx5(struct ends *ends)
{
	void *library = load("libmlx5.so.1");
	struct ibv_context *context = ends->context;
	struct ibv_qp *qp = ends->qps[0];

	CHECK(!FUNCTION(library, mlx5dv_is_supported, bool (*)(struct ibv_device *))(context->device));
	errno = 0;
	CHECK(!FUNCTION(library, mlx5dv_open_device, void *(*)(struct ibv_device *, void *))(
		      context->device, room) && errno == EOPNOTSUPP);
	CHECK(FUNCTION(library, mlx5dv_query_device, int (*)(struct ibv_context *, void *))(
		      context, room) == EOPNOTSUPP);
	CHECK(FUNCTION(library, mlx5dv_get_clock_info, int (*)(struct ibv_context *, void *))(
		      context, room) == EOPNOTSUPP);
	errno = 0;
	CHECK(!FUNCTION(library, mlx5dv_create_cq, void *(*)(struct ibv_context *, void *, void *))(
		      context, room, room) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!FUNCTION(library, mlx5dv_create_qp, void *(*)(struct ibv_context *, void *, void *))(
		      context, room, room) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!FUNCTION(library, mlx5dv_devx_alloc_uar, void *(*)(struct ibv_context *, uint32_t))(
		      context, 0) && errno == EOPNOTSUPP);
	CHECK(FUNCTION(library, mlx5dv_query_qp_lag_port, int (*)(struct ibv_qp *, void *, void *))(
		      qp, room, room) == EOPNOTSUPP);
	CHECK(FUNCTION(library, mlx5dv_modify_qp_udp_sport, int (*)(struct ibv_qp *, uint16_t))(
		      qp, 1) == EOPNOTSUPP);
}

static void efa(struct ends *ends)
{
	void *library = load("libefa.so.1");
	struct ibv_context *context = ends->context;

	CHECK(FUNCTION(library, efadv_query_device, int (*)(struct ibv_context *, void *, uint32_t))(
		      context, room, sizeof(room)) == EOPNOTSUPP);
	errno = 0;
	CHECK(!FUNCTION(library, efadv_create_qp_ex,
			void *(*)(struct ibv_context *, void *, void *, uint32_t))(
		      context, room, room, sizeof(room)) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!FUNCTION(library, efadv_create_driver_qp, void *(*)(struct ibv_pd *, void *, uint32_t))(
		      ends->pd, room, 0) && errno == EOPNOTSUPP);
}

int main(void)
{
	struct ends *ends;

	alarm(60);
	ends = make_ends();
	mlx5(ends);
	efa(ends);
	/* The device works as before. */
	exchange(ends, 0x77);
	destroy_ends(ends);
	return 0;
}
