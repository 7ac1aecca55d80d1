// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Library.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace tessera {

Library::Library(Module &M)
    : M(M), Void(Type::getVoidTy(M.getContext())), Int(Type::getInt32Ty(M.getContext())),
      Long(Type::getInt64Ty(M.getContext())), Pointer(PointerType::getUnqual(M.getContext())) {}

FunctionCallee Library::declare(StringRef Name, Type *Result, ArrayRef<Type *> Parameters) {
  FunctionCallee Callee = M.getOrInsertFunction(Name, FunctionType::get(Result, Parameters, false));
  if (auto *F = dyn_cast<Function>(Callee.getCallee()))
    F->setDoesNotThrow();
  return Callee;
}

/// The line of the operation that the call is written for; debuggers need one, and so do inlinable calls.
static CallInst *callBefore(Instruction &Before, FunctionCallee Callee, ArrayRef<Value *> Arguments) {
  IRBuilder<> Builder(&Before);
  if (!Before.getDebugLoc())
    if (DISubprogram *Scope = Before.getFunction()->getSubprogram())
      Builder.SetCurrentDebugLocation(DILocation::get(Before.getContext(), 0, 0, Scope));
  return Builder.CreateCall(Callee, Arguments);
}

CallInst *Library::begin(Instruction &Before, Value *Memory, Value *Threads, Value *Blocks) {
  return callBefore(Before, declare("tessera_task_begin", Long, {Long, Int, Long}), {Memory, Threads, Blocks});
}

void Library::free(Instruction &Before, Value *Task) {
  callBefore(Before, declare("tessera_task_free", Void, {Long}), {Task});
}

void Library::select(Instruction &Before, Value *Task) {
  callBefore(Before, declare("tessera_task_select", Void, {Long}), {Task});
}

void Library::prepare(Instruction &Before, Value *Threads, Value *Blocks) {
  callBefore(Before, declare("tessera_launch_prepare", Void, {Int, Long}),
                               {Threads ? Threads : ConstantInt::get(Int, 0), Blocks ? Blocks : ConstantInt::get(Long, 0)});
}

void Library::replacePointers(CallBase &Stub) {
  for (unsigned At = 0; At != Stub.arg_size(); ++At) {
    Value *V = Stub.getArgOperand(At);
    // A structure that is passed by value is a pointer here too.
    if (V->getType() == Pointer && !Stub.isByValArgument(At) && !isa<Constant>(V))
      Stub.setArgOperand(At, callBefore(Stub, declare("tessera_lazy_address", Pointer, {Pointer}), {V}));
  }
}

void Library::stickyFromStart() {
  auto *F = Function::Create(FunctionType::get(Void, false), GlobalValue::InternalLinkage, "tessera.sticky", M);
  IRBuilder<> Builder(BasicBlock::Create(M.getContext(), "", F));
  Builder.CreateCall(declare("tessera_task_sticky", Void, {}));
  Builder.CreateRetVoid();
  // Before constructors of the program, which may use CUDA.
  appendToGlobalCtors(M, F, 101);
}

bool Library::canBeLazy(Api A) {
  return isAlloc(A) || (isMemoryOp(A) && A != Api::Memcpy3D && A != Api::Memset3D) || A == Api::SetLimit;
}

void Library::makeLazy(CallBase &Call) {
  Function &Real = *Call.getCalledFunction();
  Call.setCalledFunction(wrapper(Real, apiOf(Call)));
}

/// A function of the same type that asks the library, and calls the real one if the library does not take it.
Function *Library::wrapper(Function &Real, Api A) {
  std::string Name = ("tessera.lazy." + Real.getName()).str();
  if (Function *Old = M.getFunction(Name))
    return Old;
  Function *F = Function::Create(Real.getFunctionType(), GlobalValue::InternalLinkage, Name, M);
  F->setAttributes(Real.getAttributes());
  F->removeFnAttr(Attribute::NoInline);
  LLVMContext &Context = M.getContext();
  auto *Entry = BasicBlock::Create(Context, "", F), *Taken = BasicBlock::Create(Context, "taken", F),
       *Own = BasicBlock::Create(Context, "own", F);
  IRBuilder<> Builder(Entry);
  if (A == Api::SetLimit) {
    auto *Heap = BasicBlock::Create(Context, "heap", F);
    Builder.CreateCondBr(Builder.CreateICmpEQ(F->getArg(0), ConstantInt::get(Int, LimitMallocHeapSize)), Heap, Own);
    Builder.SetInsertPoint(Heap);
  }
  Value *Answer = ask(Builder, *F, A);
  Builder.CreateCondBr(Builder.CreateICmpNE(Answer, ConstantInt::get(Int, 0)), Taken, Own);
  Builder.SetInsertPoint(Taken);
  if (A == Api::Malloc3D) {
    // cudaPitchedPtr {ptr, pitch, xsize, ysize} and cudaExtent {width, height, depth}: the library wrote ptr and pitch.
    auto *Extent = StructType::get(Context, {Long, Long, Long}), *Result = StructType::get(Context, {Pointer, Long, Long, Long});
    for (unsigned Side : {0, 1})
      Builder.CreateStore(Builder.CreateLoad(Long, Builder.CreateStructGEP(Extent, F->getArg(1), Side)),
                          Builder.CreateStructGEP(Result, F->getArg(0), 2 + Side));
  }
  Builder.CreateRet(Constant::getNullValue(F->getReturnType()));
  Builder.SetInsertPoint(Own);
  SmallVector<Value *, 8> Arguments;
  for (Argument &A : F->args())
    Arguments.push_back(&A);
  CallInst *Result = Builder.CreateCall(&Real, Arguments);
  Result->setAttributes(Real.getAttributes());
  Builder.CreateRet(Result);
  return F;
}

