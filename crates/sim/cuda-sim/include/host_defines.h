/* CUDA's keywords. In a C or C++ compiler without CUDA they mean nothing. */
#pragma once

#ifdef __CUDA__
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#ifdef __CUDA_SIM_DEVICE__
/* cuda-sim-cc finds kernels by their section. */
#define __global__ __attribute__((global, section(".text.cuda_sim_kernel")))
#else
#define __global__ __attribute__((global))
#endif
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#else
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __launch_bounds__(...)
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define CUDART_CB
