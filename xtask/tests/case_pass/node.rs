//! The simulated node on which compiled shapes run.

use std::path::Path;
use std::process::Output;
use std::sync::{Once, OnceLock};

use lab::case_node::{CaseNode, TaskLibrary, build_simulator};

use crate::tools::succeeds;

/// A node with the named task library.
pub(crate) fn create(library: TaskLibrary) -> CaseNode {
    static MADE: Once = Once::new();
    MADE.call_once(|| build_simulator().unwrap());
    CaseNode::create(library).unwrap()
}

/// The node that all tests of a program share. Its library is the double.
pub(crate) fn shared() -> &'static CaseNode {
    static NODE: OnceLock<CaseNode> = OnceLock::new();
    NODE.get_or_init(|| create(TaskLibrary::Double))
}

/// Runs a program on a node.
pub(crate) fn run(node: &CaseNode, program: &Path, environment: &[(&str, &str)]) -> Output {
    succeeds(node.command(program).envs(environment.iter().copied()))
}
