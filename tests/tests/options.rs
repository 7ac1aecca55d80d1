//! Options in the script, the environment and the command line, and the site's defaults for them, on real Slurm.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{builder, overrides, variable, with};
use lab::command::run;
use lab::config::Templates;
use lab::{Cluster, User};

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

/// What Tessera says in these lines, whatever command says it.
fn notes(stderr: &str) -> Vec<&str> {
    stderr.lines().filter_map(|line| Some(line.split_once("tessera: ")?.1)).collect()
}

#[test]
fn a_part_that_slurms_own_options_make_a_whole_gpu_is_said() {
    with(|cluster| {
        let why = "so the job gets more than --gpu-mem says; to get a part of a GPU, leave";
        let one = format!("--gres=gpu:1 asks for a whole GPU, {why} --gres=gpu:1 out");
        let several = format!("--gres=gpu:2 asks for whole GPUs, {why} --gres=gpu:2 out");
        for (options, says) in [
            (&["--gpu-mem=10G", "--gres=gpu:1"][..], one.as_str()),
            (&["--gpu-mem=10G", "--gpus-per-node=2"], &several),
            (&["--gpu-mem=10G", "--exclusive"], "with --exclusive, or in a partition of whole nodes"),
            (&["--gpu-mem=10G"], ""),
            (&["--gpu-isolation=whole", "--gpu-mem=10G", "--gres=gpu:1"], ""),
            (&["--gres=gpu:1"], ""),
        ] {
            // It stays pending.
            let held = [&["--hold"], options].concat();
            let submitted = cluster.try_sbatch(User::Alice, &held, "true").unwrap();
            assert_eq!(submitted.code, Some(0), "{submitted:?}");
            cluster.run(User::Alice, "scancel", &[submitted.stdout.trim()]).unwrap().ok().unwrap();
            assert_eq!(notes(&submitted.stderr), explained(cluster, options), "{options:?}");
            let said = notes(&submitted.stderr).concat();
            assert!(said.starts_with(says) && said.is_empty() == says.is_empty(), "{options:?}: {said}");
        }
        let options = ["--gpu-mem=10G", "--gres=gpu:1", "true"];
        let ran = cluster.run(User::Alice, "srun", &options).unwrap();
        assert!(ran.code == Some(0) && notes(&ran.stderr).contains(&one.as_str()), "{ran:?}");
    });
}

/// What `tessera explain` says of a job with these options beside its answer.
fn explained(cluster: &Cluster, options: &[&str]) -> Vec<String> {
    let mut tessera = cluster.command(User::Alice, "tessera").unwrap();
    let said = run(tessera.arg("explain").args(options)).unwrap();
    notes(&said.stderr).into_iter().map(str::to_owned).collect()
}
