/* The native twin of this example: the same fills, allocations and waits, calling
 * libcudart directly. It prints what the events read of each sample, in ms.
 *
 *   cc -O2 -o twin twin.c -ldl
 *   ./twin /path/libcudart.so.13 67108864 16 30
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *event;

static int (*alloc)(void **, size_t);
static int (*release)(void *);
static int (*fill)(void *, int, size_t, void *);
static int (*create)(event *);
static int (*record)(event, void *);
static int (*sync_event)(event);
static int (*elapsed)(float *, event, event);

static void need(int code, const char *what)
{
	if (code == 0)
		return;
	fprintf(stderr, "%s: %d\n", what, code);
	exit(1);
}

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);
	if (p == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return p;
}

static float sample(event start, event end, size_t bytes, int chunk)
{
	void *buffer;
	float ms;

	need(alloc(&buffer, bytes), "cudaMalloc");
	need(record(start, NULL), "cudaEventRecord");
	for (int i = 0; i < chunk; i++)
		need(fill(buffer, 0, bytes, NULL), "cudaMemsetAsync");
	need(record(end, NULL), "cudaEventRecord");
	need(sync_event(end), "cudaEventSynchronize");
	need(elapsed(&ms, start, end), "cudaEventElapsedTime");
	need(release(buffer), "cudaFree");
	return ms;
}

int main(int argc, char **argv)
{
	event start, end;
	void *lib;

	if (argc != 5)
		return 2;
	lib = dlopen(argv[1], RTLD_NOW);
	if (lib == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	alloc = symbol(lib, "cudaMalloc");
	release = symbol(lib, "cudaFree");
	fill = symbol(lib, "cudaMemsetAsync");
	create = symbol(lib, "cudaEventCreate");
	record = symbol(lib, "cudaEventRecord");
	sync_event = symbol(lib, "cudaEventSynchronize");
	elapsed = symbol(lib, "cudaEventElapsedTime");
	need(create(&start), "cudaEventCreate");
	need(create(&end), "cudaEventCreate");
	for (int i = 0; i < 200; i++) /* warm-up */
		sample(start, end, atoll(argv[2]), atoi(argv[3]));
	for (int i = 0; i < atoi(argv[4]); i++)
		printf("%.6f\n", sample(start, end, atoll(argv[2]), atoi(argv[3])));
	return 0;
}
