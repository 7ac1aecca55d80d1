// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Region.h"
#include "Source.h"

#include "llvm/Analysis/CFG.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace tessera {

Region::Region(Function &F, const Flow &Flows, const Members &Task, const DominatorTree &DT, const LoopInfo &LI)
    : F(F), Flows(Flows), Task(Task), DT(DT), LI(LI), Ops(Task.Ops) {
  auto Reach = [&](auto &Set, auto Leaves) {
    SmallVector<const BasicBlock *, 16> Todo;
    for (const BasicBlock &Block : F)
      if (Leaves(Block))
        Todo.push_back(&Block);
    while (!Todo.empty())
      if (const BasicBlock *Block = Todo.pop_back_val(); Set.insert(Block).second)
        Todo.append(pred_begin(Block), pred_end(Block));
  };
  Reach(Returns, [](const BasicBlock &Block) { return isa<ReturnInst>(Block.getTerminator()); });
  Reach(Throws, [](const BasicBlock &Block) {
    if (isa<ResumeInst>(Block.getTerminator()))
      return true;
    auto *Call = dyn_cast_or_null<CallBase>(Block.getTerminator()->getPrevNonDebugInstruction());
    const Function *Callee = Call ? Call->getCalledFunction() : nullptr;
    return isa<UnreachableInst>(Block.getTerminator()) && Callee &&
           (Callee->getName() == "__cxa_throw" || Callee->getName() == "__cxa_rethrow");
  });
}

std::string Region::locate(const Callees &Calls) {
  findBegin();
  computeNeed();
  computeState();
  if (std::string Why = checkAllocations(); !Why.empty())
    return Why;
  findExits();
  // A task ends only after what waits for its launches: its end moves there.
  while (addWaits()) {
    computeNeed();
    findExits();
  }
  if (std::string Why = checkThrows(Calls); !Why.empty())
    return Why;
  if (std::string Why = checkExits(); !Why.empty())
    return Why;
  joinExits();
  return {};
}

void Region::findBegin() {
  BasicBlock *Block = Ops.front()->getParent();
  for (Instruction *Op : Ops)
    Block = DT.findNearestCommonDominator(Block, Op->getParent());
  Begin = Block->getTerminator();
  for (Instruction &I : reverse(*Block))
    if (Ops.contains(&I))
      Begin = &I;
}

void Region::computeNeed() {
  NeedIn.clear();
  NeedOut.clear();
  for (bool Changed = true; Changed;) {
    Changed = false;
    for (BasicBlock &Block : reverse(F)) {
      bool Need = any_of(successors(&Block), [&](const BasicBlock *Next) { return NeedIn.lookup(Next); });
      NeedOut[&Block] = Need;
      for (Instruction &I : reverse(Block)) {
        Need |= Ops.contains(&I);
        Need &= &I != Begin;
      }
      bool &In = NeedIn[&Block];
      Changed |= In != Need;
      In = Need;
    }
  }
}

bool Region::contains(const Instruction &I) const {
  bool Need = NeedOut.lookup(I.getParent());
  for (const Instruction &At : reverse(*I.getParent())) {
    Need |= Ops.contains(const_cast<Instruction *>(&At));
    if (&At == &I)
      return Need;
    Need &= &At != Begin;
  }
  return false;
}

void Region::findExits() {
  Frees.clear();
  for (BasicBlock &Block : F) {
    bool Need = NeedOut.lookup(&Block);
    if (Need)
      for (BasicBlock *Next : successors(&Block))
        if (!NeedIn.lookup(Next))
          Frees.push_back({Block.getTerminator(), Next});
    for (Instruction &I : reverse(Block)) {
      if (Ops.contains(&I)) {
        if (!Need)
          Frees.push_back({&I, nullptr});
        Need = true;
      }
      Need &= &I != Begin;
    }
  }
}

void Region::computeState() {
  unsigned Size = Task.Objects.size() + Task.Launches.size();
  StateIn.clear();
  SmallVector<const BasicBlock *, 32> Todo = {&F.getEntryBlock()};
  StateIn[&F.getEntryBlock()] = Bits(Size);
  while (!Todo.empty()) {
    const BasicBlock *Block = Todo.pop_back_val();
    Bits State = StateIn[Block];
    for (const Instruction &I : *Block)
      step(I, State);
    for (const BasicBlock *Next : successors(Block)) {
      Bits Over = State;
      stepEdge(*Block, *Next, Over);
      auto [Old, New] = StateIn.try_emplace(Next, Bits(Size));
      Bits Joined = Old->second;
      Joined |= Over;
      if (New || Joined != Old->second) {
        Old->second = Joined;
        Todo.push_back(Next);
      }
    }
  }
}

