/* Loads the library whose path is given, uses it, and closes it, with and without an open
 * device. Code that runs in it must stay mapped. */

#include "ends.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#define FUNCTION(name) ((__typeof__(&name))symbol(library, #name))

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	CHECK(found);
	return found;
}

/* Opens a device, which starts a thread, and returns it. */
static void *use(void *library)
{
	struct ibv_device **list = FUNCTION(ibv_get_device_list)(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;

	CHECK(list && *list);
	context = FUNCTION(ibv_open_device)(*list);
	CHECK(context);
	FUNCTION(ibv_free_device_list)(list);
	pd = FUNCTION(ibv_alloc_pd)(context);
	CHECK(pd && !FUNCTION(ibv_dealloc_pd)(pd));
	return context;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	alarm(60);
	for (int i = 0; i < 20; i++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		pthread_t user;
		void *context;

		if (!library)
			printf("%s\n", dlerror());
		CHECK(library);
		/* A thread that has ended does not keep the library loaded. */
		CHECK(!pthread_create(&user, NULL, use, library));
		CHECK(!pthread_join(user, &context));
		/* Every other device is left open, and its thread keeps running. */
		if (i % 2)
			CHECK(!FUNCTION(ibv_close_device)(context));
		CHECK(!dlclose(library));
	}
	/* The thread of an open device wakes up periodically. */
	usleep(20000);
	return 0;
}
