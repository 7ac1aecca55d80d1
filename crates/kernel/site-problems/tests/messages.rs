//! What a good file asks for in vain.

use std::collections::HashMap;
use std::path::Path;

use insta::assert_snapshot;
use site_config::ConfigError;
use site_problems::{
    OnNode, SlurmNames, own_problems, problems_on_node, state_lost_at_reboot, unknown_to_slurm,
};

const NODES: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 8\n";

/// No file beside it is read.
fn none(_: &str) -> std::io::Result<String> {
    Err(std::io::ErrorKind::NotFound.into())
}

fn rendered(text: &str, find: impl Fn(&str) -> Vec<ConfigError>) -> String {
    assert!(site_config::parse("tessera.toml", text, &none).0.is_some(), "the file is good");
    find(text).iter().map(|e| site_problems::shown(e) + "\n").collect()
}

/// The problems that the file alone shows, of a text beside one good node set.
fn own(text: &str) -> String {
    let text = format!("{text}\n{NODES}");
    rendered(&text, |text| {
        [own_problems("tessera.toml", text), state_lost_at_reboot("tessera.toml", text)].concat()
    })
}

fn slurm(text: &str, types: &[(&str, &str)]) -> String {
    let some = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
    let kind = |(node, kind): &(&str, &str)| ((*node).to_owned(), vec![(*kind).to_owned()]);
    let names = SlurmNames {
        partitions: some(&["gpu", "debug"]),
        accounts: some(&["root", "physics"]),
        gpu_types: types.iter().map(kind).collect(),
        ..SlurmNames::default()
    };
    rendered(&format!("{text}\n{NODES}"), |text| unknown_to_slurm("tessera.toml", text, &names))
}

