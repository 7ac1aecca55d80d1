"""Facts of a GPU through NVML and the driver API; run beside the simulator and on hardware. Read-only."""
import ctypes as C, os, sys, time, subprocess, signal, json, threading
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pynvml import *
import pynvml as P

def say(*a):
    print(*a, flush=True)

def ask(name, *args, show=None):
    f = getattr(P, name, None)
    if f is None:
        say(f'{name}: no such function in pynvml')
        return None
    try:
        r = f(*args)
        v = show(r) if show else r
        say(f"{name}{(args[1:] if args else '')}: {v}")
        return r
    except NVMLError as e:
        say(f"{name}{(args[1:] if args else '')}: error {e.value} {e}")
    except Exception as e:
        say(f'{name}: python {type(e).__name__} {e}')

def struct(s):
    return {n: getattr(s, n) if not isinstance(getattr(s, n), C.Array) else list(getattr(s, n))[:8] for n, *_ in s._fields_ if not n.startswith('_')}
say('== nvml')
ask('nvmlInit')
ask('nvmlSystemGetDriverVersion')
ask('nvmlSystemGetNVMLVersion')
ask('nvmlSystemGetCudaDriverVersion_v2')
n = ask('nvmlDeviceGetCount')
g = nvmlDeviceGetHandleByIndex(0)
for f in 'Name UUID MinorNumber Index Serial BoardId BoardPartNumber Brand PersistenceMode ComputeMode MigMode MaxMigDeviceCount IsMigMode VbiosVersion PowerManagementMode PowerManagementLimit PowerManagementDefaultLimit PowerManagementLimitConstraints EnforcedPowerLimit PowerUsage PowerState TotalEnergyConsumption AccountingMode AccountingBufferSize AccountingPids EccMode NumGpuCores MemoryBusWidth CurrPcieLinkGeneration MaxPcieLinkGeneration CurrPcieLinkWidth MaxPcieLinkWidth PcieThroughput VirtualizationMode ArchitectureName Architecture CudaComputeCapability AutoBoostedClocksEnabled SupportedMemoryClocks MultiGpuBoard NumFans GpuOperationMode RetiredPagesPendingStatus RemappedRows SupportedEventTypes CurrentClocksThrottleReasons SupportedClocksThrottleReasons Topology BridgeChipInfo HostVgpuMode CpuAffinity NumaNodeId GspFirmwareVersion ConfComputeSystemSettings'.split():
    args = (g,)
    if f == 'PcieThroughput':
        args = (g, NVML_PCIE_UTIL_TX_BYTES)
    if f == 'CpuAffinity':
        args = (g, 1)
    ask('nvmlDeviceGet' + f, *args, show=lambda r: struct(r) if hasattr(r, '_fields_') else r[:3] if isinstance(r, list) and len(r) > 8 else r)
ask('nvmlDeviceGetPciInfo', g, show=struct)
ask('nvmlDeviceGetMemoryInfo', g, show=struct)
try:
    say('memory v2', struct(nvmlDeviceGetMemoryInfo(g, version=nvmlMemory_v2)))
except NVMLError as e:
    say('memory v2 error', e.value, e)
ask('nvmlDeviceGetBAR1MemoryInfo', g, show=struct)
ask('nvmlDeviceGetUtilizationRates', g, show=struct)
for what in (NVML_TEMPERATURE_GPU,):
    ask('nvmlDeviceGetTemperature', g, what)
for t in range(0, 6):
    ask('nvmlDeviceGetTemperatureThreshold', g, t)
for c in range(4):
    ask('nvmlDeviceGetClockInfo', g, c)
    ask('nvmlDeviceGetMaxClockInfo', g, c)
for lst in 'ComputeRunningProcesses GraphicsRunningProcesses MPSComputeRunningProcesses'.split():
    ask('nvmlDeviceGet' + lst, g, show=lambda r: [struct(p) if hasattr(p, '_fields_') else str(p) for p in r])
