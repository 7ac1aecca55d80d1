//! `[[nodes]]`.

use insta::assert_snapshot;

use super::{errors, of_nodes};

#[test]
fn wrong_node_names_are_named_with_their_line() {
    let set = |names: &str| of_nodes(&format!("names = \"{names}\"\ngpu = \"a30-24gb\"\ncount = 4"));
    assert_snapshot!(set("n[1-"), @r#"
    tessera.toml:2:10: names = "n[1-" has a [ without a ]
    names = "n[1-"
             ^~~~  hint: write a Slurm hostlist such as n[1-4,7]
    "#);
    assert_snapshot!(set("n[3-1]"), @r#"
    tessera.toml:2:10: names = "n[3-1]" has the range 3-1, which ends before it begins
    names = "n[3-1]"
             ^~~~~~  hint: write a Slurm hostlist such as n[1-4,7]
    "#);
    assert_snapshot!(set("n1,n[1-2]"), @r#"
    tessera.toml:2:10: node n1 is named twice
    names = "n1,n[1-2]"
             ^~~~~~~~~
    "#);
    assert_snapshot!(set("n[1-9999999]"), @r#"
    tessera.toml:2:10: names = "n[1-9999999]" stands for more than 65536 names
    names = "n[1-9999999]"
             ^~~~~~~~~~~~  hint: write a Slurm hostlist such as n[1-4,7]
    "#);
}

#[test]
fn wrong_models_and_counts_are_named_with_their_line() {
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"NVIDIA A100-SXM4-40G\"\ncount = 8"), @r#"
    tessera.toml:3:8: unknown GPU model "NVIDIA A100-SXM4-40G"
    gpu = "NVIDIA A100-SXM4-40G"
           ^~~~~~~~~~~~~~~~~~~~  hint: did you mean NVIDIA A100-SXM4-40GB? `tessera profiles` lists all models
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"v100\"\ncount = 8"), @r#"
    tessera.toml:3:8: unknown GPU model "v100"
    gpu = "v100"
           ^~~~  hint: did you mean v100-16gb or v100-32gb? `tessera profiles` lists all models
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"v100-16gb\"\ncount = 8\nmig = \"dynamic\""), @r#"
    tessera.toml:5:1: no GPU of these nodes can be partitioned: v100-16gb has no MIG
    mig = "dynamic"
    ^~~  hint: leave mig out, or write mig = "off"
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"voodoo\"\ncount = 0"), @r#"
    tessera.toml:3:8: unknown GPU model "voodoo"
    gpu = "voodoo"
           ^~~~~~  hint: `tessera profiles` lists all models
    tessera.toml:4:9: count = 0 is out of range
    count = 0
            ^  hint: use 1 to 64
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"a30-24gb\""), @r#"
    tessera.toml:3:1: gpu needs count
    gpu = "a30-24gb"
    ^~~  hint: add count = 8, the number of GPUs of each node
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"a30-24gb\"\ngpus = [\"a30-24gb\"]"), @r#"
    tessera.toml:4:1: gpu and gpus are both given
    gpus = ["a30-24gb"]
    ^~~~  hint: use gpu for one model, or gpus for a list
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpus = [\"a30-24gb\", \"a31\"]\ncount = 3"), @r#"
    tessera.toml:3:22: unknown GPU model "a31"
    gpus = ["a30-24gb", "a31"]
                         ^~~  hint: did you mean A30? `tessera profiles` lists all models
    tessera.toml:4:9: count is 3, but gpus lists 2 GPUs
    count = 3
            ^  hint: leave count out
    "#);
}

