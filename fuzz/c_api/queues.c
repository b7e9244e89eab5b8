/* Completion queues, shared receive queues, and events. */

#include "fuzz.h"

size_t index_of_cq(const struct ibv_cq *cq)
{
	for (size_t i = 0; i < COUNT(world.cqs); i++)
		if (world.cqs[i] == cq)
			return i;
	CHECK(!"a queue that there is");
	return 0;
}

void make_cq(void)
{
	static const int SIZES[] = { 1, 4, 64, 1024, 0, -1, 1 << 20, (1 << 20) + 1 };
	void **slot = ROOM(cqs);
	struct ibv_context *context = LIVE(contexts);
	struct ibv_comp_channel *channel = PICK(channels);
	int size = SIZES[byte() % COUNT(SIZES)], vector = rarely(16) ? byte() : 0;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)size,
		.channel = channel,
		.comp_vector = (uint32_t)vector,
		.wc_flags = rarely(8) ? eight() : IBV_WC_STANDARD_FLAGS,
		.comp_mask = rarely(4) ? byte() : 0,
		.flags = byte() % 4,
	};
	int extended = byte() % 2;
	size_t index;

	if (!slot)
		return;
	index = (size_t)(slot - world.cqs);
	if (extended)
		*slot = MADE(ibv_create_cq_ex(context, &attr));
	else
		*slot = MADE(ibv_create_cq(context, size, slot, channel, vector));
	world.extended[index] = extended != 0;
	world.polling[index] = 0;
	world.announced[index] = 0;
}

void make_srq(void)
{
	void **slot = ROOM(srqs);
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = rarely(16) ? four() : byte(),
			  .max_sge = rarely(16) ? four() : byte() % 8,
			  .srq_limit = byte() },
		.srq_type = byte() % 3,
		.pd = PICK(pds),
		.xrcd = PICK(xrcds),
		.cq = PICK(cqs),
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq_init_attr plain = { .attr = attr.attr };

	if (!slot)
		return;
	if (rarely(8))
		attr.comp_mask = four();
	if (rarely(4))
		*slot = MADE(ibv_create_srq(attr.pd, &plain));
	else
		*slot = MADE(ibv_create_srq_ex(LIVE(contexts), &attr));
}

/* A request completes once, if it was posted. */
void check_completion(const struct ibv_wc *wc)
{
	CHECK(wc->status <= IBV_WC_GENERAL_ERR);
	if (wc->wr_id == OF_THREAD)
		return;
	CHECK(wc->wr_id && wc->wr_id <= atomic_load(&world.requests));
	if (wc->wr_id < COUNT(world.completed))
		CHECK(!atomic_exchange(&world.completed[wc->wr_id], 1));
}

void poll_queues(void)
{
	static const int ENTRIES[] = { 1, 4, 16, 0, -1, 3 };
	int entries = ENTRIES[byte() % COUNT(ENTRIES)];
	struct ibv_wc wc[16];

	for (size_t i = 0; i < COUNT(world.cqs); i++) {
		int found;

		if (!world.cqs[i])
			continue;
		errno = 0;
		found = ibv_poll_cq(world.cqs[i], entries, wc);
		CHECK(found <= entries || (entries < 0 && found == -1));
		CHECK(found >= 0 || (errno && errno != EIO));
		for (int j = 0; j < found; j++)
			check_completion(&wc[j]);
	}
}

static void read_completion(struct ibv_cq_ex *cq)
{
	uint64_t sum = ibv_wc_read_opcode(cq) + ibv_wc_read_vendor_err(cq) +
		       ibv_wc_read_byte_len(cq) + ibv_wc_read_imm_data(cq) +
		       ibv_wc_read_qp_num(cq) + ibv_wc_read_src_qp(cq) +
		       ibv_wc_read_wc_flags(cq) + ibv_wc_read_slid(cq) + ibv_wc_read_sl(cq) +
		       ibv_wc_read_dlid_path_bits(cq) + ibv_wc_read_invalidated_rkey(cq);

	CHECK(sum < UINT64_MAX);
}

static void took_one(struct ibv_cq_ex *cq, int result)
{
	struct ibv_wc wc = { .wr_id = cq->wr_id, .status = cq->status };

	read_completion(cq);
	if (!result)
		check_completion(&wc);
}

/* One step of how extended queues are polled. Steps may come out of order, but nobody
 * begins twice. */
static void poll_extended(struct ibv_cq *queue)
{
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)queue;
	uint8_t *polling = &world.polling[index_of_cq(queue)];
	struct ibv_poll_cq_attr attr = { .comp_mask = rarely(16) ? four() : 0 };
	int result;

	switch (byte() % 4) {
	case 0:
		if (*polling)
			break;
		result = TOLD(ibv_start_poll(cq, &attr));
		took_one(cq, result);
		*polling = !result;
		break;
	case 1:
	case 2:
		took_one(cq, TOLD(ibv_next_poll(cq)));
		break;
	default:
		ibv_end_poll(cq);
		*polling = 0;
	}
}

void use_cq(void)
{
	struct ibv_cq *cq = LIVE(cqs);
	static const int SIZES[] = { 1, 8, 64, 0, -1, 1 << 20, INT32_MAX };

	if (!cq)
		return;
	switch (byte() % 8) {
	case 0:
		TOLD(ibv_resize_cq(cq, SIZES[byte() % COUNT(SIZES)]));
		break;
	case 1:
	case 2:
		TOLD(ibv_req_notify_cq(cq, byte() % 3));
		break;
	default:
		if (world.extended[index_of_cq(cq)])
			poll_extended(cq);
	}
}

void use_srq(void)
{
	struct ibv_srq *srq = LIVE(srqs);
	struct ibv_srq_attr attr = { .max_wr = rarely(4) ? four() : byte(),
				     .srq_limit = rarely(4) ? four() : byte() };
	uint32_t number = 0;

	if (!srq)
		return;
	switch (byte() % 3) {
	case 0:
		TOLD(ibv_modify_srq(PICK(srqs), &attr, rarely(4) ? (int)four() : byte() % 4));
		break;
	case 1:
		CHECK(!TOLD(ibv_query_srq(srq, &attr)) && attr.max_wr);
		break;
	default:
		CHECK(!TOLD(ibv_get_srq_num(srq, &number)) && number);
	}
}

static void take_event(void)
{
	struct ibv_async_event event;

	if (world.unacknowledged < COUNT(world.events) &&
	    !MINUS_ONE(ibv_get_async_event(PICK(contexts), &event)))
		world.events[world.unacknowledged++] = event;
}

static void take_completion_event(void)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	if (MINUS_ONE(ibv_get_cq_event(PICK(channels), &cq, &context)))
		return;
	CHECK(cq == world.cqs[index_of_cq(cq)]);
	world.announced[index_of_cq(cq)]++;
}

void acknowledge_all(void)
{
	while (world.unacknowledged)
		ibv_ack_async_event(&world.events[--world.unacknowledged]);
	for (size_t i = 0; i < COUNT(world.cqs); i++)
		if (world.cqs[i] && world.announced[i]) {
			ibv_ack_cq_events(world.cqs[i], world.announced[i]);
			world.announced[i] = 0;
		}
}

void use_events(void)
{
	switch (byte() % 4) {
	case 0:
	case 1:
		take_event();
		break;
	case 2:
		take_completion_event();
		break;
	default:
		if (rarely(4))
			ibv_ack_cq_events(PICK(cqs), four());
		acknowledge_all();
	}
}
