/* A small imitation of the CUDA runtime as a Windows DLL, for the loader and the
 * calls of that platform: enough to open it, record, wait and read a span. What
 * the runtime does in full is imitated by fake_runtime.c.
 *
 * x86_64-w64-mingw32-gcc -O2 -shared -static -o cudart64_13.dll fake_windows.c
 */
#include <windows.h>

#define API __declspec(dllexport)

typedef struct {
	unsigned magic, untimed, recorded;
	long long at;
} handle;

enum { EVENT = 0x45564e54, STREAM = 0x5354524d };

static __thread int last_error;
static volatile LONG events, streams;

/* The upper half of the register is garbage, as it may be. */
static unsigned long long answer(int code) {
	if (code && code != 600)
		last_error = code;
	return 0xdeadbeef00000000ull | (unsigned)code;
}

static long long now(void) {
	LARGE_INTEGER t, f;
	QueryPerformanceCounter(&t);
	QueryPerformanceFrequency(&f);
	return (long long)((double)t.QuadPart * 1e9 / (double)f.QuadPart);
}

static int bad(handle *h, unsigned magic) { return !h || h->magic != magic; }

static unsigned long long make(handle **out, unsigned magic, unsigned flags, volatile LONG *count) {
	handle *h = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *h);
	h->magic = magic;
	h->untimed = flags & 2;
	InterlockedIncrement(count);
	*out = h;
	return answer(0);
}

static unsigned long long unmake(handle *h, unsigned magic, volatile LONG *count) {
	if (bad(h, magic))
		return answer(400);
	h->magic = 0; /* never freed, so that a stale handle is seen */
	InterlockedDecrement(count);
	return answer(0);
}

API unsigned long long cudaEventCreateWithFlags(handle **e, unsigned flags) { return make(e, EVENT, flags, &events); }
API unsigned long long cudaEventDestroy(handle *e) { return unmake(e, EVENT, &events); }
API unsigned long long cudaStreamCreateWithFlags(handle **s, unsigned flags) { return make(s, STREAM, 0, &streams); }
API unsigned long long cudaStreamDestroy(handle *s) { return unmake(s, STREAM, &streams); }

API unsigned long long cudaEventRecord(handle *e, handle *s) {
	if (bad(e, EVENT) || bad(s, STREAM))
		return answer(400);
	e->at = now();
	e->recorded = 1;
	return answer(0);
}

API unsigned long long cudaEventQuery(handle *e) { return answer(bad(e, EVENT) ? 400 : 0); }
API unsigned long long cudaEventSynchronize(handle *e) { return answer(bad(e, EVENT) ? 400 : 0); }
API unsigned long long cudaStreamSynchronize(handle *s) { return answer(bad(s, STREAM) ? 400 : 0); }
API unsigned long long cudaStreamWaitEvent(handle *s, handle *e, unsigned flags) {
	return answer(bad(s, STREAM) || bad(e, EVENT) ? 400 : 0);
}

API unsigned long long cudaEventElapsedTime(float *ms, handle *a, handle *b) {
	if (bad(a, EVENT) || bad(b, EVENT) || a->untimed || b->untimed || !a->recorded || !b->recorded)
		return answer(400);
	*ms = (float)((double)(b->at - a->at) / 1e6);
	return answer(0);
}

API unsigned long long cudaStreamIsCapturing(handle *s, int *status) {
	*status = 0;
	return answer(bad(s, STREAM) ? 400 : 0);
}

API unsigned long long cudaGetDeviceCount(int *n) { return *n = 1, answer(0); }
API unsigned long long cudaRuntimeGetVersion(int *v) { return *v = 13000, answer(0); }
API unsigned long long cudaDriverGetVersion(int *v) { return *v = 13000, answer(0); }
API unsigned long long cudaPeekAtLastError(void) { return 0xdeadbeef00000000ull | (unsigned)last_error; }
API unsigned long long cudaGetLastError(void) {
	int code = last_error;
	last_error = 0;
	return 0xdeadbeef00000000ull | (unsigned)code;
}
API const char *cudaGetErrorName(int code) { return code ? "cudaErrorOfTheImitation" : "cudaSuccess"; }

/* For the tests: what is alive. */
API int fake_live(void) { return (int)(events + streams); }