ask('nvmlDeviceGetRunningProcessDetailList', g, 1, 0)
for l in range(0, 18):
    try:
        s = nvmlDeviceGetNvLinkState(g, l)
        rest = []
        for f in ('nvmlDeviceGetNvLinkVersion', 'nvmlDeviceGetNvLinkRemotePciInfo', 'nvmlDeviceGetNvLinkRemoteDeviceType'):
            try:
                r = getattr(P, f)(g, l)
                rest.append(struct(r) if hasattr(r, '_fields_') else r)
            except NVMLError as e:
                rest.append(f'error {e.value}')
        say('nvlink', l, s, rest)
    except NVMLError as e:
        say('nvlink', l, 'error', e.value, e)
say('== fields')
for fid in list(range(1, 20)) + [83, 84, 85, 86, 91, 92, 93, 94, 95, 96, 97, 98, 138, 139, 140, 141, 148, 155, 156, 157, 158, 160, 161, 162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176, 177, 184, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197, 198, 199, 200]:
    try:
        v = nvmlDeviceGetFieldValues(g, [fid])[0]
        say('field', fid, 'ret', v.nvmlReturn, 'type', v.valueType, 'ull', v.value.ullVal, 'd', round(v.value.dVal, 3) if abs(v.value.dVal) < 1000000000000.0 else '-')
    except NVMLError as e:
        say('field', fid, 'error', e.value, e)
say('== mig queries')
for k in range(0, 20):
    for v in (1, 2):
        try:
            i = nvmlDeviceGetGpuInstanceProfileInfo(g, k, version=v)
            d = struct(i)
            nm = d.get('name')
            say('gi profile', k, 'v', v, d)
        except NVMLError as e:
            say('gi profile', k, 'v', v, 'error', e.value, e)
            continue
        if v == 2:
            ask('nvmlDeviceGetGpuInstanceRemainingCapacity', g, i.id)
            try:
                c = C.c_uint(0)
                arr = (c_nvmlGpuInstancePlacement_t * 32)()
                cnt = C.c_uint(32)
                fn = P._nvmlGetFunctionPointer('nvmlDeviceGetGpuInstancePossiblePlacements_v2')
                rc = fn(g, C.c_uint(i.id), arr, C.byref(cnt))
                say('   placements', i.id, 'rc', rc, [(arr[j].start, arr[j].size) for j in range(min(cnt.value, 32))] if rc == 0 else '')
                cnt = C.c_uint(0)
                fn = P._nvmlGetFunctionPointer('nvmlDeviceGetGpuInstances')
                buf = (C.c_void_p * 32)()
                rc = fn(g, C.c_uint(i.id), buf, C.byref(cnt))
                say('   instances', i.id, 'rc', rc, cnt.value)
            except Exception as e:
                say('   placements', type(e).__name__, e)
ask('nvmlDeviceGetMigDeviceHandleByIndex', g, 0)
ask('nvmlDeviceGetGpuInstanceById', g, 0)
ask('nvmlDeviceIsMigDeviceHandle', g)
ask('nvmlDeviceGetAttributes_v2', g)
ask('nvmlDeviceGetAttributes', g, show=struct)
for u in ('GPU-00000000-0000-0000-0000-000000000000', 'MIG-00000000-0000-0000-0000-000000000000', 'nonsense', ''):
    ask('nvmlDeviceGetHandleByUUID', u)
ask('nvmlDeviceGetHandleByIndex', 99)
ask('nvmlDeviceGetName', C.c_void_p(4096)) if os.environ.get('BAD_HANDLES') else None
say('== gpm')
try:
    fn = P._nvmlGetFunctionPointer('nvmlGpmQueryDeviceSupport')
    ask('nvmlGpmQueryDeviceSupport', g, show=struct)
    ask('nvmlGpmQueryIfStreamingEnabled', g)
except Exception as e:
    say('gpm', type(e).__name__, e)
