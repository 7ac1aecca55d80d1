"""What a Python program asks through nvidia-ml-py; run by real_clients.rs on two A100s, one 2g.10gb instance on GPU 0."""
from ctypes import c_void_p

from pynvml import *

nvmlInit()
assert nvmlSystemGetDriverVersion() == "570.133.20"
assert nvmlDeviceGetCount() == 2
gpu = nvmlDeviceGetHandleByIndex(0)
assert nvmlDeviceGetName(gpu) == "NVIDIA A100-SXM4-40GB"
assert nvmlDeviceGetMigMode(gpu) == [1, 1]
assert nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2).total == 40960 << 20

mig = nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
assert nvmlDeviceIsMigDeviceHandle(mig)
same = nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(mig))
assert nvmlDeviceGetName(same) == nvmlDeviceGetName(mig) == "NVIDIA A100-SXM4-40GB MIG 2g.10gb"
attributes = nvmlDeviceGetAttributes(mig)
assert (attributes.multiprocessorCount, attributes.memorySizeMB) == (28, 9856)
assert nvmlDeviceGetGpuInstanceId(mig) == 3 and nvmlDeviceGetComputeInstanceId(mig) == 0
try:
    nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
    raise AssertionError("no second instance")
except NVMLError_NotFound:
    pass

for version in (1, 2):
    info = nvmlDeviceGetGpuInstanceProfileInfo(gpu, NVML_GPU_INSTANCE_PROFILE_3_SLICE, version=version)
    assert (info.id, info.memorySizeMB, info.multiprocessorCount) == (9, 19968, 42)
try:
    nvmlDeviceGetGpuInstanceProfileInfo(gpu, NVML_GPU_INSTANCE_PROFILE_8_SLICE)
    raise AssertionError("an A100 has no such profile")
except NVMLError_NotSupported:
    pass

gi = nvmlDeviceCreateGpuInstance(gpu, 9)
ci = nvmlGpuInstanceCreateComputeInstance(gi, 2)
assert nvmlGpuInstanceGetInfo(gi).placement.size == 4
made = nvmlComputeInstanceGetInfo_v2(ci)
assert nvmlDeviceGetUUID(made.device).startswith("MIG-")
try:
    nvmlGpuInstanceDestroy(gi)
    raise AssertionError("a compute instance exists")
except NVMLError_InUse:
    pass
nvmlComputeInstanceDestroy(ci)
nvmlGpuInstanceDestroy(gi)
for call in (
    lambda: nvmlDeviceGetUUID(made.device),
    lambda: nvmlGpuInstanceGetInfo(gi),
    lambda: nvmlComputeInstanceDestroy(ci),
    lambda: nvmlDeviceGetName(c_void_p(4096)),
    lambda: nvmlDeviceGetName(c_void_p(None)),
    lambda: nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0x12),
):
    try:
        call()
        raise AssertionError("a handle of nothing, or a number beyond the last")
    except NVMLError_InvalidArgument:
        pass

resetless = nvmlDeviceGetFieldValues(gpu, [184])[0]
assert resetless.nvmlReturn == 0 and resetless.value.uiVal == 0

events = nvmlEventSetCreate()
nvmlDeviceRegisterEvents(gpu, nvmlEventMigConfigChange, events)
gi = nvmlDeviceCreateGpuInstance(gpu, 19)
assert nvmlEventSetWait_v2(events, 1000).eventType == nvmlEventMigConfigChange
try:
    nvmlEventSetWait_v2(events, 30)
    raise AssertionError("nothing else happened")
except NVMLError_Timeout:
    pass
nvmlEventSetFree(events)
nvmlGpuInstanceDestroy(gi)
nvmlShutdown()