#[test]
fn power_limits_that_no_board_takes() {
    let nodes =
        |gpus: &str, cap: u32| format!("[[nodes]]\nnames = \"p[1-2]\"\n{gpus}\ncap_w = {cap}\nidle_w = 4\n");
    let one = |gpus: &str, cap| own(&nodes(gpus, cap));
    assert_snapshot!(one("gpu = \"a100-80gb\"\ncount = 8", 5000), @r"
    tessera.toml:5:9: cap_w = 5000: no board of a100-80gb takes this power limit
    cap_w = 5000
            ^~~~  hint: boards of a100-80gb take 100 to 400 W
    ");
    assert_snapshot!(one("gpus = [\"v100-16gb\", \"t4-16gb\"]", 80), @r"
    tessera.toml:4:9: cap_w = 80: no board of t4-16gb takes this power limit
    cap_w = 80
            ^~  hint: boards of t4-16gb take at most 70 W
    ");
    assert!(one("gpu = \"v100-16gb\"\ncount = 8", 20).contains("cap_w = 20: no board of v100-16gb"));
    for (gpu, cap) in
        [("NVIDIA A100-PCIE-40GB", 150), ("a100-40gb", 100), ("v100-16gb", 60), ("h200-141gb", 700)]
    {
        assert_eq!(one(&format!("gpu = \"{gpu}\"\ncount = 8"), cap), "", "{gpu}");
    }
    let budget = "[[power_budgets]]\nnodes = \"p1\"\nwatts = 4000\nfloor_w = 20\n";
    assert_snapshot!(own(&(nodes("gpu = \"h100-80gb-sxm\"\ncount = 2", 700) + budget)), @r"
    tessera.toml:10:11: floor_w = 20: no board of h100-80gb-sxm takes this power limit
    floor_w = 20
              ^~  hint: boards of h100-80gb-sxm take 200 to 700 W
    ");
}

#[test]
fn names_that_slurm_does_not_have() {
    let file = "[[limits]]\npartition = \"gpuu\"\naccount = \"phisics\"\n[[partitions]]\nname = \"gpux\"\n\
                [[limits]]\npartition = \"nights\"\n[[limits]]\naccount = \"nobody-here\"";
    assert_snapshot!(slurm(file, &[]), @r#"
    tessera.toml:2:14: Slurm has no partition gpuu: this limit applies to no job
    partition = "gpuu"
                 ^~~~  hint: did you mean gpu?
    tessera.toml:3:12: Slurm has no account phisics: this limit applies to no job
    account = "phisics"
               ^~~~~~~  hint: did you mean physics?
    tessera.toml:5:9: Slurm has no partition gpux: these settings apply to no job
    name = "gpux"
            ^~~~  hint: did you mean gpu?
    tessera.toml:7:14: Slurm has no partition nights: this limit applies to no job
    partition = "nights"
                 ^~~~~~  hint: use a partition of slurm.conf
    tessera.toml:9:12: Slurm has no account nobody-here: this limit applies to no job
    account = "nobody-here"
               ^~~~~~~~~~~  hint: `sacctmgr show account` lists the accounts
    "#);
    let good = "[[limits]]\npartition = \"gpu\"\naccount = \"Physics\"\n[[partitions]]\nname = \"debug\"";
    assert_eq!(slurm(good, &[("n1", "a100"), ("n9", "h100")]), "");
    let unknown = unknown_to_slurm("t", &format!("{file}\n{NODES}"), &SlurmNames::default());
    assert!(unknown.is_empty(), "nothing is known of Slurm");
}

#[test]
fn a_type_of_slurms_that_names_another_gpu() {
    assert_snapshot!(slurm("", &[("n1", "a100"), ("n2", "h100")]), @r#"
    tessera.toml:4:8: slurm.conf calls the GPUs of n2 h100, this file a100-40gb
    gpu = "a100-40gb"
           ^~~~~~~~~  hint: correct this model, or the type in slurm.conf and gres.conf
    "#);
    let gpus = "[[nodes]]\nnames = \"m1\"\ngpus = [\"a100-40gb\", \"h100-80gb-sxm\"]";
    assert_eq!(slurm(gpus, &[("m1", "h100")]), "");
    assert_snapshot!(slurm(gpus, &[("m1", "v100")]), @r#"
    tessera.toml:3:10: slurm.conf calls the GPUs of m1 v100, this file a100-40gb and h100-80gb-sxm
    gpus = ["a100-40gb", "h100-80gb-sxm"]
             ^~~~~~~~~  hint: correct this model, or the type in slurm.conf and gres.conf
    "#);
    let own = "[[models]]\nkey = \"x1-96gb\"\nnames = [\"NVIDIA X1\"]\nmemory_mib = 98304\nsms = 100\n\
               [[nodes]]\nnames = \"m1\"\ngpu = \"x1-96gb\"\ncount = 2";
    assert_eq!(slurm(own, &[("m1", "h100")]), "", "a site's own model may be called anything");
}

#[test]
fn directories_that_lie_in_each_other_or_are_lost() {
    assert_snapshot!(own("[node]\nstate_dir = \"/var/tessera\"\nrun_dir = \"/var/tessera/\""), @r#"
    tessera.toml:2:14: state_dir and run_dir are the same directory, /var/tessera
    state_dir = "/var/tessera"
                 ^~~~~~~~~~~~  hint: give each a directory of its own: users write below run_dir, only root below state_dir
    "#);
    assert_snapshot!(own("[node]\nstate_dir = \"/run/tessera/state\""), @r#"
    tessera.toml:2:14: state_dir = /run/tessera/state is inside run_dir = /run/tessera
    state_dir = "/run/tessera/state"
                 ^~~~~~~~~~~~~~~~~~  hint: give each a directory of its own: users write below run_dir, only root below state_dir
    tessera.toml:2:14: state_dir = "/run/tessera/state" is lost at a reboot: /run is in memory
    state_dir = "/run/tessera/state"
                 ^~~~~~~~~~~~~~~~~~  hint: use a directory on a disk, such as /var/lib/tessera
    "#);
    assert_snapshot!(own("[node]\nrun_dir = \"/var/lib/tessera/run\""), @r#"
    tessera.toml:2:12: run_dir = /var/lib/tessera/run is inside state_dir = /var/lib/tessera
    run_dir = "/var/lib/tessera/run"
               ^~~~~~~~~~~~~~~~~~~~  hint: give each a directory of its own: users write below run_dir, only root below state_dir
    "#);
    assert_snapshot!(own("[node]\nstate_dir = \"/tmp/%n/tessera\""), @r#"
    tessera.toml:2:14: state_dir = "/tmp/%n/tessera" may be lost at a reboot: many systems empty /tmp then
    state_dir = "/tmp/%n/tessera"
                 ^~~~~~~~~~~~~~~  hint: use a directory on a disk, such as /var/lib/tessera
    "#);
    assert_eq!(own("[node]\nstate_dir = \"/var/tmp/tessera\"\nrun_dir = \"/run/tessera-%n\""), "");
}

#[test]
fn an_objective_that_no_model_serves() {
    assert_snapshot!(own("[power]\nobjective = \"throughput\"\n[[partitions]]\nname = \"a\"\nobjective = \"efficiency\"\n[[partitions]]\nname = \"b\"\nobjective = \"off\""), @r#"
    tessera.toml:2:14: objective = "throughput" has no effect: no [[nodes]] has a power_model
    objective = "throughput"
                 ^~~~~~~~~~  hint: add power_model to the [[nodes]] whose jobs a planner may pair; `tessera lab power fit` writes one
    tessera.toml:5:14: objective = "efficiency" has no effect: no [[nodes]] has a power_model
    objective = "efficiency"
                 ^~~~~~~~~~  hint: add power_model to the [[nodes]] whose jobs a planner may pair; `tessera lab power fit` writes one
    "#);
    assert_eq!(own("[power]\nobjective = \"off\""), "");
}

#[test]
fn what_a_node_does_not_have() {
    let file = "[node]\nnvml_library = \"/opt/%n/libnvidia-ml.so.1\"\nmps_control = \"/opt/mps\"\ndev_root = \"/dev\"\n\
                proc_root = \"/proc2\"\ntask_library = \"/opt/task.so\"\n\
                [[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\ncap_w = 5000\nidle_w = 10\n\
                [[nodes]]\nnames = \"n3\"\ngpu = \"a100-40gb\"\ncount = 2\ncap_w = 20\n\
                [[power_budgets]]\nnodes = \"n[1-2]\"\nwatts = 20000\nfloor_w = 46\n";
    let on = |name: &str, text: &str| {
        let exists = |path: &Path| path == Path::new("/dev");
        let node = OnNode { name, exists: &exists, limits_w: &[(0, 40, 400), (1, 100, 400)] };
        rendered(text, |text| problems_on_node("tessera.toml", text, &node))
    };
    assert_snapshot!(on("n1", file), @r#"
    tessera.toml:2:17: /opt/n1/libnvidia-ml.so.1 does not exist on n1: no job with GPUs can start
    nvml_library = "/opt/%n/libnvidia-ml.so.1"
                    ^~~~~~~~~~~~~~~~~~~~~~~~~  hint: correct nvml_library, or install what is missing
    tessera.toml:3:16: /opt/mps does not exist on n1: no job with a share can start
    mps_control = "/opt/mps"
                   ^~~~~~~~  hint: correct mps_control, or install what is missing
    tessera.toml:5:14: /proc2 does not exist on n1: the driver's files are not found there
    proc_root = "/proc2"
                 ^~~~~~  hint: correct proc_root, or install what is missing
    tessera.toml:11:9: cap_w = 5000 is no power limit that GPU 0 of n1 takes
    cap_w = 5000
            ^~~~  hint: use 40 to 400
    tessera.toml:21:11: floor_w = 46 is no power limit that GPU 1 of n1 takes
    floor_w = 46
              ^~  hint: use 100 to 400
    "#);
    let caps: HashMap<&str, usize> =
        ["n2", "n3", "n4"].map(|n| (n, on(n, file).matches("_w = ").count() / 2)).into();
    assert_eq!((caps["n2"], caps["n3"], caps["n4"]), (2, 1, 0));
    assert!(on("n1", &format!("[tasks]\n{file}")).contains("/opt/task.so does not exist on n1"));
    let by_name = format!("[node]\nnvml_library = \"libnvidia-ml.so.1\"\n{NODES}");
    assert_eq!(on("n1", &by_name), "", "the dynamic linker finds it");
}
