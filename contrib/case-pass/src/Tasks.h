// SPDX-License-Identifier: MIT OR Apache-2.0
//
// CASE's Algorithm 1: unit tasks from launches, merged while they share an object, to the closure.

#ifndef TESSERA_CASE_TASKS_H
#define TESSERA_CASE_TASKS_H

#include "Hoist.h"
#include "Region.h"

namespace tessera {

/// A launch of Algorithm 1's unit task.
struct Launch {
  /// `__cudaPushCallConfiguration`, or cudaLaunchKernel where the program calls that itself.
  llvm::CallBase *Push;
  /// The call of the host function that stands for the kernel; null for cudaLaunchKernel.
  llvm::CallBase *Stub;
  std::string Kernel;
  Origins Pointers;
};

/// A GPU task of one function.
struct Task {
  std::vector<Launch> Launches;
  /// Indices of `Flow::Objects`, in the order of the calls.
  std::vector<unsigned> Objects;
  /// Why it is lazy; empty if it is static.
  std::string Why;

  // Of static tasks only.
  llvm::SetVector<llvm::Instruction *> Ops;
  /// The begin goes before this.
  llvm::Instruction *Begin = nullptr;
  /// A free goes before each of these.
  std::vector<llvm::Instruction *> Frees;
  /// Every instruction between begin and frees.
  llvm::DenseSet<const llvm::Instruction *> Region;
  bool HeldToExit = false;
  /// Where it begins and is freed, in the source.
  std::string BeginPlace;
  std::vector<std::string> FreePlaces;
  /// What `tessera_task_begin` gets: 64-bit bytes, 32-bit threads, 64-bit blocks.
  llvm::Value *Memory = nullptr, *Threads = nullptr, *Blocks = nullptr;
  /// The call of `tessera_task_begin`.
  llvm::CallInst *Id = nullptr;

  bool isStatic() const { return Why.empty(); }
};

/// Calls that bear on every task of a module.
struct ModuleFacts {
  /// Places of cudaDeviceSetLimit for the heap, by function.
  llvm::MapVector<const llvm::Function *, llvm::SmallVector<const llvm::CallBase *, 2>> HeapLimits;

  explicit ModuleFacts(const llvm::Module &M);
};

/// The launches of a function, in its order.
std::vector<Launch> launchesOf(llvm::Function &F, const Flow &Flows);
/// Algorithm 1's constructGPUTasks, to the closure.
std::vector<Task> mergeLaunches(std::vector<Launch> Launches, const Flow &Flows);
/// Whether a task has a place to begin and places to end.
bool hasRegion(const Task &T, llvm::Function &F, const Flow &Flows, const Callees &Calls, llvm::FunctionAnalysisManager &FAM);
/// Gives a task begin, frees and amounts, or says in `Why` why it must be lazy. Splits edges where a free goes.
void planTask(Task &T, llvm::Function &F, const Flow &Flows, const Callees &Calls, const ModuleFacts &Facts,
              llvm::FunctionAnalysisManager &FAM);

} // namespace tessera

#endif