say('== topology')
ask('nvmlDeviceGetTopologyNearestGpus', g, 30)
ask('nvmlDeviceGetTopologyCommonAncestor', g, g)
ask('nvmlDeviceGetP2PStatus', g, g, 0)

def gpm_pair(seconds, metrics):
    try:
        a = nvmlGpmSampleAlloc()
        b = nvmlGpmSampleAlloc()
        nvmlGpmSampleGet(g, a)
        time.sleep(seconds)
        nvmlGpmSampleGet(g, b)
        m = c_nvmlGpmMetricsGet_t()
        m.version = NVML_GPM_METRICS_GET_VERSION
        m.numMetrics = len(metrics)
        m.sample1 = a
        m.sample2 = b
        for i, x in enumerate(metrics):
            m.metrics[i].metricId = x
        nvmlGpmMetricsGet(m)
        out = {x: (m.metrics[i].nvmlReturn, round(m.metrics[i].value, 3)) for i, x in enumerate(metrics)}
        nvmlGpmSampleFree(a)
        nvmlGpmSampleFree(b)
        return out
    except NVMLError as e:
        return f'error {e.value} {e}'
METRICS = [1, 2, 3, 4, 5, 10, 11, 12, 13, 20, 21, 60, 61]
say('gpm idle 0.1 s', gpm_pair(0.1, METRICS))
say('gpm idle 0.001 s', gpm_pair(0.001, METRICS))
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'client.py')

