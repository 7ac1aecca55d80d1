// SPDX-License-Identifier: MIT OR Apache-2.0
//
// TESSERA_PASS_REPORT: what the pass found, one JSON object a line and function.

#ifndef TESSERA_CASE_REPORT_H
#define TESSERA_CASE_REPORT_H

#include "Tasks.h"

#include "llvm/Support/JSON.h"

namespace tessera {

/// The report's object for a function. Null if it has neither launches nor allocations.
std::optional<llvm::json::Object> describe(const llvm::Function &F, const std::vector<Task> &Tasks, const Flow &Flows);

/// Appends objects to the file that TESSERA_PASS_REPORT names, if it names one. A file that cannot be written is said on
/// standard error: a report is no reason for a compilation to fail.
void writeReport(std::vector<llvm::json::Object> Functions);

} // namespace tessera

#endif
