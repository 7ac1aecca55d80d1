// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Sizes and dimensions at a task's begin: computed again there where they are computed later.

#ifndef TESSERA_CASE_HOIST_H
#define TESSERA_CASE_HOIST_H

#include "Inline.h"

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"

namespace tessera {

/// Values at one point of a function.
class Hoist {
public:
  Hoist(llvm::Instruction &Point, const llvm::DominatorTree &DT, llvm::AAResults &AA, const Callees &Calls);

  /// Whether the point can have the value that `V` has, or will have where it is computed.
  bool has(llvm::Value *V);
  /// That value, at the point. Needs `has(V)`.
  llvm::Value *emit(llvm::Value *V);

private:
  bool isUnchanged(llvm::LoadInst &Load);
  bool canLoad(llvm::LoadInst &Load);
  bool mayWrite(const llvm::Instruction &I, const llvm::MemoryLocation &Where);
  bool isIdle();

  llvm::Instruction &Point;
  const llvm::DominatorTree &DT;
  llvm::AAResults &AA;
  const Callees &Calls;
  /// `isIdle`, once it was asked.
  std::optional<bool> Idle;
  llvm::DenseMap<llvm::Value *, bool> Known;
  llvm::DenseMap<llvm::Value *, llvm::Value *> Emitted;
};

} // namespace tessera

#endif
