/* What kernels may call, for kernels that are compiled as code for the host: where a thread is, barriers, atomics, mathematics.
 *
 * Not here, so that a kernel which needs it does not compile: warp functions (__shfl_sync, __ballot_sync, __syncwarp, …), textures and
 * surfaces, cooperative groups, tensor cores, dynamic parallelism. */
#pragma once

/* Place in include/cuda_sim_grid.cpp is the same. */
struct __cuda_sim_place {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
};

extern "C" {
/* Each thread of a grid asks for its own and always gets the same answer. */
__device__ __attribute__((const)) struct __cuda_sim_place *__cuda_sim_self(void);
__device__ void __cuda_sim_barrier(void);
}

#define threadIdx (__cuda_sim_self()->thread)
#define blockIdx (__cuda_sim_self()->block)
#define blockDim (__cuda_sim_self()->block_dim)
#define gridDim (__cuda_sim_self()->grid_dim)
#define warpSize 32
#define __syncthreads __cuda_sim_barrier

#define __CUDA_SIM_DEVICE static inline __device__

__CUDA_SIM_DEVICE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
__CUDA_SIM_DEVICE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
__CUDA_SIM_DEVICE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
__CUDA_SIM_DEVICE long long clock64() { return (long long)__builtin_ia32_rdtsc(); }
__CUDA_SIM_DEVICE int clock() { return (int)__builtin_ia32_rdtsc(); }

