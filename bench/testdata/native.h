/* What the native references have in common: the vendor's two libraries and their calls, and
 * one sample of work between two events on a stream that is held by a memory word until both
 * are queued. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *handle;
typedef unsigned long long address; /* on the device */

static void *runtime, *driver;

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);
	if (p == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return p;
}

static void need(int code, const char *what)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %d\n", what, code);
	exit(1);
}

#define RUNTIME(name, ...) ((int (*)(__VA_ARGS__))symbol(runtime, #name))
#define DRIVER(name, ...) ((int (*)(__VA_ARGS__))symbol(driver, #name))

static int (*record)(handle, handle);
static int (*query)(handle);
static int (*await)(handle);
static int (*elapsed)(float *, handle, handle);
static int (*hold)(handle, address, unsigned, unsigned);
static int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);

static handle stream, start, end, module;
static volatile unsigned *word;
static address word_on_device;

/* open_device loads the libraries that are named on the command line, and a program. */
static void open_device(char **argv, const char *program)
{
	void *p;

	runtime = dlopen(argv[1], RTLD_NOW);
	driver = dlopen(argv[2], RTLD_NOW);
	if (runtime == NULL || driver == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	record = RUNTIME(cudaEventRecord, handle, handle);
	query = RUNTIME(cudaEventQuery, handle);
	await = RUNTIME(cudaEventSynchronize, handle);
	elapsed = RUNTIME(cudaEventElapsedTime, float *, handle, handle);
	hold = DRIVER(cuStreamWaitValue32_v2, handle, address, unsigned, unsigned);
	launch = DRIVER(cuLaunchKernel, handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);

	need(RUNTIME(cudaStreamCreateWithFlags, handle *, unsigned)(&stream, 1), "cudaStreamCreateWithFlags");
	need(RUNTIME(cudaEventCreate, handle *)(&start), "cudaEventCreate");
	need(RUNTIME(cudaEventCreate, handle *)(&end), "cudaEventCreate");
	need(RUNTIME(cudaHostAlloc, void **, size_t, unsigned)(&p, 4096, 2), "cudaHostAlloc");
	word = p;
	*word = 0;
	need(RUNTIME(cudaHostGetDevicePointer, void **, void *, unsigned)(&p, (void *)word, 0), "cudaHostGetDevicePointer");
	word_on_device = (address)p;
	need(DRIVER(cuModuleLoadData, handle *, const void *)(&module, program), "cuModuleLoadData");
}

static handle kernel_named(const char *name)
{
	handle kernel;

	need(DRIVER(cuModuleGetFunction, handle *, handle, const char *)(&kernel, module, name), "cuModuleGetFunction");
	return kernel;
}

static void launch_on(unsigned blocks, unsigned threads, handle kernel, void **args)
{
	need(launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, args, NULL), "cuLaunchKernel");
}

/* sample is the ns that work takes, and whether the start had been reached before the stream
 * was let go, which it must not have been. */
static long sample(void (*enqueue)(const void *), const void *what, int *reached)
{
	static unsigned turn;
	float ms;

	need(hold(stream, word_on_device, ++turn, 0), "cuStreamWaitValue32");
	need(record(start, stream), "cudaEventRecord");
	enqueue(what);
	need(record(end, stream), "cudaEventRecord");
	*reached = query(start) == 0;
	__atomic_store_n(word, turn, __ATOMIC_RELEASE);
	need(await(end), "cudaEventSynchronize");
	need(elapsed(&ms, start, end), "cudaEventElapsedTime");
	return lround(ms * 1e6);
}