Value *Library::ask(IRBuilder<> &Builder, Function &F, Api A) {
  auto Arg = [&](unsigned At) -> Value * { return F.getArg(At); };
  auto Number = [&](uint64_t N) { return ConstantInt::get(Long, N); };
  auto Word = [&](uint64_t N) { return ConstantInt::get(Int, N); };
  Value *Null = Constant::getNullValue(Pointer);
  auto Malloc = [&](Value *Out, Value *Pitch, Value *Width, Value *Height, unsigned Kind) {
    return Builder.CreateCall(declare("tessera_lazy_malloc", Int, {Pointer, Pointer, Long, Long, Int}),
                              {Out, Pitch, Width, Height, Word(Kind)});
  };
  auto Copy = [&](ArrayRef<Value *> Arguments) {
    return Builder.CreateCall(declare("tessera_lazy_copy", Int, {Pointer, Long, Pointer, Long, Long, Long, Int}), Arguments);
  };
  auto Set = [&](ArrayRef<Value *> Arguments) {
    return Builder.CreateCall(declare("tessera_lazy_set", Int, {Pointer, Long, Int, Long, Long}), Arguments);
  };
  auto Free = [&](Value *Stream, unsigned Ordered) {
    return Builder.CreateCall(declare("tessera_lazy_free", Int, {Pointer, Pointer, Int}), {Arg(0), Stream, Word(Ordered)});
  };
  switch (A) {
  case Api::Malloc:
  case Api::MallocAsync:
    return Malloc(Arg(0), Null, Arg(1), Number(1), 0);
  case Api::MallocManaged:
    return Malloc(Arg(0), Null, Arg(1), Number(1), 1);
  case Api::MallocPitch:
    return Malloc(Arg(0), Arg(1), Arg(2), Arg(3), 0);
  case Api::Malloc3D: {
    auto *Extent = StructType::get(F.getContext(), {Long, Long, Long});
    auto *Result = StructType::get(F.getContext(), {Pointer, Long});
    auto Side = [&](unsigned N) { return Builder.CreateLoad(Long, Builder.CreateStructGEP(Extent, Arg(1), N)); };
    Value *Width = Side(0), *Rows = Builder.CreateMul(Side(1), Side(2));
    return Malloc(Arg(0), Builder.CreateStructGEP(Result, Arg(0), 1), Width, Rows, 0);
  }
  case Api::Memcpy:
  case Api::MemcpyAsync:
    return Copy({Arg(0), Arg(2), Arg(1), Arg(2), Arg(2), Number(1), Arg(3)});
  case Api::Memcpy2D:
  case Api::Memcpy2DAsync:
    return Copy({Arg(0), Arg(1), Arg(2), Arg(3), Arg(4), Arg(5), Arg(6)});
  case Api::Memset:
  case Api::MemsetAsync:
    return Set({Arg(0), Arg(2), Arg(1), Arg(2), Number(1)});
  case Api::Memset2D:
  case Api::Memset2DAsync:
    return Set({Arg(0), Arg(1), Arg(2), Arg(3), Arg(4)});
  case Api::Free:
    return Free(Null, 0);
  case Api::FreeAsync:
    return Free(Arg(1), 1);
  case Api::SetLimit:
    return Builder.CreateCall(declare("tessera_lazy_heap_limit", Int, {Long}), {Arg(1)});
  default:
    llvm_unreachable("not an operation that can be lazy");
  }
}

} // namespace tessera
