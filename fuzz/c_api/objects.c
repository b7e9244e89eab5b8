/* Making objects, with what may be wrong about it, and destroying them, in use or not. */

#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void do_not_wait(int fd)
{
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

static void make_context(void)
{
	void **slot = ROOM(contexts);
	struct ibv_context *context;

	if (!slot)
		return;
	context = MADE(ibv_open_device(world.device));
	CHECK(context);
	do_not_wait(context->async_fd);
	*slot = context;
}

static void make_channel(void)
{
	void **slot = ROOM(channels);
	struct ibv_comp_channel *channel;

	if (!slot)
		return;
	channel = MADE(ibv_create_comp_channel(PICK(contexts)));
	if (channel)
		do_not_wait(channel->fd);
	*slot = channel;
}

static void make_domain(void)
{
	struct ibv_context *context = LIVE(contexts);
	struct ibv_parent_domain_init_attr attr = { .comp_mask = rarely(4) ? four() : 0 };
	struct ibv_td_init_attr none = { .comp_mask = rarely(8) ? four() : 0 };
	void **slot = NULL;

	/* What the mask promises is NULL here: nothing may call it. */
	attr.pd = PICK(pds);
	attr.td = PICK(tds);
	switch (byte() % 3) {
	case 0:
		slot = ROOM(pds);
		if (slot)
			*slot = MADE(ibv_alloc_pd(PICK(contexts)));
		break;
	case 1:
		slot = ROOM(tds);
		if (slot)
			*slot = MADE(ibv_alloc_td(context, &none));
		break;
	default:
		slot = ROOM(parents);
		if (slot)
			*slot = MADE(ibv_alloc_parent_domain(context, &attr));
	}
}

static void make_dm_or_mw(void)
{
	struct ibv_alloc_dm_attr attr = {
		.length = rarely(16) ? any_length() : two(),
		.log_align_req = byte() % 16,
		.comp_mask = rarely(16) ? four() : 0,
	};
	struct ibv_pd *pd = LIVE(pds);
	void **slot;

	if (byte() % 2) {
		slot = ROOM(dms);
		if (slot)
			*slot = MADE(ibv_alloc_dm(LIVE(contexts), &attr));
		return;
	}
	slot = ROOM(mws);
	if (slot && pd)
		*slot = MADE(ibv_alloc_mw(pd, rarely(8) ? byte() : 1 + byte() % 2));
}

static void make_xrcd(void)
{
	void **slot = ROOM(xrcds);
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = rarely(8) ? four() :
					 IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = rarely(4) ? (int)four() : O_CREAT,
	};

	if (rarely(2))
		attr.fd = rarely(2) ? (int)four() : 0;
	if (slot)
		*slot = MADE(ibv_open_xrcd(LIVE(contexts), &attr));
}

static struct ibv_ah_attr any_path(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.sgid_index = rarely(8) ? byte() : byte() % 2;
	if (ibv_query_gid(world.contexts[0], 1, attr.grh.sgid_index, &attr.grh.dgid) ||
	    rarely(8))
		for (size_t i = 0; i < sizeof(attr.grh.dgid.raw); i++)
			attr.grh.dgid.raw[i] = byte();
	attr.grh.hop_limit = byte();
	attr.grh.traffic_class = byte();
	if (rarely(16))
		attr.port_num = byte();
	if (rarely(16))
		attr.is_global = 0;
	return attr;
}

static void make_ah(void)
{
	void **slot = ROOM(ahs);
	struct ibv_pd *pd = PICK(pds);
	struct ibv_ah_attr attr = any_path();
	struct ibv_wc wc = { .wc_flags = byte() % 8, .sl = byte() };
	struct ibv_grh header;

	if (!slot)
		return;
	if (!rarely(3)) {
		*slot = MADE(ibv_create_ah(pd, &attr));
		return;
	}
	for (size_t i = 0; i < sizeof(header); i++)
		((uint8_t *)&header)[i] = byte();
	if (!TOLD(ibv_init_ah_from_wc(LIVE(contexts), 1, &wc, &header, &attr)))
		*slot = MADE(ibv_create_ah(pd, &attr));
	else
		*slot = MADE(ibv_create_ah_from_wc(pd, &wc, &header, byte() % 3));
}

/* A second context of the same device, or a second handle of an object. */
static void import(void)
{
	struct ibv_context *context = LIVE(contexts);
	struct ibv_pd *pd = LIVE(pds);
	void **slot = ROOM(contexts), *object;
	uint32_t number = byte() % 8;

	switch (byte() % 4) {
	case 0:
		if (slot) {
			int fd = number ? dup(context->cmd_fd) : -1;

			*slot = MADE(ibv_import_device(fd));
			CHECK(*slot || !number);
		}
		break;
	case 1:
		object = MADE(ibv_import_pd(PICK(contexts), number));
		if (object)
			ibv_unimport_pd(object);
		break;
	case 2:
		object = pd ? MADE(ibv_import_mr(pd, number)) : NULL;
		if (object)
			ibv_unimport_mr(object);
		break;
	default:
		object = MADE(ibv_import_dm(context, number));
		if (object)
			ibv_unimport_dm(object);
	}
}

void make_object(void)
{
	static void (*const MAKERS[])(void) = { make_context, make_channel, make_domain,
						make_mr,      make_dm_or_mw, make_xrcd,
						make_ah,      make_cq,	     make_srq,	  import };

	MAKERS[byte() % COUNT(MAKERS)]();
}

