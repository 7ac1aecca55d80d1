// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Normal form: after it, the address that an allocation gave flows to its uses as a value, not through memory.

#ifndef TESSERA_CASE_NORMAL_H
#define TESSERA_CASE_NORMAL_H

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/PassManager.h"

namespace tessera {

/// One allocation call whose address the function itself receives.
struct Site {
  llvm::CallBase *Call;
  /// Where the call writes the address. Only the call writes it, and one load after the call reads it.
  llvm::AllocaInst *Slot;
  /// The variable's name, as far as the module still has it: `d_a`, `buffers+8`.
  std::string Name;
};

/// The sites of a function in normal form, by the slot they write to.
using Sites = llvm::MapVector<const llvm::AllocaInst *, Site>;

/// Brings a function into normal form. Its results stay the same.
Sites normalise(llvm::Function &F, llvm::FunctionAnalysisManager &FAM);

/// Gives each number that a way decides a way of its own, where a branch asks for the number later. A helper that checks its
/// calls returns one of several numbers, and its caller branches on it: on the way behind a failed allocation, there is no
/// object. Calls are not copied, so an allocation stays one object. Places in the source get less exact.
void threadJumps(llvm::Function &F, llvm::FunctionAnalysisManager &FAM);

} // namespace tessera

#endif
