//! Plain requests for GPUs that no node can give. Slurm refuses them with one sentence for every cause; the user is told the cause.
//! The job is left to Slurm all the same.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};

use admission::only_ours;
use site_config::{NodeSpec, SiteConfig, nearest};
use site_limits::Submission;
use site_limits::tres::{Entry, Tres};
use slurm_names::gpu_types_in;

use crate::submission::{Described, Slurm};

/// Most types that a message lists.
const MOST: usize = 8;

/// Says what no node that the job may use has; `None`: one may have it, or that is not for us to say.
/// `submission`: the job, read once.
pub(crate) fn note(
    job: &Described,
    submission: &LazyCell<Submission, impl FnOnce() -> Submission>,
    config: &SiteConfig,
    slurm: &impl Slurm,
) -> Option<String> {
    let all = of_gpus(&job.tres);
    let asked: Vec<&Entry> = all.iter().filter(|entry| entry.per_node).collect();
    let few = config.nodes.iter().map(|spec| spec.gpus.len() as u64).min()?;
    let sum = sum(&asked);
    let mut kinds = all.iter().filter_map(Entry::kind).peekable();
    let types = kinds.peek().map(|_| types_of(config, slurm)).unwrap_or_default();
    let nodes_at_most = u64::from(job.most_nodes.unwrap_or(u32::MAX));
    // `--gpus=9 -N1`.
    let in_all =
        all.iter().find(|entry| entry.option == "--gpus" && entry.count > few.saturating_mul(nodes_at_most));
    // Nodes are looked up one by one only for a job that asks for more than some nodes have, or for a type that none of the site's has.
    if sum <= few && in_all.is_none() && kinds.all(|kind| types.contains(kind)) {
        return None;
    }
    if !only_ours(submission, config) {
        return None;
    }
    let nodes = || config.nodes.iter().flat_map(|spec| spec.names.iter().map(move |name| (spec, name)));
    let reached = || nodes().filter(|(_, name)| submission.reaches(name));
    let most = reached().map(|(spec, _)| spec.gpus.len() as u64).max()?;
    let options: Vec<String> = asked.iter().map(|entry| format!("{}={}", entry.option, entry.text)).collect();
    if sum > most {
        return Some(format!(
            "{}: no node that this job may use has more than {most} GPU{}; ask for fewer on each node, and for more nodes by -N",
            options.join(" "),
            if most == 1 { "" } else { "s" }
        ));
    }
    if let Some(entry) = in_all.filter(|entry| entry.count > most.saturating_mul(nodes_at_most)) {
        return Some(format!(
            "--gpus={} -N{nodes_at_most}: no node that this job may use has more than {most} GPU{}; ask for fewer GPUs, or for more nodes by -N",
            entry.text,
            if most == 1 { "" } else { "s" }
        ));
    }
    let most_of = most_of_kinds(reached().filter(|_| all.iter().any(|entry| entry.kind().is_some())), slurm);
    all.iter().find_map(|entry| {
        let (kind, asked) = (entry.kind()?, format!("{}={}", entry.option, entry.text));
        match most_of.get(kind).copied() {
            None => Some(format!(
                "{asked}: no node that this job may use has GPUs of type {kind}; {}",
                instead(kind, entry.option, &types)
            )),
            Some(most) if entry.per_node && entry.count > most => Some(format!(
                "{asked}: no node that this job may use has more than {most} GPU{} of type {kind}; ask for fewer on each node, and \
                 for more nodes by -N",
                if most == 1 { "" } else { "s" }
            )),
            Some(_) => None,
        }
    })
}

/// Gives the most GPUs that one of these nodes has, by their types. Each node is looked at once: a user may name hundreds of types.
fn most_of_kinds<'c>(
    nodes: impl Iterator<Item = (&'c NodeSpec, &'c String)>,
    slurm: &impl Slurm,
) -> HashMap<String, u64> {
    let mut most_of: HashMap<String, u64> = HashMap::new();
    for (spec, name) in nodes {
        for kind in slurm.node_gres(name).iter().flat_map(|gres| gpu_types_in(gres)) {
            let most = most_of.entry(kind).or_default();
            *most = (*most).max(spec.gpus.len() as u64);
        }
    }
    most_of
}

/// Types of GPUs of the first node of each `[[nodes]]`.
fn types_of(config: &SiteConfig, slurm: &impl Slurm) -> BTreeSet<String> {
    let firsts = config.nodes.iter().filter_map(|spec| slurm.node_gres(spec.names.first()?));
    firsts.flat_map(|gres| gpu_types_in(&gres)).collect()
}

/// Says what the user may have meant by a type that no node has.
fn instead(kind: &str, option: &str, types: &BTreeSet<String>) -> String {
    // As with GPUs that were cut by hand: 1g.5gb, a100_1g.5gb.
    let word = kind.rsplit(['_', '-']).next().unwrap_or_default().to_ascii_lowercase();
    let of_size = word
        .split_once("g.")
        .is_some_and(|(slices, memory)| slices.parse::<u8>().is_ok() && memory.contains("gb"));
    if of_size {
        return format!("a MIG instance is --gpu-isolation=mig:{word}, without {option}");
    }
    let names: Vec<&str> = types.iter().map(String::as_str).take(MOST).collect();
    match (nearest(kind, names.iter().copied()), &names[..]) {
        (_, []) => "its GPUs have no types: leave it out".to_owned(),
        (Some(meant), _) => format!("did you mean {meant}? There are {}", names.join(", ")),
        (None, _) => format!("there are {}", names.join(", ")),
    }
}

/// The entries that ask for GPUs.
fn of_gpus(tres: &Tres) -> Vec<Entry> {
    tres.gpu_entries().into_iter().filter(|entry| entry.name == "gpu" && entry.count > 0).collect()
}

