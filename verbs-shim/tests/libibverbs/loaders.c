/* Collective libraries are not linked to libibverbs: they load it, from a path or by its name,
 * and look up each symbol with a version. The library's path is the argument. */

#define _GNU_SOURCE
#include "ends.h"

#include <dlfcn.h>
#include <unistd.h>

/* Symbols that NCCL and its derivatives look up; the newer ones may be missing in an old
 * library, which costs features. */
static const struct {
	const char *version, *names[32];
} WANTED[] = {
	{ "IBVERBS_1.1",
	  { "ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name", "ibv_open_device",
	    "ibv_close_device", "ibv_get_async_event", "ibv_ack_async_event", "ibv_query_device",
	    "ibv_query_port", "ibv_query_gid", "ibv_query_qp", "ibv_alloc_pd", "ibv_dealloc_pd",
	    "ibv_reg_mr", "ibv_dereg_mr", "ibv_create_cq", "ibv_destroy_cq", "ibv_create_qp",
	    "ibv_modify_qp", "ibv_destroy_qp", "ibv_fork_init", "ibv_event_type_str",
	    "ibv_create_ah", "ibv_destroy_ah", "ibv_create_srq", "ibv_destroy_srq",
	    "ibv_wc_status_str", "ibv_get_device_guid" } },
	{ "IBVERBS_1.0", { "ibv_create_comp_channel", "ibv_destroy_comp_channel" } },
	{ "IBVERBS_1.6", { "ibv_qp_to_qp_ex" } },
	{ "IBVERBS_1.8", { "ibv_reg_mr_iova2" } },
	{ "IBVERBS_1.10", { "ibv_query_ece", "ibv_set_ece" } },
	{ "IBVERBS_1.12", { "ibv_reg_dmabuf_mr" } },
	{ "IBVERBS_1.14", { "ibv_query_qp_data_in_order" } },
	{ "IBVERBS_1.15", { "ibv_reg_mr_ex" } },
};

static void *library;

static void *in(const char *name, const char *version)
{
	void *found = version ? dlvsym(library, name, version) : dlsym(library, name);

	if (!found)
		printf("%s\n", dlerror());
	CHECK(found);
	return found;
}

#define CALL(name) ((__typeof__(&name))in(#name, NULL))
#define VERSIONED(name, version) ((__typeof__(&name))in(#name, version))

static void every_symbol_is_there(void)
{
	for (size_t i = 0; i < sizeof(WANTED) / sizeof(*WANTED); i++)
		for (const char *const *name = WANTED[i].names; *name; name++) {
			/* MSCCL++ and others look symbols up without a version, and must get the newest. */
			CHECK(in(*name, WANTED[i].version) == in(*name, NULL));
		}
	CHECK(!dlvsym(library, "ibv_open_device", "IBVERBS_1.99"));
	/* The version of 2006 is a different function. */
	CHECK(in("ibv_open_device", "IBVERBS_1.0") != in("ibv_open_device", "IBVERBS_1.1"));
}

/* As NCCL finds its devices. */
static void devices_are_found(void)
{
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	static char memory[4096];
	int count = 0;

	CHECK(!CALL(ibv_fork_init)());
	list = CALL(ibv_get_device_list)(&count);
	CHECK(list && count > 0);
	context = CALL(ibv_open_device)(list[0]);
	CHECK(context && !CALL(ibv_query_device)(context, &device) && device.phys_port_cnt == 1);
	memset(&port, 0, sizeof(port));
	CHECK(!((int (*)(struct ibv_context *, uint8_t, void *))in("ibv_query_port",
								   "IBVERBS_1.1"))(context, 1,
										   &port));
	CHECK(port.gid_tbl_len > 0 && port.max_msg_sz);
	pd = CALL(ibv_alloc_pd)(context);
	CHECK(pd);
	mr = VERSIONED(ibv_reg_mr_iova2, "IBVERBS_1.8")(pd, memory, sizeof(memory),
							(uintptr_t)memory,
							IBV_ACCESS_LOCAL_WRITE |
								IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr && !CALL(ibv_dereg_mr)(mr));
	/* NCCL takes any other error as "a GPU's memory can be registered", and crashes when it can't. */
	errno = 0;
	CHECK(!VERSIONED(ibv_reg_dmabuf_mr, "IBVERBS_1.12")(pd, 0, 4096, 0, -1, 0));
	CHECK(errno == EOPNOTSUPP);
	CHECK(!CALL(ibv_dealloc_pd)(pd) && !CALL(ibv_close_device)(context));
	CALL(ibv_free_device_list)(list);
}

/* Another copy of libibverbs in the same process writes this variable as if it were its own. */
static void the_flag_can_be_written(void)
{
	char *flag = dlvsym(library, "verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_34");

	CHECK(flag && !*flag);
	CHECK(dlvsym(library, "verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_65") == flag);
	*flag = 1;
	CHECK(*flag == 1);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	alarm(60);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		printf("%s\n", dlerror());
	CHECK(library);
	every_symbol_is_there();
	the_flag_can_be_written();
	devices_are_found();
	return 0;
}
