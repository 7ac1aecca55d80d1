// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Where a pointer comes from, and where an object's address goes, within one function in normal form.

#ifndef TESSERA_CASE_FLOW_H
#define TESSERA_CASE_FLOW_H

#include "Cuda.h"
#include "Inline.h"
#include "Normal.h"

#include "llvm/IR/Dominators.h"

#include <set>

namespace tessera {

/// A memory object of Algorithm 1: what one allocation call gives.
struct Object {
  llvm::CallBase *Alloc;
  std::string Name;
  /// Copies, fills and frees of it, and the host functions of the kernels that it is an argument of.
  llvm::SmallSetVector<llvm::CallBase *, 8> Uses;
  /// Why its whole life cannot be seen here; empty if it can.
  std::string Escape;
};

/// What a pointer may point to.
struct Origins {
  /// Indices of objects.
  std::set<unsigned> Objects;
  /// Something else, in words: `an argument of the function`. Empty if there is nothing else. Null counts as nothing.
  std::string Other;

  void join(const Origins &More);
};

/// The objects of one function, and the def-use chains to and from them.
class Flow {
public:
  Flow(llvm::Function &F, const Sites &Found, const Callees &Calls, const llvm::DominatorTree &DT);

  std::vector<Object> Objects;

  /// What a value may point to.
  Origins origins(llvm::Value *V) const;
  /// The same for an argument of a call, which may also be a structure passed by value or by address.
  Origins argumentOrigins(const llvm::CallBase &Call, unsigned At) const;
  /// All pointers that the kernel gets.
  Origins launchOrigins(const llvm::CallBase &Stub) const;
  /// The object that a call allocates.
  std::optional<unsigned> allocatedBy(const llvm::CallBase &Call) const;

private:
  void follow(unsigned Index, const llvm::AllocaInst &Slot);
  /// Nothing but a place to put together what a call gets.
  bool isParameterBlock(const llvm::AllocaInst &Block) const;
  /// Such a block that holds pointers only, each stored as a whole.
  bool isPointerBlock(const llvm::AllocaInst &Block) const;
  /// The block of pointers that a value is loaded from, if it is.
  const llvm::AllocaInst *loadedBlock(const llvm::Value *V) const;
  Origins blockOrigins(const llvm::AllocaInst &Block) const;

  const Sites &Found;
  const Callees &Calls;
  llvm::DenseMap<const llvm::AllocaInst *, unsigned> IndexOf;
  /// Objects that a variable still holds where an allocation into it fails.
  std::vector<std::set<unsigned>> Earlier;
};

/// The value that is stored at an offset of a block, if there is exactly one store and nothing else writes there.
llvm::Value *storedField(const llvm::AllocaInst &Block, uint64_t Offset);

} // namespace tessera

#endif
