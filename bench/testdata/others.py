"""The operations of gated.c as Triton's do_bench and CuPy's benchmark measure them.

others.py RUNS

It prints a line for each sample: the tool, the operation, ns.
"""
import sys

import cupy
import numpy
import torch
from cupyx.profiler import benchmark
from triton.testing import do_bench

PROGRAM = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns, .param .u64 out)
{
	.reg .u64 %a<6>;
	.reg .pred %more;
	ld.param.u64 %a1, [ns];
	ld.param.u64 %a2, [out];
	cvta.to.global.u64 %a2, %a2;
	mov.u64 %a3, %globaltimer;
loop:
	mov.u64 %a4, %globaltimer;
	sub.u64 %a5, %a4, %a3;
	setp.lt.u64 %more, %a5, %a1;
	@%more bra loop;
	st.volatile.global.v2.u64 [%a2], {%a3, %a4};
	ret;
}
.visible .entry empty()
{
	ret;
}
"""

runs = int(sys.argv[1])
torch.cuda.init()
stream = torch.cuda.current_stream().cuda_stream
cupy.cuda.ExternalStream(stream).use()
buffer = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
times = torch.empty(2, dtype=torch.int64, device="cuda")
module = cupy.cuda.function.Module()
module.load(PROGRAM)
kernel = module.get_function("spin")
nothing = module.get_function("empty")


def fill(size):
    return lambda: cupy.cuda.runtime.memsetAsync(buffer.data_ptr(), 0, size, stream)


def spin(ns):
    return lambda: kernel((1,), (1,), (numpy.uint64(ns), numpy.uint64(times.data_ptr())))


for name, run in (
    ("memset_4KiB", fill(4 << 10)),
    ("memset_1MiB", fill(1 << 20)),
    ("memset_16MiB", fill(16 << 20)),
    ("memset_1GiB", fill(1 << 30)),
    ("empty", lambda: nothing((1,), (1,), ())),
    ("spin_10us", spin(10_000)),
):
    for ms in do_bench(run, return_mode="all"):
        print("do_bench", name, ms * 1e6)
    for s in benchmark(run, (), n_repeat=runs).gpu_times[0]:
        print("cupy", name, s * 1e9)
