//! `cargo xtask programs` on a program of our own that is written as Rodinia's are.

use std::process::Command;

use lab::artefacts::BUILT;
use lab::case_pass::source;

use crate::node::shared;
use crate::tools::succeeds;

#[test]
fn a_program_of_several_files_is_compiled_run_and_compared() {
    // What the command runs on is built.
    shared();
    let tests = source().join("tests");
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.arg("programs").arg("--sources").arg(&tests).arg("--list").arg(tests.join("programs/own.toml"));
    let done = succeeds(xtask.env(BUILT, "1"));
    insta::assert_snapshot!(String::from_utf8(done.stdout).unwrap(), @r"
        | program | tasks | static | lazy | why lazy | CASE's artefact |
        |---|---|---|---|---|---|
        | stencil | 1 | 1 | 0 |  | - |

        | program | arguments | with the pass | copies from the device, bytes | tasks begun | lazy objects |
        |---|---|---|---|---|---|
        | stencil | 1000 | the same | 1, 4000 | 1 | 0 |
        | stencil | 64 | the same | 1, 256 | 1 | 0 |
        ");
}

#[test]
fn sources_without_a_program_of_the_list_are_an_error() {
    let empty = tempfile::tempdir().unwrap();
    shared();
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let done = xtask.args(["programs", "--sources"]).arg(empty.path()).env(BUILT, "1").output().unwrap();
    assert!(!done.status.success());
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("no directory srad/srad_v1 below the sources"), "{said}");
    assert!(said.ends_with("no program of the list is below the directories of --sources\n"), "{said}");
}
