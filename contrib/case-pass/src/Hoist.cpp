// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Hoist.h"
#include "Cuda.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Analysis/Loads.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace tessera {

Hoist::Hoist(Instruction &Point, const DominatorTree &DT, AAResults &AA, const Callees &Calls)
    : Point(Point), DT(DT), AA(AA), Calls(Calls) {}

namespace {
/// A value that depends on which of two ways led to a join.
struct Choice {
  Value *Condition, *IfTrue, *IfFalse;
};
} // namespace

/// The choice that a join of two ways makes, as `if` and `?:` leave it; nothing for loops and other joins.
static std::optional<Choice> choiceOf(const PHINode &Phi, const DominatorTree &DT) {
  const DomTreeNode *Node = DT.getNode(Phi.getParent());
  const DomTreeNode *Above = Node ? Node->getIDom() : nullptr;
  auto *Branch = Above ? dyn_cast<BranchInst>(Above->getBlock()->getTerminator()) : nullptr;
  if (!Branch || !Branch->isConditional() || Branch->getSuccessor(0) == Branch->getSuccessor(1) ||
      Phi.getNumIncomingValues() != 2)
    return std::nullopt;
  auto Comes = [&](unsigned Incoming, unsigned Way) {
    const BasicBlock *From = Phi.getIncomingBlock(Incoming), *To = Branch->getSuccessor(Way);
    return From == Branch->getParent() ? To == Phi.getParent() : DT.dominates(BasicBlockEdge(Branch->getParent(), To), From);
  };
  for (unsigned True : {0, 1})
    if (Comes(True, 0) && Comes(1 - True, 1))
      return Choice{Branch->getCondition(), Phi.getIncomingValue(True), Phi.getIncomingValue(1 - True)};
  return std::nullopt;
}

bool Hoist::has(Value *V) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || DT.dominates(I, &Point))
    return true;
  if (auto Old = Known.find(V); Old != Known.end())
    return Old->second;
  // A value that depends on itself comes from a loop.
  Known[V] = false;
  if (auto *Phi = dyn_cast<PHINode>(I)) {
    std::optional<Choice> C = choiceOf(*Phi, DT);
    return Known[V] = C && has(C->Condition) && has(C->IfTrue) && has(C->IfFalse);
  }
  bool Pure = isa<BinaryOperator>(I) || isa<CastInst>(I) || isa<GetElementPtrInst>(I) || isa<SelectInst>(I) ||
              isa<CmpInst>(I) || isa<UnaryOperator>(I) || isa<ExtractValueInst>(I) || isa<InsertValueInst>(I) ||
              isa<FreezeInst>(I) || isa<IntrinsicInst>(I);
  auto *Load = dyn_cast<LoadInst>(I);
  if (Load ? !Load->isSimple() : !Pure || I->mayReadOrWriteMemory() || !isSafeToSpeculativelyExecute(I))
    return false;
  for (Value *Operand : I->operands())
    if (!has(Operand))
      return false;
  return Known[V] = !Load || (canLoad(*Load) && isUnchanged(*Load));
}

bool Hoist::canLoad(LoadInst &Load) {
  const Value *Base = getUnderlyingObject(Load.getPointerOperand());
  if (auto *Global = dyn_cast<GlobalVariable>(Base))
    return isDereferenceablePointer(Load.getPointerOperand(), Load.getType(), Load.getModule()->getDataLayout()) &&
           !Global->isThreadLocal();
  auto *Parameter = dyn_cast<Argument>(Base);
  if (!isa<AllocaInst>(Base) && !(Parameter && Parameter->hasByValAttr()))
    return false;
  return isDereferenceablePointer(Load.getPointerOperand(), Load.getType(), Load.getModule()->getDataLayout());
}

/// Tells whether a function is one of the C library that writes only what its own arguments name.
static bool isPlainLibrary(const CallBase &Call) {
  static const StringSet<> Names = {"malloc", "calloc", "free", "printf", "puts", "putchar", "gettimeofday", "time", "clock",
                                    "rand", "srand"};
  const Function *Callee = Call.getCalledFunction();
  return Callee && Callee->isDeclaration() && Names.contains(Callee->getName());
}

/// Tells whether a call is a fill or a copy that writes device memory only: cudaMemcpyHostToDevice and
/// cudaMemcpyDeviceToDevice of `enum cudaMemcpyKind`.
static bool writesDevice(const CallBase &Call, Api A) {
  if (A == Api::Memset || A == Api::MemsetAsync)
    return true;
  std::optional<uint64_t> Kind = copyKind(Call, A);
  return Kind && (*Kind == 1 || *Kind == 3);
}

namespace {
/// How a walk goes on behind an instruction.
enum class Walk { On, Enough, Failed };
} // namespace

