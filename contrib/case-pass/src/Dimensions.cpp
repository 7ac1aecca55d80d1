// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Dimensions.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;
using namespace llvm::PatternMatch;

namespace tessera {

static Side findSide(Value *V, bool Upper, const DataLayout &DL, SmallPtrSetImpl<const PHINode *> &Seen);

/// The one value that a side has on all ways to a join, such as a side that a loop leaves as it was; null if there are several.
static Side commonSide(const PHINode &Phi, bool Upper, const DataLayout &DL, SmallPtrSetImpl<const PHINode *> &Seen) {
  Side Common = {nullptr};
  for (Value *Incoming : Phi.incoming_values()) {
    Side S = findSide(Incoming, Upper, DL, Seen);
    if ((S.V == &Phi && S.Upper == Upper) || isa<UndefValue>(S.V))
      continue;
    if (Common.V && (Common.V != S.V || Common.Upper != S.Upper))
      return {nullptr};
    Common = S;
  }
  return Common;
}

static Side findSide(Value *V, bool Upper, const DataLayout &DL, SmallPtrSetImpl<const PHINode *> &Seen) {
  while (V->getType()->isIntegerTy(64)) {
    const APInt Half = Upper ? APInt::getHighBitsSet(64, 32) : APInt::getLowBitsSet(64, 32);
    Constant *None = Constant::getNullValue(V->getType());
    auto HasNone = [&](Value *Part) {
      return Half.isSubsetOf(computeKnownBits(Part, DL).Zero);
    };
    Value *A, *B;
    const APInt *Mask;
    if (match(V, m_And(m_Value(A), m_APInt(Mask))) && (Half.isSubsetOf(*Mask) || !Half.intersects(*Mask))) {
      if (!Half.intersects(*Mask))
        return {None};
      V = A;
    } else if (match(V, m_Or(m_Value(A), m_Value(B))) && (HasNone(A) || HasNone(B))) {
      V = HasNone(A) ? B : A;
    } else if (match(V, m_Shl(m_Value(A), m_SpecificInt(32)))) {
      if (!Upper)
        return {None};
      V = A;
      Upper = false;
    } else if (match(V, m_ZExt(m_Value(A))) && A->getType()->getIntegerBitWidth() <= 32) {
      return {Upper ? None : A};
    } else if (auto *Phi = dyn_cast<PHINode>(V); Phi && Seen.insert(Phi).second) {
      Side Common = commonSide(*Phi, Upper, DL, Seen);
      return Common.V ? Common : Side{V, Upper};
    } else {
      break;
    }
  }
  return {V, Upper};
}

Side sideOf(Value *Xy, bool Upper, const DataLayout &DL) {
  SmallPtrSet<const PHINode *, 4> Seen;
  return findSide(Xy, Upper, DL, Seen);
}

Bounds::~Bounds() {
  RecursivelyDeleteTriviallyDeadInstructionsPermissive(Written);
}

Value *Bounds::most(Value *V, const Instruction &Launch) {
  auto *Steps = V->getType()->isIntegerTy(32) ? dyn_cast<SCEVAddRecExpr>(SE.getSCEV(V)) : nullptr;
  const Loop *L = Steps && Steps->isAffine() ? Steps->getLoop() : nullptr;
  BasicBlock *Before = L ? L->getLoopPreheader() : nullptr;
  const SCEV *Turns = Before ? SE.getBackedgeTakenCount(L) : SE.getCouldNotCompute();
  if (isa<SCEVCouldNotCompute>(Turns) || Turns->getType() != V->getType())
    return nullptr;
  // The head of a loop that ends there runs once more than the rest.
  if (L->getExitingBlock() == L->getHeader() && L->contains(&Launch) && Launch.getParent() != L->getHeader())
    Turns = SE.getMinusSCEV(Turns, SE.getOne(Turns->getType()));
  const SCEV *First = Steps->getStart();
  const SCEV *Last = SE.getAddExpr(First, SE.getMulExpr(Steps->getStepRecurrence(SE), Turns));
  const SCEV *Most = SE.getSMaxExpr(SE.getSMaxExpr(First, Last), SE.getOne(V->getType()));
  SCEVExpander Expander(SE, SE.getDataLayout(), "most");
  if (!Expander.isSafeToExpandAt(Most, Before->getTerminator()))
    return nullptr;
  Value *Result = Expander.expandCodeFor(Most, V->getType(), Before->getTerminator());
  Written.push_back(Result);
  return Result;
}

} // namespace tessera
