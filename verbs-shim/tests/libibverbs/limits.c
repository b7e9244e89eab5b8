/* The limits that a device reports are exact: one object more is refused with the error of a
 * hardware device, and destroying an object makes room for another. */

#include "ends.h"

#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static void *allocate(int count)
{
	void *all = calloc(count, sizeof(void *));

	CHECK(all);
	return all;
}

/* One of `max` exists already. */
static void domains(int max)
{
	struct ibv_pd **all = allocate(max);

	for (int i = 1; i < max; i++)
		CHECK((all[i] = ibv_alloc_pd(context)));
	errno = 0;
	CHECK(!ibv_alloc_pd(context) && errno == ENOMEM);
	CHECK(!ibv_dealloc_pd(all[1]) && (all[1] = ibv_alloc_pd(context)));
	for (int i = 1; i < max; i++)
		CHECK(!ibv_dealloc_pd(all[i]));
	free(all);
}

static void address_handles(int max)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_ah **all = allocate(max);
	union ibv_gid gid;

	attr.grh.sgid_index = (uint8_t)gid_index(context, &gid);
	attr.grh.dgid = gid;
	for (int i = 0; i < max; i++)
		CHECK((all[i] = ibv_create_ah(pd, &attr)));
	errno = 0;
	CHECK(!ibv_create_ah(pd, &attr) && errno == ENOMEM);
	CHECK(!ibv_destroy_ah(all[0]) && (all[0] = ibv_create_ah(pd, &attr)));
	for (int i = 0; i < max; i++)
		CHECK(!ibv_destroy_ah(all[i]));
	free(all);
}

static void completion_queues(int max)
{
	struct ibv_cq **all = allocate(max);

	for (int i = 0; i < max; i++)
		CHECK((all[i] = ibv_create_cq(context, 1, NULL, NULL, 0)));
	errno = 0;
	CHECK(!ibv_create_cq(context, 1, NULL, NULL, 0) && errno == ENOMEM);
	for (int i = 0; i < max; i++)
		CHECK(!ibv_destroy_cq(all[i]));
	free(all);
}

int main(void)
{
	struct ibv_device_attr attr;

	alarm(300);
	context = open_loopback();
	pd = ibv_alloc_pd(context);
	CHECK(pd && !ibv_query_device(context, &attr));
	domains(attr.max_pd);
	address_handles(attr.max_ah);
	completion_queues(attr.max_cq);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return 0;
}
