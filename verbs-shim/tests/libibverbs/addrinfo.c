/* Lists of addresses that programs change before they free them. */

#include <infiniband/verbs.h>
#include <malloc.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static struct rdma_addrinfo *resolved(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;

	CHECK(!rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info));
	CHECK(!info->ai_next);
	return info;
}

static void *copied(const void *from, size_t size)
{
	void *copy = malloc(size);

	CHECK(copy);
	return memcpy(copy, from, size);
}

/* As libfabric does: replaces the source address, and adds entries for the same name. */
static void changed(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_addrinfo *info = resolved(0), *more;

	CHECK(info->ai_dst_len == sizeof any && info->ai_dst_canonname && !info->ai_src_addr);
	info->ai_src_addr = copied(&any, sizeof any);
	info->ai_src_len = sizeof any;
	for (int count = 0; count < 3; count++) {
		more = calloc(1, sizeof *more);
		CHECK(more);
		more->ai_dst_addr = copied(info->ai_dst_addr, info->ai_dst_len);
		more->ai_dst_len = info->ai_dst_len;
		more->ai_connect = copied("private", 7);
		more->ai_route = copied("route", 5);
		more->ai_next = info->ai_next;
		info->ai_next = more;
	}
	rdma_freeaddrinfo(info);
}

/* A program takes a field out of the list and frees it, or replaces it. */
static void taken(void)
{
	struct rdma_addrinfo *info = resolved(RAI_PASSIVE);

	CHECK(info->ai_src_len == sizeof(struct sockaddr_in) && info->ai_src_canonname);
	free(info->ai_src_addr);
	info->ai_src_addr = copied("an address of another family", 29);
	free(info->ai_src_canonname);
	info->ai_src_canonname = NULL;
	rdma_freeaddrinfo(info);
}

/* Bytes that are in use when all lists are freed. */
static size_t used_after_many(void)
{
	for (int count = 0; count < 100; count++) {
		changed();
		taken();
		rdma_freeaddrinfo(resolved(0));
	}
	return mallinfo2().uordblks;
}

int main(void)
{
	/* The C library caches some of the freed memory, once. */
	size_t before = used_after_many();

	CHECK(used_after_many() == before);
	return 0;
}
