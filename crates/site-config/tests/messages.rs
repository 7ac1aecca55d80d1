//! What an admin reads for each thing that can be wrong in a `tessera.toml`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io;

use insta::assert_snapshot;

fn file(name: &str) -> io::Result<String> {
    match name {
        "good.toml" => Ok("[[nodes]]\nmatrix = [[0, 25], [25, 0]]\n".to_owned()),
        "bad.toml" => Ok("[[nodes]]\nmatrix = [[0, 25], [50, 0]]\n".to_owned()),
        "named.toml" => Ok("[[nodes]]\ninterconnect = \"pcie\"\n".to_owned()),
        "dgx.toml" => Ok("[[nodes]]\ninterconnect = \"dgx-v\"\n".to_owned()),
        "empty.toml" => Ok(String::new()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Every error as a terminal shows it.
fn errors(text: &str) -> String {
    let (config, errors) = site_config::parse("tessera.toml", text, &file);
    assert_eq!(config.is_some(), errors.is_empty());
    errors.iter().map(|e| e.render() + "\n").collect()
}

/// The errors of a text beside one good node set.
fn beside(text: &str) -> String {
    errors(&format!("{text}\n[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\n"))
}

/// The errors of a node set's own lines.
fn of_nodes(lines: &str) -> String {
    errors(&format!("[[nodes]]\n{lines}\n"))
}

#[test]
fn slurm_gets_one_line_per_error() {
    let text = "[defalts]\n[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40\"\ncount = 8\n";
    let (_, errors) = site_config::parse("/etc/slurm/tessera.toml", text, &file);
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    /etc/slurm/tessera.toml:1:2: unknown key defalts (did you mean defaults?)
    /etc/slurm/tessera.toml:4:8: unknown GPU model "a100-40" (did you mean a100-40gb? `tessera profiles` lists all models)
    "#);
}

#[test]
fn all_errors_at_once() {
    let text = r#"
[defaults]
isolation = "mig:2g.11gb"
gpu_mem = "5X"
[mps]
share_between_users = "no"
max_treads = 100
[[nodes]]
names = "n[1-2]"
gpu = "a100-40gb"
count = 4
interconnect = "dgx-v"
[[nodes]]
names = "n[2-3]"
gpu = "h100-80gb-sxm"
count = 4
mig = "yes"
"#;
    assert_snapshot!(errors(text), @r#"
    tessera.toml:3:14: profile 2g.11gb does not exist on a100-40gb or h100-80gb-sxm
    isolation = "mig:2g.11gb"
                 ^~~~~~~~~~~  hint: did you mean 2g.10gb? `tessera profiles` lists all
    tessera.toml:4:12: gpu_mem = "5X" has an unknown suffix: use K, M, G, T or Ki, Mi, Gi, Ti
    gpu_mem = "5X"
               ^~  hint: such as "10G"
    tessera.toml:6:24: share_between_users is a string, not true or false
    share_between_users = "no"
                           ^~
    tessera.toml:7:1: unknown key max_treads in [mps]
    max_treads = 100
    ^~~~~~~~~~  hint: did you mean max_threads?
    tessera.toml:12:17: interconnect dgx-v links 8 GPUs, not 4
    interconnect = "dgx-v"
                    ^~~~~  hint: give a matrix, or discovered = FILE, for another number
    tessera.toml:14:10: node n2 is already in names = "n[1-2]"
    names = "n[2-3]"
             ^~~~~~
    tessera.toml:17:8: mig cannot be "yes"
    mig = "yes"
           ^~~  hint: one of on, off, dynamic
    "#);
}

#[test]
fn syntax() {
    assert_snapshot!(errors("[defaults\ngpu_mem = 5G\n[[nodes]]\nnames = \"n1\n"), @r#"
    tessera.toml:1:10: unclosed table, expected `]`
    [defaults
             ^
    tessera.toml:4:12: invalid basic string, expected `"`
    names = "n1
               ^
    "#);
    assert_snapshot!(beside("[mps]\nmax_threads = 1\nmax_threads = 2"), @r"
    tessera.toml:3:1: duplicate key
    max_threads = 2
    ^~~~~~~~~~~
    ");
}

#[test]
fn nothing_described() {
    assert_snapshot!(errors(""), @r"
    tessera.toml:1:1: no nodes are described

    ^  hint: add [[nodes]] with names, gpu and count; `tessera discover` writes one
    ");
    assert_snapshot!(errors("[nodes]\nnames = \"n1\""), @r"
    tessera.toml:1:1: [nodes] is one table
    [nodes]
    ^~~~~~~  hint: write [[nodes]]
    ");
    assert_snapshot!(of_nodes("mig = \"on\""), @r#"
    tessera.toml:1:1: [[nodes]] has no names
    [[nodes]]
    ^~~~~~~~~  hint: add names = "n[1-2]", a Slurm hostlist
    tessera.toml:1:1: [[nodes]] has no gpu
    [[nodes]]
    ^~~~~~~~~  hint: add gpu = "a100-40gb" and count = 8
    "#);
}

#[test]
fn unknown_keys() {
    assert_snapshot!(beside("[limit]\npartition = \"debug\""), @r"
    tessera.toml:1:2: unknown key limit
    [limit]
     ^~~~~  hint: did you mean limits?
    ");
    assert_snapshot!(beside("[defaults]\ngpu_memory = \"5G\""), @r#"
    tessera.toml:2:1: unknown key gpu_memory in [defaults]
    gpu_memory = "5G"
    ^~~~~~~~~~  hint: did you mean gpu_mem?
    "#);
    assert_snapshot!(beside("[node]\ncolour = \"red\""), @r#"
    tessera.toml:2:1: unknown key colour in [node]
    colour = "red"
    ^~~~~~  hint: one of dev_root, proc_root, state_dir, run_dir, nvml_library, mps_control, gpu_reset_command, operation_timeout_ms, manage_device_nodes
    "#);
}

#[test]
fn wrong_types() {
    assert_snapshot!(beside("[defaults]\ngpu_mem = 5000\nmps_threads = \"25%\"\nauto = \"mig\""), @r#"
    tessera.toml:2:11: gpu_mem is a number, not a string
    gpu_mem = 5000
              ^~~~  hint: put it in quotes
    tessera.toml:3:16: mps_threads is a string, not a whole number
    mps_threads = "25%"
                   ^~~
    tessera.toml:4:9: auto is a string, not an array of strings
    auto = "mig"
            ^~~
    "#);
    assert_snapshot!(beside("mps = 3"), @r"
    tessera.toml:1:7: mps is a number, not a table
    mps = 3
          ^
    ");
    assert_snapshot!(of_nodes("names = [\"n1\"]\ngpu = \"a100-40gb\"\ncount = 8.0"), @r#"
    tessera.toml:2:9: names is an array, not a string
    names = ["n1"]
            ^~~~~~
    tessera.toml:4:9: count is a number with a point, not a whole number
    count = 8.0
            ^~~
    "#);
}

#[test]
fn impossible_defaults() {
    assert_snapshot!(beside("[defaults]\nisolation = \"mug\""), @r#"
    tessera.toml:2:14: isolation cannot be "mug"
    isolation = "mug"
                 ^~~  hint: did you mean mig?
    "#);
    assert_snapshot!(beside("[defaults]\nisolation = \"mig:1g.6gb\""), @r#"
    tessera.toml:2:14: profile 1g.6gb does not exist on a100-40gb
    isolation = "mig:1g.6gb"
                 ^~~~~~~~~~  hint: did you mean 1g.5gb? `tessera profiles` lists all
    "#);
    assert_snapshot!(beside("[defaults]\nisolation = \"mig:A B\""), @r#"
    tessera.toml:2:14: isolation cannot be "mig:A B"
    isolation = "mig:A B"
                 ^~~~~~~  hint: `tessera profiles` lists all
    "#);
    assert_snapshot!(beside("[defaults]\ngpu_mem = \"0\""), @r#"
    tessera.toml:2:12: gpu_mem = "0" is zero
    gpu_mem = "0"
               ^  hint: such as "10G"
    "#);
    assert_snapshot!(beside("[defaults]\ngpu_mem = \"80G\""), @r#"
    tessera.toml:2:12: gpu_mem = "80G" is more than any GPU here has
    gpu_mem = "80G"
               ^~~  hint: a100-40gb has 42.9 GB
    "#);
    assert_snapshot!(beside("[defaults]\nmps_threads = 101"), @r"
    tessera.toml:2:15: mps_threads = 101 is out of range
    mps_threads = 101
                  ^~~  hint: 1 to 100
    ");
    assert_snapshot!(beside("[defaults]\nbandwidth = \"senstive\"\npattern = \"circle\""), @r#"
    tessera.toml:2:14: bandwidth cannot be "senstive"
    bandwidth = "senstive"
                 ^~~~~~~~  hint: did you mean sensitive?
    tessera.toml:3:12: pattern cannot be "circle"
    pattern = "circle"
               ^~~~~~  hint: one of ring, tree, chain, star, all, none, ring+tree
    "#);
    assert_snapshot!(beside("[defaults]\nauto = [\"mig\", \"mig\", \"full\"]"), @r#"
    tessera.toml:2:17: auto has mig twice
    auto = ["mig", "mig", "full"]
                    ^~~
    tessera.toml:2:24: auto cannot be "full"
    auto = ["mig", "mig", "full"]
                           ^~~~  hint: one of mig, mps, whole
    "#);
    assert_snapshot!(beside("[defaults]\nauto = []"), @r"
    tessera.toml:2:1: auto is empty
    auto = []
    ^~~~  hint: leave it out for all of mig, mps, whole
    ");
}

#[test]
fn mps_and_node() {
    assert_snapshot!(beside("[mps]\nmax_threads = 0\nmemory_limit = \"cgroup\""), @r#"
    tessera.toml:2:15: max_threads = 0 is out of range
    max_threads = 0
                  ^  hint: 1 to 1000
    tessera.toml:3:17: memory_limit cannot be "cgroup"
    memory_limit = "cgroup"
                    ^~~~~~  hint: one of mps, advisory
    "#);
    assert_snapshot!(beside("[node]\nstate_dir = \"tessera\"\noperation_timeout_ms = -1"), @r#"
    tessera.toml:2:14: state_dir = "tessera" is not an absolute path
    state_dir = "tessera"
                 ^~~~~~~  hint: begin it with /; %n stands for the node's name
    tessera.toml:3:24: operation_timeout_ms = -1 is out of range
    operation_timeout_ms = -1
                           ^~  hint: 100 to 600000
    "#);
    assert_snapshot!(beside("[node]\ngpu_reset_command = [\"nvidia-smi\", \"--gpu-reset\"]\nmps_control = \"\""), @r#"
    tessera.toml:2:1: gpu_reset_command does not say which GPU
    gpu_reset_command = ["nvidia-smi", "--gpu-reset"]
    ^~~~~~~~~~~~~~~~~  hint: write %i where the GPU's index goes
    tessera.toml:3:15: mps_control is empty
    mps_control = ""
                  ^~
    "#);
}

#[test]
fn node_names() {
    let set = |names: &str| of_nodes(&format!("names = \"{names}\"\ngpu = \"a30-24gb\"\ncount = 4"));
    assert_snapshot!(set("n[1-"), @r#"
    tessera.toml:2:10: names = "n[1-" has a [ without a ]
    names = "n[1-"
             ^~~~  hint: a Slurm hostlist such as n[1-4,7]
    "#);
    assert_snapshot!(set("n[3-1]"), @r#"
    tessera.toml:2:10: names = "n[3-1]" has the range 3-1, which ends before it begins
    names = "n[3-1]"
             ^~~~~~  hint: a Slurm hostlist such as n[1-4,7]
    "#);
    assert_snapshot!(set("n1,n[1-2]"), @r#"
    tessera.toml:2:10: node n1 is named twice
    names = "n1,n[1-2]"
             ^~~~~~~~~
    "#);
    assert_snapshot!(set("n[1-9999999]"), @r#"
    tessera.toml:2:10: names = "n[1-9999999]" stands for more than 65536 names
    names = "n[1-9999999]"
             ^~~~~~~~~~~~  hint: a Slurm hostlist such as n[1-4,7]
    "#);
}

#[test]
fn models_and_counts() {
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"NVIDIA A100-SXM4-40G\"\ncount = 8"), @r#"
    tessera.toml:3:8: unknown GPU model "NVIDIA A100-SXM4-40G"
    gpu = "NVIDIA A100-SXM4-40G"
           ^~~~~~~~~~~~~~~~~~~~  hint: did you mean NVIDIA A100-SXM4-40GB? `tessera profiles` lists all models
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"voodoo\"\ncount = 0"), @r#"
    tessera.toml:3:8: unknown GPU model "voodoo"
    gpu = "voodoo"
           ^~~~~~  hint: `tessera profiles` lists all models
    tessera.toml:4:9: count = 0 is out of range
    count = 0
            ^  hint: 1 to 64
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"a30-24gb\""), @r#"
    tessera.toml:3:1: gpu without count
    gpu = "a30-24gb"
    ^~~  hint: add count = 8, the GPUs of each node
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpu = \"a30-24gb\"\ngpus = [\"a30-24gb\"]"), @r#"
    tessera.toml:4:1: gpu and gpus are both given
    gpus = ["a30-24gb"]
    ^~~~  hint: gpu for one model, gpus for a list
    "#);
    assert_snapshot!(of_nodes("names = \"n1\"\ngpus = [\"a30-24gb\", \"a31\"]\ncount = 3"), @r#"
    tessera.toml:3:22: unknown GPU model "a31"
    gpus = ["a30-24gb", "a31"]
                         ^~~  hint: did you mean A30? `tessera profiles` lists all models
    tessera.toml:4:9: count = 3 but gpus lists 2
    count = 3
            ^  hint: leave count out
    "#);
}

#[test]
fn interconnects() {
    let two = |lines: &str| of_nodes(&format!("names = \"n1\"\ngpu = \"a30-24gb\"\ncount = 2\n{lines}"));
    assert_snapshot!(two("interconnect = \"dgx-v\""), @r#"
    tessera.toml:5:17: interconnect dgx-v links 8 GPUs, not 2
    interconnect = "dgx-v"
                    ^~~~~  hint: give a matrix, or discovered = FILE, for another number
    "#);
    assert_snapshot!(two("interconnect = \"dgx-q\""), @r#"
    tessera.toml:5:17: unknown interconnect "dgx-q"
    interconnect = "dgx-q"
                    ^~~~~  hint: did you mean dgx-v?
    "#);
    assert_snapshot!(two("interconnect = \"pcie\"\nmatrix = [[0, 1], [1, 0]]"), @r"
    tessera.toml:6:1: interconnect and matrix are both given
    matrix = [[0, 1], [1, 0]]
    ^~~~~~  hint: one of interconnect, matrix, discovered
    ");
    assert_snapshot!(two("matrix = [[0]]"), @r"
    tessera.toml:5:10: matrix has 1 rows for 2 GPUs
    matrix = [[0]]
             ^~~~~
    ");
    assert_snapshot!(two("matrix = [[0, 25], [25]]"), @r"
    tessera.toml:5:20: this row has 1 entries in a matrix of 2 rows
    matrix = [[0, 25], [25]]
                       ^~~~
    ");
    assert_snapshot!(two("matrix = [[0, 25], [50, 0]]"), @r"
    tessera.toml:5:21: matrix has 50 from GPU 1 to 0 but 25 back
    matrix = [[0, 25], [50, 0]]
                        ^~  hint: both directions are the same
    ");
    assert_snapshot!(two("matrix = [[10, 25], [25, 0]]"), @r#"
    tessera.toml:5:12: matrix has 10 between GPU 0 and itself
    matrix = [[10, 25], [25, 0]]
               ^~  hint: write 0 or "X"
    "#);
    assert_snapshot!(two("matrix = [[0, \"NV1\"], [25, 0]]"), @r#"
    tessera.toml:5:24: matrix has 25 from GPU 1 to 0 but NV1 back
    matrix = [[0, "NV1"], [25, 0]]
                           ^~  hint: both directions are the same
    "#);
    assert_snapshot!(two("discovered = \"none.toml\""), @r#"
    tessera.toml:5:15: cannot read none.toml: entity not found
    discovered = "none.toml"
                  ^~~~~~~~~  hint: `tessera discover` on such a node writes it
    "#);
    assert_snapshot!(two("discovered = \"empty.toml\""), @r#"
    tessera.toml:5:15: empty.toml has no links in [[nodes]]
    discovered = "empty.toml"
                  ^~~~~~~~~~  hint: `tessera discover` writes one
    "#);
    assert_snapshot!(two("discovered = \"bad.toml\""), @r"
    bad.toml:2:21: matrix has 50 from GPU 1 to 0 but 25 back
    matrix = [[0, 25], [50, 0]]
                        ^~  hint: both directions are the same
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
fn limits() {
    assert_snapshot!(beside("[[limits]]\nmax_instances = 2"), @r#"
    tessera.toml:1:1: [[limits]] does not say for whom
    [[limits]]
    ^~~~~~~~~~  hint: add partition = "…" or account = "…"
    "#);
    assert_snapshot!(beside("[limits]\npartition = \"debug\""), @r"
    tessera.toml:1:1: [limits] is one table
    [limits]
    ^~~~~~~~  hint: write [[limits]]
    ");
    assert_snapshot!(
        beside("[[limits]]\naccount = \"a\"\nisolation = [\"mig:1g.10gb.me\", \"auto\"]\nmax_mem = \"lots\"\nmax_instances = 0"),
        @r#"
    tessera.toml:3:15: profile 1g.10gb.me does not exist on a100-40gb
    isolation = ["mig:1g.10gb.me", "auto"]
                  ^~~~~~~~~~~~~~  hint: did you mean 1g.5gb+me? `tessera profiles` lists all
    tessera.toml:3:33: isolation cannot be limited to auto
    isolation = ["mig:1g.10gb.me", "auto"]
                                    ^~~~  hint: mig, mig:PROFILE, mps or whole
    tessera.toml:4:12: max_mem = "lots" is not a number with a suffix K, M, G or T
    max_mem = "lots"
               ^~~~  hint: such as "10G"
    tessera.toml:5:17: max_instances = 0 is out of range
    max_instances = 0
                    ^  hint: 1 to 1024
    "#
    );
}

#[test]
fn columns_count_characters_and_tabs_stay() {
    assert_snapshot!(beside("[defaults]\n\tpattern = \"größer\" # ü\n"), @r#"
    tessera.toml:2:13: pattern cannot be "größer"
    	pattern = "größer" # ü
    	           ^~~~~~  hint: one of ring, tree, chain, star, all, none, ring+tree
    "#);
}

#[test]
fn how_sets_are_chosen() {
    assert_snapshot!(beside("[defaults]\ngpu_set_policy = \"presreve\"\ngpu_wait = \"25\"\n[bandwidth]\nmodel = \"mapa\"\nslowest = 11\nsends = \"1\"\ncoefficients = [1, 2]"), @r#"
    tessera.toml:2:19: gpu_set_policy cannot be "presreve"
    gpu_set_policy = "presreve"
                      ^~~~~~~~  hint: did you mean preserve?
    tessera.toml:3:13: gpu_wait = "25" is no bandwidth with a time
    gpu_wait = "25"
                ^~  hint: expected GBPS:TIME, a bandwidth and seconds or H:MM:SS, such as 25:20:00, or none
    tessera.toml:5:10: model cannot be "mapa"
    model = "mapa"
             ^~~~  hint: one of bottleneck, mapa2021
    tessera.toml:6:11: slowest = 11 is out of range
    slowest = 11
              ^~  hint: 0 to 10
    tessera.toml:7:10: sends is a string, not a number
    sends = "1"
             ^
    tessera.toml:8:1: unknown key coefficients in [bandwidth]
    coefficients = [1, 2]
    ^~~~~~~~~~~~  hint: one of model, slowest, sends
    "#);
    assert_snapshot!(beside("[bandwidth]\nslowest = 0.6"), @r#"
    tessera.toml:2:1: slowest without sends
    slowest = 0.6
    ^~~~~~~  hint: give both, as `tessera fit bandwidth` prints them
    "#);
    assert_snapshot!(beside("[bandwidth]\nslowest = 0.0\nsends = 0"), @r#"
    tessera.toml:2:1: slowest and sends are both 0
    slowest = 0.0
    ^~~~~~~  hint: one of them must be above 0
    "#);
    assert_snapshot!(beside("[bandwidth]\nmodel = \"mapa2021\"\nsends = 0.4"), @r#"
    tessera.toml:3:1: sends with model mapa2021, whose coefficients are fixed
    sends = 0.4
    ^~~~~  hint: leave slowest and sends out, or take model = "bottleneck"
    "#);
    assert_snapshot!(beside("[[partitions]]\ngpu_set_policy = \"greedy\"\n[[partitions]]\nname = \"a\"\n[[partitions]]\nname = \"a\"\npattern = \"rings\"\nbandwidth_model = \"eq2\"\nbandwidth = \"high\"\npolicy = 1"), @r#"
    tessera.toml:1:1: [[partitions]] has no name
    [[partitions]]
    ^~~~~~~~~~~~~~  hint: add name = "…", a partition of slurm.conf
    tessera.toml:6:9: partition a is described twice
    name = "a"
            ^  hint: put its keys into one [[partitions]]
    tessera.toml:7:12: pattern cannot be "rings"
    pattern = "rings"
               ^~~~~  hint: did you mean ring?
    tessera.toml:8:20: bandwidth_model cannot be "eq2"
    bandwidth_model = "eq2"
                       ^~~  hint: one of bottleneck, mapa2021
    tessera.toml:9:14: bandwidth cannot be "high"
    bandwidth = "high"
                 ^~~~  hint: one of sensitive, insensitive
    tessera.toml:10:1: unknown key policy in [partitions]
    policy = 1
    ^~~~~~  hint: one of name, gpu_set_policy, bandwidth_model, pattern, bandwidth, gpu_wait
    "#);
}
