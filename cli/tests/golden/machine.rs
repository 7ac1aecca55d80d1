//! Commands that look at the machine, where there is nothing to see.

use insta::assert_snapshot;

use super::run;

#[test]
fn on_a_machine_without_slurm_or_driver() {
    assert_snapshot!(run("discover"), @r"
    stderr: tessera: cannot load /nowhere/libnvidia-ml.so.1: /nowhere/libnvidia-ml.so.1: cannot open shared object file: No such file or directory
    stderr: hint: run this on a node with GPUs, where the NVIDIA driver is loaded
    exit 1
    ");
    let doctor = run("doctor --node n2");
    assert_snapshot!(doctor, @r"
    ok   tessera.toml: 2 nodes in 2 sets
    bad  Slurm: cannot run `scontrol show config`: No such file or directory (os error 2)
    skip journal, driver, device nodes and MPS: n2 is not this machine
    exit 1
    ");
}
