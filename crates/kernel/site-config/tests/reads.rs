//! What a good `tessera.toml` is read as.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use geometry::GpuIndex;
use node_state::{Kind, MigPolicy, SetPolicy};
use protocol::{Bandwidth, Isolation, Request, SetWait};
use site_config::{LearnFrom, MemoryLimit, Most, SiteConfig, VisibleDevices, config_path, parse};
use site_limits::{Submission, limit, limits_of, node_of, policy_for, sets};
use topology::{BandwidthModel, Coefficients, Pattern, Selection};

const FULL: &str = r#"
[defaults]
isolation = "mig"
gpu_mem = "5G"
mps_threads = 25
bandwidth = "insensitive"
pattern = "tree"
gpu_set_policy = "greedy"
gpu_wait = "25GB/s,20:00"
auto = ["mps", "whole"]

[bandwidth]
model = "bottleneck"
slowest = 0.7
sends = 1
learn = true

[mps]
share_between_users = true
max_threads = 200
memory_limit = "advisory"

[planner]
learn_from = "account"
[submission]
tell_slurm_limits = false
[node]
dev_root = "/tmp/%n/dev"
proc_root = "/tmp/%n/proc"
cgroup_root = "/tmp/%n/cgroup"
state_dir = "/tmp/%n/state"
run_dir = "/tmp/%n/run"
nvml_library = "/opt/sim/libnvidia-ml.so.1"
mps_control = "/opt/mps/%n"
gpu_reset_command = ["reset", "%n", "%i"]
gpu_clients_command = ["/etc/tessera/clients-%n", "%a", "%i"]
operation_timeout_ms = 1_000
manage_device_nodes = false
visible_devices = "uuids"
plain_notice = false

[[nodes]]
names = "n[1-2]"
gpu = "NVIDIA A100-SXM4-40GB"
count = 8
interconnect = "dgx-v"
memory_fence = true

[[nodes]]
names = "mixed"
gpus = ["a100-40gb", "a30-24gb"]
mig = "off"
matrix = [[0, 12.5], [12.5, 0]]

[[partitions]]
name = "paper"
gpu_set_policy = "preserve"
bandwidth_model = "mapa2021"
pattern = "ring+tree"
bandwidth = "sensitive"
gpu_wait = "40GB/s,60s"

[[partitions]]
name = "plain"
bandwidth_model = "bottleneck"

[[partitions]]
name = "hurried"
gpu_wait = "none"

[[limits]]
partition = "debug"
isolation = ["mig:1g.5gb", "mps"]
max_instances = 2
max_mem = "40G"
"#;

