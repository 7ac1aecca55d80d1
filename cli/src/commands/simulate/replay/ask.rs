//! Reads from Slurm's accounting what a past job asked for.

use std::fmt;

use geometry::Model;
use protocol::wire::parse_request;
use protocol::{Isolation, MAX_INSTANCES, Request};

use crate::only_instance::OnlyInstance;
use crate::slurm::sacct::jobs::Accounted;
use crate::slurm::tres::{mib, tres};

/// Why a job of the file is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    NoGpu,
    NeverStarted,
    Running,
    Shards,
    Unreadable,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoGpu => "asked for no GPU that the accounting knows of",
            Self::NeverStarted => "never started",
            Self::Running => "not over yet",
            Self::Shards => "asked for gres/shard by themselves",
            Self::Unreadable => "with a request that is cut off or not understood",
        })
    }
}

/// Resources that a job asked for on each of its nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AskedPerNode {
    pub(super) request: Request,
    /// It used none of Tessera's options.
    pub(super) plain: bool,
}

/// Reads it. With `as_used`, a plain job of one GPU that is known to have used some memory asks for that and a quarter more.
pub(super) fn asked(job: &Accounted, as_used: bool) -> Result<AskedPerNode, LeftOut> {
    if !job.is_over() {
        return Err(LeftOut::Running);
    }
    let asked = match &job.comment.asks {
        Some(text) => {
            AskedPerNode { request: parse_request(text).map_err(|_| LeftOut::Unreadable)?, plain: false }
        }
        None => by_slurm(job, as_used)?,
    };
    if job.start.is_none() || job.ran_s == 0 {
        return Err(LeftOut::NeverStarted);
    }
    Ok(asked)
}

/// Returns what a job without a request asked Slurm for, or what it had, if Tessera cut a GPU for it.
fn by_slurm(job: &Accounted, as_used: bool) -> Result<AskedPerNode, LeftOut> {
    let instance = job.comment.started().and_then(|started| OnlyInstance::parse(&started.got));
    if let Some(instance) = instance {
        return Ok(AskedPerNode { request: instances(instance.profile, 1), plain: false });
    }
    let per_node = |all: u64| u32::try_from(all.div_ceil(job.nodes as u64)).unwrap_or(u32::MAX);
    let gpus = match count(&job.asked) {
        Some(gpus) => per_node(gpus),
        None if tres(&job.asked, "gres/shard").is_some() => return Err(LeftOut::Shards),
        None => return Err(LeftOut::NoGpu),
    };
    if let Some(profile) = profile(&job.asked) {
        if gpus > MAX_INSTANCES {
            return Err(LeftOut::Unreadable);
        }
        return Ok(AskedPerNode { request: instances(profile, gpus), plain: false });
    }
    let used = job.memory_mib.filter(|_| as_used && gpus == 1 && job.nodes == 1);
    if let Some(mib) = used {
        let request = Request { mem_mib: Some(mib + mib / 4), ..Request::new(Isolation::Auto) };
        return Ok(AskedPerNode { request, plain: false });
    }
    Ok(AskedPerNode { request: Request { gpus: Some(gpus), ..Request::new(Isolation::Whole) }, plain: true })
}

/// CPUs that a job asked for on each of its nodes; 0 where the accounting has none.
pub(super) fn cpus(job: &Accounted) -> u64 {
    let all: u64 = tres(&job.asked, "cpu").and_then(|n| n.parse().ok()).unwrap_or(0);
    all.div_ceil(job.nodes.max(1) as u64)
}

/// Memory that a job asked for on each of its nodes, MiB; 0 where the accounting has none.
pub(super) fn mem_mib(job: &Accounted) -> u64 {
    let all = tres(&job.asked, "mem").and_then(mib).unwrap_or(0);
    all.div_ceil(job.nodes.max(1) as u64)
}

fn instances(profile: &str, instances: u32) -> Request {
    Request { instances, isolation_typed: true, ..Request::new(Isolation::Mig(Some(profile.to_owned()))) }
}

