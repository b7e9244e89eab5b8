/* Questions, and what this library does not do. */

#include "fuzz.h"

#include <string.h>

static void query_device(struct ibv_context *context)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex more;
	struct ibv_query_device_ex_input input = { .comp_mask = rarely(4) ? four() : 0 };
	struct ibv_port_attr port;

	switch (byte() % 3) {
	case 0:
		TOLD(ibv_query_device(context, &attr));
		break;
	case 1:
		if (context)
			SAID(ibv_query_device_ex(context, rarely(2) ? NULL : &input, &more));
		break;
	default:
		if (context)
			TOLD(ibv_query_port(context, rarely(4) ? byte() : 1, &port));
	}
}

static void query_gids(struct ibv_context *context)
{
	struct ibv_gid_entry entries[64];
	union ibv_gid gid;
	size_t max = rarely(2) ? byte() % COUNT(entries) : COUNT(entries);
	uint32_t port = rarely(4) ? four() : 1, index = rarely(4) ? four() : byte();
	ssize_t found;

	switch (byte() % 3) {
	case 0:
		MINUS_ONE(ibv_query_gid(context, (uint8_t)port, (int)index, &gid));
		break;
	case 1:
		TOLD(ibv_query_gid_ex(context, port, index, entries, rarely(8) ? four() : 0));
		break;
	default:
		found = ibv_query_gid_table(context, entries, max, rarely(8) ? four() : 0);
		CHECK(found <= (ssize_t)max && found > -134);
	}
}

static void query_keys(struct ibv_context *context)
{
	uint8_t port = rarely(4) ? byte() : 1;
	uint16_t pkey;

	MINUS_ONE(ibv_query_pkey(context, port, rarely(2) ? (int)four() : 0, &pkey));
	errno = 0;
	CHECK(ibv_get_pkey_index(context, port, rarely(2) ? two() : 0xffff) <= 0);
}

/* A text, or NULL. */
static void is_text(const char *text)
{
	CHECK(!text || strlen(text) < 100);
}

static void ask_texts(void)
{
	uint32_t number = rarely(2) ? four() : byte();

	is_text(ibv_node_type_str(number));
	is_text(ibv_port_state_str(number));
	is_text(ibv_event_type_str(number));
	is_text(ibv_wc_status_str(number));
	is_text(ibv_get_device_name(world.device));
	CHECK(ibv_rate_to_mult(number) >= -1 && ibv_rate_to_mbps(number) >= -1);
	CHECK((int)mult_to_ibv_rate((int)number) >= 0 && (int)mbps_to_ibv_rate((int)number) >= 0);
	CHECK(ibv_get_device_index(world.device) > 0 && ibv_get_device_guid(world.device));
	CHECK(!ibv_fork_init());
	if (byte() % 2)
		CHECK(ibv_get_device_index(NULL) == -1 && !ibv_get_device_name(NULL));
}

void query_any(void)
{
	struct ibv_context *context = PICK(contexts);

	switch (byte() % 4) {
	case 0:
		query_device(context);
		break;
	case 1:
		query_gids(context);
		break;
	case 2:
		query_keys(context);
		break;
	default:
		ask_texts();
	}
}

/* None of it may be taken for done. */
void unsupported_any(void)
{
	struct ibv_context *context = LIVE(contexts);
	struct ibv_qp *qp = LIVE(qps);
	struct ibv_wq_init_attr wq = { .max_wr = four() };
	struct ibv_flow_attr flow = { .priority = two() };
	struct ibv_counters_init_attr counters = { .comp_mask = four() };
	struct ibv_ece ece = { .vendor_id = four() };

	CHECK(!ibv_create_wq(context, &wq) && !ibv_create_counters(context, &counters));
	if (qp) {
		CHECK(!ibv_create_flow(qp, &flow));
		CHECK(ibv_query_ece(qp, &ece) && ibv_set_ece(qp, &ece));
	}
}
