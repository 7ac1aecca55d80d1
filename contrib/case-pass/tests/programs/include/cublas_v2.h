/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The little of cuBLAS that Darknet uses, for the simulated device: ../../double/libraries.cpp has the functions. */
#pragma once

/* NVIDIA's own brings it through cuComplex.h, and Darknet relies on that. */
#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
                              float *c, int ldc);
#define cublasCreate cublasCreate_v2
#define cublasSgemm cublasSgemm_v2

#ifdef __cplusplus
}
#endif