/// Walks backwards on all ways to `From`, and tells whether none fails. A way that comes to the function's entry fails unless
/// `FromEntry`.
static bool walkBack(const Instruction &From, bool FromEntry, function_ref<Walk(const Instruction &)> Visit) {
  SmallPtrSet<const BasicBlock *, 16> Seen;
  SmallVector<std::pair<const BasicBlock *, BasicBlock::const_iterator>, 16> Todo = {{From.getParent(), From.getIterator()}};
  while (!Todo.empty()) {
    auto [Block, At] = Todo.pop_back_val();
    Walk Next = Walk::On;
    while (Next == Walk::On && At != Block->begin())
      Next = Visit(*--At);
    if (Next == Walk::Failed || (Next == Walk::On && Block->isEntryBlock() && !FromEntry))
      return false;
    if (Next == Walk::On)
      for (const BasicBlock *Pred : predecessors(Block))
        if (Seen.insert(Pred).second)
          Todo.push_back({Pred, Pred->end()});
  }
  return true;
}

/// Fails if an instruction may leave something running that can write the host's memory: a kernel, a copy to the host or a
/// function of the host in a stream. Enough if it waits for the device.
static Walk leavesIdle(const Instruction &I, const Callees &Calls) {
  auto *Call = dyn_cast<CallBase>(&I);
  if (!Call)
    return Walk::On;
  switch (Api A = apiOf(*Call)) {
  case Api::Stub:
  case Api::Launch:
  case Api::Context:
    return Walk::Failed;
  case Api::MemcpyAsync:
  case Api::Memcpy2DAsync:
    return writesDevice(*Call, A) ? Walk::On : Walk::Failed;
  case Api::DeviceSync:
  case Api::Reset:
    return Walk::Enough;
  case Api::Free:
    return isa<ConstantPointerNull>(Call->getArgOperand(0)) ? Walk::On : Walk::Enough;
  default:
    return Calls.mayHideCuda(*Call) ? Walk::Failed : Walk::On;
  }
}

/// Tells whether nothing of the program can run on a device at the point. The callers of a function other than main may have
/// started something.
bool Hoist::isIdle() {
  if (!Idle)
    Idle = walkBack(Point, Point.getFunction()->getName() == "main",
                    [&](const Instruction &I) { return leavesIdle(I, Calls); });
  return *Idle;
}

/// Tells whether a call of the CUDA runtime may write the loaded memory, which is a variable of the host. Allocations write
/// only what their own arguments name. Fills and copies to the device write no variable, but they may wait for a kernel or a
/// copy that began before the point and writes one. The rest may end a kernel or copy that writes anywhere.
bool Hoist::mayWrite(const Instruction &I, const MemoryLocation &Where) {
  if (!I.mayWriteToMemory())
    return false;
  if (auto *Call = dyn_cast<CallBase>(&I)) {
    Api A = apiOf(*Call);
    if (isAlloc(A) || A == Api::Harmless || isPlainLibrary(*Call)) {
      for (const Value *Argument : Call->args())
        if (Argument->getType()->isPointerTy() && !AA.isNoAlias(MemoryLocation::getBeforeOrAfter(Argument), Where))
          return true;
      return false;
    }
    if (writesDevice(*Call, A) && isIdle())
      return false;
  }
  return isModSet(AA.getModRefInfo(&I, Where));
}

/// Whether nothing on a way from the point to the load writes what it reads.
bool Hoist::isUnchanged(LoadInst &Load) {
  if (!DT.dominates(&Point, &Load))
    return false;
  MemoryLocation Where = MemoryLocation::get(&Load);
  return walkBack(Load, false, [&](const Instruction &I) {
    if (mayWrite(I, Where))
      return Walk::Failed;
    return &I == &Point ? Walk::Enough : Walk::On;
  });
}

Value *Hoist::emit(Value *V) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || DT.dominates(I, &Point))
    return V;
  if (Value *Old = Emitted.lookup(V))
    return Old;
  if (auto *Phi = dyn_cast<PHINode>(I)) {
    Choice C = *choiceOf(*Phi, DT);
    Value *Condition = emit(C.Condition), *IfTrue = emit(C.IfTrue), *IfFalse = emit(C.IfFalse);
    return Emitted[V] = SelectInst::Create(Condition, IfTrue, IfFalse, Phi->getName(), Point.getIterator());
  }
  Instruction *Copy = I->clone();
  for (Use &Operand : Copy->operands())
    Operand.set(emit(Operand.get()));
  // At the point the value may be poison for reasons that are undefined behaviour only later.
  Copy->dropPoisonGeneratingFlags();
  Copy->dropUBImplyingAttrsAndMetadata();
  Copy->insertBefore(&Point);
  return Emitted[V] = Copy;
}

} // namespace tessera
