/* A process without a free descriptor is told so. It is not told that there is no device. */

#include "ends.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT = 64 };

int main(void)
{
	struct rlimit limit = { LIMIT, LIMIT };
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context **contexts;
	struct rdma_cm_id *listener;
	int fds[LIMIT], count = 0, devices = -1;

	alarm(60);
	CHECK(channel && list && *list && !setrlimit(RLIMIT_NOFILE, &limit));
	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&any));
	while ((fds[count] = open("/dev/null", O_RDONLY)) >= 0)
		count++;
	CHECK(errno == EMFILE);

	errno = 0;
	CHECK(!ibv_get_device_list(&devices) && errno == EMFILE && !devices);
	errno = 0;
	CHECK(!ibv_open_device(*list) && errno == EMFILE);
	errno = 0;
	CHECK(!rdma_get_devices(&devices) && errno == EMFILE && !devices);
	errno = 0;
	CHECK(!rdma_create_event_channel() && errno == EMFILE);
	errno = 0;
	CHECK(rdma_listen(listener, 1) == -1 && errno == EMFILE);

	while (count)
		CHECK(!close(fds[--count]));
	ibv_free_device_list(list);
	list = ibv_get_device_list(&devices);
	CHECK(list && devices > 0);
	ibv_free_device_list(list);
	contexts = rdma_get_devices(&devices);
	CHECK(contexts && devices > 0);
	rdma_free_devices(contexts);
	errno = 0;
	CHECK(!rdma_listen(listener, 1));
	CHECK(rdma_get_src_port(listener));
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
	return 0;
}
