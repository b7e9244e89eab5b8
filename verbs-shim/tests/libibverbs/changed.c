/* What is checked when an object is created is checked when it is changed, too. */

#define _GNU_SOURCE
#include "ends.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, READER = IBV_ACCESS_REMOTE_READ,
       WRITER = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

static unsigned char *map_page(int rights)
{
	unsigned char *bytes = mmap(NULL, PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(bytes != MAP_FAILED);
	return bytes;
}

static int change_access(struct ibv_mr *mr, int rights)
{
	errno = 0;
	return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, rights);
}

/* Without rights of its own, the last argument is not read. */
static int move(struct ibv_mr *mr, void *to, int ignored)
{
	errno = 0;
	return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, to, PAGE, ignored);
}

static void regions_of_read_only_memory(struct ends *ends)
{
	unsigned char *plain = map_page(PROT_READ | PROT_WRITE), *fixed = map_page(PROT_READ);
	struct ibv_mr *mr = ibv_reg_mr(ends->pd, fixed, PAGE, READER);

	CHECK(mr && change_access(mr, WRITER) && errno == EFAULT);
	CHECK(change_access(mr, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
	/* It is as it was, and can be moved from and to such memory. */
	CHECK(!move(mr, plain, 0) && !move(mr, fixed, 0));
	CHECK(!move(mr, fixed, IBV_ACCESS_ON_DEMAND | WRITER));
	/* With rights to write, it moves to writable memory alone. */
	CHECK(!move(mr, plain, 0) && !change_access(mr, WRITER));
	CHECK(move(mr, fixed, 0) && errno == EFAULT && mr->addr == plain);
	/* Memory that can not be written any more does not get the right again. */
	CHECK(!change_access(mr, READER) && !mprotect(plain, PAGE, PROT_READ));
	CHECK(change_access(mr, WRITER) && errno == EFAULT);
	/* Rights can be taken away even if the memory is gone. */
	CHECK(!mprotect(plain, PAGE, PROT_READ | PROT_WRITE) && !change_access(mr, WRITER));
	CHECK(!mprotect(plain, PAGE, PROT_NONE) && !change_access(mr, READER));
	CHECK(!ibv_dereg_mr(mr) && !munmap(plain, PAGE) && !munmap(fixed, PAGE));
}

static void regions_of_dma_bufs(struct ends *ends)
{
	int file = memfd_create("shared", 0), reader;
	char path[64];
	struct ibv_mr *mr;

	CHECK(file >= 0 && !ftruncate(file, PAGE));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	reader = open(path, O_RDONLY);
	CHECK(reader >= 0);
	CHECK(!ibv_reg_dmabuf_mr(ends->pd, 0, PAGE, 0, reader, WRITER) && errno == EACCES);
	mr = ibv_reg_dmabuf_mr(ends->pd, 0, PAGE, 0, reader, READER);
	CHECK(mr && change_access(mr, WRITER) && errno == EACCES && !ibv_dereg_mr(mr));
	/* One that was open for writing can be written. */
	mr = ibv_reg_dmabuf_mr(ends->pd, 0, PAGE, 0, file, READER);
	CHECK(mr && !change_access(mr, WRITER) && !ibv_dereg_mr(mr));
	CHECK(!close(reader) && !close(file));
}

int main(void)
{
	struct ends *ends = make_ends();

	regions_of_read_only_memory(ends);
	regions_of_dma_bufs(ends);
	destroy_ends(ends);
	return 0;
}
