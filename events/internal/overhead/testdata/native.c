/* Native baselines: the same driver functions called from C in a loop, so that a
 * binding's cost is a ratio within one run. Function addresses come from the
 * caller; nothing is linked. */
#include <stddef.h>
#include <time.h>

static long now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* n calls of f(a) */
long native_call1(int (*f)(void *), void *a, long n, int *failed) {
	long begin = now_ns();
	for (long i = 0; i < n; i++)
		*failed |= f(a);
	return now_ns() - begin;
}

/* n records, going round the events */
long native_record(int (*record)(void *, void *), void **events, long count, void *stream, long n, int *failed) {
	long begin = now_ns();
	for (long i = 0; i < n; i++)
		*failed |= record(events[i % count], stream);
	return now_ns() - begin;
}

/* n windows: two records each, and a question for a capture if there is one to ask */
long native_window(int (*record)(void *, void *), int (*capturing)(void *, int *), void **events, long count,
                   void *stream, long n, int *failed) {
	long begin = now_ns();
	for (long i = 0; i < n; i++) {
		int state = 0;
		*failed |= record(events[2 * i % count], stream);
		*failed |= record(events[(2 * i + 1) % count], stream);
		if (capturing)
			*failed |= capturing(stream, &state) | state;
	}
	return now_ns() - begin;
}

/* n readings of a span */
long native_elapsed(int (*elapsed)(float *, void *, void *), void *start, void *end, long n, int *failed) {
	long begin = now_ns();
	float ms;
	for (long i = 0; i < n; i++)
		*failed |= elapsed(&ms, start, end);
	return now_ns() - begin;
}
