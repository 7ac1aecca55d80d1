//! `tessera check`.

use std::fs;

use insta::assert_snapshot;

use super::{SITE, Site};

#[test]
fn check() {
    let site = Site::new();
    assert_snapshot!(site.run(&["check"]), @r"
    tessera.toml: good
      n1: 8 x a100-40gb, links dgx-v, MIG dynamic
      n2: 2 x h100-80gb-sxm, links pcie, MIG dynamic
    exit 0
    ");
    fs::write(site.path().join("old.toml"), SITE.replace("h100-80gb-sxm", "v100-16gb")).unwrap();
    assert!(site.run(&["check", "old.toml"]).contains("n2: 2 x v100-16gb, links pcie, no MIG\n"));
    fs::write(site.path().join("bad.toml"), SITE.replace("dgx-v", "dgx-w").replace("gpu_mem", "gpu_men"))
        .unwrap();
    assert_snapshot!(site.run(&["check", "bad.toml"]), @r#"
    bad.toml:3:1: unknown key gpu_men in [defaults]
    gpu_men = "5G"
    ^~~~~~~  hint: did you mean gpu_mem?
    bad.toml:12:17: unknown interconnect "dgx-w"
    interconnect = "dgx-w"
                    ^~~~~  hint: did you mean dgx-v?
    bad.toml: 2 errors
    exit 1
    "#);
    assert_snapshot!(site.run(&["--config", "bad.toml", "layout", "--from", "layout"]), @r#"
    stderr: tessera: bad.toml has 2 errors
    stderr: bad.toml:3:1: unknown key gpu_men in [defaults]
    stderr: gpu_men = "5G"
    stderr: ^~~~~~~  hint: did you mean gpu_mem?
    stderr: bad.toml:12:17: unknown interconnect "dgx-w"
    stderr: interconnect = "dgx-w"
    stderr:                 ^~~~~  hint: did you mean dgx-v?
    exit 1
    "#);
    assert_snapshot!(site.run(&["check", "none.toml"]), @r"
    stderr: tessera: cannot read none.toml: No such file or directory (os error 2)
    stderr: hint: name another file with --config or TESSERA_CONF; `tessera discover` writes a first one
    exit 1
    ");
}

#[test]
fn check_says_what_a_good_file_asks_for_in_vain() {
    let site = Site::new();
    let with = |lines: &str| fs::write(site.path().join("tessera.toml"), format!("{SITE}{lines}")).unwrap();
    fs::write(site.path().join("slurm.conf"), "NodeName=n1 Gres=gpu:a100:8\nPartitionName=debug Nodes=ALL\n")
        .unwrap();
    assert!(site.run(&["check"]).starts_with("tessera.toml: good"));
    with("[[partitions]]\nname = \"debugg\"\nobjective = \"throughput\"\n");
    assert_snapshot!(site.run(&["check"]), @r#"
    tessera.toml:24:9: Slurm has no partition debugg: these settings apply to no job
    name = "debugg"
            ^~~~~~  hint: did you mean debug?
    tessera.toml:25:14: objective = "throughput" has no effect: no [[nodes]] has a power_model
    objective = "throughput"
                 ^~~~~~~~~~  hint: add power_model to the [[nodes]] whose jobs a planner may pair; `tessera lab power fit` writes one
    tessera.toml: 2 problems; Slurm's daemons work with the file all the same
    exit 1
    "#);
    // Another file could have any partition.
    fs::write(site.path().join("slurm.conf"), "PartitionName=debug Nodes=ALL\ninclude more.conf\n").unwrap();
    with("[[partitions]]\nname = \"debugg\"\n");
    assert!(site.run(&["check"]).starts_with("tessera.toml: good"));
    // doctor says it as well, as far as it needs no Slurm.
    with("[[partitions]]\nname = \"debug\"\nobjective = \"efficiency\"\n");
    assert_snapshot!(site.run(&["doctor", "--node", "n2"]), @r#"
    ok   tessera.toml: 2 nodes in 2 sets
    bad  Slurm: cannot run `scontrol show config`: No such file or directory (os error 2)
    bad  tessera.toml:25:14: objective = "efficiency" has no effect: no [[nodes]] has a power_model (add power_model to the [[nodes]] whose jobs a planner may pair; `tessera lab power fit` writes one)
    skip journal, driver, device nodes and MPS: n2 is not this machine
    exit 1
    "#);
}
