/* A link-local address means nothing without its interface, its scope, which an ID keeps. */

#include "ends.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

/* A link-local address of this host, with its scope. */
static struct sockaddr_in6 link_local(void)
{
	struct sockaddr_in6 found = { 0 };
	struct ifaddrs *all, *each;

	CHECK(!getifaddrs(&all));
	for (each = all; each; each = each->ifa_next) {
		struct sockaddr_in6 *address = (struct sockaddr_in6 *)each->ifa_addr;

		if (address && address->sin6_family == AF_INET6 &&
		    IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr))
			found = *address;
	}
	freeifaddrs(all);
	CHECK(found.sin6_scope_id);
	return found;
}

static uint32_t scope(struct sockaddr *of)
{
	struct sockaddr_in6 *address = (struct sockaddr_in6 *)of;

	CHECK(address->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr));
	return address->sin6_scope_id;
}

int main(void)
{
	struct sockaddr_in6 own = link_local(), without = own, other = own;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	alarm(60);
	without.sin6_scope_id = 0;
	other.sin6_scope_id = if_nametoindex("lo");
	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&without) == -1 && errno == EINVAL);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&other) == -1 && errno == ENODEV);
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&own));
	CHECK(scope(rdma_get_local_addr(id)) == own.sin6_scope_id);

	/* The destination is at the interface of the address that the ID is bound to. */
	without.sin6_port = htons(7471);
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&without, 1000));
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && !rdma_ack_cm_event(event));
	CHECK(scope(rdma_get_local_addr(id)) == own.sin6_scope_id);
	CHECK(scope(rdma_get_peer_addr(id)) == own.sin6_scope_id);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	return 0;
}