/// How many GPUs of any type a list asks for, 1 or more.
fn count(list: &str) -> Option<u64> {
    let all = tres(list, "gres/gpu").map(|n| n.parse().unwrap_or(0));
    let typed = || typed(list).filter_map(|(_, n)| n.parse::<u64>().ok()).fold(0, u64::saturating_add);
    Some(all.unwrap_or_else(typed)).filter(|n| *n > 0)
}

/// The types of GPU in a list, and how many of each.
fn typed(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(',').filter_map(|entry| entry.strip_prefix("gres/gpu:")?.split_once('='))
}

/// The one type of GPU in a list, if it is called as a MIG profile, perhaps behind the name of its GPU: `a100_2g.10gb`.
fn profile(list: &str) -> Option<&str> {
    let mut all = typed(list);
    let (name, _) = all.next()?;
    let end = name.rsplit_once('_').map_or(name, |(_, end)| end);
    let known = Model::all().iter().filter(|m| m.has_mig()).any(|model| model.profile(end).is_some());
    (known && all.next().is_none()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::AdminComment;

    fn job(asked: &str) -> Accounted {
        let state = "COMPLETED".to_owned();
        Accounted { state, asked: asked.into(), start: Some(5), ran_s: 5, nodes: 2, ..Accounted::default() }
    }

    fn words(job: &Accounted) -> String {
        match asked(job, true) {
            Err(why) => why.to_string(),
            Ok(AskedPerNode { request, plain }) => {
                let Request { isolation, gpus, instances, mem_mib, .. } = request;
                format!("{isolation} {gpus:?} {instances} {mem_mib:?} {plain}")
            }
        }
    }

    #[test]
    fn slurms_own_gpus_are_whole_or_of_a_profile() {
        assert_eq!(words(&job("cpu=4,gres/gpu=8,mem=1G")), "whole Some(4) 1 None true");
        assert_eq!(words(&job("gres/gpu:a100=4,gres/gpu=4")), "whole Some(2) 1 None true");
        assert_eq!(words(&job("gres/gpu:a100_2g.10gb=4,gres/gpu=4")), "mig:2g.10gb None 2 None false");
        assert_eq!(words(&job("gres/gpu:1g.5gb=2")), "mig:1g.5gb None 1 None false");
        assert_eq!(words(&job("gres/gpu:1g.5gb=4000000000")), LeftOut::Unreadable.to_string());
        assert_eq!(words(&job("cpu=4")), LeftOut::NoGpu.to_string());
        assert_eq!(words(&job("gres/shard=4")), LeftOut::Shards.to_string());
    }

    #[test]
    fn a_request_in_the_comment_comes_first() {
        let with =
            |comment: &str| Accounted { comment: AdminComment::parse(comment), ..job("gres/shard=20") };
        let got = "tessera: n1=mig:3/3g.20gb@4: smallest instance with 20 GB";
        assert_eq!(
            words(&with(&format!("{got}; asks v1 iso=mig mem=19074"))),
            "mig None 1 Some(19074) false"
        );
        assert_eq!(words(&with(got)), "mig:3g.20gb None 1 None false");
        assert_eq!(words(&with("tessera: asks v1 iso=mi")), LeftOut::Unreadable.to_string());
    }

    #[test]
    fn memory_that_was_used_may_be_what_is_asked() {
        let used = |nodes, mib| Accounted { memory_mib: mib, nodes, ..job("gres/gpu=1") };
        assert_eq!(words(&used(1, Some(4000))), "auto None 1 Some(5000) false");
        assert_eq!(words(&used(1, None)), "whole Some(1) 1 None true");
        assert_eq!(words(&used(2, Some(4000))), "whole Some(1) 1 None true");
        assert!(asked(&used(1, Some(4000)), false).unwrap().plain);
    }

    #[test]
    fn only_jobs_that_ran_are_replayed() {
        let never = Accounted { start: None, ..job("gres/gpu=1") };
        let runs = Accounted { state: "RUNNING".into(), ..job("gres/gpu=1") };
        assert_eq!([words(&never), words(&runs)], ["never started", "not over yet"]);
    }
}
