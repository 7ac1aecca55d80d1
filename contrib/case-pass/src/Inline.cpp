// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Inline.h"
#include "Cuda.h"

#include "llvm/IR/IntrinsicInst.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Analysis/InlineCost.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace tessera {

/// A function that grows beyond this many instructions takes nothing more in.
constexpr unsigned LargestCaller = 20000;
/// A function without CUDA is taken in up to this many instructions.
constexpr unsigned SmallCallee = 60;

/// Functions of C and C++ libraries, which use no CUDA. A user's function of such a name would be defined in the module
/// or have a name of its own.
static bool isHostLibrary(const Function &F) {
  static const StringSet<> C = {
      "printf", "fprintf", "sprintf", "snprintf", "vfprintf", "puts", "putchar", "putc", "fputs", "fputc", "fflush",
      "scanf", "fscanf", "sscanf", "fopen", "fclose", "fread", "fwrite", "fgets", "fgetc", "fseek", "ftell", "rewind",
      "feof", "perror", "malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memcpy", "memset",
      "memmove", "memcmp", "strlen", "strcmp", "strncmp", "strcpy", "strncpy", "strcat", "strchr", "strrchr", "strstr",
      "strdup", "strtok", "strtol", "strtoul", "strtod", "atoi", "atol", "atof", "rand", "srand", "rand_r", "drand48",
      "srand48", "time", "clock", "gettimeofday", "clock_gettime", "getenv", "exit", "_exit", "abort", "__assert_fail",
      "sqrt", "sqrtf", "exp", "expf", "log", "logf", "log2", "pow", "powf", "sin", "cos", "fabs", "ceil", "floor",
      "getopt", "getopt_long", "usleep", "sleep", "toupper", "tolower", "__errno_location", "rint", "fmax", "fmin"};
  StringRef Name = F.getName();
  // glibc's headers give some functions such a name, by the standard that the source is written in.
  StringRef Standard = Name;
  if (C.contains(Name) || ((Standard.consume_front("__isoc99_") || Standard.consume_front("__isoc23_")) && C.contains(Standard)))
    return true;
  for (StringRef Prefix : {"_ZNSt", "_ZNKSt", "_ZSt", "_ZNSo", "_ZNKSo", "_ZNSi", "_ZNSs", "_Znw", "_Zna", "_Zdl", "_Zda",
                           "__cxa_", "__gxx_", "_ZNSa", "__clang_call_terminate", "_Unwind_", "tessera_"})
    if (Name.starts_with(Prefix))
      return true;
  return false;
}

Callees::Callees(Module &M) {
  CallGraph Graph(M);
  for (scc_iterator<CallGraph *> Scc = scc_begin(&Graph); !Scc.isAtEnd(); ++Scc) {
    bool UsesCuda = false, Hides = false;
    for (CallGraphNode *Node : *Scc) {
      Function *F = Node->getFunction();
      if (!F || F->isDeclaration())
        continue;
      for (Instruction &I : instructions(*F)) {
        auto *Call = dyn_cast<CallBase>(&I);
        if (!Call || isa<IntrinsicInst>(Call))
          continue;
        if (apiOf(*Call) != Api::None)
          UsesCuda = true;
        else if (mayHideCuda(*Call))
          Hides = true;
        if (Function *Callee = Call->getCalledFunction())
          UsesCuda |= Concerned.contains(Callee);
      }
    }
    for (CallGraphNode *Node : *Scc) {
      Function *F = Node->getFunction();
      if (!F || F->isDeclaration() || isStub(F->getName()) || isRegistration(F->getName()))
        continue;
      if (UsesCuda)
        Concerned.insert(F);
      if (UsesCuda || Hides)
        Opaque.insert(F);
    }
  }
}

bool Callees::mayHideCuda(const CallBase &Call) const {
  if (isa<IntrinsicInst>(Call) || apiOf(Call) != Api::None)
    return false;
  const Function *Callee = Call.getCalledFunction();
  if (!Callee)
    return !Call.isInlineAsm();
  return Callee->isDeclaration() ? !isHostLibrary(*Callee) : Opaque.contains(Callee);
}

/// Whether the program's author asked that it stay a function. Without optimisation clang marks every function so.
static bool mustStay(const Function &F) {
  return F.hasFnAttribute(Attribute::NoInline) && !F.hasFnAttribute(Attribute::OptimizeNone);
}

static bool fits(Function &Caller, Function &Callee) {
  auto Same = [&](StringRef Name) {
    return Caller.getFnAttribute(Name).getValueAsString() == Callee.getFnAttribute(Name).getValueAsString();
  };
  return Same("target-cpu") && Same("target-features") && AttributeFuncs::areInlineCompatible(Caller, Callee) &&
         isInlineViable(Callee).isSuccess();
}

/// Whether `Callee` calls itself, directly or over others.
static bool isRecursive(Function &Callee) {
  SmallPtrSet<Function *, 16> Seen;
  SmallVector<Function *, 16> Todo = {&Callee};
  while (!Todo.empty())
    for (Instruction &I : instructions(*Todo.pop_back_val()))
      if (auto *Call = dyn_cast<CallBase>(&I))
        if (Function *Next = Call->getCalledFunction(); Next && !Next->isDeclaration()) {
          if (Next == &Callee)
            return true;
          if (Seen.insert(Next).second)
            Todo.push_back(Next);
        }
  return false;
}

static bool inlineInto(Function &F, const Callees &Calls) {
  bool Changed = false;
  SmallVector<CallBase *, 32> Todo;
  auto Look = [&](CallBase *Call) {
    Function *Callee = Call->getCalledFunction();
    if (!Callee || Callee->isDeclaration() || Callee->isInterposable() || Callee == &F || mustStay(*Callee) ||
        Call->getAttributes().hasFnAttr(Attribute::NoInline) || isStub(Callee->getName()) || isRegistration(Callee->getName()))
      return;
    if (Calls.Concerned.contains(Callee) || Callee->getInstructionCount() <= SmallCallee)
      Todo.push_back(Call);
  };
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I))
      Look(Call);
  for (size_t Next = 0; Next < Todo.size() && F.getInstructionCount() < LargestCaller; ++Next) {
    CallBase *Call = Todo[Next];
    Function &Callee = *Call->getCalledFunction();
    if (!fits(F, Callee) || isRecursive(Callee))
      continue;
    InlineFunctionInfo Info;
    if (!InlineFunction(*Call, Info, /*MergeAttributes=*/true).isSuccess())
      continue;
    Changed = true;
    for (CallBase *More : Info.InlinedCallSites)
      Look(More);
  }
  return Changed;
}

bool inlineFirst(Module &M, Callees &Calls) {
  bool Changed = false;
  // Callees come before callers: what is taken in has taken in its own callees.
  for (Function *F : Calls.Concerned)
    Changed |= inlineInto(*F, Calls);
  SmallVector<Function *, 8> Dead;
  for (Function *F : reverse(Calls.Concerned)) {
    F->removeDeadConstantUsers();
    if (F->isDiscardableIfUnused() && F->use_empty())
      Dead.push_back(F);
  }
  for (Function *F : Dead) {
    Calls.Concerned.remove(F);
    Calls.Opaque.erase(F);
    F->eraseFromParent();
  }
  return Changed || !Dead.empty();
}

} // namespace tessera
