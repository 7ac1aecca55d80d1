#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void add(const float *a, const float *b, float *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + sqrtf(b[i]);
}

int main() {
    const int n = 100000;
    std::vector<float> a(n), b(n), sum(n);
    for (int i = 0; i < n; i++)
        a[i] = i, b[i] = float(i % 10) * (i % 10);
    float *on_device[3];
    for (float *&p : on_device)
        if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess)
            return 1;
    cudaMemcpy(on_device[0], a.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(on_device[1], b.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(on_device[0], on_device[1], on_device[2], n);
    cudaMemcpy(sum.data(), on_device[2], n * sizeof(float), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += sum[i] != a[i] + i % 10;
    printf("wrong: %d of %d, %s\n", wrong, n, cudaGetErrorName(cudaGetLastError()));
    for (float *p : on_device)
        cudaFree(p);
    return cudaDeviceReset();
}