/// Whether frees through a pointer that may be any of several objects have freed all of them by now: as many such frees as
/// objects, as two buffers that are swapped in a loop have.
static bool freesAll(const Flow &Flows, const CallBase &Free, const std::set<unsigned> &Objects, const DominatorTree &DT) {
  unsigned Frees = 0;
  for (CallBase *Use : Flows.Objects[*Objects.begin()].Uses)
    if (Api A = apiOf(*Use); A == Api::Free || A == Api::FreeAsync)
      Frees += (Use == &Free || DT.dominates(Use, &Free)) && Flows.argumentOrigins(*Use, 0).Objects == Objects;
  if (Frees >= Objects.size())
    return true;
  // Or only one of them exists, because no path has two of the allocations.
  for (unsigned One : Objects)
    for (unsigned Other : Objects)
      if (One != Other && isPotentiallyReachable(Flows.Objects[One].Alloc, Flows.Objects[Other].Alloc, nullptr, &DT))
        return false;
  return true;
}

void Region::step(const Instruction &I, Bits &State) const {
  auto *Call = dyn_cast<CallBase>(&I);
  if (!Call)
    return;
  Api A = apiOf(*Call);
  auto Finish = [&](auto Matches) {
    for (unsigned L = 0; L != Task.Launches.size(); ++L)
      if (Matches(*Task.Launches[L].Push))
        State.reset(launchBit(L));
  };
  auto All = [](const CallBase &) { return true; };
  auto IsDefaultStream = [](const CallBase &Push) { return isa<ConstantPointerNull>(Push.getArgOperand(5)); };
  if (A == Api::Reset)
    State.reset();
  else if (A == Api::DeviceSync)
    Finish(All);
  else if (A == Api::StreamSync)
    Finish([&](const CallBase &Push) { return Push.getArgOperand(5) == Call->getArgOperand(0); });
  else if (A == Api::Memcpy || A == Api::Memcpy2D || A == Api::Memcpy3D)
    Finish(IsDefaultStream);
  for (unsigned At = 0; At != Task.Objects.size(); ++At)
    if (Flows.Objects[Task.Objects[At]].Alloc == Call)
      State.set(At);
  for (unsigned L = 0; L != Task.Launches.size(); ++L)
    if (Task.Launches[L].Stub == Call)
      State.set(launchBit(L));
  if (A != Api::Free && A != Api::FreeAsync)
    return;
  Origins From = Flows.argumentOrigins(*Call, 0);
  bool Mine = false;
  for (unsigned At = 0; At != Task.Objects.size(); ++At)
    if (From.Objects.count(Task.Objects[At])) {
      Mine = true;
      if (From.Other.empty() && (From.Objects.size() == 1 || freesAll(Flows, *Call, From.Objects, DT)))
        State.reset(At);
    }
  // cudaFree waits for the device.
  if (Mine && A == Api::Free)
    Finish(All);
}

void Region::stepEdge(const BasicBlock &From, const BasicBlock &To, Bits &State) const {
  auto *Branch = dyn_cast<BranchInst>(From.getTerminator());
  if (!Branch || !Branch->isConditional() || Branch->getSuccessor(0) == Branch->getSuccessor(1))
    return;
  auto *Compare = dyn_cast<ICmpInst>(Branch->getCondition());
  if (!Compare || !Compare->isEquality())
    return;
  auto *Zero = dyn_cast<Constant>(Compare->getOperand(1));
  if (!Zero || !Zero->isNullValue())
    return;
  bool IsZero = (Compare->getPredicate() == CmpInst::ICMP_EQ) == (Branch->getSuccessor(0) == &To);
  Value *Tested = Compare->getOperand(0);
  for (unsigned At = 0; At != Task.Objects.size(); ++At) {
    // An allocation that failed left nothing; a pointer that is null names nothing.
    if (Tested == Flows.Objects[Task.Objects[At]].Alloc && !IsZero)
      State.reset(At);
    if (Tested->getType()->isPointerTy() && IsZero) {
      Origins Named = Flows.origins(Tested);
      if (Named.Other.empty() && Named.Objects == std::set<unsigned>{Task.Objects[At]})
        State.reset(At);
    }
  }
}

Region::Bits Region::before(const Instruction &I) const {
  Bits State = StateIn.lookup(I.getParent());
  State.resize(Task.Objects.size() + Task.Launches.size());
  for (const Instruction &At : *I.getParent()) {
    if (&At == &I)
      break;
    step(At, State);
  }
  return State;
}

Region::Bits Region::at(const Exit &E) const {
  Bits State = before(*E.After);
  step(*E.After, State);
  if (E.To)
    stepEdge(*E.After->getParent(), *E.To, State);
  return State;
}

std::string Region::checkAllocations() const {
  for (unsigned At = 0; At != Task.Objects.size(); ++At) {
    const Object &Obj = Flows.Objects[Task.Objects[At]];
    if (before(*Obj.Alloc).test(At))
      return "it may be allocated again while it is held, at " + place(*Obj.Alloc);
  }
  return {};
}

