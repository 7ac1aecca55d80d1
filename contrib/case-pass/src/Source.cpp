// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Source.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace tessera {

/// The file as the user named it to the compiler: clang splits off what it has in common with the working directory.
static std::string fileOf(const Instruction &I, const DILocation &Where) {
  const std::string &Source = I.getModule()->getSourceFileName();
  StringRef Working = Where.getScope()->getSubprogram()->getUnit()->getDirectory();
  SmallString<128> Given(Working), Written(Where.getDirectory());
  if (sys::path::is_absolute(Source))
    Given = Source;
  else
    sys::path::append(Given, Source);
  if (sys::path::is_absolute(Where.getFilename()))
    Written = Where.getFilename();
  else
    sys::path::append(Written, Where.getFilename());
  sys::path::remove_dots(Given, true);
  sys::path::remove_dots(Written, true);
  if (Given == Written)
    return Source;
  return Where.getDirectory() == Working ? Where.getFilename().str() : std::string(Written);
}

static std::string text(const Instruction &I, const DILocation *Where) {
  if (!Where)
    return I.getModule()->getSourceFileName() + ":?";
  return fileOf(I, *Where) + ":" + std::to_string(Where->getLine());
}

static const DILocation *lineOf(const Instruction &I) {
  const DILocation *Where = I.getDebugLoc();
  return Where && Where->getLine() ? Where : nullptr;
}

/// The first line that is met from a block on, block after block.
template <typename Next> static const DILocation *firstLine(const BasicBlock &From, Next Neighbours) {
  SmallPtrSet<const BasicBlock *, 16> Seen = {&From};
  SmallVector<const BasicBlock *, 16> Queue = {&From};
  for (size_t At = 0; At < Queue.size(); ++At) {
    for (const Instruction &I : *Queue[At])
      if (const DILocation *Where = lineOf(I))
        return Where;
    for (const BasicBlock *Block : Neighbours(Queue[At]))
      if (Seen.insert(Block).second)
        Queue.push_back(Block);
  }
  return nullptr;
}

/// An instruction without a line of its own counts to the nearest one with a line: in its block after it or before it, else
/// in a block that follows, else in one that leads to it. The optimizer leaves blocks without any line.
static const DILocation *location(const Instruction &I) {
  for (const Instruction *At = &I; At; At = At->getNextNode())
    if (const DILocation *Where = lineOf(*At))
      return Where;
  for (const Instruction *At = &I; At; At = At->getPrevNode())
    if (const DILocation *Where = lineOf(*At))
      return Where;
  const BasicBlock &Own = *I.getParent();
  if (const DILocation *Where = firstLine(Own, [](const BasicBlock *Block) { return successors(Block); }))
    return Where;
  return firstLine(Own, [](const BasicBlock *Block) { return predecessors(Block); });
}

std::string place(const Instruction &I) {
  const DILocation *Where = location(I);
  while (Where && Where->getInlinedAt() && Where->getScope()->getSubprogram()->getName().starts_with("cuda"))
    Where = Where->getInlinedAt();
  return text(I, Where);
}

std::string placeInFunction(const Instruction &I) {
  const DILocation *Where = location(I);
  while (Where && Where->getInlinedAt())
    Where = Where->getInlinedAt();
  return text(I, Where);
}

std::string sourceName(const Function &F) {
  ItaniumPartialDemangler Demangler;
  std::string Mangled = F.getName().str();
  if (Demangler.partialDemangle(Mangled.c_str()) || !Demangler.isFunction())
    return Mangled;
  char *Name = Demangler.getFunctionName(nullptr, nullptr);
  std::string Text = Name ? Name : Mangled;
  std::free(Name);
  return Text;
}

std::string kernelName(const Function &Stub) {
  static constexpr StringRef Prefix = "__device_stub__";
  std::string Text = sourceName(Stub);
  if (size_t At = Text.find(Prefix); At != std::string::npos)
    Text.erase(At, Prefix.size());
  return Text;
}

std::string calledName(const Function &F) { return sourceName(F); }

std::string calledName(const CallBase &Call) {
  const Function *Callee = Call.getCalledFunction();
  return Callee ? sourceName(*Callee) : "a function through a pointer";
}

} // namespace tessera
