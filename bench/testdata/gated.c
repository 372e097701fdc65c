/* A native reference: each operation between two events on a stream that is held by
 * a memory word until everything is queued, calling the vendor's libraries directly.
 * It prints a line for each sample: the operation, ns, and whether the start had been
 * reached before the stream was let go (it must be 0).
 *
 *   cc -O2 -o gated gated.c -ldl
 *   ./gated /path/libcudart.so.13 /path/libcuda.so.1 30
 */
#include "native.h"

static const char program[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry spin(.param .u64 ns, .param .u64 out)\n{\n"
	"	.reg .u64 %a<6>;\n	.reg .pred %more;\n"
	"	ld.param.u64 %a1, [ns];\n	ld.param.u64 %a2, [out];\n	cvta.to.global.u64 %a2, %a2;\n"
	"	mov.u64 %a3, %globaltimer;\n"
	"loop:\n	mov.u64 %a4, %globaltimer;\n	sub.u64 %a5, %a4, %a3;\n"
	"	setp.lt.u64 %more, %a5, %a1;\n	@%more bra loop;\n"
	"	st.volatile.global.v2.u64 [%a2], {%a3, %a4};\n	ret;\n}\n"
	".visible .entry empty()\n{\n	ret;\n}\n";

static int (*fill)(void *, int, size_t, handle);
static int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);
static handle stream, kernel, empty;
static void *buffer;
static unsigned long long times_on_device;

struct operation {
	const char *name;
	size_t bytes;          /* to fill, or 0 */
	unsigned long long ns; /* to spin; neither: an empty kernel */
};

static const struct operation operations[] = {
	{"memset_4KiB", 4 << 10, 0},
	{"memset_1MiB", 1 << 20, 0},
	{"memset_16MiB", 16 << 20, 0},
	{"memset_1GiB", 1 << 30, 0},
	{"empty", 0, 0},
	{"spin_10us", 0, 10000},
};

static void enqueue(const struct operation *op)
{
	unsigned long long ns = op->ns;
	void *args[] = {&ns, &times_on_device};

	if (op->bytes > 0)
		need(fill(buffer, 0, op->bytes, stream), "cudaMemsetAsync");
	else if (op->ns > 0)
		need(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL), "cuLaunchKernel");
	else
		need(launch(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), "cuLaunchKernel");
}

int main(int argc, char **argv)
{
	volatile unsigned *word;
	unsigned long long address;
	unsigned turn = 0;
	handle start, end, module;
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
	fill = RUNTIME(cudaMemsetAsync, void *, int, size_t, handle);
	launch = DRIVER(cuLaunchKernel, handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);

	need(RUNTIME(cudaStreamCreateWithFlags, handle *, unsigned)(&stream, 1), "cudaStreamCreateWithFlags");
	need(RUNTIME(cudaEventCreate, handle *)(&start), "cudaEventCreate");
	need(RUNTIME(cudaEventCreate, handle *)(&end), "cudaEventCreate");
	need(RUNTIME(cudaMalloc, void **, size_t)(&buffer, 1 << 30), "cudaMalloc");
	need(RUNTIME(cudaHostAlloc, void **, size_t, unsigned)(&p, 4096, 2), "cudaHostAlloc");
	word = p;
	*word = 0;
	need(RUNTIME(cudaHostGetDevicePointer, void **, void *, unsigned)(&p, (void *)word, 0), "cudaHostGetDevicePointer");
	address = (unsigned long long)p;
	/* The spin writes to the host, as that of the harness does: 0.35 us more than writing
	 * to the device's own memory (measured on an H200). */
	times_on_device = address + 64;
	need(DRIVER(cuModuleLoadData, handle *, const void *)(&module, program), "cuModuleLoadData");
	need(DRIVER(cuModuleGetFunction, handle *, handle, const char *)(&kernel, module, "spin"), "cuModuleGetFunction");
	need(DRIVER(cuModuleGetFunction, handle *, handle, const char *)(&empty, module, "empty"), "cuModuleGetFunction");

	for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
		const struct operation *op = &operations[i];
		for (int warm = 0; warm < 200; warm++) {
			enqueue(op);
			need(record(end, stream), "cudaEventRecord");
			need(wait(end), "cudaEventSynchronize");
		}
		for (int n = 0; n < atoi(argv[3]); n++) {
			float ms;
			int reached;

			need(hold(stream, address, ++turn, 0), "cuStreamWaitValue32");
			need(record(start, stream), "cudaEventRecord");
			enqueue(op);
			need(record(end, stream), "cudaEventRecord");
			reached = query(start) == 0;
			__atomic_store_n(word, turn, __ATOMIC_RELEASE);
			need(wait(end), "cudaEventSynchronize");
			need(elapsed(&ms, start, end), "cudaEventElapsedTime");
			printf("%s %ld %d\n", op->name, lround(ms * 1e6), reached);
		}
	}
	return 0;
}
