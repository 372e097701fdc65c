// A hostile imitation of NVIDIA's management library, for tests. doc.go lists its keys.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2 };

// A key is a name and a number; one that nobody has set is 0.
static struct { char name[96]; long value; } keys[256];
static int used, initialized;
static char asked[128];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int the_device;

static long *key(const char *front, const char *name) {
	char full[96];
	snprintf(full, sizeof full, "%s%s", front, name);
	for (int i = 0; i < used; i++)
		if (!strcmp(keys[i].name, full))
			return &keys[i].value;
	if (used == 256)
		abort();
	strcpy(keys[used].name, full);
	return &keys[used++].value;
}

EXPORT long fake_get(const char *name) {
	pthread_mutex_lock(&lock);
	long v = *key("", name);
	pthread_mutex_unlock(&lock);
	return v;
}

EXPORT int fake_set(const char *name, long value) {
	pthread_mutex_lock(&lock);
	*key("", name) = value;
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT const char *fake_asked(void) { return asked; }

// enter counts a call and gives the code that a test has ordered.
static int enter(const char *name) {
	pthread_mutex_lock(&lock);
	++*key("calls_", name);
	long code = *key("fail_", name), slow = *key("slow_us_", name);
	if (!code && !initialized && strcmp(name, "nvmlInit_v2"))
		code = UNINITIALIZED;
	pthread_mutex_unlock(&lock);
	if (slow)
		usleep(slow);
	return (int)code;
}

static long value(const char *name) { return fake_get(name); }

// The callee owns the lower half of the register alone.
static u64 answer(int code) { return 0xdeadbeef00000000ull | (unsigned)code; }

#define API(name, params, body) \
	EXPORT u64 name params { \
		int code = enter(#name); \
		if (!code) { \
			body; \
		} \
		return answer(code); \
	}

static void mine(void *d) {
	if (d != &the_device) {
		dprintf(2, "fake nvml: no device %p\n", d);
		abort();
	}
}

static void found(const char *by, void **d) {
	snprintf(asked, sizeof asked, "%s", by);
	*d = &the_device;
}

#ifndef OMIT_nvmlInit_v2
API(nvmlInit_v2, (void), initialized++)
#endif
#ifndef OMIT_nvmlDeviceGetHandleByUUID
API(nvmlDeviceGetHandleByUUID, (const char *uuid, void **d), found(uuid, d))
#endif
#ifndef OMIT_nvmlDeviceGetHandleByPciBusId_v2
API(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, void **d), found(bus, d))
#endif
EXPORT u64 nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
	dprintf(2, "fake nvml: asked for device %u by its index, which is another order than the runtime's\n", i);
	abort();
}
#ifndef OMIT_nvmlDeviceGetMigMode
API(nvmlDeviceGetMigMode, (void *d, unsigned *now, unsigned *later), mine(d); *now = *later = value("mig"))
#endif
#ifndef OMIT_nvmlDeviceGetClockInfo
API(nvmlDeviceGetClockInfo, (void *d, int type, unsigned *mhz), mine(d);
	if (type == 1)
		*mhz = value("sm_clock");
	else if (type == 2)
		*mhz = value("memory_clock");
	else
		code = INVALID_ARGUMENT)
#endif
#ifndef OMIT_nvmlDeviceGetCurrentClocksEventReasons
API(nvmlDeviceGetCurrentClocksEventReasons, (void *d, u64 *bits), mine(d); *bits = value("reasons"))
#endif
#ifndef OMIT_nvmlDeviceGetCurrentClocksThrottleReasons
API(nvmlDeviceGetCurrentClocksThrottleReasons, (void *d, u64 *bits), mine(d); *bits = value("reasons"))
#endif
#ifndef OMIT_nvmlDeviceGetTemperature
API(nvmlDeviceGetTemperature, (void *d, int sensor, unsigned *degrees), mine(d);
	if (sensor == 0)
		*degrees = value("temperature");
	else
		code = INVALID_ARGUMENT)
#endif
#ifndef OMIT_nvmlDeviceGetPowerUsage
API(nvmlDeviceGetPowerUsage, (void *d, unsigned *mw), mine(d); *mw = value("power"))
#endif
#ifndef OMIT_nvmlDeviceGetTotalEnergyConsumption
API(nvmlDeviceGetTotalEnergyConsumption, (void *d, u64 *mj), mine(d); *mj = value("energy"))
#endif
#ifndef OMIT_nvmlDeviceGetViolationStatus
struct violation { u64 reference, violation; };
API(nvmlDeviceGetViolationStatus, (void *d, int policy, struct violation *v), mine(d);
	v->reference = 1;
	if (policy == 0)
		v->violation = value("power_violation");
	else if (policy == 1)
		v->violation = value("thermal_violation");
	else
		code = INVALID_ARGUMENT)
#endif
