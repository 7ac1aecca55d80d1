"""GPM as a Python program asks for it through nvidia-ml-py; run by work.rs. Prints for each GPU whether it has GPM, and the metrics
of the GPU and of its instances over a moment, as JSON: {"0": {"supported": true, "gpu": [100.0, 42.0], "gi 1": [...]}}"""
import json
import time

from pynvml import *

METRICS = (NVML_GPM_METRIC_GRAPHICS_UTIL, NVML_GPM_METRIC_SM_UTIL)


def instances(gpu):
    for index in range(nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            yield nvmlDeviceGetGpuInstanceId(nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
        except (NVMLError_NotFound, NVMLError_NotSupported):
            return


def moment(read):
    first = read(nvmlGpmSampleAlloc())
    time.sleep(0.15)
    second = read(nvmlGpmSampleAlloc())
    get = c_nvmlGpmMetricsGet_t()
    get.version, get.sample1, get.sample2 = NVML_GPM_METRICS_GET_VERSION, first, second
    # The last is simulated by nobody and has a status of its own.
    get.numMetrics = len(METRICS) + 1
    for index, metric in enumerate(METRICS + (NVML_GPM_METRIC_SM_OCCUPANCY,)):
        get.metrics[index].metricId = metric
    nvmlGpmMetricsGet(get)
    assert get.metrics[len(METRICS)].nvmlReturn == NVML_ERROR_NOT_SUPPORTED
    assert all(get.metrics[index].nvmlReturn == NVML_SUCCESS for index in range(len(METRICS)))
    for sample in (first, second):
        nvmlGpmSampleFree(sample)
    try:
        nvmlGpmSampleFree(second)
        raise AssertionError("it is free")
    except NVMLError_InvalidArgument:
        pass
    return [get.metrics[index].value for index in range(len(METRICS))]


def look(gpu):
    if not nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
        try:
            nvmlGpmSampleGet(gpu, nvmlGpmSampleAlloc())
            raise AssertionError("a sample of a GPU without GPM")
        except NVMLError_NotSupported:
            return {"supported": False}
    seen = {"supported": True, "gpu": moment(lambda sample: nvmlGpmSampleGet(gpu, sample))}
    for gi in instances(gpu):
        seen[f"gi {gi}"] = moment(lambda sample: nvmlGpmMigSampleGet(gpu, gi, sample))
    return seen


nvmlInit()
print(json.dumps({n: look(nvmlDeviceGetHandleByIndex(n)) for n in range(nvmlDeviceGetCount())}))
