// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Flow.h"
#include "Source.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace tessera {

void Origins::join(const Origins &More) {
  Objects.insert(More.Objects.begin(), More.Objects.end());
  if (Other.empty())
    Other = More.Other;
}

Flow::Flow(Function &F, const Sites &Found, const Callees &Calls, const DominatorTree &DT) : Found(Found), Calls(Calls) {
  for (const auto &[Slot, Site] : Found)
    if (isAlloc(apiOf(*Site.Call))) {
      IndexOf[Slot] = Objects.size();
      Objects.push_back({Site.Call, Site.Name, {}, {}});
    }
  Earlier.resize(Objects.size());
  for (const auto &[Slot, Index] : IndexOf)
    follow(Index, *Slot);
  // A variable that is used for two objects in turn: if the second allocation fails, it still names the first, unless
  // that is freed by then.
  std::vector<std::set<unsigned>> Held(Objects.size());
  for (const auto &Entry : IndexOf) {
    const AllocaInst *Slot = Entry.first;
    const unsigned Index = Entry.second;
    Value *Before = storedField(*Slot, 0);
    if (!Before)
      continue;
    for (unsigned Other : origins(Before).Objects) {
      bool Freed = any_of(Objects[Other].Uses, [&](CallBase *Use) {
        Api A = apiOf(*Use);
        return (A == Api::Free || A == Api::FreeAsync) && DT.dominates(Use, Objects[Index].Alloc);
      });
      if (Other != Index && !Freed)
        Held[Index].insert(Other);
    }
  }
  Earlier = std::move(Held);
}

static const Value *isLoadOf(const Value *V) {
  if (auto *Load = dyn_cast<LoadInst>(V))
    return Load->getPointerOperand();
  return nullptr;
}

static std::string otherOrigin(const Value &V) {
  if (isa<Argument>(V))
    return "an argument of the function";
  if (auto *Call = dyn_cast<CallBase>(&V)) {
    const Function *Callee = Call->getCalledFunction();
    return Callee ? "the result of " + calledName(*Callee) : "the result of a call through a pointer";
  }
  if (auto *Load = dyn_cast<LoadInst>(&V)) {
    const Value *From = Load->getPointerOperand()->stripInBoundsOffsets();
    if (isa<GlobalVariable>(From))
      return "the global variable " + demangle(From->getName().str());
    return "memory that other code may write";
  }
  if (isa<GlobalValue>(V))
    return "a global variable";
  if (isa<AllocaInst>(V))
    return "host memory";
  return "a computation that the pass does not follow";
}

/// Calls `Visit` with each instruction that uses an address into the block. Returns false if there are too many to follow.
template <typename Visitor> static bool blockUsers(const AllocaInst &Block, Visitor Visit) {
  SmallVector<const Value *, 8> Todo = {&Block};
  SmallPtrSet<const Value *, 16> Seen;
  while (!Todo.empty())
    for (const Use &U : Todo.pop_back_val()->uses()) {
      auto *User = cast<Instruction>(U.getUser());
      if (isa<GetElementPtrInst>(User)) {
        if (Seen.insert(User).second)
          Todo.push_back(User);
      } else if (!Visit(*User, U)) {
        return false;
      }
    }
  return true;
}

/// The pointers that are stored into a block.
static SmallVector<Value *, 8> storedPointers(const AllocaInst &Block) {
  SmallVector<Value *, 8> Result;
  blockUsers(Block, [&](const Instruction &User, const Use &) {
    if (auto *Store = dyn_cast<StoreInst>(&User))
      Result.push_back(const_cast<Value *>(Store->getValueOperand()));
    return true;
  });
  return Result;
}

/// The block that an address points into at any offset.
static const AllocaInst *blockOf(const Value *Address) { return dyn_cast<AllocaInst>(getUnderlyingObject(Address)); }

const AllocaInst *Flow::loadedBlock(const Value *V) const {
  auto *Load = dyn_cast<LoadInst>(V);
  const AllocaInst *Block = Load ? blockOf(Load->getPointerOperand()) : nullptr;
  return Block && !Found.count(Block) && isPointerBlock(*Block) ? Block : nullptr;
}

