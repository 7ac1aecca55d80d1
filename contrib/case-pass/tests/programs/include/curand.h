/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The little of cuRAND that Darknet uses, for the simulated device: ../../double/libraries.cpp has the functions. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *curandGenerator_t;
typedef enum { CURAND_STATUS_SUCCESS = 0 } curandStatus_t;
typedef enum { CURAND_RNG_PSEUDO_DEFAULT = 100 } curandRngType_t;

curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t kind);
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed);
curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t count);

#ifdef __cplusplus
}
#endif