fn sum(entries: &[&Entry]) -> u64 {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fake;
    use crate::submission::submitted;

    fn note(job: &Described, config: &SiteConfig, slurm: &Fake) -> Option<String> {
        super::note(job, &LazyCell::new(|| submitted(job, slurm)), config, slurm)
    }

    fn said(list: &str) -> String {
        let text = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
        let job = Described { tres, ..Described::default() };
        note(&job, &config.unwrap(), &Fake::default()).unwrap_or_default()
    }

    #[test]
    fn the_cause_is_named() {
        for good in [
            "gres:gpu:2",
            "gres:gpu:a100:2",
            "gres:gpu:a100",
            "gres:gpu",
            "gres:nic:9",
            "gres:shard:400",
            "gres:gpu:0",
        ] {
            assert_eq!(said(good), "", "{good}");
        }
        assert_eq!(
            said("gres:gpu:9"),
            "--gres=gpu:9: no node that this job may use has more than 2 GPUs; ask for fewer on each node, and for more nodes by -N"
        );
        assert_eq!(
            said("gres:gpu:A100:1"),
            "--gres=gpu:A100:1: no node that this job may use has GPUs of type A100; did you mean a100? There are a100"
        );
        assert_eq!(
            said("gres:gpu:1g.5gb:1"),
            "--gres=gpu:1g.5gb:1: no node that this job may use has GPUs of type 1g.5gb; a MIG instance is --gpu-isolation=mig:1g.5gb, without --gres"
        );
        assert!(
            said("gres:gpu:a100_1g.5gb:1")
                .ends_with("; a MIG instance is --gpu-isolation=mig:1g.5gb, without --gres")
        );
        assert_eq!(
            said("gres:gpu:mi300x:1"),
            "--gres=gpu:mi300x:1: no node that this job may use has GPUs of type mi300x; there are a100"
        );
        assert!(said("gres:gpu:2K").contains("more than 2 GPUs"));
    }

    #[test]
    fn gpus_of_the_whole_job_are_counted_by_its_nodes() {
        let text = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let of = |list: &str, most_nodes| {
            let tres = Tres { per_job: Some(list.to_owned()), ..Tres::default() };
            note(&Described { tres, most_nodes, ..Described::default() }, &config, &Fake::default())
        };
        assert_eq!(
            [of("gres:gpu:3", None), of("gres:gpu:3", Some(2)), of("gres:gpu:2", Some(1))],
            [None, None, None]
        );
        assert_eq!(
            of("gres:gpu:3", Some(1)).unwrap(),
            "--gpus=3 -N1: no node that this job may use has more than 2 GPUs; ask for fewer GPUs, or for more nodes by -N"
        );
    }

    #[test]
    fn names_of_instances_that_were_cut_by_hand_are_understood() {
        for kind in ["a100_1g.5gb", "nvidia_a100-sxm4-40gb_1g.5gb", "MIG-1g.5gb", "1G.5GB"] {
            let what = said(&format!("gres:gpu:{kind}:1"));
            let end = format!(
                "has GPUs of type {kind}; a MIG instance is --gpu-isolation=mig:1g.5gb, without --gres"
            );
            assert!(what.ends_with(&end), "{what}");
        }
    }

    #[test]
    fn types_are_looked_up_for_every_option_and_counted_by_node() {
        let of = |tres: Tres, gpus: &str| {
            let text = format!(
                "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = {gpus}\n[[nodes]]\nnames = \"n2\"\n\
                 gpu = \"a100-40gb\"\ncount = 8\n"
            );
            let (config, errors) =
                site_config::parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
            assert_eq!(errors, []);
            let job = Described { tres, ..Described::default() };
            note(&job, &config.unwrap(), &Fake { kinds: true, ..Fake::default() }).unwrap_or_default()
        };
        let per_job = |list: &str| Tres { per_job: Some(list.to_owned()), ..Tres::default() };
        let per_task = |list: &str| Tres { per_task: Some(list.to_owned()), ..Tres::default() };
        let per_node = |list: &str| Tres { per_node: Some(list.to_owned()), ..Tres::default() };
        for good in ["gres:gpu:20", "gres:gpu:h100:20", "gres:gpu", "gres/gpu=2"] {
            assert_eq!(of(per_job(good), "4"), "", "{good}");
        }
        let what = of(per_job("gres:gpu:A100:1"), "4");
        assert!(
            what.starts_with(
                "--gpus=A100:1: no node that this job may use has GPUs of type A100; did you mean a100?"
            ),
            "{what}"
        );
        let what = of(per_task("gres/gpu:1g.10gb:1"), "4");
        assert!(
            what.ends_with("a MIG instance is --gpu-isolation=mig:1g.10gb, without --gpus-per-task"),
            "{what}"
        );
        assert_eq!(
            of(per_node("gres:gpu:h100:8"), "4"),
            "--gres=gpu:h100:8: no node that this job may use has more than 4 GPUs of type h100; ask for fewer on each node, and for \
             more nodes by -N"
        );
        assert_eq!(of(per_node("gres:gpu:a100:8"), "4"), "");
        assert!(of(per_node("gres:gpu:h100:2"), "1").contains("more than 1 GPU of type h100;"));
    }

    #[test]
    fn nodes_of_others_are_not_spoken_of() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        let (config, _) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let tres = Tres { per_node: Some("gres:gpu:9".to_owned()), ..Tres::default() };
        let job = Described { tres, ..Described::default() };
        assert_eq!(note(&job, &config.unwrap(), &Fake::default()), None, "n2 is not in tessera.toml");
    }
}