Origins Flow::origins(Value *V) const {
  Origins Result;
  SmallPtrSet<Value *, 16> Seen;
  SmallVector<Value *, 16> Todo = {V};
  while (!Todo.empty()) {
    Value *At = Todo.pop_back_val();
    if (!Seen.insert(At).second || isa<ConstantPointerNull>(At) || isa<UndefValue>(At))
      continue;
    if (auto *Phi = dyn_cast<PHINode>(At)) {
      Todo.append(Phi->value_op_begin(), Phi->value_op_end());
    } else if (auto *Select = dyn_cast<SelectInst>(At)) {
      Todo.append({Select->getTrueValue(), Select->getFalseValue()});
    } else if (auto *Gep = dyn_cast<GEPOperator>(At)) {
      Todo.push_back(Gep->getPointerOperand());
    } else if (isa<FreezeInst>(At) || isa<AddrSpaceCastInst>(At) || isa<BitCastInst>(At)) {
      Todo.push_back(cast<Instruction>(At)->getOperand(0));
    } else if (auto *Slot = dyn_cast_or_null<AllocaInst>(isLoadOf(At)); Slot && Found.count(Slot)) {
      // Host memory that the device reaches belongs to no device.
      if (auto Index = IndexOf.find(Slot); Index != IndexOf.end()) {
        Result.Objects.insert(Index->second);
        Result.Objects.insert(Earlier[Index->second].begin(), Earlier[Index->second].end());
      }
    } else if (const AllocaInst *Block = loadedBlock(At)) {
      // An array of pointers with an index that varies: any of them.
      Seen.insert(const_cast<AllocaInst *>(Block));
      for (Value *Stored : storedPointers(*Block))
        Todo.push_back(Stored);
    } else if (Result.Other.empty()) {
      Result.Other = otherOrigin(*At);
    }
  }
  return Result;
}

static bool takesBlock(const CallBase &Call, unsigned At) {
  Api A = apiOf(Call);
  if (A == Api::Stub || A == Api::Memset3D || A == Api::Malloc3D)
    return Call.isByValArgument(At);
  return A == Api::Memcpy3D && At == 0;
}

bool Flow::isParameterBlock(const AllocaInst &Block) const {
  return blockUsers(Block, [&](const Instruction &User, const Use &U) {
    if (isa<StoreInst>(&User))
      return U.getOperandNo() == StoreInst::getPointerOperandIndex();
    if (isa<LoadInst>(User) || isa<MemIntrinsic>(User) || User.isLifetimeStartOrEnd())
      return true;
    auto *Call = dyn_cast<CallBase>(&User);
    return Call && Call->isArgOperand(&U) && takesBlock(*Call, Call->getArgOperandNo(&U));
  });
}

bool Flow::isPointerBlock(const AllocaInst &Block) const {
  return isParameterBlock(Block) && blockUsers(Block, [](const Instruction &User, const Use &) {
           auto *Store = dyn_cast<StoreInst>(&User);
           return !isa<MemIntrinsic>(User) && (!Store || Store->getValueOperand()->getType()->isPointerTy());
         });
}

Origins Flow::blockOrigins(const AllocaInst &Block) const {
  Origins Result;
  if (!isParameterBlock(Block)) {
    Result.Other = "a structure whose address other code has";
    return Result;
  }
  blockUsers(Block, [&](const Instruction &User, const Use &U) {
    if (auto *Store = dyn_cast<StoreInst>(&User)) {
      if (Store->getValueOperand()->getType()->isPointerTy())
        Result.join(origins(const_cast<Value *>(Store->getValueOperand())));
    } else if (auto *Copy = dyn_cast<MemTransferInst>(&User); Copy && U.getOperandNo() == 0) {
      auto *Constant = dyn_cast<GlobalVariable>(getUnderlyingObject(Copy->getSource()));
      if (!Constant || !Constant->isConstant())
        Result.Other = "a structure that is copied from memory";
    }
    return true;
  });
  return Result;
}

/// Tells whether a structure may have a pointer in it. Clang writes a union as its largest member, which may hide one.
static bool mayHoldPointer(const Type &T) {
  if (auto *Struct = dyn_cast<StructType>(&T); Struct && Struct->hasName() && Struct->getName().starts_with("union."))
    return true;
  return T.isPointerTy() || any_of(T.subtypes(), [](const Type *Part) { return mayHoldPointer(*Part); });
}

Origins Flow::argumentOrigins(const CallBase &Call, unsigned At) const {
  Value *V = Call.getArgOperand(At);
  if (!takesBlock(Call, At))
    return origins(V);
  if (const Type *Whole = Call.getParamByValType(At); Whole && apiOf(Call) == Api::Stub && !mayHoldPointer(*Whole))
    return {};
  if (const AllocaInst *Block = blockOf(V))
    return blockOrigins(*Block);
  Origins Result;
  Result.Other = "a structure that is not a variable of the function";
  return Result;
}