def child(*script, env=None, user=None):
    e = dict(os.environ)
    e.update(env or {})
    return subprocess.Popen([sys.executable, CHILD, *script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=e, bufsize=1)

def tell(p, line):
    p.stdin.write(line + '\n')
    p.stdin.flush()
    r = p.stdout.readline().rstrip()
    return r

def used():
    return nvmlDeviceGetMemoryInfo(g, version=nvmlMemory_v2).used >> 10

def procs():
    out = []
    for kind, f in (('C', nvmlDeviceGetComputeRunningProcesses), ('M', nvmlDeviceGetMPSComputeRunningProcesses)):
        try:
            out += [(kind, p.pid, None if p.usedGpuMemory is None else p.usedGpuMemory >> 10, p.gpuInstanceId, p.computeInstanceId) for p in f(g)]
        except NVMLError as e:
            out.append((kind, 'error', e.value))
    return out

def state(tag):
    say(f'   [{tag}] used {used()} KiB, processes {procs()}')
say('== processes')
state('before')
c = child()
say('pid', c.pid)
for line in ('init', 'attrs', 'ctx'):
    t = time.time()
    r = tell(c, line)
    say(line, r, f'{time.time() - t:.3f} s')
    state(line)
for line in ('alloc 1073741824', 'alloc 1', 'alloc 1', 'memgetinfo', 'module'):
    say(line, tell(c, line))
    state(line)
say('launch', tell(c, 'launch 2000'))
state('launched')
say('spin', tell(c, 'spin 3000'))
time.sleep(0.3)
say('   under spin:', 'util', struct(nvmlDeviceGetUtilizationRates(g)), 'gpm', gpm_pair(0.2, METRICS))
time.sleep(1.2)
say('   under spin later:', 'util', struct(nvmlDeviceGetUtilizationRates(g)), 'power', nvmlDeviceGetPowerUsage(g))
try:
    s = nvmlDeviceGetProcessUtilization(g, 0)
    say('   process utilization', [struct(x) for x in s])
except NVMLError as e:
    say('   process utilization error', e.value, e)
try:
    say('   accounting', struct(nvmlDeviceGetAccountingStats(g, c.pid)))
except NVMLError as e:
    say('   accounting error', e.value, e)
say('sync', tell(c, 'sync'))
say('free', tell(c, 'free'))
state('freed')
t = time.time()
tell_exit = c.stdin.close()
c.wait()
say(f'ended in {time.time() - t:.3f} s')
state('ended')
t0 = time.time()
base = used()
for k in range(50):
    if not [p for p in procs() if p[1] == c.pid]:
        break
    time.sleep(0.02)
say(f'   gone from the list after {time.time() - t0:.3f} s more, used {used()}')
for how, sig, busy in (('kill -9 idle', signal.SIGKILL, False), ('kill -9 under a kernel', signal.SIGKILL, True), ('SIGTERM idle', signal.SIGTERM, False)):
    c = child()
    [tell(c, l) for l in ('init', 'ctx', 'alloc 34359738368', 'module')]
    b = used()
    if busy:
        tell(c, 'spin 20000')
    t = time.time()
    c.send_signal(sig)
    c.wait()
    t1 = time.time() - t
    first = None
    gone = None
    trail = []
    while time.time() - t < 12:
        u, p = (used(), [x for x in procs() if x[1] == c.pid])
        now = time.time() - t
        if not trail or trail[-1][1] != u:
            trail.append((round(now, 3), u))
        if gone is None and (not p):
            gone = now
        if u < b - (30 << 20) and gone is not None:
            break
    say(how, f'waited {t1:.3f} s, gone from list {gone}, used trail {trail[:12]}')
say('== two contexts, many processes')
many = [child() for _ in range(12)]
for m in many:
    tell(m, 'init')
    tell(m, 'ctx')
    tell(m, 'alloc 1048576')
state('12 processes')
[m.kill() for m in many]
[m.wait() for m in many]
time.sleep(1)
state('12 killed')
say('== visible')
u = nvmlDeviceGetUUID(g)
u = u if isinstance(u, str) else u.decode()
for val in (u, u[:12], '0', '1', '-1', '', 'MIG-GPU-x/1/0', 'MIG-00000000-0000-0000-0000-000000000000', u + ',' + u, '0,0', 'NoDevFiles', '0,1', '1,0'):
    c = child(env={'CUDA_VISIBLE_DEVICES': val})
    say('CUDA_VISIBLE_DEVICES', repr(val.replace(u, '<uuid>')), tell(c, 'init'), tell(c, 'count'))
    c.kill()
    c.wait()
say('== virtual memory')
c = child()
[tell(c, l) for l in ('init', 'ctx')]
say('vmm', tell(c, 'vmm'))
c.kill()
c.wait()
say('== out of memory')
c = child()
[tell(c, l) for l in ('init', 'ctx')]
say('memgetinfo', tell(c, 'memgetinfo'), 'alloc all', tell(c, 'allocmost'))
say('memgetinfo', tell(c, 'memgetinfo'))
c.kill()
c.wait()
say('== energy')

def energy(seconds):
    t0 = time.time()
    last = None
    steps = []
    back = 0
    n = 0
    integral = 0
    lt = t0
    e0 = None
    while time.time() - t0 < seconds:
        e = nvmlDeviceGetTotalEnergyConsumption(g)
        now = time.time()
        p = nvmlDeviceGetPowerUsage(g)
        n += 1
        integral += p * (now - lt)
        lt = now
        if last is None:
            last = e
            e0 = e
            le = now
        if e < last:
            back += 1
        if e != last:
            steps.append((round(now - le, 4), e - last))
            last = e
            le = now
    gaps = sorted((s[0] for s in steps[1:]))
    return {'reads': n, 'per read ms': round(1000.0 * (time.time() - t0) / n, 3), 'steps': len(steps), 'gap median': gaps[len(gaps) // 2] if gaps else None, 'gap max': gaps[-1] if gaps else None, 'back': back, 'mJ by counter': last - e0, 'mJ by power': round(integral), 'first': steps[:6]}
try:
    say('idle', energy(3))
    c = child()
    [tell(c, l) for l in ('init', 'ctx', 'module')]
    tell(c, 'spin 4000')
    time.sleep(0.5)
    say('busy', energy(3))
    c.kill()
    c.wait()
except NVMLError as e:
    say('energy error', e.value, e)
say('== done')
