"""How late a PyTorch program learns that a stream has passed an event.

The same as native_wait.c with torch.cuda.Event.synchronize: torch_wait.py ROUNDS DELAY_US...
"""
import ctypes
import sys
import threading
import time

import torch

cuda = ctypes.CDLL("libcuda.so.1")
wait_value = getattr(cuda, "cuStreamWaitValue32_v2", None) or cuda.cuStreamWaitValue32
wait_value.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]


def must(code, what):
    if code:
        raise SystemExit(f"{what}: {code}")


torch.cuda.init()
stream = torch.cuda.Stream()
host, device = ctypes.c_void_p(), ctypes.c_uint64()
torch.zeros(1, device="cuda")
must(cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(64), 2), "cuMemHostAlloc")
must(cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(device), host, 0), "cuMemHostGetDevicePointer")
flag = ctypes.cast(host, ctypes.POINTER(ctypes.c_uint32))
flag[0] = 0
value = 0
rounds = int(sys.argv[1])

for name, blocking in (("torch synchronize, blocking event", True), ("torch synchronize, default event", False)):
    event = torch.cuda.Event(enable_timing=False, blocking=blocking)
    for text in sys.argv[2:]:
        delay = int(text) * 1000
        latencies = []
        for _ in range(rounds // 5 if delay > 5_000_000 else rounds):
            value += 1
            must(wait_value(stream.cuda_stream, device.value, value, 0), "cuStreamWaitValue32")
            event.record(stream)
            started, woke = threading.Event(), []

            def wait():
                started.set()
                event.synchronize()
                woke.append(time.perf_counter_ns())

            thread = threading.Thread(target=wait)
            thread.start()
            started.wait()
            if delay > 5_000_000:
                time.sleep(delay / 1e9)
            else:
                until = time.perf_counter_ns() + delay
                while time.perf_counter_ns() < until:
                    pass
            opened = time.perf_counter_ns()
            flag[0] = value
            thread.join()
            latencies.append(woke[0] - opened)
        print(name, text, *latencies, sep="\t")
