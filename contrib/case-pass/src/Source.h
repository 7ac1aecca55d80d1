// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Places and names as in the source.

#ifndef TESSERA_CASE_SOURCE_H
#define TESSERA_CASE_SOURCE_H

#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instruction.h"

#include <string>

namespace tessera {

/// `file:line` of an instruction as it was written; where helpers were inlined, the helper's line. Calls that only
/// templates of the CUDA headers wrap have the line of the wrapper's call. `file:?` without line tables.
std::string place(const llvm::Instruction &I);
/// The same, but of the line in the instruction's own function that led to it.
std::string placeInFunction(const llvm::Instruction &I);
/// A function's name as in the source, without parameters.
std::string sourceName(const llvm::Function &F);
/// The kernel that a host function stands for: `ns::add` of `ns::__device_stub__add`.
std::string kernelName(const llvm::Function &Stub);
/// The name of what is called.
std::string calledName(const llvm::Function &F);
std::string calledName(const llvm::CallBase &Call);

} // namespace tessera

#endif
