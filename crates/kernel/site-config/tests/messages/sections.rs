//! `[defaults]`, `[mps]`, `[node]`, `[[limits]]`, `[bandwidth]` and `[[partitions]]`.

use insta::assert_snapshot;

use super::beside;

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
               ^  hint: write a size such as "10G"
    "#);
    assert_snapshot!(beside("[defaults]\ngpu_mem = \"80G\""), @r#"
    tessera.toml:2:12: gpu_mem = "80G" is more than any GPU here has
    gpu_mem = "80G"
               ^~~  hint: a100-40gb has 42.9 GB
    "#);
    assert_snapshot!(beside("[defaults]\nmps_threads = 101"), @r"
    tessera.toml:2:15: mps_threads = 101 is out of range
    mps_threads = 101
                  ^~~  hint: use 1 to 100
    ");
    assert_snapshot!(beside("[defaults]\nbandwidth = \"senstive\"\npattern = \"circle\""), @r#"
    tessera.toml:2:14: bandwidth cannot be "senstive"
    bandwidth = "senstive"
                 ^~~~~~~~  hint: did you mean sensitive?
    tessera.toml:3:12: pattern cannot be "circle"
    pattern = "circle"
               ^~~~~~  hint: use one of ring, tree, chain, star, all, none, ring+tree
    "#);
    assert_snapshot!(beside("[defaults]\nauto = [\"mig\", \"mig\", \"full\"]"), @r#"
    tessera.toml:2:17: auto lists mig twice
    auto = ["mig", "mig", "full"]
                    ^~~
    tessera.toml:2:24: auto cannot be "full"
    auto = ["mig", "mig", "full"]
                           ^~~~  hint: use one of mig, mps, whole
    "#);
    assert_snapshot!(beside("[defaults]\nauto = []"), @r"
    tessera.toml:2:1: auto is empty
    auto = []
    ^~~~  hint: leave it out to allow mig, mps and whole
    ");
}

#[test]
fn wrong_mps_and_node_settings_are_named_with_their_line() {
    assert_snapshot!(beside("[mps]\nmax_threads = 0\nmemory_limit = \"cgroup\""), @r#"
    tessera.toml:2:15: max_threads = 0 is out of range
    max_threads = 0
                  ^  hint: use 1 to 1000
    tessera.toml:3:17: memory_limit cannot be "cgroup"
    memory_limit = "cgroup"
                    ^~~~~~  hint: use one of mps, advisory
    "#);
    assert_snapshot!(beside("[node]\nmps_control = \"nvidia-cuda-mps-control\""), @r#"
    tessera.toml:2:16: mps_control = "nvidia-cuda-mps-control" is not an absolute path
    mps_control = "nvidia-cuda-mps-control"
                   ^~~~~~~~~~~~~~~~~~~~~~~  hint: begin it with /; %n stands for the node's name
    "#);
    assert_snapshot!(beside("[planner]\nlearn_from = \"site\""), @r#"
    tessera.toml:2:15: learn_from cannot be "site"
    learn_from = "site"
                  ^~~~  hint: use one of user, account
    "#);
    assert_snapshot!(beside("[node]\nstate_dir = \"tessera\"\noperation_timeout_ms = -1"), @r#"
    tessera.toml:2:14: state_dir = "tessera" is not an absolute path
    state_dir = "tessera"
                 ^~~~~~~  hint: begin it with /; %n stands for the node's name
    tessera.toml:3:24: operation_timeout_ms = -1 is out of range
    operation_timeout_ms = -1
                           ^~  hint: use 100 to 600000
    "#);
    assert_snapshot!(beside("[node]\ngpu_reset_command = [\"nvidia-smi\", \"--gpu-reset\"]\nmps_control = \"\""), @r#"
    tessera.toml:2:1: gpu_reset_command does not say which GPU
    gpu_reset_command = ["nvidia-smi", "--gpu-reset"]
    ^~~~~~~~~~~~~~~~~  hint: write %i in place of the GPU's index
    tessera.toml:3:15: mps_control = "" is not an absolute path
    mps_control = ""
                  ^~  hint: begin it with /; %n stands for the node's name
    "#);
    let long = format!("[node]\nrun_dir = \"/{}\"", "r".repeat(90));
    assert!(
        beside(&long).contains("run_dir has 91 characters: the paths of MPS's sockets would be too long")
    );
    assert!(beside(&long).contains("hint: use at most 78, including the node's name for %n"));
    assert_eq!(beside("[node]\nrun_dir = \"/run/tessera/%n\""), "");
}

#[test]
fn wrong_limits_are_named_with_their_line() {
    assert_snapshot!(beside("[[limits]]\nmax_instances = 2"), @r#"
    tessera.toml:1:1: [[limits]] names no partition, account, QOS or user
    [[limits]]
    ^~~~~~~~~~  hint: add one of partition = "…", account = "…", qos = "…", user = "…" and each_user = true
    "#);
    assert_snapshot!(beside("[[limits]]\nuser = \"alice\"\neach_user = true\nmax_gpus = 0\nmax_time_min = \"4h\""), @r#"
    tessera.toml:1:1: [[limits]] has user and each_user
    [[limits]]
    ^~~~~~~~~~  hint: leave one of them out
    tessera.toml:1:1: each_user needs a sum
    [[limits]]
    ^~~~~~~~~~  hint: add running_slices = 14 or running_gpus = 2
    tessera.toml:4:12: max_gpus = 0 is out of range
    max_gpus = 0
               ^  hint: use 1 to 1000000
    tessera.toml:5:17: max_time_min is a string, not a whole number
    max_time_min = "4h"
                    ^~
    "#);
    let many = "[[limits]]\naccount = \"a\"\nmax_gpus = 1\n".repeat(1025);
    assert!(beside(&many).starts_with("tessera.toml:3073:1: more than 1024 limits"), "{}", beside(&many));
    assert_snapshot!(beside("[limits]\npartition = \"debug\""), @r"
    tessera.toml:1:1: [limits] must be an array of tables
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
                                    ^~~~  hint: use mig, mig:PROFILE, mig-shared:INSTANCE, mps, gpu-tasks or whole
    tessera.toml:4:12: max_mem = "lots" is not a number with a suffix K, M, G or T
    max_mem = "lots"
               ^~~~  hint: write a size such as "10G"
    tessera.toml:5:17: max_instances = 0 is out of range
    max_instances = 0
                    ^  hint: use 1 to 1024
    "#
    );
}

#[test]
fn how_sets_are_chosen() {
    assert_snapshot!(beside("[defaults]\ngpu_set_policy = \"presreve\"\ngpu_wait = \"25\"\n[bandwidth]\nmodel = \"mapa\"\nslowest = 11\nsends = \"1\"\ncoefficients = [1, 2]"), @r#"
    tessera.toml:2:19: gpu_set_policy cannot be "presreve"
    gpu_set_policy = "presreve"
                      ^~~~~~~~  hint: did you mean preserve?
    tessera.toml:3:13: gpu_wait = "25" is not a bandwidth with a time
    gpu_wait = "25"
                ^~  hint: expected a bandwidth and a time such as 25GB/s,20:00 for 20 minutes, or none
    tessera.toml:5:10: model cannot be "mapa"
    model = "mapa"
             ^~~~  hint: use one of bottleneck, mapa2021
    tessera.toml:6:11: slowest = 11 is out of range
    slowest = 11
              ^~  hint: use 0 to 10
    tessera.toml:7:10: sends is a string, not a number
    sends = "1"
             ^
    tessera.toml:8:1: unknown key coefficients in [bandwidth]
    coefficients = [1, 2]
    ^~~~~~~~~~~~  hint: use one of learn, model, slowest, sends
    "#);
    assert_snapshot!(beside("[bandwidth]\nslowest = 0.6"), @r#"
    tessera.toml:2:1: slowest needs sends
    slowest = 0.6
    ^~~~~~~  hint: give both, as `tessera fit bandwidth` prints them
    "#);
    assert_snapshot!(beside("[bandwidth]\nslowest = 0.0\nsends = 0"), @r#"
    tessera.toml:2:1: slowest and sends are both 0
    slowest = 0.0
    ^~~~~~~  hint: one of them must be above 0
    "#);
    assert_snapshot!(beside("[bandwidth]\nmodel = \"mapa2021\"\nsends = 0.4"), @r#"
    tessera.toml:3:1: sends is not for model mapa2021, whose coefficients are fixed
    sends = 0.4
    ^~~~~  hint: leave slowest and sends out, or use model = "bottleneck"
    "#);
    assert_snapshot!(beside("[[partitions]]\ngpu_set_policy = \"greedy\"\n[[partitions]]\nname = \"a\"\n[[partitions]]\nname = \"a\"\npattern = \"rings\"\nbandwidth_model = \"eq2\"\nbandwidth = \"high\"\nnode_order = \"packed\"\npolicy = 1"), @r#"
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
                       ^~~  hint: use one of bottleneck, mapa2021
    tessera.toml:9:14: bandwidth cannot be "high"
    bandwidth = "high"
                 ^~~~  hint: use one of sensitive, insensitive
    tessera.toml:10:15: node_order cannot be "packed"
    node_order = "packed"
                  ^~~~~~  hint: did you mean pack?
    tessera.toml:11:1: unknown key policy in [partitions]
    policy = 1
    ^~~~~~  hint: use one of name, gpu_set_policy, bandwidth_model, pattern, bandwidth, gpu_wait, node_order, objective, alpha
    "#);
}

#[test]
fn wrong_power_settings_are_named_with_their_line() {
    assert_snapshot!(beside("[power]\nshared_memory = \"all\"\nwatts = 5\nobjective = \"speed\""), @r#"
    tessera.toml:2:18: shared_memory cannot be "all"
    shared_memory = "all"
                     ^~~  hint: did you mean any?
    tessera.toml:3:1: unknown key watts in [power]
    watts = 5
    ^~~~~  hint: use one of counters, shared_memory, alpha, auto_keeps, guard, energy, objective, stretch_limits
    tessera.toml:4:14: objective cannot be "speed"
    objective = "speed"
                 ^~~~~  hint: use one of off, throughput, efficiency
    "#);
}
