//! `[tasks]`: the pool of GPU tasks.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io;
use std::path::PathBuf;

use node_state::{Kind, PoolPolicy};
use protocol::{Isolation, Request};
use site_config::{Overuse, SiteConfig, TaskPolicy, parse};
use site_limits::{limit, policy_for};

const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a30-24gb\"\ncount = 1\n";

fn read(text: &str) -> Result<SiteConfig, Vec<String>> {
    let (config, errors) = parse("t", &format!("{text}\n{NODES}"), &|_| Err(io::ErrorKind::NotFound.into()));
    config.ok_or_else(|| errors.iter().map(site_problems::shown).collect())
}

#[test]
fn only_a_site_with_the_section_has_a_pool() {
    assert_eq!(policy_for(&read("").unwrap(), None, &[]).tasks, None);
    let empty = read("[tasks]").unwrap();
    assert_eq!(
        policy_for(&empty, None, &[]).tasks,
        Some(PoolPolicy { workers_per_slice: 4, context_mib: 512, gpus_per_job: 1 })
    );
    assert!(
        !policy_for(&empty, None, &[]).auto.contains(&Kind::Tasks),
        "auto takes it only where it is listed"
    );
    let tasks = empty.tasks.unwrap();
    assert_eq!((tasks.policy, tasks.overuse, tasks.log), (TaskPolicy::Tessera, Overuse::Charge, None));
}

#[test]
fn every_key_is_read() {
    let text = "[tasks]\npolicy = \"alg3\"\nworkers_per_slice = 6\ncontext_mib = 300\ngpus_per_job = 8\noveruse = \"end\"\nlog = \"/l/%n\"\n\
                [defaults]\nauto = [\"gpu-tasks\", \"mig\"]";
    let config = read(text).unwrap();
    assert_eq!(policy_for(&config, None, &[]).auto, [Kind::Tasks, Kind::Mig]);
    let tasks = config.tasks.unwrap();
    assert_eq!(
        (tasks.policy, tasks.overuse, tasks.log),
        (TaskPolicy::Alg3, Overuse::End, Some(PathBuf::from("/l/%n")))
    );
    assert_eq!(tasks.pool, PoolPolicy { workers_per_slice: 6, context_mib: 300, gpus_per_job: 8 });
}

#[test]
fn errors_say_what_would_work() {
    let why = |text: &str| read(text).unwrap_err().join("\n");
    let no_pool = why("[defaults]\nauto = [\"tasks\"]");
    assert!(
        no_pool.contains("auto lists gpu-tasks, but the site has no pool") && no_pool.contains("add [tasks]"),
        "{no_pool}"
    );
    assert!(why("[tasks]\nworkers_per_slice = 49").contains("use 1 to 48"));
    assert!(why("[tasks]\ngpus_per_job = 0").contains("use 1 to 16"));
    assert!(why("[tasks]\npolicy = \"alg4\"").contains("policy cannot be \"alg4\""));
    assert!(why("[tasks]\nlog = \"log\"").contains("is not an absolute path"));
}

#[test]
fn a_limit_on_memory_needs_to_know_the_memory() {
    let config =
        read("[tasks]\n[[limits]]\npartition = \"p\"\nisolation = [\"tasks\"]\nmax_mem = \"4G\"").unwrap();
    let of = &config.limits[0];
    let tasks = |probes| Request::new(Isolation::Tasks { probes });
    let why = limit::refusal(of, &tasks(true)).unwrap();
    assert!(why.starts_with("--gpu-isolation=gpu-tasks:probes needs --gpu-mem in partition p"), "{why}");
    assert_eq!(limit::refusal(of, &Request { mem_mib: Some(1000), ..tasks(false) }), None);
    assert!(limit::refusal(of, &Request { mem_mib: Some(9000), ..tasks(false) }).is_some());
    assert!(limit::refusal(of, &Request::new(Isolation::Mps)).is_some());
}
