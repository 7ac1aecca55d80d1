// What kernels and launches of real programs use: templates, name spaces, structs by value, shared memory with barriers, variables
// of the device, atomics, three dimensions, streams, pitched memory, errors.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

struct Large {
    double numbers[6];
    char tag;
};
struct Pair {
    float x;
    int y;
};

__constant__ float factors[4];
__device__ int visits;
__device__ int twice(int x) { return 2 * x; }

__global__ void by_value(double *out, Large large, Pair pair, char c, short s, bool flag) {
    out[0] = large.numbers[5] + pair.x + pair.y + c + s + flag + factors[2];
    assert(large.tag == 't');
}

namespace {
template <class T, int N> __global__ void reverse(T *data) {
    __shared__ T tile[N];
    extern __shared__ T scratch[];
    int i = threadIdx.x;
    tile[i] = data[i];
    scratch[N - 1 - i] = T(blockDim.x);
    __syncthreads();
    data[i] = tile[N - 1 - i] + scratch[i];
}
} // namespace

// A sum over a block by halves: a barrier in a loop.
static __global__ void sum(const int *in, int *out) {
    __shared__ int partial[256];
    int i = threadIdx.x;
    partial[i] = in[blockIdx.x * 256 + i];
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (i < half)
            partial[i] += partial[i + half];
    }
    if (i == 0)
        atomicAdd(out, partial[0]);
}

__global__ void places(int *out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = twice(block * 1000 + thread);
    atomicAdd(&visits, 1);
}

extern "C" __global__ void plain(int *out) { *out = max(3, min(7, 5)); }

__global__ void rows(float *data, size_t pitch, int width) {
    float *row = (float *)((char *)data + blockIdx.x * pitch);
    for (int i = 0; i < width; i++)
        row[i] = blockIdx.x * 100 + i;
}

// Code for vectors of numbers relies on a stack at a multiple of 16 bytes.
__device__ __attribute__((noinline)) size_t frame() { return (size_t)__builtin_frame_address(0) % 16; }
__global__ void stacks(int *out) {
    __syncthreads();
    atomicAdd(out, frame() == 0);
}

static int failures;
#define CHECK(what, good)                                                                                           \
    do {                                                                                                            \
        bool ok = (good);                                                                                           \
        failures += !ok;                                                                                            \
        printf("%s %s\n", ok ? "ok" : "NOT", what);                                                                 \
    } while (0)

