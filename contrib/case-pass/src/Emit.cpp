// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Emit.h"

#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace tessera {

namespace {
class Emitter {
public:
  Emitter(Function &F, std::vector<Task> &Tasks, const Flow &Flows, const Callees &Calls, Library &Lib)
      : F(F), Flows(Flows), Calls(Calls), Lib(Lib) {
    for (Task &T : Tasks)
      if (T.isStatic())
        Static.push_back(&T);
      else
        for (Launch &L : T.Launches)
          LazyLaunches.push_back(&L);
  }

  bool run();

private:
  bool isMixed(const CallBase &Call, Api A) const;
  SmallVector<Task *, 4> around(const Instruction &I) const;
  void lazyLaunch(const Launch &L);
  void outside(CallBase &Call, Api A);
  void wholeDevice(CallBase &Call);
  void selectBeforeOps(Task &T);
  bool isSelected(const Instruction &Op, const Task &T) const;

  Function &F;
  const Flow &Flows;
  const Callees &Calls;
  Library &Lib;
  SmallVector<Task *, 4> Static;
  SmallVector<Launch *, 4> LazyLaunches;
  bool Sticky = false;
  /// Something here may select another device than that of the only task.
  bool Restless = false;
};
} // namespace

/// The static tasks that have begun and not ended before `I`.
SmallVector<Task *, 4> Emitter::around(const Instruction &I) const {
  SmallVector<Task *, 4> Open;
  for (Task *T : Static)
    if (T->Region.contains(&I))
      Open.push_back(T);
  return Open;
}

/// Whether a static task's operation may also reach an object that is lazy.
bool Emitter::isMixed(const CallBase &Call, Api A) const {
  if (auto Kind = copyKind(Call, A); Kind && *Kind <= 2)
    return false; // between host and device: what is not the object is on the host
  return any_of(pointerArguments(A),
                [&](unsigned At) { return !Flows.argumentOrigins(Call, At).Other.empty(); });
}

/// The product of the three dimensions that a launch passes in two values.
static Value *product(IRBuilder<> &Builder, Value *Xy, Value *Z) {
  Value *X = Builder.CreateAnd(Xy, Builder.getInt64(0xffffffff)), *Y = Builder.CreateLShr(Xy, 32);
  return Builder.CreateMul(Builder.CreateMul(X, Y), Builder.CreateZExt(Z, Builder.getInt64Ty()));
}

void Emitter::lazyLaunch(const Launch &L) {
  // cudaLaunchKernel has the function before the dimensions.
  unsigned First = apiOf(*L.Push) == Api::Launch ? 1 : 0;
  auto Argument = [&](unsigned At) { return L.Push->getArgOperand(First + At); };
  IRBuilder<> Builder(L.Push);
  Value *Blocks = product(Builder, Argument(0), Argument(1)), *Threads = product(Builder, Argument(2), Argument(3));
  Lib.prepare(*L.Push, Builder.CreateTrunc(Threads, Builder.getInt32Ty()), Blocks);
  if (L.Stub)
    Lib.replacePointers(*L.Stub);
  Sticky = true;
}

/// A call that belongs to no static task.
void Emitter::outside(CallBase &Call, Api A) {
  bool HeapLimit = A == Api::SetLimit;
  if (HeapLimit || Library::canBeLazy(A)) {
    Lib.makeLazy(Call);
    Sticky |= !HeapLimit;
  } else if (A == Api::SetDevice) {
    // The program's choice is among the devices that it sees; the tasks stay where they are.
    Lib.select(*Call.getNextNode(), ConstantInt::get(Type::getInt64Ty(F.getContext()), 0));
    Sticky = true;
  } else if (A == Api::Context || A == Api::HostAlloc || A == Api::StreamCreate || A == Api::Memcpy3D || A == Api::Memset3D) {
    if (around(Call).empty())
      Lib.prepare(Call, nullptr, nullptr);
    Sticky = true;
  } else if (A == Api::StreamSync) {
    Sticky |= !isa<ConstantPointerNull>(Call.getArgOperand(0));
  } else if (A == Api::None && Calls.mayHideCuda(Call)) {
    // What it waits for may run on the device of either task.
    Sticky |= around(Call).size() > 1;
  }
}

