// What the tests of evprobe have an imitation of a runtime do. It is compiled together
// with fake_runtime.c of events/internal/fakert, whose cudaEventRecord is called
// real_cudaEventRecord there.
//
//	EVPROBE_FAKE=key=value,...      keys of the imitation, set when it is loaded
//	EVPROBE_FAKE_DEED=deed@open     done when it is loaded
//	EVPROBE_FAKE_DEED=deed@100      done by the 100th record
//
// Deeds: segv, abort, kill, exit, stop, hang, print.
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fake_set(const char *key, long value);
uint64_t real_cudaEventRecord(void *event, void *stream);

static char deed[16];
static long at;

static void act(void) {
	if (!strcmp(deed, "segv")) *(volatile int *)8 = 1;
	if (!strcmp(deed, "abort")) abort();
	if (!strcmp(deed, "kill")) raise(SIGKILL);
	if (!strcmp(deed, "exit")) _exit(0);
	if (!strcmp(deed, "stop")) kill(getpid(), SIGSTOP);
	if (!strcmp(deed, "print")) { printf("a driver's\nown words"); fflush(stdout); }
	if (!strcmp(deed, "hang")) for (;;) pause();
}

__attribute__((constructor)) static void script(void) {
	char keys[512];
	snprintf(keys, sizeof keys, "%s", getenv("EVPROBE_FAKE") ? getenv("EVPROBE_FAKE") : "");
	char *rest = keys, *pair;
	while ((pair = strsep(&rest, ",")) && *pair) {
		char *value = strchr(pair, '=');
		if (!value) abort();
		*value++ = 0;
		if (fake_set(pair, atol(value))) { fprintf(stderr, "no key %s\n", pair); abort(); }
	}
	const char *order = getenv("EVPROBE_FAKE_DEED");
	if (!order) return;
	const char *when = strchr(order, '@');
	if (!when || when - order >= (long)sizeof deed) abort();
	memcpy(deed, order, when - order);
	at = atol(when + 1);
	if (!strcmp(when, "@open")) act();
}

__attribute__((visibility("default"))) uint64_t cudaEventRecord(void *event, void *stream) {
	static _Atomic long records;
	if (at > 0 && atomic_fetch_add(&records, 1) + 1 == at) act();
	return real_cudaEventRecord(event, stream);
}
