/* A native reference for cold and hot caches: a copy of 16 MiB to 16 MiB, which reads and
 * writes 32 MiB, between two events on a stream that is held by a memory word until both are
 * queued, calling the vendor's libraries directly. Before a cold copy persisting lines are
 * reset, memory of so many times the last-level cache is filled, and the fill is waited for.
 * It prints a line for each sample: which, ns, and whether the start had been reached
 * before the stream was let go (it must be 0).
 *
 *   cc -O2 -o cold cold.c -ldl -lm
 *   ./cold /path/libcudart.so.13 /path/libcuda.so.1 100
 */
#include "native.h"

enum { COPIED = 16 << 20, L2_SIZE = 38 };

static const struct {
	const char *name;
	double fill; /* in caches; 0 leaves the cache alone */
} kinds[] = {{"hot", 0}, {"cold_half", 0.5}, {"cold", 2}, {"cold_4", 4}};

int main(int argc, char **argv)
{
	volatile unsigned *word;
	unsigned long long address, from, to, memory;
	unsigned turn = 0;
	handle stream, start, end;
	int cache;
	void *p;

	if (argc != 4)
		return 2;
	runtime = dlopen(argv[1], RTLD_NOW);
	driver = dlopen(argv[2], RTLD_NOW);
	if (runtime == NULL || driver == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int (*record)(handle, handle) = RUNTIME(cudaEventRecord, handle, handle);
	int (*query)(handle) = RUNTIME(cudaEventQuery, handle);
	int (*wait)(handle) = RUNTIME(cudaEventSynchronize, handle);
	int (*elapsed)(float *, handle, handle) = RUNTIME(cudaEventElapsedTime, float *, handle, handle);
	int (*hold)(handle, unsigned long long, unsigned, unsigned) = DRIVER(cuStreamWaitValue32_v2, handle, unsigned long long, unsigned, unsigned);
	int (*fill)(unsigned long long, unsigned char, size_t, handle) = DRIVER(cuMemsetD8Async, unsigned long long, unsigned char, size_t, handle);
	int (*copy)(unsigned long long, unsigned long long, size_t, handle) = DRIVER(cuMemcpyDtoDAsync_v2, unsigned long long, unsigned long long, size_t, handle);
	int (*alloc)(unsigned long long *, size_t) = DRIVER(cuMemAlloc_v2, unsigned long long *, size_t);
	int (*reset)(void) = DRIVER(cuCtxResetPersistingL2Cache, void);

	need(RUNTIME(cudaStreamCreateWithFlags, handle *, unsigned)(&stream, 1), "cudaStreamCreateWithFlags");
	need(RUNTIME(cudaDeviceGetAttribute, int *, int, int)(&cache, L2_SIZE, 0), "cudaDeviceGetAttribute");
	need(RUNTIME(cudaEventCreate, handle *)(&start), "cudaEventCreate");
	need(RUNTIME(cudaEventCreate, handle *)(&end), "cudaEventCreate");
	need(RUNTIME(cudaHostAlloc, void **, size_t, unsigned)(&p, 4096, 2), "cudaHostAlloc");
	word = p;
	*word = 0;
	need(RUNTIME(cudaHostGetDevicePointer, void **, void *, unsigned)(&p, (void *)word, 0), "cudaHostGetDevicePointer");
	address = (unsigned long long)p;
	need(alloc(&from, COPIED), "cuMemAlloc");
	need(alloc(&to, COPIED), "cuMemAlloc");
	need(alloc(&memory, 4 * (size_t)cache), "cuMemAlloc");

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		size_t bytes = (size_t)(kinds[i].fill * cache);

		for (int n = -50; n < atoi(argv[3]); n++) {
			float ms;
			int reached;

			if (bytes > 0) {
				need(reset(), "cuCtxResetPersistingL2Cache");
				need(fill(memory, 0, bytes, stream), "cuMemsetD8Async");
				need(record(end, stream), "cudaEventRecord");
				need(wait(end), "cudaEventSynchronize");
			}
			need(hold(stream, address, ++turn, 0), "cuStreamWaitValue32");
			need(record(start, stream), "cudaEventRecord");
			need(copy(to, from, COPIED, stream), "cuMemcpyDtoDAsync");
			need(record(end, stream), "cudaEventRecord");
			reached = query(start) == 0;
			__atomic_store_n(word, turn, __ATOMIC_RELEASE);
			need(wait(end), "cudaEventSynchronize");
			need(elapsed(&ms, start, end), "cudaEventElapsedTime");
			if (n >= 0)
				printf("%s %ld %d\n", kinds[i].name, lround(ms * 1e6), reached);
		}
	}
	return 0;
}
