"""What a physical H200 answered with MIG off (docs/real-gpu.md); run by real_clients.rs, which adds an MPS client and its server."""
import sys
from ctypes import byref, c_uint, c_void_p

from pynvml import *
from pynvml import _nvmlGetFunctionPointer

server, client = int(sys.argv[1]), int(sys.argv[2])
nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0)
assert nvmlDeviceGetMigMode(gpu) == [0, 0]

count, room = c_uint(9), (c_void_p * 8)()
listed = _nvmlGetFunctionPointer("nvmlDeviceGetGpuInstances")(gpu, c_uint(19), room, byref(count))
assert (listed, count.value) == (0, 0), "no instance, and no error"
for call in (lambda: nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0), lambda: nvmlDeviceGetGpuInstanceById(gpu, 0)):
    try:
        call()
        raise AssertionError("there is none")
    except NVMLError_NotFound:
        pass

compute = {p.pid: p.usedGpuMemory for p in nvmlDeviceGetComputeRunningProcesses(gpu)}
shared = {p.pid: p.usedGpuMemory for p in nvmlDeviceGetMPSComputeRunningProcesses(gpu)}
assert set(compute) == {server, client}
assert shared == {client: compute[client]}, "an MPS client is in both lists, with its memory"
nvmlShutdown()
