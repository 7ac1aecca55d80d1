// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Calls of libtessera_task: see include/tessera_task.h.

#ifndef TESSERA_CASE_LIBRARY_H
#define TESSERA_CASE_LIBRARY_H

#include "Cuda.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace tessera {

/// Declares and calls the library's functions in one module.
class Library {
public:
  explicit Library(llvm::Module &M);

  llvm::CallInst *begin(llvm::Instruction &Before, llvm::Value *Memory, llvm::Value *Threads, llvm::Value *Blocks);
  void free(llvm::Instruction &Before, llvm::Value *Task);
  void select(llvm::Instruction &Before, llvm::Value *Task);
  /// `Threads` and `Blocks` are null where nothing is launched.
  void prepare(llvm::Instruction &Before, llvm::Value *Threads, llvm::Value *Blocks);
  /// Lets the call of a kernel's host function pass each pointer as the library has it.
  void replacePointers(llvm::CallBase &Stub);
  /// A constructor of the module that calls `tessera_task_sticky`.
  void stickyFromStart();

  /// Lets a CUDA call first ask the library whether it takes the operation.
  void makeLazy(llvm::CallBase &Call);
  /// Whether `makeLazy` knows the function.
  static bool canBeLazy(Api A);

private:
  llvm::Function *wrapper(llvm::Function &Real, Api A);
  llvm::Value *ask(llvm::IRBuilder<> &Builder, llvm::Function &Wrapper, Api A);
  llvm::FunctionCallee declare(llvm::StringRef Name, llvm::Type *Result, llvm::ArrayRef<llvm::Type *> Parameters);

  llvm::Module &M;
  llvm::Type *Void, *Int, *Long, *Pointer;
};

} // namespace tessera

#endif
