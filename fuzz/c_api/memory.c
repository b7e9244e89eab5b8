/* Memory, its regions, and all that can be wrong with an address. */

#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint8_t *arena;
static uint8_t *read_only, *hole, *unregistered;
/* Whether the script has registered what nobody should. */
static int anything_goes;

enum { CANARY = 0xc5 };
/* Nothing of this process lies so near before or behind. */
static const size_t GUARD = 16ULL << 30;

void begin_memory(void)
{
	anything_goes = 0;
	memset(arena, 0, ARENA);
	memset(unregistered, CANARY, PAGE);
}

void make_arena(void)
{
	const size_t pages = ARENA + 3 * PAGE;
	uint8_t *all = mmap(NULL, 2 * GUARD + pages, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(all != MAP_FAILED);
	read_only = all + GUARD;
	arena = read_only + PAGE;
	hole = arena + ARENA;
	unregistered = hole + PAGE;
	CHECK(!mprotect(read_only, PAGE, PROT_READ));
	CHECK(!mprotect(arena, ARENA, PROT_READ | PROT_WRITE));
	CHECK(!mprotect(unregistered, PAGE, PROT_READ | PROT_WRITE));
}

void check_unregistered(void)
{
	if (anything_goes)
		return;
	for (size_t i = 0; i < PAGE; i += 8)
		CHECK(unregistered[i] == CANARY);
}

uint64_t any_address(void)
{
	uint8_t kind = byte();

	switch (kind % 16) {
	case 8:
		return (uintptr_t)read_only + byte();
	case 9:
		return (uintptr_t)hole - byte();
	case 10:
		return (uintptr_t)unregistered + byte();
	case 11:
		/* Within the guard. */
		return (uintptr_t)arena + four();
	case 12:
		return kind >> 4;
	case 13:
		return UINT64_MAX - (kind >> 4);
	case 14:
		return 0x7fffffffffffULL - (kind >> 4);
	case 15:
		return 0xffff800000000000ULL + (kind >> 4);
	default:
		return (uintptr_t)arena + two();
	}
}

uint64_t any_length(void)
{
	uint8_t kind = byte();

	switch (kind % 16) {
	case 6:
		return kind >> 4;
	case 7:
		return ARENA + (kind >> 4);
	case 8:
		return four();
	case 9:
		return (1ULL << 31) + (kind >> 4) - 8;
	case 10:
		return UINT32_MAX - (kind >> 4);
	case 11:
		return SIZE_MAX - (kind >> 4);
	case 12:
		return 1ULL << (32 + (kind >> 4));
	case 13:
		return ARENA;
	case 14:
	case 15:
		return two();
	default:
		return byte();
	}
}

int any_access(void)
{
	uint8_t kind = byte();
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	switch (kind % 4) {
	case 0:
		return all;
	case 1:
		return all & two();
	case 2:
		return two();
	default:
		return (int)four();
	}
}

void *own_memory(size_t len)
{
	CHECK(len <= ARENA);
	return arena + two() % (ARENA - len + 1);
}

struct ibv_mr *any_mr(void)
{
	return LIVE(mrs);
}

uint64_t remote_address(const struct ibv_mr *mr)
{
	if (!mr || rarely(8))
		return any_address();
	return (uintptr_t)mr->addr + (mr->length ? two() % mr->length : 0);
}

uint32_t any_key(void)
{
	struct ibv_mr *mr = any_mr();
	struct ibv_mw *mw = PICK(mws);

	if (mw)
		return mw->rkey;
	if (!mr || rarely(16))
		return four();
	return mr->rkey;
}

struct ibv_sge any_sge(void)
{
	struct ibv_mr *mr = any_mr();
	struct ibv_sge sge = { .addr = remote_address(mr), .length = (uint32_t)any_length() };

	sge.lkey = mr && !rarely(16) ? mr->lkey : four();
	return sge;
}

uint64_t next_request(void)
{
	return ++world.requests;
}

/* A stretch that is to be registered, with its rights. What need not be mapped may reach
 * beyond our memory: then nobody writes there. */
static int rights_for(uint64_t addr, uint64_t length)
{
	int access = any_access();
	int within = addr >= (uintptr_t)arena && length <= ARENA &&
		     addr - (uintptr_t)arena <= ARENA - length;

	if (access & IBV_ACCESS_ON_DEMAND && !within) {
		/* The guard is ours to write to; what is behind it is not. */
		anything_goes = 1;
		if (addr - (uintptr_t)arena > UINT32_MAX)
			access &= ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_ATOMIC);
	}
	return access;
}

