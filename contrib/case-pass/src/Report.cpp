// SPDX-License-Identifier: MIT OR Apache-2.0

#include "Report.h"
#include "Source.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace tessera {

static json::Value constantOf(const Value *V) {
  if (auto *Number = dyn_cast_or_null<ConstantInt>(V))
    return Number->getZExtValue();
  return nullptr;
}

static json::Object describeObject(const Object &Obj) {
  Api A = apiOf(*Obj.Alloc);
  bool OneSize = A == Api::Malloc || A == Api::MallocAsync || A == Api::MallocManaged;
  return json::Object{{"name", Obj.Name},
                      {"alloc", place(*Obj.Alloc)},
                      {"call", Obj.Alloc->getCalledFunction()->getName()},
                      {"bytes", OneSize ? constantOf(Obj.Alloc->getArgOperand(1)) : json::Value(nullptr)}};
}

static json::Object describeTask(const Task &T, const Flow &Flows) {
  json::Array Launches, Objects, Frees;
  for (const Launch &L : T.Launches)
    Launches.push_back(json::Object{{"kernel", L.Kernel}, {"at", place(*L.Push)}});
  for (unsigned At : T.Objects)
    Objects.push_back(describeObject(Flows.Objects[At]));
  for (const std::string &Place : T.FreePlaces)
    Frees.push_back(Place);
  bool Static = T.isStatic();
  return json::Object{{"launches", std::move(Launches)},
                      {"objects", std::move(Objects)},
                      {"bound", Static ? "static" : "lazy"},
                      {"why", Static ? json::Value(nullptr) : json::Value(T.Why)},
                      {"begin", Static ? json::Value(T.BeginPlace) : json::Value(nullptr)},
                      {"free", std::move(Frees)},
                      {"held_to_exit", T.HeldToExit},
                      {"mem", Static ? constantOf(T.Memory) : json::Value(nullptr)},
                      {"threads", Static ? constantOf(T.Threads) : json::Value(nullptr)},
                      {"blocks", Static ? constantOf(T.Blocks) : json::Value(nullptr)}};
}

/// Why an allocation belongs to no task of its function.
static std::string whyUnused(const Flow &Flows, std::optional<unsigned> Object) {
  if (!Object)
    return "the address goes to memory that other code may read";
  if (const std::string &Escape = Flows.Objects[*Object].Escape; !Escape.empty())
    return Escape;
  return "no launch in this function uses it";
}

std::optional<json::Object> describe(const Function &F, const std::vector<Task> &Tasks, const Flow &Flows) {
  json::Array Found, Unused;
  std::set<unsigned> Used;
  for (const Task &T : Tasks) {
    Found.push_back(describeTask(T, Flows));
    Used.insert(T.Objects.begin(), T.Objects.end());
  }
  for (const Instruction &I : instructions(F)) {
    auto *Call = dyn_cast<CallBase>(&I);
    if (!Call || !isAlloc(apiOf(*Call)))
      continue;
    auto Object = Flows.allocatedBy(*Call);
    if (!Object || !Used.count(*Object))
      Unused.push_back(json::Object{{"alloc", place(*Call)},
                                    {"call", Call->getCalledFunction()->getName()},
                                    {"why", whyUnused(Flows, Object)}});
  }
  if (Found.empty() && Unused.empty())
    return std::nullopt;
  const DISubprogram *Where = F.getSubprogram();
  return json::Object{{"file", F.getParent()->getSourceFileName()},
                      {"function", sourceName(F)},
                      {"line", Where ? json::Value(int64_t(Where->getLine())) : json::Value(nullptr)},
                      {"tasks", std::move(Found)},
                      {"unused", std::move(Unused)}};
}

void writeReport(std::vector<json::Object> Functions) {
  auto File = sys::Process::GetEnv("TESSERA_PASS_REPORT");
  if (!File || File->empty() || Functions.empty())
    return;
  std::string Lines;
  raw_string_ostream Text(Lines);
  for (json::Object &Function : Functions)
    Text << json::Value(std::move(Function)) << '\n';
  std::error_code Error;
  raw_fd_ostream Out(*File, Error, sys::fs::CD_OpenAlways, sys::fs::FA_Write, sys::fs::OF_Append);
  if (!Error) {
    // One write, so that compilers side by side do not mix their lines.
    Out.SetUnbuffered();
    Out << Text.str();
    Error = Out.error();
    Out.clear_error();
  }
  if (Error)
    WithColor::warning(errs(), "tessera-clang++") << "TESSERA_PASS_REPORT=" << *File << ": " << Error.message() << '\n';
}

} // namespace tessera
