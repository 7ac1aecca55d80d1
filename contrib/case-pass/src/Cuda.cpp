// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Cuda.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Function.h"

using namespace llvm;

namespace tessera {

namespace {
/// A function and its parameters: `p`ointer, `i`nt, `l`ong, structure passed `b`y value. Null: any.
struct Row {
  Api A;
  const char *Parameters;
};
} // namespace

static const StringMap<Row> &rows() {
  static const StringMap<Row> Rows = {
      {"cudaMalloc", {Api::Malloc, "pl"}},
      {"cudaMallocPitch", {Api::MallocPitch, "ppll"}},
      {"cudaMalloc3D", {Api::Malloc3D, "pb"}},
      {"cudaMallocAsync", {Api::MallocAsync, "plp"}},
      {"cudaMallocAsync_ptsz", {Api::MallocAsync, "plp"}},
      {"cudaMallocManaged", {Api::MallocManaged, "pli"}},
      {"cudaMallocHost", {Api::HostAlloc, "pl"}},
      {"cudaHostAlloc", {Api::HostAlloc, "pli"}},
      {"cudaHostGetDevicePointer", {Api::HostAlloc, "ppi"}},
      {"cudaStreamCreate", {Api::StreamCreate, "p"}},
      {"cudaStreamCreateWithFlags", {Api::StreamCreate, "pi"}},
      {"cudaStreamCreateWithPriority", {Api::StreamCreate, "pii"}},
      {"cudaMemcpy", {Api::Memcpy, "ppli"}},
      {"cudaMemcpyAsync", {Api::MemcpyAsync, "pplip"}},
      {"cudaMemcpy2D", {Api::Memcpy2D, "plpllli"}},
      {"cudaMemcpy2DAsync", {Api::Memcpy2DAsync, "plplllip"}},
      {"cudaMemcpy3D", {Api::Memcpy3D, "p"}},
      {"cudaMemset", {Api::Memset, "pil"}},
      {"cudaMemsetAsync", {Api::MemsetAsync, "pilp"}},
      {"cudaMemset2D", {Api::Memset2D, "plill"}},
      {"cudaMemset2DAsync", {Api::Memset2DAsync, "plillp"}},
      {"cudaMemset3D", {Api::Memset3D, "bib"}},
      {"cudaFree", {Api::Free, "p"}},
      {"cudaFreeAsync", {Api::FreeAsync, "pp"}},
      {"cudaFreeAsync_ptsz", {Api::FreeAsync, "pp"}},
      {"__cudaPushCallConfiguration", {Api::Push, "lililp"}},
      {"cudaLaunchKernel", {Api::Launch, "pliliplp"}},
      {"cudaLaunchKernel_ptsz", {Api::Launch, "pliliplp"}},
      {"cudaLaunchCooperativeKernel", {Api::Launch, "pliliplp"}},
      {"cudaDeviceSynchronize", {Api::DeviceSync, ""}},
      {"cudaThreadSynchronize", {Api::DeviceSync, ""}},
      {"cudaStreamSynchronize", {Api::StreamSync, "p"}},
      {"cudaDeviceReset", {Api::Reset, ""}},
      {"cudaThreadExit", {Api::Reset, ""}},
      {"cudaDeviceSetLimit", {Api::SetLimit, "il"}},
      {"cudaSetDevice", {Api::SetDevice, "i"}},
      {"cudaGetLastError", {Api::Harmless, nullptr}},
      {"cudaPeekAtLastError", {Api::Harmless, nullptr}},
      {"cudaGetErrorString", {Api::Harmless, nullptr}},
      {"cudaGetErrorName", {Api::Harmless, nullptr}},
      {"cudaGetDeviceCount", {Api::Harmless, nullptr}},
      {"cudaGetDevice", {Api::Harmless, nullptr}},
      {"cudaGetDeviceProperties", {Api::Harmless, nullptr}},
      {"cudaGetDeviceProperties_v2", {Api::Harmless, nullptr}},
      {"cudaDeviceGetAttribute", {Api::Harmless, nullptr}},
      {"cudaDriverGetVersion", {Api::Harmless, nullptr}},
      {"cudaRuntimeGetVersion", {Api::Harmless, nullptr}},
      {"cudaFreeHost", {Api::Harmless, nullptr}},
      {"__cudaPopCallConfiguration", {Api::Harmless, nullptr}},
  };
  return Rows;
}

bool isStub(StringRef Name) { return Name.contains("__device_stub__"); }

static bool isUpperCase(char C) { return C >= 'A' && C <= 'Z'; }

bool isRegistration(StringRef Name) {
  return Name.starts_with("__cuda_") || Name.starts_with("__cudaRegister") || Name.starts_with("__cudaUnregister");
}

Api apiOf(StringRef Name) {
  if (auto Found = rows().find(Name); Found != rows().end())
    return Found->second.A;
  if (isStub(Name))
    return Api::Stub;
  if (isRegistration(Name))
    return Api::Harmless;
  // Libraries that launch kernels themselves, and the rest of runtime and driver.
  for (StringRef Prefix : {"cuda", "cublas", "cufft", "cudnn", "cusparse", "cusolver", "curand", "nccl", "npp"})
    if (Name.starts_with(Prefix) && Name.size() > Prefix.size() && (isUpperCase(Name[Prefix.size()]) || Prefix == "npp"))
      return Api::Context;
  if (Name.starts_with("cu") && Name.size() > 2 && isUpperCase(Name[2]))
    return Api::Context;
  return Api::None;
}

/// Whether the call passes what the row says; old or unusual declarations may differ.
static bool matches(const CallBase &Call, StringRef Parameters) {
  if (Call.arg_size() != Parameters.size() || !Call.getType()->isIntegerTy(32))
    return false;
  for (unsigned At = 0; At != Parameters.size(); ++At) {
    const Type *Type = Call.getArgOperand(At)->getType();
    bool Fits = Parameters[At] == 'i'   ? Type->isIntegerTy(32)
                : Parameters[At] == 'l' ? Type->isIntegerTy(64)
                                        : Type->isPointerTy() && Call.isByValArgument(At) == (Parameters[At] == 'b');
    if (!Fits)
      return false;
  }
  return true;
}

Api apiOf(const CallBase &Call) {
  const Function *Callee = Call.getCalledFunction();
  if (!Callee || Callee->isIntrinsic())
    return Api::None;
  Api A = apiOf(Callee->getName());
  // A function of the program that only happens to have such a name.
  if (A != Api::Stub && !Callee->isDeclaration())
    return Api::None;
  auto Found = rows().find(Callee->getName());
  if (Found != rows().end() && Found->second.Parameters && !matches(Call, Found->second.Parameters))
    return Api::Context;
  return A;
}

bool isAlloc(Api A) { return A >= Api::Malloc && A <= Api::MallocManaged; }
bool isMemoryOp(Api A) { return A >= Api::Memcpy && A <= Api::FreeAsync; }

ArrayRef<unsigned> pointerArguments(Api A) {
  static const unsigned First[] = {0}, Two[] = {0, 1}, Rows[] = {0, 2};
  switch (A) {
  case Api::Memcpy:
  case Api::MemcpyAsync:
    return Two;
  case Api::Memcpy2D:
  case Api::Memcpy2DAsync:
    return Rows;
  case Api::Memcpy3D:
  case Api::Memset3D:
  case Api::Memset:
  case Api::MemsetAsync:
  case Api::Memset2D:
  case Api::Memset2DAsync:
  case Api::Free:
  case Api::FreeAsync:
    return First;
  default:
    return {};
  }
}

std::optional<unsigned> streamArgument(Api A) {
  switch (A) {
  case Api::MallocAsync:
    return 2;
  case Api::MemcpyAsync:
    return 4;
  case Api::Memcpy2DAsync:
    return 7;
  case Api::MemsetAsync:
    return 3;
  case Api::Memset2DAsync:
    return 5;
  case Api::FreeAsync:
    return 1;
  case Api::Push:
    return 5;
  case Api::StreamSync:
    return 0;
  default:
    return std::nullopt;
  }
}

std::optional<uint64_t> copyKind(const CallBase &Call, Api A) {
  unsigned At = A == Api::Memcpy2D || A == Api::Memcpy2DAsync ? 6 : 3;
  if (A != Api::Memcpy && A != Api::MemcpyAsync && At == 3)
    return std::nullopt;
  if (auto *Kind = dyn_cast<ConstantInt>(Call.getArgOperand(At)))
    return Kind->getZExtValue();
  return std::nullopt;
}

} // namespace tessera
