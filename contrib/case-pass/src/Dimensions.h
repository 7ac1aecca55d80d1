// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The sides of a launch's grid and block, and the most that a side can be in a loop.

#ifndef TESSERA_CASE_DIMENSIONS_H
#define TESSERA_CASE_DIMENSIONS_H

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"

namespace tessera {

/// A side of a dim3: the lower 32 bits of a value, or its upper ones.
struct Side {
  llvm::Value *V;
  bool Upper = false;
};

/// x, or y if `Upper`, of a dim3, which a launch passes in one value. Finds where the program computes that side alone: code
/// that sets a dim3 field by field leaves the other half of the value undefined for a time, or carries it round a loop.
Side sideOf(llvm::Value *Xy, bool Upper, const llvm::DataLayout &DL);

/// Writes bounds while a task is planned, and removes them afterwards if nothing uses them.
class Bounds {
public:
  explicit Bounds(llvm::ScalarEvolution &SE) : SE(SE) {}
  ~Bounds();

  /// The most that a value can be at a launch, if it goes up or down by equal steps in a loop. It is written before the loop.
  /// Null for other values, and if the number of the loop's turns is not known before it.
  llvm::Value *most(llvm::Value *V, const llvm::Instruction &Launch);

private:
  llvm::ScalarEvolution &SE;
  llvm::SmallVector<llvm::WeakTrackingVH, 4> Written;
};

} // namespace tessera

#endif
