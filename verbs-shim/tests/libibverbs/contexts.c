/* Objects of two open devices: neither accepts objects of the other. */

#include "ends.h"

#include <fcntl.h>

static struct ibv_context *one, *other;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

#define REFUSED(call) (errno = 0, !(call) && errno == EINVAL)

static void channels(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);

	CHECK(channel && REFUSED(ibv_create_cq(one, 4, NULL, channel, 0)));
	CHECK(!ibv_destroy_comp_channel(channel));
}

static void domains(void)
{
	struct ibv_td_init_attr none = { 0 };
	struct ibv_parent_domain_init_attr attr = { .pd = pd };

	CHECK(REFUSED(ibv_alloc_parent_domain(other, &attr)));
	attr.td = ibv_alloc_td(other, &none);
	CHECK(attr.td && REFUSED(ibv_alloc_parent_domain(one, &attr)));
	CHECK(!ibv_dealloc_td(attr.td));
}

static void queue_pairs(void)
{
	struct ibv_cq *others = ibv_create_cq(other, 4, NULL, NULL, 0);
	/* With a domain alone in its mask, verbs.h drops the context. */
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, .pd = pd,
	};
	struct ibv_srq_init_attr small = { .attr = { 1, 1, 0 } };
	struct ibv_pd *others_pd = ibv_alloc_pd(other);

	CHECK(others && others_pd && REFUSED(ibv_create_qp_ex(other, &attr)));
	attr.recv_cq = others;
	CHECK(REFUSED(ibv_create_qp_ex(one, &attr)));
	attr.send_cq = others;
	/* All objects except the domain belong to the other device. */
	CHECK(REFUSED(ibv_create_qp_ex(other, &attr)));
	attr.send_cq = attr.recv_cq = cq;
	attr.srq = ibv_create_srq(others_pd, &small);
	CHECK(attr.srq && REFUSED(ibv_create_qp_ex(one, &attr)));
	CHECK(!ibv_destroy_srq(attr.srq) && !ibv_dealloc_pd(others_pd) && !ibv_destroy_cq(others));
}

static void xrc(void)
{
	struct ibv_xrcd_init_attr none = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .cq = cq,
		.xrcd = ibv_open_xrcd(other, &none),
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = attr.xrcd,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	CHECK(attr.xrcd && REFUSED(ibv_create_srq_ex(one, &attr)));
	CHECK(REFUSED(ibv_create_srq_ex(other, &attr)));
	CHECK(REFUSED(ibv_create_qp_ex(one, &target)));
	CHECK(!ibv_close_xrcd(attr.xrcd));
}

static void paths(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1 };
	struct ibv_pd *others = ibv_alloc_pd(other);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	path.grh.sgid_index = (uint8_t)gid_index(one, &path.grh.dgid);
	wr.wr.ud.ah = ibv_create_ah(others, &path);
	wr.wr.ud.remote_qpn = 2;
	CHECK(qp && wr.wr.ud.ah);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_ah(wr.wr.ud.ah) && !ibv_dealloc_pd(others));
}

int main(void)
{
	one = open_loopback();
	other = open_loopback();
	pd = ibv_alloc_pd(one);
	cq = ibv_create_cq(one, 4, NULL, NULL, 0);
	CHECK(pd && cq);
	channels();
	domains();
	queue_pairs();
	xrc();
	paths();
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(one) && !ibv_close_device(other));
	return 0;
}