void make_mr(void)
{
	void **slot = ROOM(mrs);
	struct ibv_pd *pd = PICK(pds);
	uint8_t way = byte();
	uint64_t addr = any_address(), length = any_length();
	int access = rights_for(addr, length);
	struct ibv_mr *mr = NULL;

	if (!slot)
		return;
	if (addr - (uintptr_t)unregistered < PAGE)
		anything_goes = 1;
	switch (way % 6) {
	case 0:
	case 1:
		mr = MADE((ibv_reg_mr)(pd, (void *)addr, length, access));
		break;
	case 2:
		mr = MADE((ibv_reg_mr_iova)(pd, (void *)addr, length, any_address(), access));
		break;
	case 3:
		mr = MADE(ibv_reg_mr_iova2(pd, (void *)addr, length, any_address(),
					   (unsigned)access));
		break;
	case 4:
		mr = pd ? MADE(ibv_alloc_null_mr(pd)) : NULL;
		break;
	default:
		if (pd)
			mr = MADE(ibv_reg_mr(pd, NULL, SIZE_MAX,
					     IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ));
		break;
	}
	*slot = mr;
}

static void change_mr(void)
{
	struct ibv_mr *mr = PICK(mrs);
	struct ibv_pd *pd = PICK(pds);
	int change = rarely(8) ? (int)four() : byte() % 8;
	uint64_t addr = any_address(), length = any_length();
	int access = rights_for(addr, length);
	int result;

	if (addr - (uintptr_t)unregistered < PAGE)
		anything_goes = 1;
	/* The rights that it has may be too many for that. */
	access &= ~IBV_ACCESS_ON_DEMAND;
	errno = 0;
	result = ibv_rereg_mr(mr, change, pd, (void *)addr, length, access);
	CHECK(!result || (result == IBV_REREG_MR_ERR_INPUT && errno && errno != EIO));
}

static void use_dm(void)
{
	struct ibv_dm *dm = LIVE(dms);
	struct ibv_pd *pd = LIVE(pds);
	void **slot = ROOM(mrs);
	uint64_t offset = any_length();
	size_t length = two();

	if (!dm)
		return;
	switch (byte() % 3) {
	case 0:
		TOLD(ibv_memcpy_to_dm(dm, offset, own_memory(length), length));
		break;
	case 1:
		TOLD(ibv_memcpy_from_dm(own_memory(length), dm, offset, length));
		break;
	default:
		if (pd && slot)
			*slot = MADE(ibv_reg_dm_mr(pd, dm, offset, any_length(),
						   (uint32_t)any_access() |
							   IBV_ACCESS_ZERO_BASED));
	}
}

/* Memory behind a descriptor, which is closed before the region is destroyed. */
static void register_descriptor(void)
{
	void **slot = ROOM(mrs);
	struct ibv_pd *pd = PICK(pds);
	uint64_t offset = rarely(4) ? any_length() : byte(), length = any_length();
	int fd = memfd_create("fuzz", 0);

	CHECK(fd >= 0 && !ftruncate(fd, 2 * PAGE));
	if (slot)
		*slot = MADE(ibv_reg_dmabuf_mr(pd, offset, length, any_address(),
					       rarely(16) ? -1 : fd, any_access()));
	close(fd);
}

static void advise(void)
{
	struct ibv_pd *pd = LIVE(pds);
	struct ibv_sge list[2] = { any_sge(), any_sge() };
	uint32_t flags = rarely(8) ? four() : byte() % 2;

	if (pd)
		SAID(ibv_advise_mr(pd, byte() % 4, flags, rarely(8) ? NULL : list, byte() % 3));
}

void destroy_mr(struct ibv_mr *mr)
{
	int result = TOLD(ibv_dereg_mr(mr));

	CHECK(!result || result == EBUSY || !mr);
	if (!result)
		FORGET(mrs, mr);
}

void other_memory(void)
{
	switch (byte() % 5) {
	case 0:
		change_mr();
		break;
	case 1:
		use_dm();
		break;
	case 2:
		register_descriptor();
		break;
	case 3:
		advise();
		break;
	default:
		destroy_mr(PICK(mrs));
	}
}
