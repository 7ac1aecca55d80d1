// SPDX-License-Identifier: MIT OR Apache-2.0
//
// One task's begin, frees and amounts, or why it is lazy.

#include "Dimensions.h"
#include "Source.h"
#include "Tasks.h"

#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/InstSimplifyFolder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace tessera {

/// Why a task cannot be static, from its launches and objects alone.
static std::string unknown(const Task &T, const Flow &Flows) {
  for (const Launch &L : T.Launches)
    if (!L.Pointers.Other.empty())
      return "the launch of " + L.Kernel + " at " + place(*L.Push) + " uses " + L.Pointers.Other;
  for (unsigned At : T.Objects)
    if (const Object &Obj = Flows.Objects[At]; !Obj.Escape.empty())
      return Obj.Name + " (" + place(*Obj.Alloc) + "): " + Obj.Escape;
  return {};
}

/// The factors of an allocation's size: the first is rounded up to rows of pitched memory if `Pitched`.
static bool sizeOf(const CallBase &Alloc, SmallVectorImpl<Value *> &Factors, bool &Pitched) {
  Api A = apiOf(Alloc);
  Pitched = A == Api::MallocPitch || A == Api::Malloc3D;
  if (A == Api::MallocPitch) {
    Factors.append({Alloc.getArgOperand(2), Alloc.getArgOperand(3)});
  } else if (A == Api::Malloc3D) {
    auto *Extent = dyn_cast<AllocaInst>(Alloc.getArgOperand(1)->stripPointerCasts());
    for (uint64_t Offset : {0, 8, 16}) {
      Value *Side = Extent ? storedField(*Extent, Offset) : nullptr;
      if (!Side || !Side->getType()->isIntegerTy(64))
        return false;
      Factors.push_back(Side);
    }
  } else {
    Factors.push_back(Alloc.getArgOperand(1));
  }
  return true;
}

namespace {
/// Amounts, written at a task's begin.
class Amounts {
public:
  Amounts(Instruction &Begin, const DominatorTree &DT, AAResults &AA, const Callees &Calls)
      : At(Begin, DT, AA, Calls), Builder(Begin.getContext(), InstSimplifyFolder(Begin.getModule()->getDataLayout())) {
    Builder.SetInsertPoint(&Begin);
    Long = Builder.getInt64Ty();
  }

  bool has(Value *V) { return At.has(V); }
  bool has(ArrayRef<Value *> Values) {
    return all_of(Values, [&](Value *V) { return At.has(V); });
  }
  Value *get(Value *V) { return Builder.CreateZExtOrTrunc(At.emit(V), Long); }
  Value *number(uint64_t N) { return ConstantInt::get(Long, N); }
  Value *add(Value *A, Value *B) {
    auto *X = dyn_cast<ConstantInt>(A), *Y = dyn_cast<ConstantInt>(B);
    if (X && Y)
      return ConstantInt::get(A->getContext(), X->getValue().uadd_sat(Y->getValue()));
    return Builder.CreateBinaryIntrinsic(Intrinsic::uadd_sat, A, B);
  }
  Value *most(Value *A, Value *B) { return A ? Builder.CreateBinaryIntrinsic(Intrinsic::umax, A, B) : B; }

  /// Bytes of an allocation.
  Value *bytes(ArrayRef<Value *> Factors, bool Pitched) {
    Value *Product = get(Factors[0]);
    if (Pitched)
      Product = Builder.CreateAnd(add(Product, number(PitchAlign - 1)), number(~(PitchAlign - 1)));
    for (Value *Factor : Factors.drop_front())
      Product = Builder.CreateMul(Product, get(Factor));
    return Product;
  }

  /// Threads of a block or blocks of a grid.
  Value *product(ArrayRef<Side> Sides) {
    Value *Product = number(1);
    for (const Side &S : Sides) {
      Value *Both = get(S.V);
      Product = Builder.CreateMul(
          Product, S.Upper ? Builder.CreateLShr(Both, number(32)) : Builder.CreateAnd(Both, number(0xffffffff)));
    }
    return Product;
  }

  Value *toThreads(Value *V) {
    return Builder.CreateTrunc(Builder.CreateBinaryIntrinsic(Intrinsic::umin, V, number(UINT32_MAX)),
                               Builder.getInt32Ty());
  }

private:
  Hoist At;
  IRBuilder<InstSimplifyFolder> Builder;
  IntegerType *Long;
};
} // namespace

