/* How a kernel's arguments get from the array of cuLaunchKernel into a call. cuda-sim-cc includes the .cu file, then this, and then
 * instantiates one caller per kernel. */
#pragma once

template <class... Arguments> struct __cuda_sim_caller {
    template <unsigned... I> struct indices {};
    template <unsigned N, unsigned... I> struct count : count<N - 1, N - 1, I...> {};
    template <unsigned... I> struct count<0, I...> {
        typedef indices<I...> type;
    };
    template <class T> struct plain {
        typedef T type;
    };
    template <class T> struct plain<const T> {
        typedef T type;
    };
    template <unsigned... I>
    static __device__ void call(void (*kernel)(Arguments...), void **arguments, indices<I...>) {
        kernel(*static_cast<typename plain<Arguments>::type *>(arguments[I])...);
    }
    static __device__ void run(void *kernel, void **arguments) {
        call(reinterpret_cast<void (*)(Arguments...)>(kernel), arguments, typename count<sizeof...(Arguments)>::type());
    }
};

/* The type of a kernel, without a use of the kernel: device code may not have one. */
template <class Kernel> struct __cuda_sim_call;
template <class... Arguments> struct __cuda_sim_call<void (*)(Arguments...)> : __cuda_sim_caller<Arguments...> {};
template <class... Arguments> struct __cuda_sim_call<void (*)(Arguments...) noexcept> : __cuda_sim_caller<Arguments...> {};

#define __CUDA_SIM_CALLER(symbol, ...)                                                                              \
    extern "C" __device__ __attribute__((used)) void symbol(void *kernel, void **arguments) {                       \
        __cuda_sim_call<__VA_ARGS__>::run(kernel, arguments);                                                       \
    }
