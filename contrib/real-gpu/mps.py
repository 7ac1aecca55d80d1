"""The real MPS daemon: what its limits do, what clients see when it dies."""
import ctypes as C, os, sys, time, subprocess, signal, shutil, socket
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from pynvml import *

def say(*a):
    print(*a, flush=True)
nvmlInit()
g = nvmlDeviceGetHandleByIndex(0)

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
CONTROL = shutil.which('nvidia-cuda-mps-control') or next((p for p in ('/usr/local/nvidia/bin/nvidia-cuda-mps-control', '/usr/bin/nvidia-cuda-mps-control') if os.path.exists(p)), HERE + '/nvidia-cuda-mps-control')
say('control program', CONTROL)
os.environ['PATH'] += ':' + os.path.dirname(CONTROL) + ':' + HERE
CHILD = HERE + '/client.py'

class Daemon:

    def __init__(self, tag, uid=0, flags=('-d',)):
        self.dir = f'/tmp/mps-{tag}'
        shutil.rmtree(self.dir, ignore_errors=True)
        for d in ('', '/pipe', '/log'):
            os.makedirs(self.dir + d)
            os.chown(self.dir + d, uid, uid)
        self.uid = uid
        self.env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=self.dir + '/pipe', CUDA_MPS_LOG_DIRECTORY=self.dir + '/log')
        t = time.time()
        self.kw = dict(user=uid, group=uid, extra_groups=[]) if uid else {}
        r = subprocess.run([CONTROL, *flags], env=self.env, capture_output=True, text=True, timeout=20, **self.kw)
        say(f'daemon {tag} {flags}: rc {r.returncode} {r.stdout!r} {r.stderr!r} {time.time() - t:.3f} s', os.listdir(self.dir + '/pipe'))

    def ask(self, words, timeout=15):
        t = time.time()
        try:
            r = subprocess.run([CONTROL], env=self.env, input=words + '\n', capture_output=True, text=True, timeout=timeout, **self.kw)
        except subprocess.TimeoutExpired:
            say(f'  > {words!r}: no answer in {timeout} s')
            return ''
        say(f'  > {words!r}: rc {r.returncode} {r.stdout!r} {r.stderr[:200]!r} {time.time() - t:.3f} s')
        return r.stdout

    def child(self, **env):
        e = dict(self.env)
        e.update(env)
        return subprocess.Popen([sys.executable, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=e, bufsize=1, **self.kw)

    def servers(self):
        return [int(x) for x in self.ask('get_server_list').split() if x.isdigit()]

    def logs(self, lines=12):
        for n in sorted(os.listdir(self.dir + '/log')):
            say('  log', n)
            say('   ' + '   '.join(open(self.dir + '/log/' + n).readlines()[-lines:]))

def tell(p, line):
    try:
        p.stdin.write(line + '\n')
        p.stdin.flush()
        return p.stdout.readline().rstrip()
    except (BrokenPipeError, OSError) as e:
        return f'child gone: {e}'

def ctx(d, **env):
    c = d.child(**env)
    return (c, [tell(c, 'init'), tell(c, 'ctx')])

def end(*cs):
    [c.kill() for c in cs]
    [c.wait() for c in cs]
say('== one daemon of root')
d = Daemon('root')
state('daemon, no client')
for w in ('get_server_list', 'get_default_active_thread_percentage', 'get_default_device_pinned_mem_limit 0', 'nonsense', 'get_device_client_list 0', 'ps'):
    d.ask(w)
c, r = ctx(d)
say('client', c.pid, r)
state('client')
say(tell(c, 'alloc 1073741824'))
say(tell(c, 'attrs'))
state('1 GiB')
s = d.servers()
[d.ask(f'get_client_list {x}') for x in s]
d.ask('ps')
d.ask('get_device_client_list 0')
for x in s:
    say('  server', x, open(f'/proc/{x}/comm').read().strip(), os.readlink(f'/proc/{x}/exe'), [l for l in open(f'/proc/{x}/status') if l.startswith(('Uid', 'PPid'))])
say('vmm under MPS', tell(c, 'vmm'))
say('== limits by environment')
for env in ({'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=1G'}, {'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=2500M'}, {'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '25'}, {'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '25', 'CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING': '1'}, {'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '1'}, {'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': 'rubbish'}):
    k, r = ctx(d, **env)
    say(env, r, 'memgetinfo', tell(k, 'memgetinfo'), '0.5 GiB', tell(k, 'alloc 536870912'), '0.5 GiB', tell(k, 'alloc 536870912'), '2 GiB', tell(k, 'alloc 2147483648'), 'most', tell(k, 'allocmost'), 'attr', 'SMs ' + tell(k, 'sms'))
    end(k)
k = d.child(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=1G')
tell(k, 'env CUDA_MPS_PINNED_DEVICE_MEM_LIMIT')
say('unset in the client (python environ)', tell(k, 'init'), tell(k, 'ctx'), tell(k, 'alloc 2147483648'))
end(k)
say('== limits by daemon, set while a client runs')
d.ask('set_default_active_thread_percentage 50')
d.ask('set_default_device_pinned_mem_limit 0 3G')
[d.ask(f'set_active_thread_percentage {x} 50\nset_device_pinned_mem_limit {x} 0 3G') for x in s]
[d.ask(f'get_device_pinned_mem_limit {x} 0\nget_active_thread_percentage {x}') for x in s]
say('old client 4 GiB', tell(c, 'alloc 4294967296'))
k, r = ctx(d)
say('new client', r, tell(k, 'memgetinfo'), '1 GiB', tell(k, 'alloc 1073741824'), '3 GiB', tell(k, 'alloc 3221225472'), 'most', tell(k, 'allocmost'), 'SMs ' + tell(k, 'sms'))
state('limited client')
end(k)
k, r = ctx(d, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=8G', CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='90')
say("asks for more than the daemon's", r, tell(k, 'memgetinfo'), '6 GiB', tell(k, 'alloc 6442450944'), 'SMs ' + tell(k, 'sms'))
end(k)
k1, r = ctx(d, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=1G')
k2, r2 = ctx(d, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=1G')
say('two clients, each 0.9 GiB under 1G', tell(k1, 'alloc 966367641'), tell(k2, 'alloc 966367641'), 'small after', tell(k1, 'alloc 104857600'))
end(k1, k2)
say('== many clients at once')
t = time.time()
many = [d.child() for _ in range(int(os.environ.get('MANY', '64')))]
for m in many:
    m.stdin.write('init\nctx\n')
    m.stdin.flush()
res = {}
for m in many:
    a = m.stdout.readline().split()[1:2] + m.stdout.readline().split()[1:2]
    res[str(a)] = res.get(str(a), 0) + 1
say(res, f'{time.time() - t:.2f} s')
state('many')
end(*many)
time.sleep(1)
say('== server killed')
s = d.servers()
k, r = ctx(d)
tell(k, 'module')
for x in s:
    os.kill(x, 9)
time.sleep(0.5)
say('client after kill of server', tell(c, 'alloc 1048576'), tell(k, 'launch 1'), tell(k, 'sync'))
state('after kill')
n, r = ctx(d)
say('new client', r)
say('old', tell(c, 'alloc 1048576'))
end(c, k)
state('old ended')
n2, r = ctx(d)
say('another new client', r, tell(n2, 'alloc 1048576'))
say('servers', d.servers())
end(n, n2)
say('== control daemon killed')
pidf = [p for p in os.listdir('/proc') if p.isdigit() and 'nvidia-cuda-mps-control' in open(f'/proc/{p}/cmdline').read()]
say('control pids', pidf)
k, r = ctx(d)
say('client', r)
[os.kill(int(p), 9) for p in pidf]
time.sleep(0.5)
say('client goes on?', tell(k, 'alloc 1048576'), tell(k, 'module'), tell(k, 'launch 5'))
n, r = ctx(d)
say('new client', r)
end(k, n)
state('end')
say('left', [(p, open(f'/proc/{p}/cmdline').read()) for p in os.listdir('/proc') if p.isdigit() and 'mps' in open(f'/proc/{p}/cmdline').read() and ('mps.py' not in open(f'/proc/{p}/cmdline').read())])
subprocess.run(['pkill', '-9', '-f', 'nvidia-cuda-mps'])
d.logs(8)
time.sleep(1)
state('all killed')
say('== daemon of a user')
d = Daemon('user', uid=65534)
c, r = ctx(d)
say('client', r, tell(c, 'alloc 1048576'))
state("user's")
d.ask('set_default_device_pinned_mem_limit 0 2G')
d.logs(6)
end(c)
e = dict(d.env)
o = subprocess.Popen([sys.executable, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=e, bufsize=1, user=1234, group=1234, extra_groups=[])
say("another user's client", tell(o, 'init'), tell(o, 'ctx'))
end(o)
t = time.time()
d.ask('quit')
say(f'quit {time.time() - t:.2f} s')
time.sleep(0.5)
state('quit')
say(os.listdir(d.dir + '/pipe'))
say('== multi-user flag')
d = Daemon('multi', flags=('-d', '-multiuser-server'))
c, r = ctx(d)
say('client', r)
state('multi')
d.ask('quit -t 1')
end(c)
subprocess.run(['pkill', '-9', '-f', 'nvidia-cuda-mps'])
time.sleep(0.5)
state('end')
say('== a client faults')
d = Daemon('fault')
a, r = ctx(d)
b, r2 = ctx(d)
say(r, r2)
tell(a, 'module')
say('fault', tell(a, 'fault'))
time.sleep(0.3)
say('neighbour', tell(b, 'alloc 1048576'), tell(b, 'sync'))
n, r = ctx(d)
say('new client while they live', r)
end(n)
end(a)
time.sleep(0.5)
n, r = ctx(d)
say('new client after the faulty one ended', r)
end(n)
end(b)
time.sleep(0.5)
n, r = ctx(d)
say('new client after all ended', r)
end(n)
d.ask('quit')
d.logs(14)
subprocess.run(['pkill', '-9', '-f', 'nvidia-cuda-mps'])
say('== a client is ended under a kernel: does its neighbour live?')
for how in ('SIGKILL', 'SIGTERM', 'terminate_client'):
    d = Daemon('k' + how[:5])
    a, r = ctx(d)
    b, r2 = ctx(d)
    tell(a, 'module')
    tell(a, 'spin 3000')
    time.sleep(0.2)
    s0 = d.servers()
    if how == 'terminate_client':
        d.ask(f'terminate_client {s0[0]} {a.pid}')
        time.sleep(0.2)
        say('the client', tell(a, 'sync'))
        a.kill()
    else:
        a.send_signal(getattr(signal, how))
    a.wait()
    time.sleep(0.3)
    say(how, 'neighbour', tell(b, 'alloc 1048576'), tell(b, 'sync'))
    n, r3 = ctx(d)
    say('new client', r3)
    end(b, n)
    subprocess.run(['pkill', '-9', '-f', 'nvidia-cuda-mps'])
    time.sleep(0.5)
say('== done')
