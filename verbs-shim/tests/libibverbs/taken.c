/* An address handle whose local address another program has taken: the program is told, since its datagrams
 * complete successfully, and nobody receives them. */

#include "ends.h"

#include <netinet/in.h>
#include <sys/socket.h>

int main(void)
{
	struct sockaddr_in6 there = { .sin6_family = AF_INET6, .sin6_port = htons(4791),
				      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };
	union ibv_gid *gid = &path.grh.dgid;
	int other = socket(AF_INET6, SOCK_DGRAM, 0), index = 0;
	struct ibv_context *context = open_loopback();

	CHECK(!bind(other, (struct sockaddr *)&there, sizeof(there)));
	while (!ibv_query_gid(context, 1, index, gid) && memcmp(gid, &in6addr_loopback, sizeof(*gid)))
		index++;
	path.grh.sgid_index = (uint8_t)index;
	CHECK(ibv_create_ah(ibv_alloc_pd(context), &path));
	/* A QP starts the datapath, for another address. */
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ends ends = { .context = context };

	for (int i = 0; i < 2; i++)
		CHECK(ends.qps[i] = ibv_create_qp(ibv_alloc_pd(context), &attr));
	connect_to(&ends, 0);
	return 0;
}