/* Destroys one, if it can be: 1 if it is gone. What is in use stays. */
static int gone(int result, const void *object)
{
	/* NULL is an error of its own, as is a call of verbs.h about nothing. */
	CHECK(!result || result == EBUSY || (!object && result == EINVAL));
	return !result;
}

#define DESTROY(kind, call)                             \
	do {                                            \
		acknowledge_all();                      \
		if (gone(TOLD(call(object)), object))   \
			FORGET(kind, object);           \
	} while (0)

static int close_td(struct ibv_td *td)
{
	return td ? ibv_dealloc_td(td) : (errno = EINVAL);
}

static int close_dm(struct ibv_dm *dm)
{
	return dm ? ibv_free_dm(dm) : (errno = EINVAL);
}

static int close_mw(struct ibv_mw *mw)
{
	return mw ? ibv_dealloc_mw(mw) : (errno = EINVAL);
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	return xrcd ? ibv_close_xrcd(xrcd) : (errno = EINVAL);
}

static void destroy(unsigned kind, void *object)
{
	switch (kind) {
	case 0:
		DESTROY(qps, ibv_destroy_qp);
		break;
	case 1:
		DESTROY(mws, close_mw);
		break;
	case 2:
		DESTROY(ahs, ibv_destroy_ah);
		break;
	case 3:
		DESTROY(srqs, ibv_destroy_srq);
		break;
	case 4:
		DESTROY(cqs, ibv_destroy_cq);
		break;
	case 5:
		DESTROY(xrcds, close_xrcd);
		break;
	case 6:
		DESTROY(channels, ibv_destroy_comp_channel);
		break;
	case 7:
		destroy_mr(object);
		break;
	case 8:
		DESTROY(dms, close_dm);
		break;
	case 9:
		DESTROY(parents, ibv_dealloc_pd);
		break;
	case 10:
		DESTROY(pds, ibv_dealloc_pd);
		break;
	default:
		DESTROY(tds, close_td);
	}
}

/* In an order in which nothing is in use when its turn comes. */
static const struct kind {
	void **slots;
	size_t count;
} KINDS[] = {
#define KIND(kind) { world.kind, COUNT(world.kind) }
	KIND(qps),   KIND(mws),	     KIND(ahs), KIND(srqs), KIND(cqs),
	KIND(xrcds), KIND(channels), KIND(mrs), KIND(dms),  KIND(parents),
	KIND(pds),   KIND(tds),
};

void destroy_object(void)
{
	unsigned kind = byte() % COUNT(KINDS);

	destroy(kind, pick(KINDS[kind].slots, KINDS[kind].count));
}

/* What two QPs need, as it should be. */
static void begin_queues(int shared)
{
	struct ibv_cq_init_attr_ex extended = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_xrcd_init_attr none = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex srq = {
		.attr = { 16, 4, 0 },
		.srq_type = shared == IBV_QPT_XRC_SEND ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_comp_channel *channel = ibv_create_comp_channel(world.contexts[0]);

	CHECK(channel);
	do_not_wait(channel->fd);
	world.channels[0] = channel;
	world.cqs[0] = MADE(ibv_create_cq(world.contexts[0], 64, NULL, channel, 0));
	world.cqs[1] = MADE(ibv_create_cq_ex(world.contexts[0], &extended));
	world.extended[1] = 1;
	CHECK(world.cqs[0] && world.cqs[1]);
	if (!shared)
		return;
	world.xrcds[0] = MADE(ibv_open_xrcd(world.contexts[0], &none));
	srq.pd = world.pds[0];
	srq.xrcd = world.xrcds[0];
	srq.cq = world.cqs[0];
	world.srqs[0] = MADE(ibv_create_srq_ex(world.contexts[0], &srq));
	CHECK(world.xrcds[0] && world.srqs[0]);
}

/* A NIC with two connected QPs of a kind that the script chooses. */
int begin_world(void)
{
	struct ibv_device *device = world.device;
	static const enum ibv_qp_type TYPES[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_XRC_SEND };
	uint8_t how = byte();
	enum ibv_qp_type type = TYPES[how % 4];
	int shared = type == IBV_QPT_XRC_SEND || how & 4;

	memset(&world, 0, sizeof(world));
	world.device = device;
	begin_memory();
	make_context();
	if (how & 8)
		make_context();
	world.pds[0] = MADE(ibv_alloc_pd(world.contexts[0]));
	CHECK(world.pds[0]);
	world.mrs[0] = MADE(ibv_reg_mr(world.pds[0], arena, ARENA,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ |
					       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND));
	CHECK(world.mrs[0]);
	begin_queues(shared ? (int)type : 0);
	begin_qps(type, how);
	return how >> 6 == 3;
}

void end_world(void)
{
	acknowledge_all();
	for (unsigned kind = 0; kind < COUNT(KINDS); kind++)
		for (size_t i = 0; i < KINDS[kind].count; i++) {
			void **slot = &KINDS[kind].slots[i];

			if (*slot)
				destroy(kind, *slot);
			CHECK(!*slot);
		}
	for (size_t i = 0; i < COUNT(world.contexts); i++)
		if (world.contexts[i])
			CHECK(!TOLD(ibv_close_device(world.contexts[i])));
}