/// A wait for the current device waits for the devices of all tasks that are open.
void Emitter::wholeDevice(CallBase &Call) {
  SmallVector<Task *, 4> Open = around(Call);
  if (Open.size() < 2) {
    if (Open.size() == 1 && Restless)
      Lib.select(Call, Open[0]->Id);
    return;
  }
  Value *First = nullptr;
  for (Task *T : ArrayRef(Open).drop_back()) {
    Lib.select(Call, T->Id);
    Instruction *More = Call.clone();
    More->insertBefore(&Call);
    IRBuilder<> Builder(&Call);
    First = First ? Builder.CreateSelect(Builder.CreateIsNotNull(First), First, More) : More;
  }
  Lib.select(Call, Open.back()->Id);
  IRBuilder<> Builder(Call.getNextNode());
  Builder.SetCurrentDebugLocation(Call.getDebugLoc());
  auto *Result = Builder.CreateSelect(Builder.CreateIsNotNull(First), First, &Call);
  Call.replaceUsesWithIf(Result, [&](Use &U) { return U.getUser() != Result; });
}

/// Whether nothing since the task's begin, or its previous operation in the same block, can have selected another device.
bool Emitter::isSelected(const Instruction &Op, const Task &T) const {
  for (const Instruction *I = Op.getPrevNode(); I; I = I->getPrevNode()) {
    if (I == T.Id || T.Ops.contains(const_cast<Instruction *>(I)))
      return true;
    auto *Call = dyn_cast<CallBase>(I);
    if (Call && !isa<IntrinsicInst>(Call) && (Calls.mayHideCuda(*Call) || apiOf(*Call) != Api::None))
      return false;
  }
  return false;
}

void Emitter::selectBeforeOps(Task &T) {
  for (Instruction *Op : T.Ops)
    if (apiOf(*cast<CallBase>(Op)) != Api::Stub && !isSelected(*Op, T))
      Lib.select(*Op, T.Id);
}

bool Emitter::run() {
  DenseSet<const Instruction *> Owned;
  for (Task *T : Static) {
    T->Id = Lib.begin(*T->Begin, T->Memory, T->Threads, T->Blocks);
    Owned.insert(T->Ops.begin(), T->Ops.end());
    for (const Launch &L : T->Launches)
      Sticky |= !isa<ConstantPointerNull>(L.Push->getArgOperand(5));
  }
  SmallVector<CallBase *, 32> All;
  for (Instruction &I : instructions(F))
    if (auto *Call = dyn_cast<CallBase>(&I); Call && !isa<IntrinsicInst>(Call) && !Call->isInlineAsm())
      All.push_back(Call);
  for (CallBase *Call : All)
    Restless |= Calls.mayHideCuda(*Call) || apiOf(*Call) == Api::SetDevice;
  Restless |= Static.size() > 1 || !LazyLaunches.empty();
  for (Launch *L : LazyLaunches)
    lazyLaunch(*L);
  for (CallBase *Call : All) {
    Api A = apiOf(*Call);
    bool IsDevice = A == Api::DeviceSync || A == Api::Reset ||
                    (A == Api::StreamSync && isa<ConstantPointerNull>(Call->getArgOperand(0)));
    if (IsDevice)
      wholeDevice(*Call);
    else if (!Owned.contains(Call))
      outside(*Call, A);
  }
  for (Task *T : Static)
    for (const Launch &L : T->Launches)
      // What the kernel gets may hold addresses of lazy objects, from any part of the program.
      Lib.prepare(*L.Push, nullptr, nullptr);
  if (Restless || Sticky)
    for (Task *T : Static)
      selectBeforeOps(*T);
  for (Task *T : Static)
    for (Instruction *Op : T->Ops)
      if (auto *Call = cast<CallBase>(Op); isMixed(*Call, apiOf(*Call)) && Library::canBeLazy(apiOf(*Call)))
        outside(*Call, apiOf(*Call));
  for (Task *T : Static)
    for (Instruction *Before : T->Frees)
      Lib.free(*Before, T->Id);
  return Sticky;
}

bool instrument(Function &F, std::vector<Task> &Tasks, const Flow &Flows, const Callees &Calls, Library &Lib) {
  return Emitter(F, Tasks, Flows, Calls, Lib).run();
}

} // namespace tessera
