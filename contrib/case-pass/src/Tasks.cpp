// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Tasks.h"
#include "Source.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace tessera {

/// Whether a call of cudaDeviceSetLimit may set the heap's limit.
static bool setsHeap(const CallBase &Call) {
  auto *Kind = dyn_cast<ConstantInt>(Call.getArgOperand(0));
  return !Kind || Kind->getZExtValue() == LimitMallocHeapSize;
}

ModuleFacts::ModuleFacts(const Module &M) {
  for (const Function &F : M)
    for (const Instruction &I : instructions(F))
      if (auto *Call = dyn_cast<CallBase>(&I); Call && apiOf(*Call) == Api::SetLimit && setsHeap(*Call))
        HeapLimits[&F].push_back(Call);
}

/// The host function that stands for the kernel whose launch `Push` prepares: the first one on the way from it.
static CallBase *stubOf(CallBase &Push) {
  SmallPtrSet<BasicBlock *, 8> Seen;
  SmallVector<Instruction *, 8> Todo = {Push.getNextNode()};
  CallBase *Found = nullptr;
  while (!Todo.empty()) {
    Instruction *I = Todo.pop_back_val();
    for (; I; I = I->getNextNode()) {
      auto *Call = dyn_cast<CallBase>(I);
      Api A = Call ? apiOf(*Call) : Api::None;
      if (A == Api::Stub) {
        // Two kernels behind one configuration: which one runs is not known.
        if (Found && Found != Call)
          return nullptr;
        Found = Call;
      }
      if (A == Api::Stub || A == Api::Push)
        break;
      if (I->isTerminator())
        for (BasicBlock *Next : successors(I->getParent()))
          if (Seen.insert(Next).second)
            Todo.push_back(&Next->front());
    }
  }
  return Found;
}

std::vector<Launch> launchesOf(Function &F, const Flow &Flows) {
  std::vector<Launch> Result;
  for (Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    Api A = Call ? apiOf(*Call) : Api::None;
    if (A == Api::Launch) {
      Result.push_back({Call, nullptr, "cudaLaunchKernel", {}});
      Result.back().Pointers.Other = "arguments that are passed by cudaLaunchKernel";
    } else if (A == Api::Push) {
      CallBase *Stub = stubOf(*Call);
      Result.push_back({Call, Stub, Stub ? kernelName(*Stub->getCalledFunction()) : "", {}});
      if (Stub)
        Result.back().Pointers = Flows.launchOrigins(*Stub);
      else
        Result.back().Pointers.Other = "arguments that the pass does not find";
    }
  }
  return Result;
}

std::vector<Task> mergeLaunches(std::vector<Launch> Launches, const Flow &Flows) {
  // Members of the classes: objects by index, then launches.
  const unsigned First = Flows.Objects.size();
  EquivalenceClasses<unsigned> Classes;
  for (unsigned At = 0; At != First; ++At) {
    Classes.insert(At);
    // A copy from one object to another needs both on one device.
    for (CallBase *Use : Flows.Objects[At].Uses)
      if (Api A = apiOf(*Use); A != Api::Stub)
        for (unsigned Argument : pointerArguments(A))
          for (unsigned Other : Flows.argumentOrigins(*Use, Argument).Objects)
            Classes.unionSets(At, Other);
  }
  for (unsigned L = 0; L != Launches.size(); ++L) {
    Classes.insert(First + L);
    for (unsigned At : Launches[L].Pointers.Objects)
      Classes.unionSets(First + L, At);
  }
  MapVector<unsigned, Task> Tasks;
  for (unsigned L = 0; L != Launches.size(); ++L)
    Tasks[Classes.getLeaderValue(First + L)].Launches.push_back(std::move(Launches[L]));
  for (unsigned At = 0; At != First; ++At)
    if (auto *Found = Tasks.find(Classes.getLeaderValue(At)); Found != Tasks.end())
      Found->second.Objects.push_back(At);
  std::vector<Task> Result;
  for (auto &[Leader, T] : Tasks)
    Result.push_back(std::move(T));
  return Result;
}

} // namespace tessera
