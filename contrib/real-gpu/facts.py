"""What an idle GPU and its driver answer, for a comparison with docs/real-gpu.md and with the simulator.

It changes no setting. It allocates all of the GPU's memory and starts small kernels.
"""
import ctypes
import sys
import time

from gpu import Client, Gpu, say

NVML_GPU_INSTANCE_PROFILES = 20
IDENTITY = "Name MinorNumber MigMode MaxMigDeviceCount PowerManagementLimitConstraints PowerManagementDefaultLimit"


def structure(value):
    return {name: getattr(value, name) for name, *_ in value._fields_}


def fixed(gpu):
    say("== the GPU")
    for name in IDENTITY.split():
        say(f"{name}: {gpu.ask(name)}")
    memory = gpu.nvml.nvmlDeviceGetMemoryInfo(gpu.handle, version=gpu.nvml.nvmlMemory_v2)
    say(f"memory: {memory.total >> 20} MiB, {memory.reserved >> 20} MiB of it reserved")


def mig(gpu):
    say("== MIG, in the mode in which it is")
    call = gpu.nvml._nvmlGetFunctionPointer
    for number in range(NVML_GPU_INSTANCE_PROFILES):
        profile = gpu.ask("GpuInstanceProfileInfo", number, 2)
        if isinstance(profile, str):
            say(f"profile {number}: {profile}")
            continue
        places, room = (gpu.nvml.c_nvmlGpuInstancePlacement_t * 32)(), ctypes.c_uint(32)
        code = call("nvmlDeviceGetGpuInstancePossiblePlacements_v2")(gpu.handle, profile.id, places, ctypes.byref(room))
        starts = [(place.start, place.size) for place in places[: room.value]]
        found, handles = ctypes.c_uint(0), (ctypes.c_void_p * 32)()
        listed = call("nvmlDeviceGetGpuInstances")(gpu.handle, profile.id, handles, ctypes.byref(found))
        say(
            f"profile {number}: {profile.name} id {profile.id}, {profile.memorySizeMB} MiB,"
            f" {profile.multiprocessorCount} SMs, at most {profile.instanceCount};"
            f" places {code} {starts}; instances {listed} {found.value}"
        )
    say(f"MIG device 0: {gpu.ask('MigDeviceHandleByIndex', 0)}")
    say(f"instance 0: {gpu.ask('GpuInstanceById', 0)}")


def processes(gpu):
    say("== a process")
    gpu.show("before")
    with Client() as client:
        say(client.start())
        gpu.show("a context")
        say(f"1 GiB: {client.tell('alloc 1024')}")
        gpu.show("1 GiB more")
        say(f"a kernel of 2 s: {client.tell('spin 2')}")
        time.sleep(1)
        say(f"utilisation: {structure(gpu.ask('UtilizationRates'))}")
    for how, verb in (("idle", "info"), ("under a kernel", "spin 20")):
        client = Client()
        client.start()
        client.tell("alloc 1024")
        client.tell(verb)
        say(f"killed {how}: gone in {client.end():.2f} s")
        start = time.time()
        while any(gpu.processes()) and time.time() - start < 10:
            time.sleep(0.01)
        gpu.show(f"{time.time() - start:.2f} s later")


def memory_runs_out(gpu):
    say("== memory")
    with Client() as client:
        client.start()
        code, free, total = client.tell("info").split()
        say(f"info: {code}, {free} of {total} MiB free")
        say(f"all but 8 MiB: {client.tell(f'alloc {int(free) - 8}')}, then 16 MiB: {client.tell('alloc 16')}")


def visible(gpu):
    say("== CUDA_VISIBLE_DEVICES")
    uuid = gpu.ask("UUID")
    for value in (uuid, uuid[:12], "0", "1", "-1", "", "0,1", "1,0", "0,0", f"{uuid},{uuid}", "MIG-GPU-x/1/0"):
        with Client({"CUDA_VISIBLE_DEVICES": value}) as client:
            say(f"{value.replace(uuid, 'UUID')!r}: cuInit {client.tell('init')}, count {client.tell('count')}")


def energy(gpu, seconds, what):
    """How the counter of energy goes on, beside the power that the driver tells."""
    start = last_time = time.time()
    first = last = gpu.ask("TotalEnergyConsumption")
    steps, by_power = [], 0.0
    while time.time() - start < seconds:
        now, counter = time.time(), gpu.ask("TotalEnergyConsumption")
        by_power += gpu.ask("PowerUsage") * (now - last_time)
        last_time = now
        if counter != last:
            steps.append(now)
        if counter < last:
            say("the counter went back")
        last = counter
    gaps = sorted(b - a for a, b in zip(steps, steps[1:])) or [seconds]
    say(f"{what}: {last - first} mJ by the counter, {by_power:.0f} mJ by power; a step each {gaps[len(gaps) // 2]:.4f} s")


def main():
    gpu = Gpu()
    gpu.refuse_company()
    fixed(gpu)
    mig(gpu)
    processes(gpu)
    memory_runs_out(gpu)
    visible(gpu)
    say("== energy")
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    energy(gpu, seconds, "idle")
    with Client() as client:
        client.start()
        client.tell(f"spin {seconds + 1}")
        energy(gpu, seconds, "busy")
    say("== done")


if __name__ == "__main__":
    main()
