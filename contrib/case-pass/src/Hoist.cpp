// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Hoist.h"
#include "Cuda.h"

#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Analysis/Loads.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace tessera {

Hoist::Hoist(Instruction &Point, const DominatorTree &DT, AAResults &AA) : Point(Point), DT(DT), AA(AA) {}

bool Hoist::has(Value *V) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || DT.dominates(I, &Point))
    return true;
  if (auto Old = Known.find(V); Old != Known.end())
    return Old->second;
  // A value that depends on itself comes from a loop.
  Known[V] = false;
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
  if (!isa<AllocaInst>(Base))
    return false;
  return isDereferenceablePointer(Load.getPointerOperand(), Load.getType(), Load.getModule()->getDataLayout());
}

/// Whether a call of the CUDA runtime may write the loaded memory. Allocations, fills and frees write only what their own
/// arguments name; the rest may end a kernel or copy that writes anywhere.
static bool mayWrite(const Instruction &I, const MemoryLocation &Where, AAResults &AA) {
  if (!I.mayWriteToMemory())
    return false;
  if (auto *Call = dyn_cast<CallBase>(&I)) {
    Api A = apiOf(*Call);
    if (isAlloc(A) || A == Api::Harmless || A == Api::Memset || A == Api::MemsetAsync) {
      for (const Value *Argument : Call->args())
        if (Argument->getType()->isPointerTy() && !AA.isNoAlias(MemoryLocation::getBeforeOrAfter(Argument), Where))
          return true;
      return false;
    }
  }
  return isModSet(AA.getModRefInfo(&I, Where));
}

/// Whether nothing on a way from the point to the load writes what it reads.
bool Hoist::isUnchanged(LoadInst &Load) {
  if (!DT.dominates(&Point, &Load))
    return false;
  MemoryLocation Where = MemoryLocation::get(&Load);
  // Backwards from the load; blocks before the point are never reached, for it dominates the load.
  SmallPtrSet<const BasicBlock *, 16> Seen;
  SmallVector<const Instruction *, 16> Todo = {&Load};
  while (!Todo.empty()) {
    const Instruction *From = Todo.pop_back_val();
    const BasicBlock *Block = From->getParent();
    for (const Instruction *I = From->getPrevNode();; I = I->getPrevNode()) {
      if (!I) {
        for (const BasicBlock *Pred : predecessors(Block))
          if (Seen.insert(Pred).second) {
            // The walk goes on before the terminator, which itself may be a call.
            if (mayWrite(*Pred->getTerminator(), Where, AA))
              return false;
            Todo.push_back(Pred->getTerminator());
          }
        break;
      }
      if (I == &Point && Block == Point.getParent()) {
        if (mayWrite(*I, Where, AA))
          return false;
        break;
      }
      if (mayWrite(*I, Where, AA))
        return false;
    }
  }
  return true;
}

Value *Hoist::emit(Value *V) {
  auto *I = dyn_cast<Instruction>(V);
  if (!I || DT.dominates(I, &Point))
    return V;
  if (Value *Old = Emitted.lookup(V))
    return Old;
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
