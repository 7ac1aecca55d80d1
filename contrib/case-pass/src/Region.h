// SPDX-License-Identifier: MIT OR Apache-2.0
//
// From where to where a task goes: CASE's entry and end points (section 3.1.1), on every path.

#ifndef TESSERA_CASE_REGION_H
#define TESSERA_CASE_REGION_H

#include "Flow.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Analysis/LoopInfo.h"

namespace tessera {

/// A point where control leaves the region: after an operation, or on an edge between blocks.
struct Exit {
  /// The operation, or the last instruction before the edge.
  llvm::Instruction *After;
  /// Where the edge leads; null after an operation.
  llvm::BasicBlock *To = nullptr;
};

/// Objects and launches of one task, as indices that a set of bits is made of.
struct Members {
  std::vector<unsigned> Objects;
  struct Launch {
    llvm::CallBase *Push;
    llvm::CallBase *Stub;
  };
  std::vector<Launch> Launches;
  /// Everything that belongs to the task: allocations, copies, fills, frees, launches.
  llvm::SetVector<llvm::Instruction *> Ops;
};

/// The region of a task: the points from which an operation of it can be reached without a new begin.
class Region {
public:
  Region(llvm::Function &F, const Flow &Flows, const Members &Task, const llvm::DominatorTree &DT,
         const llvm::LoopInfo &LI);

  /// The instruction that the begin comes before: the nearest common dominator of the operations.
  llvm::Instruction *Begin = nullptr;
  /// Where the task is freed: before each of these. Filled by `locate`.
  std::vector<Exit> Frees;
  /// Where the function is left while memory of the task stays allocated until the process ends.
  bool HeldToExit = false;

  /// Finds begin and frees. Returns why there are none; an empty string is success.
  std::string locate(const Callees &Calls);
  /// Whether the task has begun and not been freed just before `I`.
  bool contains(const llvm::Instruction &I) const;

private:
  using Bits = llvm::SmallBitVector;

  void findBegin();
  void computeNeed();
  void findExits();
  bool isFinished(const llvm::BasicBlock &Block) const;
  /// Which objects may be allocated and which launches may run, at the begin of each block.
  void computeState();
  void step(const llvm::Instruction &I, Bits &State) const;
  void stepEdge(const llvm::BasicBlock &From, const llvm::BasicBlock &To, Bits &State) const;
  Bits before(const llvm::Instruction &I) const;
  Bits at(const Exit &E) const;
  bool addWaits();
  std::string checkAllocations() const;
  std::string checkThrows(const Callees &Calls) const;
  std::string checkExits();
  void joinExits();
  bool meetsAll(const llvm::BasicBlock &Candidate) const;
  unsigned launchBit(unsigned Launch) const { return Task.Objects.size() + Launch; }

  llvm::Function &F;
  const Flow &Flows;
  const Members &Task;
  const llvm::DominatorTree &DT;
  const llvm::LoopInfo &LI;
  llvm::SetVector<llvm::Instruction *> Ops;
  llvm::DenseMap<const llvm::BasicBlock *, bool> NeedIn, NeedOut;
  llvm::DenseMap<const llvm::BasicBlock *, Bits> StateIn;
  /// Blocks from which the function can return, or be left by an exception.
  llvm::SmallPtrSet<const llvm::BasicBlock *, 32> Returns, Throws;
};

} // namespace tessera

#endif
