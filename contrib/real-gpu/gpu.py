"""A GPU as NVML shows it, and programs on it that do what they are told.

Run as a program, this file is such a program: it reads a verb and its argument per line, calls the CUDA driver, and
answers each with one line, the driver's error code first. It needs no compiler and no CUDA toolkit on the node.
"""
import ctypes
import os
import queue
import subprocess
import sys
import threading
import time

MIB = 1 << 20
PATIENCE = 10
SPIN_AND_FAULT = b"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds) {
  .reg .u64 %t<4>; .reg .pred %p;
  ld.param.u64 %t1, [nanoseconds];
  mov.u64 %t2, %globaltimer;
again: mov.u64 %t3, %globaltimer;
  sub.u64 %t3, %t3, %t2;
  setp.lt.u64 %p, %t3, %t1;
  @%p bra again;
  ret;
}
.visible .entry fault() { .reg .u64 %a; mov.u64 %a, 64; st.global.u32 [%a], 1; ret; }
"""


def say(*words):
    print(*words, flush=True)


class Gpu:
    """The node's first GPU."""

    def __init__(self):
        import pynvml

        self.nvml = pynvml
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    def ask(self, name, *arguments):
        """The answer of `nvmlDeviceGet…`, or the error's number and name."""
        try:
            return getattr(self.nvml, "nvmlDeviceGet" + name)(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            return f"error {error.value}: {error}"

    def used(self):
        """MiB in use by anybody, without what the driver reserves."""
        return self.nvml.nvmlDeviceGetMemoryInfo(self.handle, version=self.nvml.nvmlMemory_v2).used // MIB

    def processes(self):
        """Pid and MiB of each process: the compute processes, and the MPS clients."""
        lists = (self.ask("ComputeRunningProcesses"), self.ask("MPSComputeRunningProcesses"))
        return [{p.pid: (p.usedGpuMemory or 0) // MIB for p in entries} for entries in lists]

    def show(self, when):
        compute, clients = self.processes()
        say(f"  {when}: {self.used()} MiB used, compute processes {compute}, MPS clients {clients}")

    def refuse_company(self):
        """Ends this program if anybody else is on the GPU: it takes all of the memory and makes kernels fail."""
        if any(self.processes()):
            sys.exit("other processes are on the GPU: run this on an idle one")


class Client:
    """A program on the GPU; it is killed at the end of a `with`."""

    def __init__(self, environment=None, user=None):
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        command = [sys.executable, os.path.abspath(__file__)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        env = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(command, text=True, bufsize=1, env=env, **pipes, **identity)
        self.pid = self.process.pid
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("ended")

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
        except OSError:
            pass

    def answer(self):
        try:
            return self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            return f"no answer in {PATIENCE} s"

    def tell(self, line):
        self.send(line)
        return self.answer()

    def start(self):
        """Initialises CUDA and makes a context."""
        return f"cuInit {self.tell('init')}, context {self.tell('context')}"

    def end(self, signal=9):
        """Seconds until the kernel lets the process go."""
        start = time.time()
        self.process.send_signal(signal)
        self.process.wait()
        return time.time() - start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Program:
    """What runs in a client's process. A method per verb; each returns the driver's code, or code and figures."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.made, self.module = ctypes.c_void_p(), ctypes.c_void_p()

    def init(self):
        return self.cuda.cuInit(0)

    def count(self):
        n = ctypes.c_int(-1)
        return self.cuda.cuDeviceGetCount(ctypes.byref(n)), n.value

    def context(self):
        return self.cuda.cuCtxCreate_v2(ctypes.byref(self.made), 0, 0)

    def sms(self):
        n = ctypes.c_int(-1)
        return self.cuda.cuDeviceGetAttribute(ctypes.byref(n), 16, 0), n.value

    def info(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        code = self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return code, free.value // MIB, total.value // MIB

    def alloc(self, mib):
        address = ctypes.c_uint64()
        return self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(mib) * MIB))

    def _launch(self, name, blocks, arguments):
        function = ctypes.c_void_p()
        code = 0 if self.module else self.cuda.cuModuleLoadData(ctypes.byref(self.module), SPIN_AND_FAULT)
        code = code or self.cuda.cuModuleGetFunction(ctypes.byref(function), self.module, name)
        none = ctypes.c_void_p()
        return code or self.cuda.cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, none, arguments, none)

    def spin(self, seconds):
        nanoseconds = ctypes.c_uint64(int(float(seconds) * 1e9))
        pointer = ctypes.cast(ctypes.pointer(nanoseconds), ctypes.c_void_p)
        return self._launch(b"spin", self.sms()[1], (ctypes.c_void_p * 1)(pointer))

    def fault(self):
        return self._launch(b"fault", 1, None) or self.sync()

    def sync(self):
        return self.cuda.cuCtxSynchronize()

    def unset(self, variable):
        os.environ.pop(variable, None)
        return 0


def main():
    program = Program()
    for line in sys.stdin:
        verb, *arguments = line.split()
        result = getattr(program, verb)(*arguments)
        say(*(result if isinstance(result, tuple) else (result,)))


if __name__ == "__main__":
    main()
