// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Normal.h"
#include "Cuda.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/JumpThreading.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/InstructionNamer.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace tessera {

/// No CUDA function throws, but their declarations do not say so. Without these edges, handlers come only from code that
/// can throw.
static bool dropUnwindEdges(Function &F) {
  SmallVector<InvokeInst *, 16> Invokes;
  for (Instruction &I : instructions(F))
    if (auto *Invoke = dyn_cast<InvokeInst>(&I))
      if (Api A = apiOf(*Invoke); A != Api::None && A != Api::Context)
        Invokes.push_back(Invoke);
  for (InvokeInst *Invoke : Invokes)
    changeToCall(Invoke);
  return !Invokes.empty() && removeUnreachableBlocks(F);
}

/// A block that only returns becomes one for each block that leads there: each exit of the function can then end a task
/// of its own.
static void splitReturns(Function &F) {
  SmallVector<BasicBlock *, 4> Returns;
  for (BasicBlock &Block : F)
    if (isa<ReturnInst>(Block.getTerminator()) && !Block.hasAddressTaken() && !Block.isEntryBlock() &&
        all_of(Block, [](Instruction &I) { return isa<PHINode>(I) || isa<ReturnInst>(I) || I.isDebugOrPseudoInst(); }))
      Returns.push_back(&Block);
  for (BasicBlock *Block : Returns) {
    SmallVector<BasicBlock *, 8> Preds(predecessors(Block));
    for (BasicBlock *Pred : Preds)
      if (isa<BranchInst>(Pred->getTerminator()) && Pred->getSingleSuccessor() == Block && pred_size(Block) > 1) {
        DebugLoc Line = Pred->getTerminator()->getDebugLoc();
        FoldReturnIntoUncondBranch(cast<ReturnInst>(Block->getTerminator()), Block, Pred)->setDebugLoc(Line);
      }
  }
}

static void clean(Function &F, FunctionAnalysisManager &FAM) {
  SROAPass(SROAOptions::ModifyCFG).run(F, FAM);
  FAM.invalidate(F, PreservedAnalyses::none());
  EarlyCSEPass().run(F, FAM);
  FAM.invalidate(F, PreservedAnalyses::none());
}

void threadJumps(Function &F, FunctionAnalysisManager &FAM) {
  SmallPtrSet<const Instruction *, 8> Already;
  auto Calls = [&](auto Visit) {
    for (Instruction &I : instructions(F))
      if (auto *Call = dyn_cast<CallBase>(&I); Call && !isa<IntrinsicInst>(Call))
        Visit(*Call);
  };
  Calls([&](CallBase &Call) {
    if (Call.hasFnAttr(Attribute::NoDuplicate))
      Already.insert(&Call);
    else
      Call.addFnAttr(Attribute::NoDuplicate);
  });
  JumpThreadingPass().run(F, FAM);
  Calls([&](CallBase &Call) {
    if (!Already.contains(&Call))
      Call.removeFnAttr(Attribute::NoDuplicate);
  });
  FAM.invalidate(F, PreservedAnalyses::none());
}

/// The local variable that an address points into, and the offset there.
static AllocaInst *localVariable(Value *Address, const DataLayout &DL, uint64_t &Offset) {
  APInt Bytes(DL.getIndexTypeSizeInBits(Address->getType()), 0);
  auto *Base = dyn_cast<AllocaInst>(Address->stripAndAccumulateConstantOffsets(DL, Bytes, /*AllowNonInbounds=*/false));
  Offset = Bytes.getZExtValue();
  return Base;
}

static std::string variableName(const AllocaInst &Base, uint64_t Offset) {
  StringRef Name = Base.getName();
  Name.consume_back(".addr");
  // Inlining appends a number when the caller has a variable of that name.
  std::string Text = Name.split('.').first.str();
  return Offset == 0 || Text.empty() ? Text : Text + "+" + std::to_string(Offset);
}

/// Lets `Call` write its argument `At` to a variable of its own, which is copied to where the argument pointed before and
/// after: a call that fails leaves what was there. `Fields` are the types that are copied.
static AllocaInst *detour(CallBase &Call, unsigned At, ArrayRef<Type *> Fields, std::string &Name) {
  const DataLayout &DL = Call.getModule()->getDataLayout();
  uint64_t Offset;
  Value *Target = Call.getArgOperand(At);
  AllocaInst *Variable = localVariable(Target, DL, Offset);
  if (!Variable)
    return nullptr;
  if (At == 0)
    Name = variableName(*Variable, Offset);
  Function &F = *Call.getFunction();
  auto *Record = StructType::get(F.getContext(), Fields);
  IRBuilder<> Entry(&*F.getEntryBlock().getFirstInsertionPt());
  AllocaInst *Slot = Entry.CreateAlloca(Record, nullptr, "tessera.slot");
  auto Copy = [&](Instruction *Where, Value *To, Value *From) {
    IRBuilder<> Builder(Where);
    Builder.SetCurrentDebugLocation(Call.getDebugLoc());
    for (unsigned Field = 0; Field != Fields.size(); ++Field)
      Builder.CreateStore(
          Builder.CreateLoad(Fields[Field], Builder.CreateStructGEP(Record, From, Field)),
          Builder.CreateStructGEP(Record, To, Field));
  };
  Copy(&Call, Slot, Target);
  Copy(Call.getNextNode(), Target, Slot);
  Call.setArgOperand(At, Slot);
  return Slot;
}

Sites normalise(Function &F, FunctionAnalysisManager &FAM) {
  dropUnwindEdges(F);
  clean(F, FAM);
  Sites Found;
  SmallVector<CallBase *, 16> Calls;
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallInst>(&I))
      if (Api A = apiOf(*Call); isAlloc(A) || A == Api::HostAlloc || A == Api::StreamCreate)
        Calls.push_back(Call);
  Type *Pointer = PointerType::getUnqual(F.getContext()), *Size = Type::getInt64Ty(F.getContext());
  for (CallBase *Call : Calls) {
    Api A = apiOf(*Call);
    std::string Name;
    SmallVector<Type *, 4> Fields = {Pointer};
    if (A == Api::Malloc3D)
      Fields.append({Size, Size, Size});
    if (AllocaInst *Slot = detour(*Call, 0, Fields, Name))
      Found.insert({Slot, Site{Call, Slot, Name}});
    if (A == Api::MallocPitch)
      detour(*Call, 1, {Size}, Name);
  }
  clean(F, FAM);
  splitReturns(F);
  FAM.invalidate(F, PreservedAnalyses::none());
  return Found;
}

} // namespace tessera