namespace {
/// The sides of a launch's grid and of its blocks, all known at the task's begin.
struct Shape {
  SmallVector<Side, 3> Grid, Block;
};
} // namespace

/// The sides of a dim3, which a launch passes in two arguments: x and y, and z. In a loop, the most that each can be. Empty if
/// one is not known at the task's begin.
static SmallVector<Side, 3> sidesOf(const CallBase &Push, unsigned First, Amounts &At, Bounds &Most) {
  const DataLayout &DL = Push.getModule()->getDataLayout();
  Value *Xy = Push.getArgOperand(First);
  SmallVector<Side, 3> Sides = {sideOf(Xy, false, DL), sideOf(Xy, true, DL), {Push.getArgOperand(First + 1)}};
  for (Side &S : Sides)
    if (!At.has(S.V)) {
      S.V = Most.most(S.V, Push);
      if (!S.V || !At.has(S.V))
        return {};
    }
  return Sides;
}

/// Whether `F` itself sets the heap's limit before each launch of the task, with nothing between that may set it unseen.
static bool setsItself(const Task &T, const Function &F, const ModuleFacts &Facts, const Callees &Calls,
                       const DominatorTree &DT) {
  auto Own = Facts.HeapLimits.find(&F);
  if (Own == Facts.HeapLimits.end())
    return false;
  auto MayHide = [&](const CallBase &Limit, const Launch &L) {
    return any_of(instructions(F), [&](const Instruction &I) {
      auto *Call = dyn_cast<CallBase>(&I);
      return Call && Calls.mayHideCuda(*Call) && isPotentiallyReachable(&Limit, Call, nullptr, &DT) &&
             isPotentiallyReachable(Call, L.Push, nullptr, &DT);
    });
  };
  return all_of(T.Launches, [&](const Launch &L) {
    return any_of(Own->second, [&](const CallBase *Limit) { return DT.dominates(Limit, L.Push) && !MayHide(*Limit, L); });
  });
}

/// The calls that set the heap's limit before a launch of the task, or why the limit is not known.
static std::string heapLimits(const Task &T, Function &F, const Callees &Inlined, const ModuleFacts &Facts,
                              const DominatorTree &DT, Amounts &At, SmallVectorImpl<const CallBase *> &Limits) {
  for (const auto &[Where, Calls] : Facts.HeapLimits)
    for (const CallBase *Call : Calls) {
      if (Where != &F) {
        // Inlined wherever this file calls it, but other files may call it too.
        if (Where->use_empty() && setsItself(T, F, Facts, Inlined, DT))
          continue;
        return sourceName(*Where) + ", which may be called before a launch, sets the heap limit at " + place(*Call);
      }
      bool Reaches = any_of(T.Launches, [&](const Launch &L) { return isPotentiallyReachable(Call, L.Push, nullptr, &DT); });
      if (!Reaches)
        continue;
      if (!isa<ConstantInt>(Call->getArgOperand(0)) || !At.has(Call->getArgOperand(1)))
        return "the heap limit at " + place(*Call) + " is not known at the task's begin";
      Limits.push_back(Call);
    }
  return {};
}

