/* A call into which an error is injected fails with it, before it looks at its
 * arguments: EDOM here. The program gets the names of the calls. Without any, it prints which of a
 * hundred posts fail. */

#include "ends.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <string.h>

/* The error of a call that returns NULL, -1 or an error number. */
#define POINTER(call) (errno = 0, (call) == NULL ? errno : 0)
#define MINUS_ONE(call) (errno = 0, (call) == -1 ? errno : 0)

static struct ends *ends;

static int of_post_send(void)
{
	struct ibv_send_wr second = {.opcode = IBV_WR_SEND}, first = {.next = &second}, *bad = NULL;
	int error = ibv_post_send(ends->qps[0], &first, &bad);

	CHECK(bad == &first);
	return error;
}

static int of_post_recv(void)
{
	struct ibv_recv_wr first = {.wr_id = 1}, *bad = NULL;
	int error = ibv_post_recv(ends->qps[0], &first, &bad);

	CHECK(bad == &first);
	return error;
}

static int of_post_srq_recv(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(ends->pd, &attr);
	struct ibv_recv_wr first = {.wr_id = 1}, *bad = NULL;
	int error;

	CHECK(srq);
	error = ibv_post_srq_recv(srq, &first, &bad);
	CHECK(bad == &first);
	CHECK(!ibv_destroy_srq(srq));
	return error;
}

static int of_alloc_mw(void)
{
	return POINTER(ibv_alloc_mw(ends->pd, IBV_MW_TYPE_2));
}

static int of_open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int error = POINTER(ibv_open_device(list[0]));

	ibv_free_device_list(list);
	return error;
}

static int of_query_port(void)
{
	struct ibv_port_attr attr;

	return ibv_query_port(ends->context, 1, &attr);
}

static int of_poll_cq(void)
{
	struct ibv_wc wc;

	return MINUS_ONE(ibv_poll_cq(ends->cq, 1, &wc));
}

static const struct {
	const char *name;
	int (*call)(void);
} with_objects[] = {
	{"post_send", of_post_send},         {"post_recv", of_post_recv},
	{"post_srq_recv", of_post_srq_recv}, {"alloc_mw", of_alloc_mw},
	{"open_device", of_open_device},     {"query_port", of_query_port},
	{"poll_cq", of_poll_cq},
};