#[test]
fn models_of_the_sites_own() {
    let own = |lines: &str| {
        let node = "[[nodes]]\nnames = \"n1\"\ngpu = \"x1-96gb\"\ncount = 1\n";
        errors(&format!("{node}[[models]]\n{lines}\n"))
    };
    let whole = "key = \"x1-96gb\"\nnames = [\"NVIDIA X1\"]\nmemory_mib = 97887\nsms = 142";
    assert_snapshot!(own(whole), @"");
    assert_snapshot!(own(&format!("{whole}\nmig = \"dynamic\"\nprofiles = []")), @r#"
    tessera.toml:3:8: the [[models]] of x1-96gb has errors
    gpu = "x1-96gb"
           ^~~~~~~
    tessera.toml:10:1: a [[models]] cannot describe MIG instances
    mig = "dynamic"
    ^~~  hint: leave mig out: the commands that check a job's options know only the profiles of `tessera profiles`; such a GPU serves whole GPUs and MPS shares
    tessera.toml:11:1: a [[models]] cannot describe MIG instances
    profiles = []
    ^~~~~~~~  hint: leave profiles out: the commands that check a job's options know only the profiles of `tessera profiles`; such a GPU serves whole GPUs and MPS shares
    "#);
    assert_snapshot!(own(&format!("{whole}\nusable_mib = 99000\nslices = 7")), @r"
    tessera.toml:10:14: usable_mib = 99000 is more than memory_mib = 97887
    usable_mib = 99000
                 ^~~~~
    tessera.toml:11:1: unknown key slices in [models]
    slices = 7
    ^~~~~~  hint: use one of key, names, memory_mib, usable_mib, nominal_gb, sms, arch
    ");
    assert_snapshot!(own(&whole.replace("97887", "\"96G\"")), @r#"
    tessera.toml:3:8: the [[models]] of x1-96gb has errors
    gpu = "x1-96gb"
           ^~~~~~~
    tessera.toml:8:15: memory_mib is a string, not a whole number
    memory_mib = "96G"
                  ^~~
    "#);
    assert_snapshot!(own("key = \"X1\""), @r#"
    tessera.toml:3:8: unknown GPU model "x1-96gb"
    gpu = "x1-96gb"
           ^~~~~~~  hint: did you mean h20-96gb? `tessera profiles` lists all models
    tessera.toml:5:1: [[models]] has no names
    [[models]]
    ^~~~~~~~~~  hint: add names = ["NVIDIA X1"], as `nvidia-smi -L` prints them
    tessera.toml:5:1: [[models]] has no memory_mib
    [[models]]
    ^~~~~~~~~~  hint: add memory_mib, as `nvidia-smi --query-gpu=memory.total` prints it
    tessera.toml:5:1: [[models]] has no sms
    [[models]]
    ^~~~~~~~~~  hint: add sms, the number of multiprocessors as deviceQuery prints it
    tessera.toml:6:8: key = "X1" is not a model's key
    key = "X1"
           ^~  hint: use lower-case letters, digits and dashes, such as x1-96gb
    "#);
    assert_snapshot!(own(&whole.replace("x1-96gb", "a100-40gb")), @r#"
    tessera.toml:3:8: unknown GPU model "x1-96gb"
    gpu = "x1-96gb"
           ^~~~~~~  hint: did you mean h20-96gb? `tessera profiles` lists all models
    tessera.toml:6:8: Tessera knows the model a100-40gb
    key = "a100-40gb"
           ^~~~~~~~~  hint: leave this [[models]] out, or give it another key
    "#);
}

#[test]
fn wrong_interconnects_are_named_with_their_line() {
    let two = |lines: &str| of_nodes(&format!("names = \"n1\"\ngpu = \"a30-24gb\"\ncount = 2\n{lines}"));
    assert_snapshot!(two("interconnect = \"dgx-v\""), @r#"
    tessera.toml:5:17: interconnect dgx-v links 8 GPUs, not 2
    interconnect = "dgx-v"
                    ^~~~~  hint: for another number of GPUs, give a matrix or discovered = FILE
    "#);
    assert_snapshot!(two("interconnect = \"dgx-q\""), @r#"
    tessera.toml:5:17: unknown interconnect "dgx-q"
    interconnect = "dgx-q"
                    ^~~~~  hint: did you mean dgx-v?
    "#);
    assert_snapshot!(two("interconnect = \"pcie\"\nmatrix = [[0, 1], [1, 0]]"), @r"
    tessera.toml:6:1: interconnect and matrix are both given
    matrix = [[0, 1], [1, 0]]
    ^~~~~~  hint: give only one of interconnect, matrix, discovered
    ");
    assert_snapshot!(two("matrix = [[0]]"), @r"
    tessera.toml:5:10: matrix has 1 row for 2 GPUs
    matrix = [[0]]
             ^~~~~
    ");
    assert_snapshot!(two("matrix = [[0, 25], [25]]"), @r"
    tessera.toml:5:20: this row has 1 value, but the matrix has 2 rows
    matrix = [[0, 25], [25]]
                       ^~~~
    ");
    assert_snapshot!(two("matrix = [[0, 25], [50, 0]]"), @r"
    tessera.toml:5:21: matrix has 50 from GPU 1 to GPU 0, but 25 from GPU 0 to GPU 1
    matrix = [[0, 25], [50, 0]]
                        ^~  hint: write the same value for both directions
    ");
    assert_snapshot!(two("matrix = [[10, 25], [25, 0]]"), @r#"
    tessera.toml:5:12: matrix has 10 between GPU 0 and itself
    matrix = [[10, 25], [25, 0]]
               ^~  hint: write 0 or "X"
    "#);
    assert_snapshot!(two("matrix = [[0, \"NV1\"], [25, 0]]"), @r#"
    tessera.toml:5:24: matrix has 25 from GPU 1 to GPU 0, but NV1 from GPU 0 to GPU 1
    matrix = [[0, "NV1"], [25, 0]]
                           ^~  hint: write the same value for both directions
    "#);
    assert_snapshot!(two("discovered = \"none.toml\""), @r#"
    tessera.toml:5:15: cannot read none.toml: entity not found
    discovered = "none.toml"
                  ^~~~~~~~~  hint: run `tessera discover` on such a node to write it
    "#);
    assert_snapshot!(two("discovered = \"empty.toml\""), @r#"
    tessera.toml:5:15: empty.toml has no links in [[nodes]]
    discovered = "empty.toml"
                  ^~~~~~~~~~  hint: `tessera discover` writes one
    "#);
    assert_snapshot!(two("discovered = \"bad.toml\""), @r"
    bad.toml:2:21: matrix has 50 from GPU 1 to GPU 0, but 25 from GPU 0 to GPU 1
    matrix = [[0, 25], [50, 0]]
                        ^~  hint: write the same value for both directions
    ");
    assert_snapshot!(two("discovered = \"dgx.toml\""), @r#"
    dgx.toml:2:17: no interconnect of this name links 2 GPUs
    interconnect = "dgx-v"
                    ^~~~~
    "#);
    assert_eq!(two("discovered = \"good.toml\""), "");
    assert_eq!(two("discovered = \"named.toml\""), "");
    assert_eq!(two("matrix = [[0, 2.5e1], [25, 0]]"), "");
}

#[test]
fn what_single_gpus_are_for() {
    let set = |keys: &str| of_nodes(&format!("names = \"n1\"\ngpu = \"a100-40gb\"\ncount = 4\n{keys}"));
    assert_snapshot!(set("gpu_use = { \"0-1\" = \"instances\" }"), @r#"
    tessera.toml:5:22: gpu_use cannot be "instances"
    gpu_use = { "0-1" = "instances" }
                         ^~~~~~~~~  hint: use one of mig, whole, mps, slurm
    "#);
    assert_snapshot!(set("gpu_use = { \"0,4\" = \"whole\", \"x\" = \"mps\", \"3-1\" = \"mig\" }"), @r#"
    tessera.toml:5:14: these nodes have no GPU 4
    gpu_use = { "0,4" = "whole", "x" = "mps", "3-1" = "mig" }
                 ^~~  hint: they have GPUs 0 to 3
    tessera.toml:5:31: gpu_use cannot be for GPUs "x"
    gpu_use = { "0,4" = "whole", "x" = "mps", "3-1" = "mig" }
                                  ^  hint: write GPU numbers such as "0-1,3"
    tessera.toml:5:44: gpu_use cannot be for GPUs "3-1"
    gpu_use = { "0,4" = "whole", "x" = "mps", "3-1" = "mig" }
                                               ^~~  hint: write GPU numbers such as "0-1,3"
    "#);
    assert_snapshot!(set("gpu_use = { \"0-2\" = \"whole\" }\nstatic = { \"2\" = [\"3g.20gb@0\"] }"), @r#"
    tessera.toml:6:13: GPU 2 is given two uses
    static = { "2" = ["3g.20gb@0"] }
                ^
    "#);
    assert_snapshot!(set("gpu_use = \"whole\"\nstatic = { 0 = \"3g.20gb@0\" }"), @r#"
    tessera.toml:5:12: gpu_use is a string, not a table
    gpu_use = "whole"
               ^~~~~
    tessera.toml:6:17: static is a string, not an array of instances such as "3g.20gb@0"
    static = { 0 = "3g.20gb@0" }
                    ^~~~~~~~~
    "#);
    assert_snapshot!(set("static = { \"0-1\" = [\"3g.20gb@1\"], 2 = [\"3g.20gb\"], 3 = [] }"), @r#"
    tessera.toml:5:22: 3g.20gb cannot start at 1 of a100-40gb
    static = { "0-1" = ["3g.20gb@1"], 2 = ["3g.20gb"], 3 = [] }
                         ^~~~~~~~~  hint: it can start at 0, 4
    tessera.toml:5:41: "3g.20gb" names no start
    static = { "0-1" = ["3g.20gb@1"], 2 = ["3g.20gb"], 3 = [] }
                                            ^~~~~~~  hint: write PROFILE@START such as "3g.20gb@0"
    tessera.toml:5:56: static has no instances
    static = { "0-1" = ["3g.20gb@1"], 2 = ["3g.20gb"], 3 = [] }
                                                           ^~  hint: write PROFILE@START such as "3g.20gb@0", or leave the GPU out
    "#);
    assert_snapshot!(set("static = { 0 = [\"3g.20gb@0\", \"2g.10gb@2\"], 1 = [\"2g.11gb@0\"] }"), @r#"
    tessera.toml:5:31: 2g.10gb@2 does not fit on one GPU with the others
    static = { 0 = ["3g.20gb@0", "2g.10gb@2"], 1 = ["2g.11gb@0"] }
                                  ^~~~~~~~~
    tessera.toml:5:50: profile 2g.11gb does not exist on a100-40gb
    static = { 0 = ["3g.20gb@0", "2g.10gb@2"], 1 = ["2g.11gb@0"] }
                                                     ^~~~~~~~~  hint: did you mean 2g.10gb?
    "#);
    assert_snapshot!(set("keep_uncut = 4\ngpu_use = { \"0\" = \"whole\" }"), @r#"
    tessera.toml:5:14: keep_uncut is 4, but only 3 GPUs may be had both whole and in parts
    keep_uncut = 4
                 ^  hint: count the GPUs without gpu_use and static, where mig is not "on"
    "#);
    assert_snapshot!(set("keep_uncut = 1\nmig = \"on\""), @r#"
    tessera.toml:5:14: keep_uncut is 1, but only 0 GPUs may be had both whole and in parts
    keep_uncut = 1
                 ^  hint: count the GPUs without gpu_use and static, where mig is not "on"
    "#);
}
