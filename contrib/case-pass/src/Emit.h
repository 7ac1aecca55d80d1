// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What the pass writes into a program: probes of static tasks, and calls of the lazy runtime for the rest.

#ifndef TESSERA_CASE_EMIT_H
#define TESSERA_CASE_EMIT_H

#include "Library.h"
#include "Tasks.h"

namespace tessera {

/// Writes begin, frees and selections of the static tasks, and makes lazy what belongs to none. Returns whether something
/// lives on a device outside static tasks: then all tasks of the process must go to one device.
bool instrument(llvm::Function &F, std::vector<Task> &Tasks, const Flow &Flows, const Callees &Calls, Library &Lib);

} // namespace tessera

#endif
