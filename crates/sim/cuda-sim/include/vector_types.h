/* CUDA's vector types: structures of one to four equal members, aligned as CUDA aligns them. */
#pragma once

#define __CUDA_SIM_VECTORS(name, type, align2, align4)                                                              \
    typedef struct name##1 { type x; } name##1;                                                                     \
    typedef struct __attribute__((aligned(align2))) name##2 { type x, y; } name##2;                                 \
    typedef struct name##3 { type x, y, z; } name##3;                                                               \
    typedef struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; } name##4;

__CUDA_SIM_VECTORS(char, signed char, 2, 4)
__CUDA_SIM_VECTORS(uchar, unsigned char, 2, 4)
__CUDA_SIM_VECTORS(short, short, 4, 8)
__CUDA_SIM_VECTORS(ushort, unsigned short, 4, 8)
__CUDA_SIM_VECTORS(int, int, 8, 16)
__CUDA_SIM_VECTORS(uint, unsigned int, 8, 16)
__CUDA_SIM_VECTORS(long, long, 16, 16)
__CUDA_SIM_VECTORS(ulong, unsigned long, 16, 16)
__CUDA_SIM_VECTORS(longlong, long long, 16, 16)
__CUDA_SIM_VECTORS(ulonglong, unsigned long long, 16, 16)
__CUDA_SIM_VECTORS(float, float, 8, 16)
__CUDA_SIM_VECTORS(double, double, 16, 16)
#undef __CUDA_SIM_VECTORS

typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    __host__ __device__ constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    __host__ __device__ constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
} dim3;

#ifdef __cplusplus
#define __CUDA_SIM_MAKE(name, type)                                                                                 \
    static inline __host__ __device__ name##1 make_##name##1(type x) { return name##1{x}; }                         \
    static inline __host__ __device__ name##2 make_##name##2(type x, type y) { return name##2{x, y}; }              \
    static inline __host__ __device__ name##3 make_##name##3(type x, type y, type z) { return name##3{x, y, z}; }   \
    static inline __host__ __device__ name##4 make_##name##4(type x, type y, type z, type w) {                      \
        return name##4{x, y, z, w};                                                                                 \
    }
__CUDA_SIM_MAKE(char, signed char)
__CUDA_SIM_MAKE(uchar, unsigned char)
__CUDA_SIM_MAKE(short, short)
__CUDA_SIM_MAKE(ushort, unsigned short)
__CUDA_SIM_MAKE(int, int)
__CUDA_SIM_MAKE(uint, unsigned int)
__CUDA_SIM_MAKE(long, long)
__CUDA_SIM_MAKE(ulong, unsigned long)
__CUDA_SIM_MAKE(longlong, long long)
__CUDA_SIM_MAKE(ulonglong, unsigned long long)
__CUDA_SIM_MAKE(float, float)
__CUDA_SIM_MAKE(double, double)
#undef __CUDA_SIM_MAKE
#endif
