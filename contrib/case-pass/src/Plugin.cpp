// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The pass `tessera-case`: finds the GPU tasks of a CUDA program's host side and writes a probe round each (CASE, PPoPP'22,
// section 3.1 and Algorithm 1). It runs before all optimisations, on what clang makes of the source.
//
// 1. Inline: helpers with CUDA calls, and small helpers.
// 2. Normal form: addresses of objects flow as values.
// 3. Flow: from launches' arguments to allocations, and from there to every use.
// 4. Tasks: launches that share an object, to the closure.
// 5. Plan: begin, frees and amounts of each; what cannot be planned is lazy, with the reason.
// 6. Emit.

#include "Emit.h"
#include "Report.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;

namespace tessera {

/// Whether kernels can keep something on a device between tasks: on the host, a variable that lives on the device stands as
/// one without a value.
static bool hasDeviceVariables(const Module &M) {
  return any_of(M.globals(), [](const GlobalVariable &G) { return G.hasInitializer() && isa<UndefValue>(G.getInitializer()); });
}

static bool haveRegions(Function &F, const Sites &Found, const Callees &Calls, FunctionAnalysisManager &FAM) {
  Flow Flows(F, Found, Calls, FAM.getResult<DominatorTreeAnalysis>(F));
  return all_of(mergeLaunches(launchesOf(F, Flows), Flows),
                [&](const Task &T) { return hasRegion(T, F, Flows, Calls, FAM); });
}

static bool handle(Function &F, const Callees &Calls, const ModuleFacts &Facts, Library &Lib, FunctionAnalysisManager &FAM,
                   std::vector<json::Object> &Report) {
  Sites Found = normalise(F, FAM);
  if (!haveRegions(F, Found, Calls, FAM))
    threadJumps(F, FAM);
  Flow Flows(F, Found, Calls, FAM.getResult<DominatorTreeAnalysis>(F));
  std::vector<Task> Tasks = mergeLaunches(launchesOf(F, Flows), Flows);
  for (Task &T : Tasks) {
    planTask(T, F, Flows, Calls, Facts, FAM);
    FAM.invalidate(F, PreservedAnalyses::none());
  }
  if (auto Described = describe(F, Tasks, Flows))
    Report.push_back(std::move(*Described));
  bool Sticky = instrument(F, Tasks, Flows, Calls, Lib);
  FAM.invalidate(F, PreservedAnalyses::none());
  return Sticky;
}

/// Whether the module has anything to do. A program that asks for its tasks itself is left as it is.
static bool usesCuda(const Module &M) {
  return !M.getFunction("tessera_task_begin") && any_of(M, [](const Function &F) { return F.isDeclaration() && apiOf(F.getName()) != Api::None; });
}

struct CasePass : PassInfoMixin<CasePass> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    // CUDA mode also compiles the kernels, for the device.
    Triple Target(M.getTargetTriple());
    if (Target.isNVPTX() || Target.isAMDGPU() || !usesCuda(M))
      return PreservedAnalyses::all();
    Callees Calls(M);
    inlineFirst(M, Calls);
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    FAM.clear();
    ModuleFacts Facts(M);
    Library Lib(M);
    std::vector<json::Object> Report;
    bool Sticky = hasDeviceVariables(M);
    for (Function *F : Calls.Concerned)
      Sticky |= handle(*F, Calls, Facts, Lib, FAM, Report);
    if (Sticky)
      Lib.stickyFromStart();
    writeReport(std::move(Report));
    return PreservedAnalyses::none();
  }

  // Without optimisation clang asks that functions be left alone; the program would then run without probes.
  static bool isRequired() { return true; }
};

} // namespace tessera

extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "tessera-case", "1", [](PassBuilder &Builder) {
            Builder.registerPipelineStartEPCallback(
                [](ModulePassManager &Passes, OptimizationLevel) { Passes.addPass(tessera::CasePass()); });
            Builder.registerPipelineParsingCallback(
                [](StringRef Name, ModulePassManager &Passes, ArrayRef<PassBuilder::PipelineElement>) {
                  if (Name != "tessera-case")
                    return false;
                  Passes.addPass(tessera::CasePass());
                  return true;
                });
          }};
}
