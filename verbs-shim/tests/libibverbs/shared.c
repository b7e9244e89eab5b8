/*
 * Shared memory and objects: imported contexts, regions of file descriptors, and prefetched pages.
 * Prints only errors.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int broken;

#define CHECK(what)                                                           \
	do {                                                                  \
		if (!(what)) {                                                \
			printf("line %d: not so: %s (errno %d)\n", __LINE__,  \
			       #what, errno);                                 \
			broken++;                                             \
		}                                                             \
	} while (0)

/* The call returns NULL, with this errno. */
#define FAILS(what, error) (errno = 0, !(what) && errno == (error))

static struct ibv_context *context;
static struct ibv_pd *pd;
static long page;

static char *pages(int count)
{
	return mmap(NULL, count * page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int is_present(void *at)
{
	unsigned char present = 0;

	return !mincore(at, page, &present) && (present & 1);
}

static void contexts_are_imported(void)
{
	char *memory = pages(1), text[4] = "abc";
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, page, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr), *same_dm;
	int fd = dup(context->cmd_fd), ends[2];
	struct ibv_context *again = ibv_import_device(fd);
	struct ibv_pd *domain, *other = ibv_alloc_pd(context);
	struct ibv_mr *region, *own;
	uint32_t handle = mr->handle;

	CHECK(fd >= 0 && again && again->cmd_fd == fd && again->device == context->device);
	if (!again)
		return;
	domain = ibv_import_pd(again, pd->handle);
	CHECK(domain && domain->context == again && domain->handle == pd->handle);
	CHECK(other && other->handle != pd->handle && !ibv_dealloc_pd(other));
	region = ibv_import_mr(domain, handle);
	CHECK(region && region->lkey == mr->lkey && region->rkey == mr->rkey);
	CHECK(region && region->length == (size_t)page && !region->addr && region->pd == domain);
	/* An object in use counts as such through any pointer. */
	CHECK(ibv_dealloc_pd(domain) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
	ibv_unimport_mr(region);
	own = ibv_reg_mr(domain, memory, page, 0);
	CHECK(own && !ibv_dereg_mr(mr) && ibv_dealloc_pd(pd) == EBUSY && !ibv_dereg_mr(own));
	CHECK(FAILS(ibv_import_mr(domain, handle), ENOENT));
	same_dm = ibv_import_dm(again, dm->handle);
	CHECK(same_dm && !ibv_memcpy_to_dm(dm, 8, text, 4));
	memset(text, 0, 4);
	CHECK(!ibv_memcpy_from_dm(text, same_dm, 8, 4) && !strcmp(text, "abc"));
	ibv_unimport_dm(same_dm);
	CHECK(!ibv_free_dm(dm));
	CHECK(FAILS(ibv_import_dm(again, 0), ENOENT) && FAILS(ibv_import_pd(again, 0), ENOENT));
	ibv_unimport_pd(domain);
	/* With the context, its descriptor is closed. */
	CHECK(!ibv_close_device(again) && lseek(fd, 0, SEEK_CUR) == -1 && errno == EBADF);

	CHECK(FAILS(ibv_import_device(-1), EBADF));
	CHECK(!pipe(ends) && FAILS(ibv_import_device(ends[0]), EOPNOTSUPP));
	CHECK(!close(ends[0]) && !close(ends[1]));
	munmap(memory, page);
}

/* An imported context stays usable after the original one is closed. */
static void the_last_context_closes(struct ibv_device *device)
{
	struct ibv_context *first = ibv_open_device(device), *second;
	char *memory = pages(1);
	struct ibv_pd *domain;
	int fd;

	CHECK(first);
	second = ibv_import_device(dup(first->cmd_fd));
	CHECK(second && !ibv_close_device(first));
	domain = ibv_alloc_pd(second);
	CHECK(domain && ibv_reg_mr(domain, memory, page, 0));
	fd = dup(second->cmd_fd);
	CHECK(!ibv_close_device(second));
	CHECK(FAILS(ibv_import_device(fd), EOPNOTSUPP) && !close(fd));
	munmap(memory, page);
}

static void descriptors_are_memory(void)
{
	int fd = memfd_create("buffer", 0);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr;

	CHECK(fd >= 0 && !ftruncate(fd, 3 * page));
	mr = ibv_reg_dmabuf_mr(pd, page + 100, page, 100, fd, access);
	CHECK(mr && mr->length == (size_t)page && mr->addr == (void *)(page + 100));
	CHECK(mr && !ibv_dereg_mr(mr));
	mr = ibv_reg_dmabuf_mr(pd, 2 * page, page, 0, fd, access);
	CHECK(mr && !ibv_dereg_mr(mr));
	CHECK(FAILS(ibv_reg_dmabuf_mr(pd, 2 * page, page + 1, 0, fd, access), EINVAL));
	CHECK(FAILS(ibv_reg_dmabuf_mr(pd, UINT64_MAX - page + 1, page, 0, fd, access), EINVAL));
	CHECK(FAILS(ibv_reg_dmabuf_mr(pd, 0, 0, 0, fd, access), EINVAL));
	CHECK(FAILS(ibv_reg_dmabuf_mr(pd, 100, page, 101, fd, access), EINVAL));
	CHECK(FAILS(ibv_reg_dmabuf_mr(pd, 0, page, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL));
	CHECK(FAILS(ibv_reg_dmabuf_mr(pd, 0, page, 0, -1, access), EOPNOTSUPP));
	CHECK(!close(fd) && FAILS(ibv_reg_dmabuf_mr(pd, 0, page, 0, fd, access), EBADF));
}

static void pages_are_fetched_ahead(void)
{
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
	const enum ibv_advise_mr_advice fetch = IBV_ADVISE_MR_ADVICE_PREFETCH,
					for_writing = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					note = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	char *memory = pages(8);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 8 * page,
				       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *read_only = ibv_reg_mr(pd, memory, page, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = ibv_reg_mr(pd, memory + 7 * page, page, 0);
	struct ibv_mr *all = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
	struct ibv_pd *other = ibv_alloc_pd(context);
	struct ibv_sge list[2] = {
		{ .addr = (uintptr_t)memory + page, .length = page, .lkey = mr->lkey },
		{ .addr = (uintptr_t)memory + 2 * page, .length = page, .lkey = mr->lkey },
	};

	CHECK(mr && read_only && plain && all && other);
	CHECK(!is_present(memory + page) && !ibv_advise_mr(pd, note, flush, list, 2));
	CHECK(!is_present(memory + page) && !ibv_advise_mr(pd, for_writing, flush, list, 2));
	CHECK(is_present(memory + page) && is_present(memory + 2 * page));
	CHECK(!is_present(memory + 3 * page));
	list[0].addr = (uintptr_t)memory + 3 * page;
	list[0].lkey = all->lkey;
	CHECK(!ibv_advise_mr(pd, fetch, 0, list, 1));
	CHECK(ibv_advise_mr(pd, for_writing, 0, list, 1) == EPERM);
	CHECK(ibv_advise_mr(other, fetch, 0, list, 1) == EPERM);
	list[0].lkey = mr->lkey;
	CHECK(ibv_advise_mr(pd, fetch, 2, list, 1) == EINVAL);
	CHECK(ibv_advise_mr(pd, fetch, 0, list, 0) == EINVAL);
	CHECK(ibv_advise_mr(pd, fetch, 0, NULL, 1) == EINVAL);
	CHECK(ibv_advise_mr(pd, 99, 0, list, 1) == EOPNOTSUPP);
	/* A call that waits reports a hole. */
	munmap(memory + 3 * page, page);
	CHECK(!ibv_advise_mr(pd, fetch, 0, list, 1));
	CHECK(ibv_advise_mr(pd, fetch, flush, list, 1) == EFAULT);
	list[0].length = 5 * page + 1;
	CHECK(ibv_advise_mr(pd, note, 0, list, 1) == EFAULT);
	list[0].lkey++;
	CHECK(ibv_advise_mr(pd, note, 0, list, 1) == ENOENT);
	list[0] = (struct ibv_sge){ .addr = (uintptr_t)plain->addr, .length = 1, .lkey = plain->lkey };
	CHECK(ibv_advise_mr(pd, note, 0, list, 1) == EINVAL);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(read_only) && !ibv_dereg_mr(plain));
	CHECK(!ibv_dereg_mr(all) && !ibv_dealloc_pd(other));
	munmap(memory, 8 * page);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	page = sysconf(_SC_PAGESIZE);
	context = ibv_open_device(list[0]);
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd) {
		printf("no device is open: errno %d\n", errno);
		return 1;
	}
	contexts_are_imported();
	the_last_context_closes(list[0]);
	descriptors_are_memory();
	pages_are_fetched_ahead();
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	ibv_free_device_list(list);
	return broken != 0;
}
