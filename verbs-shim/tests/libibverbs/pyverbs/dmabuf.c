/*
 * The source of pyverbs' dma-bufs. Debian builds pyverbs without one: its functions of these names
 * return EOPNOTSUPP. Here, a buffer is a file in memory, which can be mapped as a GPU's can.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct dmabuf {
	int fd;
};

struct dmabuf *dmabuf_alloc(uint64_t size, int gpu, int gtt);
void dmabuf_free(struct dmabuf *buffer);
int dmabuf_get_drm_fd(struct dmabuf *buffer);
int dmabuf_get_fd(struct dmabuf *buffer);
uint64_t dmabuf_get_offset(struct dmabuf *buffer);

struct dmabuf *dmabuf_alloc(uint64_t size, int gpu, int gtt)
{
	struct dmabuf *buffer = malloc(sizeof(*buffer));

	(void)gpu;
	(void)gtt;
	if (!buffer)
		return NULL;
	buffer->fd = memfd_create("buffer", MFD_CLOEXEC);
	if (buffer->fd >= 0 && !ftruncate(buffer->fd, size))
		return buffer;
	if (buffer->fd >= 0)
		close(buffer->fd);
	free(buffer);
	return NULL;
}

void dmabuf_free(struct dmabuf *buffer)
{
	if (buffer)
		close(buffer->fd);
	free(buffer);
}

/* Callers map a buffer through its device, at an offset that identifies the buffer. */
int dmabuf_get_drm_fd(struct dmabuf *buffer)
{
	return buffer->fd;
}

int dmabuf_get_fd(struct dmabuf *buffer)
{
	return buffer->fd;
}

uint64_t dmabuf_get_offset(struct dmabuf *buffer)
{
	(void)buffer;
	return 0;
}
