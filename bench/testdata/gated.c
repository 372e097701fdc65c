/* A native reference: each operation between two events on a stream that is held by
 * a memory word until everything is queued, calling the vendor's libraries directly.
 * It prints a line for each sample: the operation, ns, and whether the start had been
 * reached before the stream was let go (it must be 0).
 *
 *   cc -O2 -o gated gated.c -ldl -lm
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
static handle spin, empty;
static void *buffer;
static address times_on_device;

struct operation {
	const char *name;
	size_t bytes; /* to fill, or 0 */
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

static void enqueue(const void *what)
{
	const struct operation *op = what;
	unsigned long long ns = op->ns;
	void *args[] = {&ns, &times_on_device};

	if (op->bytes > 0)
		need(fill(buffer, 0, op->bytes, stream), "cudaMemsetAsync");
	else
		launch_on(1, 1, op->ns > 0 ? spin : empty, op->ns > 0 ? args : NULL);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	open_device(argv, program);
	fill = RUNTIME(cudaMemsetAsync, void *, int, size_t, handle);
	need(RUNTIME(cudaMalloc, void **, size_t)(&buffer, 1 << 30), "cudaMalloc");
	/* The spin writes to the host, as that of the harness does: 0.35 us more than writing
	 * to the device's own memory (measured on an H200). */
	times_on_device = word_on_device + 64;
	spin = kernel_named("spin");
	empty = kernel_named("empty");

	for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
		const struct operation *op = &operations[i];
		for (int warm = 0; warm < 200; warm++) {
			enqueue(op);
			need(record(end, stream), "cudaEventRecord");
			need(await(end), "cudaEventSynchronize");
		}
		for (int n = 0; n < atoi(argv[3]); n++) {
			int reached;
			long ns = sample(enqueue, op, &reached);

			printf("%s %ld %d\n", op->name, ns, reached);
		}
	}
	return 0;
}
