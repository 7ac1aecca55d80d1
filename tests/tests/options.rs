//! Options in the script, the environment and the command line, and the site's defaults for them, on real Slurm.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{builder, overrides, variable, with};
use lab::User;
use lab::config::Templates;

#[test]
fn the_command_line_overrides_the_environment_and_that_the_script() {
    with(|cluster| overrides(cluster));
}

#[test]
fn an_isolation_that_is_typed_is_not_replaced_by_the_sites_default() {
    let mut templates = Templates::shipped().unwrap();
    // `auto` may only share here, so that what it becomes tells it from the default.
    templates.tessera = templates
        .tessera
        .replace("isolation = \"auto\"", "isolation = \"mig\"")
        .replace("auto = [\"mig\", \"mps\", \"whole\"]", "auto = [\"mps\"]");
    let cluster = builder().templates(templates).start().unwrap();
    let got = |options: &[&str]| {
        let options = [&["-w", "n1", "--gpu-mem=3G"], options].concat();
        let saw = cluster.complete(User::Alice, &options, "echo isolation=$TESSERA_ISOLATION").unwrap();
        variable(&saw, "isolation").unwrap()
    };
    assert_eq!(got(&[]), "mig");
    assert_eq!(got(&["--gpu-isolation=auto"]), "mps");
    assert_eq!(got(&["--gpu-isolation=mps"]), "mps");
    // What asks for whole GPUs by Slurm's own options contradicts nothing that was typed.
    assert_eq!(got(&["--gres=gpu:2"]), "whole");
}
