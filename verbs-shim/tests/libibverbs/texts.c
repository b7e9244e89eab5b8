/* Prints each text that the libraries have for a number. The output must be that of rdma-core. */

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
int main(void)
{
	for (int i = -2; i < 10; i++)
		printf("node %d %s\n", i, ibv_node_type_str(i));
	for (int i = -2; i < 9; i++)
		printf("port %d %s\n", i, ibv_port_state_str(i));
	for (int i = -2; i < 24; i++)
		printf("event %d %s\n", i, ibv_event_type_str(i));
	for (int i = -2; i < 28; i++)
		printf("status %d %s\n", i, ibv_wc_status_str(i));
	for (int i = -2; i < 20; i++)
		printf("cm %d %s\n", i, rdma_event_str(i));
	return 0;
}
