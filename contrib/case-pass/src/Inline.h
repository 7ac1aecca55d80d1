// SPDX-License-Identifier: MIT OR Apache-2.0
//
// "Inlining first" (CASE, section 3.1.2): brings allocation, launch and free of a task into one function.

#ifndef TESSERA_CASE_INLINE_H
#define TESSERA_CASE_INLINE_H

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

namespace tessera {

/// What functions do, seen over the calls between them.
struct Callees {
  /// Defined here, code of the program, and may call CUDA: itself or through another such function.
  llvm::SetVector<llvm::Function *> Concerned;
  /// May run code that this module does not show.
  llvm::SmallPtrSet<const llvm::Function *, 32> Opaque;

  explicit Callees(llvm::Module &M);

  /// Whether a call may select another device, or start or free something on one, unseen.
  bool mayHideCuda(const llvm::CallBase &Call) const;
};

/// Inlines into each concerned function what is concerned, and what is small: sizes and dimensions are often computed
/// there. Removes functions that nobody can call any more. Returns whether anything changed.
bool inlineFirst(llvm::Module &M, Callees &Calls);

} // namespace tessera

#endif
