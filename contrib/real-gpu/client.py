"""A small driver-API program that does what it is told on stdin, one line of answer each."""
import ctypes as C, sys, time, os
cu = None
for name in ('libcuda.so.1',):
    cu = C.CDLL(os.environ.get('CUDA_LIB', name))
ptrs = []
V = C.c_void_p
PTX = b'\n.version 6.4\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n.visible .entry bad() { .reg .u64 %a; mov.u64 %a, 64; st.global.u32 [%a], 1; ret; }\n.visible .entry spin(.param .u64 ns) {\n  .reg .u64 %t<4>; .reg .pred %p;\n  ld.param.u64 %t1, [ns];\n  mov.u64 %t2, %globaltimer;\nL: mov.u64 %t3, %globaltimer;\n  sub.u64 %t3, %t3, %t2;\n  setp.lt.u64 %p, %t3, %t1;\n  @%p bra L;\n  ret;\n}\n'

def main():
    ctx = V()
    mod = V()
    empty = V()
    spin = V()
    bad = V()
    dev = C.c_int()

    def ans(*a):
        print(*a, flush=True)
    for line in sys.stdin:
        w = line.split()
        if not w:
            continue
        k = w[0]
        if k == 'init':
            ans('rc', cu.cuInit(0))
        elif k == 'count':
            n = C.c_int(-1)
            rc = cu.cuDeviceGetCount(C.byref(n))
            ans('rc', rc, 'count', n.value)
        elif k == 'attrs':
            rc = cu.cuDeviceGet(C.byref(dev), 0)
            out = {}
            for a in (1, 2, 8, 10, 13, 14, 16, 20, 31, 36, 37, 38, 39, 40, 41, 75, 76, 78, 86, 89, 95, 100, 101, 102, 106, 115):
                v = C.c_int(-1)
                r = cu.cuDeviceGetAttribute(C.byref(v), a, dev)
                out[a] = v.value if r == 0 else f'rc{r}'
            b = C.create_string_buffer(100)
            cu.cuDeviceGetName(b, 100, dev)
            t = C.c_size_t()
            cu.cuDeviceTotalMem_v2(C.byref(t), dev)
            v = C.c_int()
            cu.cuDriverGetVersion(C.byref(v))
            ans('rc', rc, b.value, 'total', t.value, 'driver', v.value, out)
        elif k == 'sms':
            v = C.c_int(-1)
            r = cu.cuDeviceGetAttribute(C.byref(v), 16, dev)
            ans(r, v.value)
        elif k == 'ctx':
            cu.cuDeviceGet(C.byref(dev), 0)
            t = time.time()
            rc = cu.cuCtxCreate_v2(C.byref(ctx), 0, dev)
            ans('rc', rc, f'{time.time() - t:.3f} s')
        elif k == 'alloc':
            p = C.c_uint64()
            rc = cu.cuMemAlloc_v2(C.byref(p), C.c_size_t(int(w[1])))
            ptrs.append(p) if rc == 0 else 0
            ans('rc', rc, hex(p.value))
        elif k == 'allocmost':
            f, t = (C.c_size_t(), C.c_size_t())
            cu.cuMemGetInfo_v2(C.byref(f), C.byref(t))
            size = f.value
            got = 0
            rcs = []
            while size >= 1 << 20:
                p = C.c_uint64()
                rc = cu.cuMemAlloc_v2(C.byref(p), C.c_size_t(size))
                if rc == 0:
                    got += size
                    ptrs.append(p)
                    size = min(size, 1 << 30)
                else:
                    rcs.append(rc)
                    size //= 2
            ans('free was', f.value, 'got', got, 'rcs', rcs[:5])
        elif k == 'free':
            ans('rcs', [cu.cuMemFree_v2(p) for p in ptrs])
            ptrs.clear()
        elif k == 'memgetinfo':
            f, t = (C.c_size_t(), C.c_size_t())
            rc = cu.cuMemGetInfo_v2(C.byref(f), C.byref(t))
            ans('rc', rc, 'free', f.value, 'total', t.value)
        elif k == 'module':
            t = time.time()
            rc = cu.cuModuleLoadData(C.byref(mod), PTX)
            r2 = cu.cuModuleGetFunction(C.byref(empty), mod, b'empty')
            r3 = cu.cuModuleGetFunction(C.byref(spin), mod, b'spin')
            cu.cuModuleGetFunction(C.byref(bad), mod, b'bad')
            ans('rc', rc, r2, r3, f'{time.time() - t:.3f} s')
        elif k == 'launch':
            n = int(w[1])
            t = time.time()
            rc = [cu.cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, V(), None, None) for _ in range(n)]
            r = cu.cuCtxSynchronize()
            ans('rc', set(rc), r, f'{(time.time() - t) / n * 1000000.0:.2f} us each (python)')
        elif k == 'spin':
            ns = C.c_uint64(int(w[1]) * 1000000)
            args = (V * 1)(C.cast(C.pointer(ns), V))
            smc = 132
            rc = cu.cuLaunchKernel(spin, smc, 1, 1, 128, 1, 1, 0, V(), args, None)
            ans('rc', rc)
        elif k == 'sync':
            t = time.time()
            rc = cu.cuCtxSynchronize()
            ans('rc', rc, f'{time.time() - t:.3f} s')
        elif k == 'vmm':

            class Loc(C.Structure):
                _fields_ = [('type', C.c_int), ('id', C.c_int)]

            class Prop(C.Structure):
                _fields_ = [('type', C.c_int), ('handles', C.c_int), ('loc', Loc), ('win32', V), ('flags', C.c_ubyte * 8)]

            class Acc(C.Structure):
                _fields_ = [('loc', Loc), ('flags', C.c_int)]
            prop = Prop(1, 0, Loc(1, 0), None)
            gran = C.c_size_t()
            r0 = cu.cuMemGetAllocationGranularity(C.byref(gran), C.byref(prop), 0)
            size = C.c_size_t(64 << 20)
            a = C.c_uint64()
            out = [r0, gran.value]
            for _ in range(2):
                r1 = cu.cuMemAddressReserve(C.byref(a), size, C.c_size_t(0), C.c_uint64(a.value), C.c_ulonglong(0))
                h = C.c_uint64()
                r2 = cu.cuMemCreate(C.byref(h), size, C.byref(prop), C.c_ulonglong(0))
                r3 = cu.cuMemMap(a, size, C.c_size_t(0), h, C.c_ulonglong(0))
                acc = Acc(Loc(1, 0), 3)
                r4 = cu.cuMemSetAccess(a, size, C.byref(acc), C.c_size_t(1))
                r5 = cu.cuMemsetD8_v2(a, C.c_ubyte(7), size)
                cu.cuCtxSynchronize()
                out.append((hex(a.value), r1, r2, r3, r4, r5))
                r6 = cu.cuMemUnmap(a, size)
                r7 = cu.cuMemRelease(h)
                r8 = cu.cuMemAddressFree(a, size)
                out.append((r6, r7, r8))
            ans(out)
        elif k == 'fault':
            rc = cu.cuMemsetD8_v2(C.c_uint64(12918456320), C.c_ubyte(7), C.c_size_t(1 << 20))
            rc2 = cu.cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, V(), None, None) if bad.value else -1
            r2 = cu.cuCtxSynchronize()
            ans('rc', rc, rc2, r2)
        elif k == 'env':
            os.environ.pop(w[1], None)
            ans('unset')
        else:
            ans('what?', k)
main()