/* The error of a call without the objects that it needs. */
static int without_objects(const char *name)
{
#define IS(call) (!strcmp(name, #call))
	struct ibv_qp_attr qp = {0};
	struct ibv_modify_cq_attr modify = {0};
	struct ibv_cq_init_attr_ex cq = {0};
	struct ibv_qp_init_attr_ex qp_ex = {0};
	struct ibv_srq_init_attr_ex srq_ex = {0};
	struct ibv_alloc_dm_attr dm = {0};
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr domain = {0};
	struct ibv_xrcd_init_attr xrcd = {0};
	struct ibv_device_attr_ex device = {0};
	struct ibv_context *context = ends ? ends->context : NULL;
	struct ibv_mw window = { .context = context, .type = IBV_MW_TYPE_1 };

	if (IS(alloc_dm)) return POINTER(ibv_alloc_dm(context, &dm));
	if (IS(alloc_null_mr)) return POINTER(ibv_alloc_null_mr(ends->pd));
	if (IS(alloc_parent_domain)) return POINTER(ibv_alloc_parent_domain(context, &domain));
	if (IS(alloc_pd)) return POINTER(ibv_alloc_pd(NULL));
	if (IS(alloc_td)) return POINTER(ibv_alloc_td(context, &td));
	if (IS(attach_mcast)) return ibv_attach_mcast(NULL, NULL, 0);
	if (IS(bind_mw)) return ibv_bind_mw(ends->qps[0], &window, &(struct ibv_mw_bind){ 0 });
	if (IS(create_ah)) return POINTER(ibv_create_ah(NULL, NULL));
	if (IS(create_comp_channel)) return POINTER(ibv_create_comp_channel(NULL));
	if (IS(create_cq)) return POINTER(ibv_create_cq(NULL, 1, NULL, NULL, 0));
	if (IS(create_cq_ex)) return POINTER(ibv_create_cq_ex(context, &cq));
	if (IS(create_qp)) return POINTER(ibv_create_qp(NULL, NULL));
	if (IS(create_qp_ex)) return POINTER(ibv_create_qp_ex(context, &qp_ex));
	if (IS(create_srq)) return POINTER(ibv_create_srq(NULL, NULL));
	if (IS(create_srq_ex)) return POINTER(ibv_create_srq_ex(context, &srq_ex));
	if (IS(dealloc_mw)) return ibv_dealloc_mw(&window);
	if (IS(dealloc_pd)) return ibv_dealloc_pd(NULL);
	if (IS(dereg_mr)) return ibv_dereg_mr(NULL);
	if (IS(destroy_ah)) return ibv_destroy_ah(NULL);
	if (IS(destroy_cq)) return ibv_destroy_cq(NULL);
	if (IS(destroy_qp)) return ibv_destroy_qp(NULL);
	if (IS(destroy_srq)) return ibv_destroy_srq(NULL);
	if (IS(detach_mcast)) return ibv_detach_mcast(NULL, NULL, 0);
	if (IS(modify_cq)) return ibv_modify_cq(ends->cq, &modify);
	if (IS(modify_qp)) return ibv_modify_qp(NULL, &qp, 0);
	if (IS(modify_srq)) return ibv_modify_srq(NULL, NULL, 0);
	if (IS(open_xrcd)) return POINTER(ibv_open_xrcd(context, &xrcd));
	if (IS(query_device)) return ibv_query_device(NULL, NULL);
	if (IS(query_device_ex)) return ibv_query_device_ex(context, NULL, &device);
	if (IS(query_gid)) return MINUS_ONE(ibv_query_gid(NULL, 1, 0, NULL)) ? EDOM : 0;
	if (IS(query_qp)) return ibv_query_qp(NULL, NULL, 0, NULL);
	if (IS(query_srq)) return ibv_query_srq(NULL, NULL);
	if (IS(rdma_accept)) return MINUS_ONE(rdma_accept(NULL, NULL));
	if (IS(rdma_bind_addr)) return MINUS_ONE(rdma_bind_addr(NULL, NULL));
	if (IS(rdma_connect)) return MINUS_ONE(rdma_connect(NULL, NULL));
	if (IS(rdma_create_event_channel)) return POINTER(rdma_create_event_channel());
	if (IS(rdma_create_id)) return MINUS_ONE(rdma_create_id(NULL, NULL, NULL, RDMA_PS_TCP));
	if (IS(rdma_create_qp)) return MINUS_ONE(rdma_create_qp(NULL, NULL, NULL));
	if (IS(rdma_disconnect)) return MINUS_ONE(rdma_disconnect(NULL));
	if (IS(rdma_get_cm_event)) return MINUS_ONE(rdma_get_cm_event(NULL, NULL));
	if (IS(rdma_listen)) return MINUS_ONE(rdma_listen(NULL, 0));
	if (IS(rdma_resolve_addr)) return MINUS_ONE(rdma_resolve_addr(NULL, NULL, NULL, 0));
	if (IS(rdma_resolve_route)) return MINUS_ONE(rdma_resolve_route(NULL, 0));
	if (IS(reg_dmabuf_mr)) return POINTER(ibv_reg_dmabuf_mr(NULL, 0, 0, 0, -1, 0));
	if (IS(reg_mr)) return POINTER(ibv_reg_mr(NULL, NULL, 0, 0));
	if (IS(req_notify_cq)) return ibv_req_notify_cq(ends->cq, 0);
	if (IS(rereg_mr)) return ibv_rereg_mr(NULL, 0, NULL, NULL, 0, 0) ? errno : 0;
	if (IS(resize_cq)) return ibv_resize_cq(NULL, 1);
	fprintf(stderr, "this test does not know the call %s\n", name);
	exit(2);
#undef IS
}

static int error_of(const char *name)
{
	for (size_t i = 0; i < sizeof with_objects / sizeof *with_objects; i++)
		if (!strcmp(with_objects[i].name, name))
			return with_objects[i].call();
	return without_objects(name);
}

static void print_which_posts_fail(void)
{
	for (int i = 1; i <= 100; i++) {
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;
		int error = ibv_post_recv(ends->qps[0], &wr, &bad);

		if (error)
			printf("%d:%d ", i, error);
	}
	printf("\n");
}

/* rdma_create_qp makes a protection domain, CQs and a QP by itself: no injections of the program's own calls
 * are about these. */
static void make_by_one_call(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_cm_id *id;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000));
	CHECK(!rdma_create_qp(id, NULL, &attr) && id->qp && id->send_cq);
	errno = 0;
	CHECK(!ibv_create_cq(id->verbs, 1, NULL, NULL, 0) && errno == EDOM);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

int main(int count, char **names)
{
	int wrong = 0;

	if (count == 2 && !strcmp(names[1], "by one call")) {
		make_by_one_call();
		return 0;
	}

	if (count == 1) {
		ends = make_ends();
		print_which_posts_fail();
		return 0;
	}
	if (getenv("OBJECTS"))
		ends = make_ends();
	for (int i = 1; i < count; i++) {
		int error = error_of(names[i]);

		if (error != EDOM) {
			fprintf(stderr, "%s: error %d\n", names[i], error);
			wrong = 1;
		}
	}
	return wrong;
}