/// Writes what the task asks for at its begin. Returns why that cannot be.
static std::string plan(Task &T, Function &F, const Flow &Flows, const Callees &Calls, const ModuleFacts &Facts,
                        const DominatorTree &DT, FunctionAnalysisManager &FAM) {
  Bounds Most(FAM.getResult<ScalarEvolutionAnalysis>(F));
  Amounts At(*T.Begin, DT, FAM.getResult<AAManager>(F), Calls);
  SmallVector<SmallVector<Value *, 3>, 8> Sizes(T.Objects.size());
  SmallVector<bool, 8> Pitched(T.Objects.size());
  for (unsigned N = 0; N != T.Objects.size(); ++N) {
    const Object &Obj = Flows.Objects[T.Objects[N]];
    if (!sizeOf(*Obj.Alloc, Sizes[N], Pitched[N]) || !At.has(Sizes[N]))
      return "the size of " + Obj.Name + " (" + place(*Obj.Alloc) + ") is not known at the task's begin, " + T.BeginPlace;
  }
  // The dimensions of some launches may not be known yet, in a loop for instance: then the others count (section 3.1.1).
  SmallVector<Shape, 8> Known;
  for (const Launch &L : T.Launches) {
    Shape S = {sidesOf(*L.Push, 0, At, Most), sidesOf(*L.Push, 2, At, Most)};
    if (!S.Grid.empty() && !S.Block.empty())
      Known.push_back(std::move(S));
  }
  if (Known.empty())
    return "the grid of " + T.Launches[0].Kernel + " (" + place(*T.Launches[0].Push) +
           ") is not known at the task's begin, " + T.BeginPlace;
  SmallVector<const CallBase *, 2> Limits;
  if (std::string Why = heapLimits(T, F, Calls, Facts, DT, At, Limits); !Why.empty())
    return Why;

  bool Replaced = any_of(Limits, [&](const CallBase *Limit) {
    return all_of(T.Launches, [&](const Launch &L) { return DT.dominates(Limit, L.Push); });
  });
  T.Memory = Replaced && Limits.size() == 1 ? At.get(Limits[0]->getArgOperand(1)) : At.number(DefaultHeap);
  if (!Replaced || Limits.size() != 1)
    for (const CallBase *Limit : Limits)
      T.Memory = At.most(T.Memory, At.get(Limit->getArgOperand(1)));
  for (unsigned N = 0; N != T.Objects.size(); ++N)
    T.Memory = At.add(T.Memory, At.bytes(Sizes[N], Pitched[N]));
  Value *Threads = nullptr;
  for (const Shape &S : Known) {
    T.Blocks = At.most(T.Blocks, At.product(S.Grid));
    Threads = At.most(Threads, At.product(S.Block));
  }
  T.Threads = At.toThreads(Threads);
  return {};
}

/// The instruction that a free on this exit goes before. Splits the edge if others use its end.
static Instruction *freePoint(const Exit &E, DominatorTree &DT, LoopInfo &LI) {
  if (!E.To)
    return E.After->getNextNode();
  // All ways meet there, or only exceptions of the task come there.
  if (!E.After || E.To->isEHPad() || E.To->getSinglePredecessor())
    return &*E.To->getFirstInsertionPt();
  return SplitEdge(E.After->getParent(), E.To, &DT, &LI)->getTerminator();
}

static Members membersOf(const Task &T, const Flow &Flows) {
  Members Result;
  Result.Objects = T.Objects;
  for (const Launch &L : T.Launches) {
    Result.Launches.push_back({L.Push, L.Stub});
    Result.Ops.insert(L.Push);
    Result.Ops.insert(L.Stub);
  }
  for (unsigned At : T.Objects) {
    Result.Ops.insert(Flows.Objects[At].Alloc);
    Result.Ops.insert(Flows.Objects[At].Uses.begin(), Flows.Objects[At].Uses.end());
  }
  return Result;
}

bool hasRegion(const Task &T, Function &F, const Flow &Flows, const Callees &Calls, FunctionAnalysisManager &FAM) {
  if (!unknown(T, Flows).empty())
    return false;
  Members Task = membersOf(T, Flows);
  return Region(F, Flows, Task, FAM.getResult<DominatorTreeAnalysis>(F), FAM.getResult<LoopAnalysis>(F)).locate(Calls).empty();
}

void planTask(Task &T, Function &F, const Flow &Flows, const Callees &Calls, const ModuleFacts &Facts,
              FunctionAnalysisManager &FAM) {
  T.Why = unknown(T, Flows);
  if (T.Why.empty() && F.callsFunctionThatReturnsTwice())
    T.Why = "the function calls setjmp or its like";
  if (!T.Why.empty())
    return;
  Members Task = membersOf(T, Flows);
  auto &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  Region Where(F, Flows, Task, DT, LI);
  T.Why = Where.locate(Calls);
  if (!T.Why.empty())
    return;
  T.Begin = Where.Begin;
  T.BeginPlace = placeInFunction(*T.Begin);
  T.Why = plan(T, F, Flows, Calls, Facts, DT, FAM);
  if (!T.Why.empty())
    return;
  T.HeldToExit = Where.HeldToExit;
  T.Ops = Task.Ops;
  for (Instruction &I : instructions(F))
    if (Where.contains(I) && &I != T.Begin)
      T.Region.insert(&I);
  for (const Exit &E : Where.Frees) {
    std::string Place = placeInFunction(E.To ? *E.To->getFirstNonPHIOrDbg() : *E.After);
    Instruction *Point = freePoint(E, DT, LI);
    // Several exceptions may come to one handler.
    if (is_contained(T.Frees, Point))
      continue;
    T.Frees.push_back(Point);
    T.FreePlaces.push_back(std::move(Place));
  }
}

} // namespace tessera