int main() {
    double *number, host_number;
    cudaMalloc(&number, sizeof(double));
    float host_factors[4] = {0, 0, 1000, 0};
    cudaMemcpyToSymbol(factors, host_factors, sizeof host_factors);
    Large large = {{0, 0, 0, 0, 0, 5}, 't'};
    by_value<<<1, 1>>>(number, large, Pair{0.5f, 7}, 'a', -3, true);
    cudaMemcpy(&host_number, number, sizeof(double), cudaMemcpyDefault);
    CHECK("arguments by value", host_number == 5 + 0.5 + 7 + 'a' - 3 + 1 + 1000);

    int *managed;
    cudaMallocManaged(&managed, 64 * sizeof(int));
    for (int i = 0; i < 64; i++)
        managed[i] = i;
    reverse<int, 64><<<1, 64, 64 * sizeof(int)>>>(managed);
    cudaDeviceSynchronize();
    bool good = true;
    for (int i = 0; i < 64; i++)
        good &= managed[i] == 63 - i + 64;
    CHECK("shared memory, static and dynamic", good);

    int *many, *total, host[1024], host_total = 0;
    for (int i = 0; i < 1024; i++)
        host[i] = i;
    cudaMalloc(&many, sizeof host);
    cudaMalloc(&total, sizeof(int));
    cudaMemset(total, 0, sizeof(int));
    cudaStream_t stream;
    cudaEvent_t start, stop;
    cudaStreamCreate(&stream);
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaMemcpyAsync(many, host, sizeof host, cudaMemcpyHostToDevice, stream);
    cudaEventRecord(start, stream);
    sum<<<4, 256, 0, stream>>>(many, total);
    cudaEventRecord(stop, stream);
    cudaMemcpyAsync(&host_total, total, sizeof(int), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    float ms = -1;
    CHECK("barriers in a loop", host_total == 1023 * 1024 / 2);
    CHECK("events", cudaEventElapsedTime(&ms, start, stop) == cudaSuccess && ms > 0);

    places<<<dim3(2, 3, 4), dim3(4, 2, 3)>>>(many);
    cudaMemcpy(host, many, 24 * 24 * sizeof(int), cudaMemcpyDeviceToHost);
    good = true;
    for (int i = 0; i < 24 * 24; i++)
        good &= host[i] == 2 * (i / 24 * 1000 + i % 24);
    int count = 0;
    cudaMemcpyFromSymbol(&count, visits, sizeof count);
    CHECK("three dimensions", good);
    CHECK("variables of the device", count == 24 * 24);

    cudaMemset(total, 0, sizeof(int));
    stacks<<<2, 16>>>(total);
    cudaMemcpy(&host_total, total, sizeof(int), cudaMemcpyDeviceToHost);
    CHECK("stacks of threads are aligned", host_total == 32);

    plain<<<1, 1>>>(total);
    cudaMemcpy(&host_total, total, sizeof(int), cudaMemcpyDeviceToHost);
    CHECK("extern C", host_total == 5);

    float *pitched, back[3][5];
    size_t pitch;
    cudaMallocPitch(&pitched, &pitch, 5 * sizeof(float), 3);
    rows<<<3, 1>>>(pitched, pitch, 5);
    cudaMemcpy2D(back, sizeof back[0], pitched, pitch, sizeof back[0], 3, cudaMemcpyDeviceToHost);
    CHECK("pitched memory", pitch % 512 == 0 && back[0][4] == 4 && back[2][0] == 200 && back[2][4] == 204);

    cudaPitchedPtr volume;
    cudaMalloc3D(&volume, make_cudaExtent(8, 2, 2));
    cudaMemset3D(volume, 3, make_cudaExtent(8, 2, 2));
    char flat[32] = {0};
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = volume;
    copy.dstPtr = make_cudaPitchedPtr(flat, 8, 8, 2);
    copy.extent = make_cudaExtent(8, 2, 2);
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK("3D copies", cudaMemcpy3D(&copy) == cudaSuccess && flat[0] == 3 && flat[31] == 3);

    cudaPointerAttributes about;
    cudaPointerGetAttributes(&about, total);
    bool device = about.type == cudaMemoryTypeDevice && about.device == 0 && about.devicePointer == total;
    cudaPointerGetAttributes(&about, managed);
    bool both = about.type == cudaMemoryTypeManaged && about.hostPointer == managed;
    cudaPointerGetAttributes(&about, host);
    CHECK("pointers", device && both && about.type == cudaMemoryTypeUnregistered);

    cudaFuncAttributes attributes;
    CHECK("kernels", cudaFuncGetAttributes(&attributes, plain) == cudaSuccess && attributes.maxThreadsPerBlock == 1024);

    CHECK("no error so far", cudaGetLastError() == cudaSuccess);
    plain<<<1, 1025>>>(total);
    CHECK("too many threads", cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    CHECK("the last error is told once", cudaGetLastError() != cudaSuccess && cudaGetLastError() == cudaSuccess);
    void *more;
    CHECK("out of memory", cudaMalloc(&more, size_t(1) << 40) == cudaErrorMemoryAllocation);
    CHECK("a copy to no memory", cudaMemcpy((void *)64, host, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK("a copy beyond the end", cudaMemcpy(total, host, 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK("freed twice", cudaFree(total) == cudaSuccess && cudaFree(total) == cudaErrorInvalidValue);
    CHECK("no such device", cudaSetDevice(7) == cudaErrorInvalidDevice);
    cudaGetLastError();
    cudaDeviceReset();
    CHECK("after a reset", cudaMalloc(&more, 100) == cudaSuccess);
    cudaMemcpyFromSymbol(&count, visits, sizeof count);
    CHECK("variables are new after a reset", count == 0);
    plain<<<1, 1>>>((int *)more);
    CHECK("kernels after a reset", cudaGetLastError() == cudaSuccess);
    return failures;
}
