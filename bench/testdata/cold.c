/* A native reference for cold and hot caches: a kernel that reads 32 MiB, and a copy of
 * 16 MiB to 16 MiB, each between two events on a stream that is held by a memory word until
 * both are queued, calling the vendor's libraries directly. Before cold work persisting lines
 * are reset, memory of so many times the last-level cache is filled, and the fill is waited
 * for. It prints a line for each sample: which, ns, and whether the start had been reached
 * before the stream was let go (it must be 0).
 *
 *   cc -O2 -o cold cold.c -ldl -lm
 *   ./cold /path/libcudart.so.13 /path/libcuda.so.1 100
 */
#include "native.h"

enum { HALF = 16 << 20, L2_SIZE = 38, THREADS = 256, EACH = 64 };

/* Each thread reads four times 16 bytes, and writes one word of it back if all comes to a
 * certain sum: else the compiler would leave the loads out. */
static const char program[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry read(.param .u64 from, .param .u32 sum)\n{\n"
	"	.reg .u64 %a<6>;\n	.reg .u32 %b<7>;\n	.reg .u32 %v<17>;\n	.reg .pred %p;\n"
	"	ld.param.u64 %a1, [from];\n	ld.param.u32 %b1, [sum];\n	cvta.to.global.u64 %a1, %a1;\n"
	"	mov.u32 %b2, %ctaid.x;\n	mov.u32 %b3, %ntid.x;\n	mov.u32 %b4, %tid.x;\n	mov.u32 %b5, %nctaid.x;\n"
	"	mad.lo.u32 %b4, %b2, %b3, %b4;\n	mul.lo.u32 %b5, %b5, %b3;\n"
	"	mul.wide.u32 %a2, %b4, 16;\n	mul.wide.u32 %a3, %b5, 16;\n	add.u64 %a2, %a2, %a1;\n	mov.u64 %a4, %a2;\n"
	"	ld.global.v4.u32 {%v1, %v2, %v3, %v4}, [%a2];\n	add.u64 %a2, %a2, %a3;\n"
	"	ld.global.v4.u32 {%v5, %v6, %v7, %v8}, [%a2];\n	add.u64 %a2, %a2, %a3;\n"
	"	ld.global.v4.u32 {%v9, %v10, %v11, %v12}, [%a2];\n	add.u64 %a2, %a2, %a3;\n"
	"	ld.global.v4.u32 {%v13, %v14, %v15, %v16}, [%a2];\n"
	"	xor.b32 %b6, %v1, %v2;\n	xor.b32 %b6, %b6, %v3;\n	xor.b32 %b6, %b6, %v4;\n	xor.b32 %b6, %b6, %v5;\n"
	"	xor.b32 %b6, %b6, %v6;\n	xor.b32 %b6, %b6, %v7;\n	xor.b32 %b6, %b6, %v8;\n	xor.b32 %b6, %b6, %v9;\n"
	"	xor.b32 %b6, %b6, %v10;\n	xor.b32 %b6, %b6, %v11;\n	xor.b32 %b6, %b6, %v12;\n	xor.b32 %b6, %b6, %v13;\n"
	"	xor.b32 %b6, %b6, %v14;\n	xor.b32 %b6, %b6, %v15;\n	xor.b32 %b6, %b6, %v16;\n"
	"	setp.eq.u32 %p, %b6, %b1;\n	@%p st.global.u32 [%a4], %v1;\n	ret;\n}\n";

static const struct {
	const char *name;
	double fill; /* in caches; 0 leaves the cache alone */
} kinds[] = {{"hot", 0}, {"cold_half", 0.5}, {"cold", 2}, {"cold_4", 4}};

static int (*copy)(address, address, size_t, handle);
static handle reader;
static address from, to;

static void read_all(const void *nothing)
{
	unsigned sum = 0x9e3779b9;
	void *args[] = {&from, &sum};

	(void)nothing;
	launch_on(2 * HALF / (THREADS * EACH), THREADS, reader, args);
}

static void copy_half(const void *nothing)
{
	(void)nothing;
	need(copy(to, from, HALF, stream), "cuMemcpyDtoDAsync");
}

static const struct {
	const char *name;
	void (*enqueue)(const void *);
} works[] = {{"read", read_all}, {"copy", copy_half}};

int main(int argc, char **argv)
{
	address memory;
	int cache;

	if (argc != 4)
		return 2;
	open_device(argv, program);
	reader = kernel_named("read");
	copy = DRIVER(cuMemcpyDtoDAsync_v2, address, address, size_t, handle);
	int (*fill)(address, unsigned char, size_t, handle) = DRIVER(cuMemsetD8Async, address, unsigned char, size_t, handle);
	int (*alloc)(address *, size_t) = DRIVER(cuMemAlloc_v2, address *, size_t);
	int (*reset)(void) = DRIVER(cuCtxResetPersistingL2Cache, void);

	need(RUNTIME(cudaDeviceGetAttribute, int *, int, int)(&cache, L2_SIZE, 0), "cudaDeviceGetAttribute");
	need(alloc(&from, 2 * HALF), "cuMemAlloc");
	need(alloc(&to, HALF), "cuMemAlloc");
	need(alloc(&memory, 4 * (size_t)cache), "cuMemAlloc");

	enum { KINDS = sizeof kinds / sizeof kinds[0], WORKS = sizeof works / sizeof works[0] };
	for (size_t i = 0; i < KINDS * WORKS; i++) {
		const char *kind = kinds[i % KINDS].name, *work = works[i / KINDS].name;
		size_t bytes = (size_t)(kinds[i % KINDS].fill * cache);

		for (int n = -50; n < atoi(argv[3]); n++) {
			int reached;
			long ns;

			if (bytes > 0) {
				need(reset(), "cuCtxResetPersistingL2Cache");
				need(fill(memory, 0, bytes, stream), "cuMemsetD8Async");
				need(record(end, stream), "cudaEventRecord");
				need(await(end), "cudaEventSynchronize");
			}
			ns = sample(works[i / KINDS].enqueue, NULL, &reached);
			if (n >= 0)
				printf("%s_%s %ld %d\n", work, kind, ns, reached);
		}
	}
	return 0;
}