/* Atomics return the old value. Another host thread may run a kernel on the same memory in another process: they are real ones. */
template <class T, class Next> __CUDA_SIM_DEVICE T __cuda_sim_atomic(T *address, Next next) {
    T old, changed;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do
        changed = next(old);
    while (!__atomic_compare_exchange(address, &old, &changed, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
#define __CUDA_SIM_ATOMIC(name, type, expression)                                                                   \
    __CUDA_SIM_DEVICE type name(type *address, type value) {                                                        \
        return __cuda_sim_atomic(address, [=] __device__(type old) -> type { return expression; });                 \
    }
#define __CUDA_SIM_INTEGERS(name, expression)                                                                       \
    __CUDA_SIM_ATOMIC(name, int, expression)                                                                        \
    __CUDA_SIM_ATOMIC(name, unsigned int, expression)                                                               \
    __CUDA_SIM_ATOMIC(name, unsigned long long, expression)
__CUDA_SIM_INTEGERS(atomicAdd, old + value)
__CUDA_SIM_ATOMIC(atomicAdd, float, old + value)
__CUDA_SIM_ATOMIC(atomicAdd, double, old + value)
__CUDA_SIM_INTEGERS(atomicSub, old - value)
__CUDA_SIM_INTEGERS(atomicMin, old < value ? old : value)
__CUDA_SIM_INTEGERS(atomicMax, old > value ? old : value)
__CUDA_SIM_INTEGERS(atomicAnd, old &value)
__CUDA_SIM_INTEGERS(atomicOr, old | value)
__CUDA_SIM_INTEGERS(atomicXor, old ^ value)
__CUDA_SIM_INTEGERS(atomicExch, ((void)old, value))
__CUDA_SIM_ATOMIC(atomicExch, float, ((void)old, value))
__CUDA_SIM_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
__CUDA_SIM_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)
#undef __CUDA_SIM_ATOMIC
#undef __CUDA_SIM_INTEGERS
#define __CUDA_SIM_CAS(type)                                                                                        \
    __CUDA_SIM_DEVICE type atomicCAS(type *address, type compare, type value) {                                     \
        __atomic_compare_exchange(address, &compare, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);            \
        return compare;                                                                                             \
    }
__CUDA_SIM_CAS(int)
__CUDA_SIM_CAS(unsigned int)
__CUDA_SIM_CAS(unsigned long long)
#undef __CUDA_SIM_CAS

/* Mathematics and memory functions: the C library's, under the names that kernels use. */
extern "C" {
#define __CUDA_SIM_1(name) __device__ double name(double); __device__ float name##f(float);
#define __CUDA_SIM_2(name) __device__ double name(double, double); __device__ float name##f(float, float);
#define __CUDA_SIM_3(name) __device__ double name(double, double, double); __device__ float name##f(float, float, float);
#define __CUDA_SIM_ALL_1(DO)                                                                                        \
    DO(acos) DO(acosh) DO(asin) DO(asinh) DO(atan) DO(atanh) DO(cbrt) DO(ceil) DO(cos) DO(cosh) DO(erf) DO(erfc)    \
    DO(exp) DO(exp2) DO(expm1) DO(fabs) DO(floor) DO(lgamma) DO(log) DO(log10) DO(log1p) DO(log2) DO(nearbyint)     \
    DO(rint) DO(round) DO(sin) DO(sinh) DO(sqrt) DO(tan) DO(tanh) DO(tgamma) DO(trunc)
#define __CUDA_SIM_ALL_2(DO)                                                                                        \
    DO(atan2) DO(copysign) DO(fdim) DO(fmax) DO(fmin) DO(fmod) DO(hypot) DO(nextafter) DO(pow) DO(remainder)
__CUDA_SIM_ALL_1(__CUDA_SIM_1)
__CUDA_SIM_ALL_2(__CUDA_SIM_2)
__CUDA_SIM_3(fma)
__device__ void sincos(double, double *, double *);
__device__ void sincosf(float, float *, float *);
__device__ int printf(const char *, ...);
__device__ void *memcpy(void *, const void *, size_t);
__device__ void *memset(void *, int, size_t);
__device__ void *malloc(size_t);
__device__ void free(void *);
__device__ int abs(int);
__device__ long labs(long);
__device__ long long llabs(long long);
__device__ void __assert_fail(const char *, const char *, unsigned int, const char *) noexcept;
__device__ int usleep(unsigned int);
}
/* The float forms that C++ has beside them. */
#define __CUDA_SIM_FLOAT_1(name) __CUDA_SIM_DEVICE float name(float x) { return name##f(x); }
#define __CUDA_SIM_FLOAT_2(name) __CUDA_SIM_DEVICE float name(float x, float y) { return name##f(x, y); }
__CUDA_SIM_ALL_1(__CUDA_SIM_FLOAT_1)
__CUDA_SIM_ALL_2(__CUDA_SIM_FLOAT_2)
__CUDA_SIM_DEVICE float fma(float x, float y, float z) { return fmaf(x, y, z); }
__CUDA_SIM_DEVICE float abs(float x) { return fabsf(x); }
__CUDA_SIM_DEVICE double abs(double x) { return fabs(x); }
#undef __CUDA_SIM_FLOAT_1
#undef __CUDA_SIM_FLOAT_2
#undef __CUDA_SIM_1
#undef __CUDA_SIM_2
#undef __CUDA_SIM_3
__CUDA_SIM_DEVICE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
__CUDA_SIM_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
__CUDA_SIM_DEVICE float __expf(float x) { return expf(x); }
__CUDA_SIM_DEVICE float __logf(float x) { return logf(x); }
__CUDA_SIM_DEVICE float __log2f(float x) { return log2f(x); }
__CUDA_SIM_DEVICE float __log10f(float x) { return log10f(x); }
__CUDA_SIM_DEVICE float __tanf(float x) { return tanf(x); }
__CUDA_SIM_DEVICE float __sinf(float x) { return sinf(x); }
__CUDA_SIM_DEVICE float __cosf(float x) { return cosf(x); }
__CUDA_SIM_DEVICE float __powf(float x, float y) { return powf(x, y); }
__CUDA_SIM_DEVICE float __fdividef(float x, float y) { return x / y; }
__CUDA_SIM_DEVICE int __popc(unsigned int x) { return __builtin_popcount(x); }
__CUDA_SIM_DEVICE int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
__CUDA_SIM_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
__CUDA_SIM_DEVICE int __mul24(int x, int y) { return x * y; }
/* Sleeps about that long: real time passes in a kernel that waits. */
__CUDA_SIM_DEVICE void __nanosleep(unsigned int ns) { usleep((ns + 999) / 1000); }
template <class T> __CUDA_SIM_DEVICE T __ldg(const T *address) { return *address; }

#define __CUDA_SIM_MINMAX(type)                                                                                     \
    static inline __host__ __device__ type min(type a, type b) { return b < a ? b : a; }                            \
    static inline __host__ __device__ type max(type a, type b) { return a < b ? b : a; }
__CUDA_SIM_MINMAX(int)
__CUDA_SIM_MINMAX(unsigned int)
__CUDA_SIM_MINMAX(long)
__CUDA_SIM_MINMAX(unsigned long)
__CUDA_SIM_MINMAX(long long)
__CUDA_SIM_MINMAX(unsigned long long)
__CUDA_SIM_MINMAX(float)
__CUDA_SIM_MINMAX(double)
#undef __CUDA_SIM_MINMAX