bool Region::addWaits() {
  bool Added = false;
  for (const Exit &E : Frees) {
    Bits State = at(E);
    for (unsigned L = 0; L != Task.Launches.size(); ++L) {
      if (!State.test(launchBit(L)))
        continue;
      // What waits for a launch that may still run, below the begin.
      for (BasicBlock &Block : F)
        for (Instruction &I : Block) {
          if (Ops.contains(&I) || !DT.dominates(Begin, &I))
            continue;
          Bits Before = before(I), After = Before;
          step(I, After);
          if (Before.test(launchBit(L)) && !After.test(launchBit(L)))
            Added |= Ops.insert(&I);
        }
    }
  }
  return Added;
}

std::string Region::checkThrows(const Callees &Calls) const {
  for (const BasicBlock &Block : F)
    for (const Instruction &I : Block) {
      auto *Call = dyn_cast<CallInst>(&I);
      if (!Call || Call->doesNotThrow() || Call->doesNotReturn() || !Calls.mayHideCuda(*Call) || !contains(I))
        continue;
      Bits State = before(I);
      State.resize(Task.Objects.size());
      if (State.none())
        return "an exception of " + calledName(*Call) + " at " + place(I) + " would leave the task open";
    }
  return {};
}

std::string Region::checkExits() {
  const bool IsMain = F.getName() == "main";
  std::vector<Exit> Kept;
  for (const Exit &E : Frees) {
    const BasicBlock *Next = E.To ? E.To : E.After->getParent();
    bool CanReturn = Returns.contains(Next), CanThrow = Throws.contains(Next);
    if (!CanReturn && !CanThrow)
      continue; // the process ends there, and the task with it
    Bits State = at(E);
    unsigned Busy = Task.Objects.size();
    if (int First = State.find_first(); First >= 0 && unsigned(First) < Busy) {
      if (CanReturn && !IsMain)
        return Flows.Objects[Task.Objects[First]].Name + " may still be allocated when the function returns, after " +
               placeInFunction(*E.After);
      HeldToExit |= CanReturn;
      continue;
    } else if (First >= 0) {
      if (CanReturn && !IsMain)
        return "nothing waits for the launch at " + place(*Task.Launches[First - Busy].Push) +
               " before the function returns";
      HeldToExit |= CanReturn;
      continue;
    }
    if (E.To && E.To->isEHPad() && !E.To->getSinglePredecessor())
      for (const BasicBlock *Pred : predecessors(E.To))
        if (!NeedOut.lookup(Pred))
          return "the handler at " + placeInFunction(*E.To->getFirstNonPHI()) +
                 " also serves exceptions from outside the task";
    Kept.push_back(E);
  }
  Frees = std::move(Kept);
  return {};
}

bool Region::isFinished(const BasicBlock &Block) const {
  Bits State = StateIn.lookup(&Block);
  return State.none() && !NeedIn.lookup(&Block);
}

/// One free where all ways out of the task meet again, if there is such a place in the same loop: the nearest common
/// post-dominator. Ways on which the process ends do not count.
void Region::joinExits() {
  if (Frees.size() < 2 || HeldToExit || F.size() > 2000)
    return;
  const BasicBlock *Start = Begin->getParent();
  BasicBlock *Nearest = nullptr;
  for (BasicBlock &Candidate : F)
    if (&Candidate != Start && DT.dominates(Start, &Candidate) && !Candidate.isEHPad() && isFinished(Candidate) &&
        LI.getLoopFor(&Candidate) == LI.getLoopFor(Start) && (!Nearest || DT.dominates(&Candidate, Nearest)) &&
        meetsAll(Candidate))
      Nearest = &Candidate;
  if (Nearest)
    Frees = {Exit{nullptr, Nearest}};
}

/// Whether every way from a free that leaves the function, or begins the task again, comes through `Candidate`.
bool Region::meetsAll(const BasicBlock &Candidate) const {
  // A mere return that several ways share is an exit for each of them.
  if (isa<ReturnInst>(Candidate.getFirstNonPHIOrDbg()) && pred_size(&Candidate) > 1)
    return false;
  SmallPtrSet<const BasicBlock *, 16> Seen;
  SmallVector<const BasicBlock *, 16> Todo;
  auto Leaves = [](const BasicBlock &Block) {
    return isa<ReturnInst>(Block.getTerminator()) || isa<ResumeInst>(Block.getTerminator());
  };
  for (const Exit &E : Frees) {
    if (E.To)
      Todo.push_back(E.To);
    else if (Leaves(*E.After->getParent()))
      return false;
    else
      Todo.append(succ_begin(E.After->getParent()), succ_end(E.After->getParent()));
  }
  while (!Todo.empty()) {
    const BasicBlock *Block = Todo.pop_back_val();
    if (Block == &Candidate || !Seen.insert(Block).second)
      continue;
    if (Block == Begin->getParent() || Leaves(*Block))
      return false;
    Todo.append(succ_begin(Block), succ_end(Block));
  }
  return true;
}

} // namespace tessera