Origins Flow::launchOrigins(const CallBase &Stub) const {
  Origins Result;
  for (unsigned At = 0; At != Stub.arg_size(); ++At)
    if (Stub.getArgOperand(At)->getType()->isPointerTy())
      Result.join(argumentOrigins(Stub, At));
  return Result;
}

std::optional<unsigned> Flow::allocatedBy(const CallBase &Call) const {
  for (unsigned Index = 0; Index != Objects.size(); ++Index)
    if (Objects[Index].Alloc == &Call)
      return Index;
  return std::nullopt;
}

void Flow::follow(unsigned Index, const AllocaInst &Slot) {
  Object &Obj = Objects[Index];
  SmallPtrSet<const Value *, 16> Seen;
  SmallVector<const Value *, 16> Todo;
  for (const User *U : Slot.users())
    if (isa<LoadInst>(U) && U->getType()->isPointerTy())
      Todo.push_back(U);
  auto Escapes = [&](const Instruction &Where, const Twine &How) {
    if (Obj.Escape.empty())
      Obj.Escape = (How + " at " + place(Where)).str();
  };
  while (!Todo.empty()) {
    const Value *V = Todo.pop_back_val();
    if (!Seen.insert(V).second)
      continue;
    for (const Use &U : V->uses()) {
      auto &User = *cast<Instruction>(U.getUser());
      if (isa<PHINode>(User) || isa<SelectInst>(User) || isa<GetElementPtrInst>(User) || isa<FreezeInst>(User) ||
          isa<AddrSpaceCastInst>(User) || isa<BitCastInst>(User)) {
        Todo.push_back(&User);
      } else if (auto *Store = dyn_cast<StoreInst>(&User)) {
        if (U.getOperandNo() == StoreInst::getPointerOperandIndex())
          continue; // the host writes managed memory
        const AllocaInst *Block = blockOf(Store->getPointerOperand());
        // The slot of a variable that the program uses again holds what it held until the next allocation.
        if (!Block || !(Found.count(Block) || isParameterBlock(*Block)))
          Escapes(User, "its address is stored in memory");
        else if (!Found.count(Block))
          blockUsers(*Block, [&](const Instruction &Reader, const Use &) {
            if (isa<LoadInst>(Reader) && Reader.getType()->isPointerTy())
              Todo.push_back(&Reader);
            return true;
          });
      } else if (auto *Call = dyn_cast<CallBase>(&User)) {
        Api A = apiOf(*Call);
        if (isMemoryOp(A) || A == Api::Stub)
          Obj.Uses.insert(const_cast<CallBase *>(Call));
        else if (A == Api::Harmless || isa<IntrinsicInst>(Call))
          continue;
        else if (A != Api::None || Calls.mayHideCuda(*Call) || !Call->getCalledFunction()->isDeclaration())
          Escapes(User, "its address is passed to " + calledName(*Call));
      } else if (isa<ReturnInst>(User)) {
        Escapes(User, "its address is returned");
      } else if (!isa<LoadInst>(User) && !isa<ICmpInst>(User)) {
        Escapes(User, "its address is used in a way that the pass does not follow");
      }
    }
  }
  // Structures that a call gets by value or by address.
  for (const Value *V : Seen)
    for (const User *U : V->users())
      if (auto *Store = dyn_cast<StoreInst>(U))
        if (const AllocaInst *Block = blockOf(Store->getPointerOperand()); Block && !Found.count(Block))
          blockUsers(*Block, [&](const Instruction &User, const Use &) {
            if (auto *Call = dyn_cast<CallBase>(&User); Call && (isMemoryOp(apiOf(*Call)) || apiOf(*Call) == Api::Stub))
              Obj.Uses.insert(const_cast<CallBase *>(Call));
            return true;
          });
}

Value *storedField(const AllocaInst &Block, uint64_t Offset) {
  const DataLayout &DL = Block.getModule()->getDataLayout();
  Value *Field = nullptr;
  bool Clear = blockUsers(Block, [&](const Instruction &User, const Use &U) {
    auto *Store = dyn_cast<StoreInst>(&User);
    if (!Store)
      return !isa<MemIntrinsic>(User) || U.getOperandNo() != 0;
    APInt Bytes(64, 0);
    const Value *Base = Store->getPointerOperand()->stripAndAccumulateConstantOffsets(DL, Bytes, true);
    if (Base != &Block)
      return false;
    if (Bytes == Offset) {
      if (Field)
        return false;
      Field = const_cast<Value *>(Store->getValueOperand());
    }
    return true;
  });
  return Clear ? Field : nullptr;
}

} // namespace tessera
