// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The functions of cuBLAS and cuRAND that Darknet uses, on the simulated device, whose memory the host can read and write.

#include "../programs/include/cublas_v2.h"
#include "../programs/include/curand.h"

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  static int all;
  *handle = &all;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                              float *c, int ldc) {
  for (long column = 0; column != n; ++column)
    for (long row = 0; row != m; ++row) {
      double sum = 0;
      for (long i = 0; i != k; ++i)
        sum += (ta == CUBLAS_OP_N ? a[row + i * lda] : a[i + row * lda]) *
               (tb == CUBLAS_OP_N ? b[i + column * ldb] : b[column + i * ldb]);
      float &out = c[row + column * ldc];
      out = *alpha * sum + (*beta == 0 ? 0 : *beta * out);
    }
  return CUBLAS_STATUS_SUCCESS;
}

curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t) {
  static unsigned long long state;
  *generator = &state;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  *(unsigned long long *)generator = seed;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t count) {
  auto &state = *(unsigned long long *)generator;
  for (size_t at = 0; at != count; ++at) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out[at] = ((state >> 40) + 1) / 16777216.0f;
  }
  return CURAND_STATUS_SUCCESS;
}

} // extern "C"
