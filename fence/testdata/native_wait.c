/* How late a C program learns that a stream has passed an event: the baseline for
 * waits for fences. It uses the driver's library alone.
 *
 *   cc -O2 -o native_wait native_wait.c -ldl -lpthread
 *   native_wait ROUNDS DELAY_US...
 *
 * A gate holds the stream, a thread waits for an event behind it, and DELAY_US later
 * the gate is opened. The latency runs from just before the opening to the return of the
 * wait. One line for each kind of wait and delay: KIND DELAY_US NS...
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *lib;

static void *symbol(const char *name, const char *older) {
	void *f = dlsym(lib, name);
	if (!f && older)
		f = dlsym(lib, older);
	if (!f) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return f;
}

static void must(int code, const char *what) {
	if (code) {
		fprintf(stderr, "%s: %d\n", what, code);
		exit(1);
	}
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *context, *stream, *event;
static int (*synchronize)(void *), (*query)(void *), (*set_current)(void *);
static atomic_int go, started, done;
static int spinning;
static int64_t woke;

static void *waiter(void *unused) {
	must(set_current(context), "cuCtxSetCurrent");
	for (int round = 1;; round++) {
		int seen;
		while ((seen = atomic_load(&go)) != round)
			if (seen < 0)
				return unused;
		atomic_store(&started, round);
		if (spinning) {
			int code;
			while ((code = query(event)) == 600)
				;
			must(code, "cuEventQuery");
		} else {
			must(synchronize(event), "cuEventSynchronize");
		}
		woke = now();
		atomic_store(&done, round);
	}
}

int main(int argc, char **argv) {
	if (!(lib = dlopen("libcuda.so.1", RTLD_NOW))) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int (*init)(unsigned) = symbol("cuInit", 0);
	int (*retain)(void **, int) = symbol("cuDevicePrimaryCtxRetain", 0);
	int (*make_stream)(void **, unsigned) = symbol("cuStreamCreate", 0);
	int (*make_event)(void **, unsigned) = symbol("cuEventCreate", 0);
	int (*destroy)(void *) = symbol("cuEventDestroy_v2", "cuEventDestroy");
	int (*record)(void *, void *) = symbol("cuEventRecord", 0);
	int (*wait_value)(void *, uint64_t, uint32_t, unsigned) = symbol("cuStreamWaitValue32_v2", "cuStreamWaitValue32");
	int (*host_alloc)(void **, size_t, unsigned) = symbol("cuMemHostAlloc", 0);
	int (*device_pointer)(uint64_t *, void *, unsigned) = symbol("cuMemHostGetDevicePointer_v2", 0);
	synchronize = symbol("cuEventSynchronize", 0);
	query = symbol("cuEventQuery", 0);
	set_current = symbol("cuCtxSetCurrent", 0);

	must(init(0), "cuInit");
	must(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(set_current(context), "cuCtxSetCurrent");
	must(make_stream(&stream, 1), "cuStreamCreate");
	void *flag;
	uint64_t at;
	must(host_alloc(&flag, 64, 2), "cuMemHostAlloc");
	must(device_pointer(&at, flag, 0), "cuMemHostGetDevicePointer");
	*(volatile uint32_t *)flag = 0;
	uint32_t value = 0;
	int rounds = atoi(argv[1]);

	const struct { const char *name; unsigned flags; int spin; } kinds[] = {
		{"blocking synchronize, untimed event", 3, 0}, {"synchronize, default event", 0, 0}, {"query in a loop", 2, 1},
	};
	for (int k = 0; k < 3; k++) {
		must(make_event(&event, kinds[k].flags), "cuEventCreate");
		for (int d = 2; d < argc; d++) {
			int64_t delay = atoi(argv[d]) * 1000L;
			int n = delay > 5000000 ? rounds / 5 : rounds;
			atomic_store(&go, 0);
			atomic_store(&started, 0);
			atomic_store(&done, 0);
			spinning = kinds[k].spin;
			pthread_t thread;
			pthread_create(&thread, 0, waiter, 0);
			printf("%s\t%s", kinds[k].name, argv[d]);
			for (int round = 1; round <= n; round++) {
				must(wait_value(stream, at, ++value, 0), "cuStreamWaitValue32");
				must(record(event, stream), "cuEventRecord");
				atomic_store(&go, round);
				while (atomic_load(&started) != round)
					;
				for (int64_t until = now() + delay; now() < until;)
					;
				int64_t opened = now();
				*(volatile uint32_t *)flag = value;
				while (atomic_load(&done) != round)
					;
				printf("\t%ld", (long)(woke - opened));
			}
			printf("\n");
			atomic_store(&go, -1);
			pthread_join(thread, 0);
		}
		must(destroy(event), "cuEventDestroy");
	}
	return 0;
}