fn read(text: &str) -> SiteConfig {
    let (config, errors) = parse("tessera.toml", text, &|_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    config.unwrap()
}

#[test]
fn every_key_of_a_full_file_is_read() {
    let config = read(FULL);
    assert_eq!(config.defaults.isolation, Isolation::Mig(None));
    assert_eq!(config.defaults.gpu_mem_mib, Some(4769));
    assert_eq!(config.defaults.bandwidth, Bandwidth::Insensitive);
    assert!(config.learn_bandwidth);
    assert_eq!(config.defaults.auto, [Isolation::Mps, Isolation::Whole]);
    assert_eq!(policy_for(&config, None, &[]).auto, [Kind::Mps, Kind::Whole]);
    assert_eq!(config.mps.memory_limit, MemoryLimit::Advisory);
    assert_eq!(config.mps.max_threads, 200);
    let settings = node_jobs::Settings::of(&config, "n2");
    let node = &settings.node;
    assert_eq!(node.dev_root, Path::new("/tmp/n2/dev"));
    assert_eq!(node.cgroup_root, Path::new("/tmp/n2/cgroup"));
    assert_eq!(node.gpu_reset_command, ["reset", "n2", "%i"]);
    assert_eq!(node.gpu_clients_command, ["/etc/tessera/clients-n2", "%a", "%i"]);
    assert_eq!(settings.operation_timeout(), Duration::from_secs(1));
    assert!(!node.manage_device_nodes && !config.node.plain_notice);
    assert_eq!((config.learn_from, config.tell_slurm_limits), (LearnFrom::Account, false));
    assert_eq!(config.node.visible_devices, VisibleDevices::Uuids);
    let n2 = config.node("n2").unwrap();
    assert_eq!((n2.gpus.len(), n2.mig, n2.gpus[7].key.as_str()), (8, MigPolicy::Dynamic, "a100-40gb"));
    assert_eq!(n2.links.link(GpuIndex(0), GpuIndex(3)).unwrap().gbps(), 50.0);
    assert!(n2.memory_fence && !config.node("mixed").unwrap().memory_fence);
    let mixed = node_of(config.node("mixed").unwrap());
    assert_eq!((mixed.gpus[1].model.key.as_str(), mixed.gpus[1].policy), ("a30-24gb", MigPolicy::Off));
    assert_eq!(mixed.links.link(GpuIndex(1), GpuIndex(0)).unwrap().gbps(), 12.5);
    assert!(config.node("n3").is_none());
}

#[test]
fn sets_are_chosen_as_the_partition_says_then_the_site() {
    let config = read(FULL);
    let own = Coefficients::new(0.7, 1.0).map(BandwidthModel::Bottleneck).unwrap();
    let site = SetPolicy {
        selection: Selection::Greedy,
        model: own,
        pattern: Pattern::Tree,
        bandwidth: Bandwidth::Insensitive,
        wait: SetWait::parse("25GB/s,20:00"),
    };
    let paper = SetPolicy {
        selection: Selection::Preserve,
        model: BandwidthModel::Mapa2021,
        pattern: Pattern::RingTree,
        bandwidth: Bandwidth::Sensitive,
        wait: SetWait::parse("40GB/s,1:00"),
    };
    assert_eq!(sets(&config, Some("paper")), paper);
    for partition in [None, Some("plain"), Some("unknown")] {
        assert_eq!(sets(&config, partition), site);
    }
    assert_eq!(sets(&config, Some("hurried")), SetPolicy { wait: Some(SetWait::NONE), ..site.clone() });
    assert_eq!(policy_for(&config, None, &[]).sets, site);
}

#[test]
fn unset_means_the_defaults() {
    let config = read("[[nodes]]\nnames = \"n1\"\ngpu = \"h200-141gb\"\ncount = 4\n");
    assert_eq!(config.defaults.isolation, Isolation::Auto);
    assert_eq!(config.defaults.pattern, Pattern::Ring);
    assert_eq!(config.defaults.auto.len(), 3);
    assert_eq!(policy_for(&config, None, &[]).sets, SetPolicy::default());
    assert_eq!(config.mps.memory_limit, MemoryLimit::Mps);
    assert_eq!(config.node.state_dir, Path::new("/var/lib/tessera"));
    assert_eq!(config.nodes[0].interconnect, "pcie");
    assert_eq!(config.nodes[0].mig, MigPolicy::Dynamic);
}

/// Why a limit forbids this request to a job in a partition.
fn refusal_in(partition: &str, request: &Request, config: &SiteConfig) -> Option<String> {
    let job = Submission { partitions: vec![partition.to_owned()], ..Submission::default() };
    limits_of(&job, config).into_iter().find_map(|of| limit::refusal(of, request))
}

#[test]
fn a_limit_is_for_the_jobs_that_all_of_its_keys_name() {
    let text = FULL.replacen(
        "[[limits]]",
        "[[limits]]\nuser = \"alice\"\nqos = \"Long\"\nmax_gpus = 4\nmax_slices = 28\nmax_time_min = 240\nrunning_gpus = 8\n\
         running_slices = 56\n\n[[limits]]\neach_user = true\nrunning_slices = 14\n\n[[limits]]",
        1,
    );
    let mut config = read(&text);
    let own = config.limits[0].clone();
    assert_eq!((own.number, text.lines().nth(own.line - 1)), (0, Some("[[limits]]")));
    assert_eq!((own.per_job, own.max_time_min), (Most { gpus: Some(4), slices: Some(28) }, Some(240)));
    assert_eq!((own.running, own.each_user), (Most { gpus: Some(8), slices: Some(56) }, false));
    assert_eq!(limit::whom(&own), "for user alice, QOS Long");
    let (each, rest) = (config.limits[1].clone(), &config.limits[2]);
    assert_eq!((each.each_user, limit::whom(&each).as_str(), rest.number), (true, "here", 2));
    let of = |user, qos: Option<&str>, config: &SiteConfig| -> Vec<usize> {
        let job = Submission { user, qos: qos.map(str::to_owned), ..Submission::default() };
        limits_of(&job, config).iter().map(|limit| limit.number).collect()
    };
    assert_eq!(of(Some(1001), Some("long"), &config), [1], "nobody knows her number yet");
    assert_eq!(config.name_users(|_| None).len(), 1);
    assert!(config.name_users(|name| (name == "alice").then_some(1001)).is_empty());
    assert_eq!(of(Some(1001), Some("long"), &config), [0, 1]);
    assert_eq!([of(None, None, &config), of(Some(1001), None, &config)], [[1], [1]]);
    assert_eq!(of(Some(1002), Some("long"), &config), [1]);
}

#[test]
fn limits_hold_for_their_partition() {
    let config = read(FULL);
    let refusal = |partition, request: &Request| refusal_in(partition, request, &config);
    let mut request = Request::new(Isolation::Whole);
    assert_eq!(refusal("other", &request), None);
    let said = refusal("debug", &request).unwrap();
    assert_eq!(said, "--gpu-isolation=whole is not allowed in partition debug: use mig:1g.5gb, mps");
    request.isolation = Isolation::Mig(Some("1g.5gb".to_owned()));
    assert_eq!(refusal("debug", &request), None);
    request.instances = 3;
    assert_eq!(
        refusal("debug", &request).unwrap(),
        "--gpu-instances=3 is too many in partition debug: at most 2"
    );
    request = Request { mem_mib: Some(40_000), ..Request::new(Isolation::Auto) };
    assert_eq!(
        refusal("debug", &request).unwrap(),
        "--gpu-mem=41.9 GB is too much in partition debug: at most 40.0 GB"
    );
}

#[test]
fn a_profiles_name_does_not_pass_a_limit_on_memory() {
    let text =
        FULL.replacen("[[limits]]", "[[limits]]\npartition = \"small\"\nmax_mem = \"10G\"\n\n[[limits]]", 1);
    let config = read(&text);
    let refusal = |profile: &str| {
        let request = Request::new(Isolation::Mig(Some(profile.to_owned())));
        refusal_in("small", &request, &config)
    };
    assert_eq!([refusal("2g.10gb"), refusal("1g.5gb+me")], [None, None]);
    let said = "--gpu-isolation=mig:3g.20gb is too much in partition small: at most 10.0 GB";
    assert_eq!(refusal("3g.20gb").as_deref(), Some(said));
}

#[test]
fn a_limit_to_mig_allows_no_instance_whose_memory_is_shared() {
    let allows = |list: &str, profile: &str| {
        let limit = format!("[[limits]]\npartition = \"small\"\nisolation = [{list}]\n\n[[limits]]");
        let config = read(&FULL.replacen("[[limits]]", &limit, 1));
        let request = Request::new(Isolation::Mig(Some(profile.to_owned())));
        refusal_in("small", &request, &config)
    };
    assert_eq!(allows("\"mig\"", "2g.10gb"), None);
    let said = "--gpu-isolation=mig-shared:1c.2g.10gb is not allowed in partition small: use mig";
    assert_eq!(allows("\"mig\"", "1c.2g.10gb").as_deref(), Some(said));
    assert_eq!(allows("\"mig\", \"mig-shared:1c.2g.10gb\"", "1c.2g.10gb"), None);
}

#[test]
fn old_words_are_refused_with_the_new_ones() {
    for (old, new) in [("none", "is now slurm"), ("mig:4c.7g.40gb", "is now mig-shared:4c.7g.40gb")] {
        let text = FULL.replacen("isolation = \"mig\"", &format!("isolation = \"{old}\""), 1);
        let (_, errors) = parse("tessera.toml", &text, &|_| Err(io::ErrorKind::NotFound.into()));
        assert!(errors.iter().any(|e| e.to_string().contains(new)), "{errors:?}");
    }
}

#[test]
fn where_the_file_is() {
    let path = |tessera: Option<&str>, slurm: Option<&str>| {
        config_path(&|name| {
            let value = if name == "TESSERA_CONF" { tessera } else { slurm };
            value.map(str::to_owned)
        })
    };
    assert_eq!(path(Some("/a/t.toml"), Some("/b/slurm.conf")), PathBuf::from("/a/t.toml"));
    assert_eq!(path(Some(""), Some("/b/slurm.conf")), PathBuf::from("/b/tessera.toml"));
    assert_eq!(path(None, None), PathBuf::from("/etc/slurm/tessera.toml"));
}

#[test]
fn single_gpus_have_their_use() {
    let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 6\nkeep_uncut = 1\nmig = \"off\"\n\
                gpu_use = { \"0\" = \"mig\", 1 = \"whole\", \"2\" = \"mps\", \"3\" = \"slurm\" }\n\
                static = { \"4\" = [\"3g.20gb@4\", \"3g.20gb@0\"] }\n";
    let (config, errors) = parse("t", text, &|_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!(errors, []);
    let node = node_of(&config.unwrap().nodes[0]);
    let purposes: Vec<_> = node.gpus.iter().map(|g| (g.purpose, g.policy)).collect();
    use MigPolicy::{Off, On};
    use node_state::Purpose::{Any, Shares, Slurm, Static, Whole};
    assert_eq!(purposes, [(Any, On), (Whole, Off), (Shares, Off), (Slurm, Off), (Static, On), (Any, Off)]);
    assert_eq!(node.keep_uncut, 1);
    assert_eq!(
        node_layout::layout_of(&node).to_string(),
        "tessera gpu0-2=free gpu3=slurm gpu4=mig[3g.20gb@0:idle,3g.20gb@4:idle] gpu5=free"
    );
}
