// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the pass knows of the CUDA runtime: one row per function, by name.

#ifndef TESSERA_CASE_CUDA_H
#define TESSERA_CASE_CUDA_H

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/InstrTypes.h"

namespace tessera {

/// The heap of a device's kernels unless cudaDeviceSetLimit says otherwise, in bytes (CASE, section 3.1.3).
constexpr uint64_t DefaultHeap = 8u << 20;
/// cudaLimitMallocHeapSize of `enum cudaLimit`.
constexpr uint64_t LimitMallocHeapSize = 2;
/// Rows of pitched memory begin at multiples of this many bytes on every GPU so far.
constexpr uint64_t PitchAlign = 512;

enum class Api {
  // Allocations of device memory; argument 0 receives the address.
  Malloc,      // (out, bytes)
  MallocPitch, // (out, pitch out, width, height)
  Malloc3D,    // (cudaPitchedPtr out, cudaExtent by value)
  MallocAsync, // (out, bytes, stream)
  MallocManaged,
  // Host memory that a device can reach; argument 0 receives the address.
  HostAlloc,
  StreamCreate, // argument 0 receives the stream
  // Operations on device memory.
  Memcpy,        // (dst, src, bytes, kind)
  MemcpyAsync,   // (dst, src, bytes, kind, stream)
  Memcpy2D,      // (dst, pitch, src, pitch, width, height, kind)
  Memcpy2DAsync, // … and a stream
  Memcpy3D,      // (parameters)
  Memset,        // (dst, value, bytes)
  MemsetAsync,
  Memset2D, // (dst, pitch, value, width, height)
  Memset2DAsync,
  Memset3D, // (cudaPitchedPtr by value, value, cudaExtent by value)
  Free,
  FreeAsync,
  // Launches.
  Push,   // __cudaPushCallConfiguration(grid xy, grid z, block xy, block z, shared, stream)
  Stub,   // the host function that stands for a kernel
  Launch, // cudaLaunchKernel and its like, called by the program itself
  // The whole device.
  DeviceSync,
  StreamSync, // (stream)
  Reset,
  SetLimit, // (limit, value)
  SetDevice,
  // Needs no device: error codes, properties.
  Harmless,
  // Needs a device and leaves something on it, or is not known.
  Context,
  // No CUDA function.
  None,
};

/// What a call calls. Calls through pointers are `None`.
Api apiOf(const llvm::CallBase &Call);
/// The same, of a function's name.
Api apiOf(llvm::StringRef Name);

/// Whether an allocation of device memory.
bool isAlloc(Api A);
/// Whether copies, fills or frees device memory.
bool isMemoryOp(Api A);
/// Whether a host function that stands for a kernel.
bool isStub(llvm::StringRef Name);
/// Whether written by clang for registration of kernels: no code of the program.
bool isRegistration(llvm::StringRef Name);

/// Indices of the arguments through which a memory operation reaches device memory, in the order destination, source.
llvm::ArrayRef<unsigned> pointerArguments(Api A);
/// Index of the stream, if the call has one.
std::optional<unsigned> streamArgument(Api A);
/// The cudaMemcpyKind of a copy, if it is a constant.
std::optional<uint64_t> copyKind(const llvm::CallBase &Call, Api A);

} // namespace tessera

#endif
