// The functions of CUDA's runtime and driver that UCCL's engine calls, for a machine without a GPU: there is one GPU, and
// all memory is the host's. Whatever would share a GPU's memory between processes fails.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1 };

struct attributes {
	int type, device;
	void *device_pointer, *host_pointer;
};

int cudaGetDeviceCount(int *count) { *count = 1; return SUCCESS; }
int cudaGetDevice(int *device) { *device = 0; return SUCCESS; }
int cudaSetDevice(int device) { return device ? INVALID_VALUE : SUCCESS; }
int cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	snprintf(id, size, "0000:00:1f.%d", device);
	return SUCCESS;
}

int cudaPointerGetAttributes(struct attributes *attributes, void *pointer)
{
	*attributes = (struct attributes){ .host_pointer = pointer };
	return SUCCESS;
}

int cudaMemcpyAsync(void *to, const void *from, size_t size) { memcpy(to, from, size); return SUCCESS; }
int cudaStreamCreateWithFlags(void **stream) { *stream = stream; return SUCCESS; }
int cudaStreamDestroy(void) { return SUCCESS; }
int cudaStreamSynchronize(void) { return SUCCESS; }
int cudaStreamWaitEvent(void) { return SUCCESS; }
int cudaEventCreateWithFlags(void **event) { *event = event; return SUCCESS; }
int cudaEventDestroy(void) { return SUCCESS; }
int cudaEventQuery(void) { return SUCCESS; }
int cudaEventRecord(void) { return SUCCESS; }
int cudaFree(void) { return SUCCESS; }
int cudaGetLastError(void) { return SUCCESS; }
const char *cudaGetErrorString(void) { return "not on this machine"; }
int cudaIpcGetMemHandle(void) { return INVALID_VALUE; }
int cudaIpcOpenMemHandle(void) { return INVALID_VALUE; }
int cudaIpcCloseMemHandle(void) { return INVALID_VALUE; }
int cuMemGetAddressRange_v2(void) { return INVALID_VALUE; }
