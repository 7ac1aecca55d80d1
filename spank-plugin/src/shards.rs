//! Finds out whether a job without a placement has shards, GPUs of several types, or no GPU at all: slurmctld's part of Tessera
//! is off, and Slurm alone has chosen.
//!
//! A prolog's environment does not say it. For GPUs and for shards, Slurm writes the same list of devices there, and
//! `SLURM_SHARDS_ON_NODE` is set for steps only [22.05 `gres_common_epilog_set_env`, 24.11 `gres_common_prep_set_env`]. So
//! slurmctld is asked, for these jobs alone. Slurm lets no job have both GPUs and shards.

use std::time::Duration;

use geometry::GpuIndex;
use plugin_rt::log;
use protocol::Isolation;
use protocol::wire::parse_request;

use crate::{describe, gpus_of_types, squeue};

/// Longest wait for slurmctld's answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of the question: the job, and what it asked for.
const COLUMNS: [(&str, usize); 6] = [
    ("jobid", 12),
    ("jobarrayid", 24),
    ("tres-per-node", 500),
    ("tres-per-job", 500),
    ("tres-per-socket", 500),
    ("tres-per-task", 500),
];

/// GPUs of a job that Slurm alone has placed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlurmsChoice {
    /// Shards of the GPUs in the prolog's environment.
    Shards,
    /// The GPUs in the prolog's environment.
    Gpus,
    /// These GPUs, of several types: the environment has those of the last type only.
    Types(Vec<GpuIndex>),
}

/// Finds out what Slurm gave a job on `node`. It is taken to be GPUs, and the log says so, if slurmctld does not answer: then nobody else
/// gets what may be the job's alone.
pub(crate) fn slurms_choice(job: u32, node: &str, env: &dyn Fn(&str) -> Option<String>) -> SlurmsChoice {
    let run = squeue::commands(env, ASK_TIMEOUT);
    let choice = squeue::ask(job, &COLUMNS, &run).and_then(|cells| match cells {
        Some([_, _, asked @ ..]) if entries(&asked, &["shard"]).next().is_some() => Ok(SlurmsChoice::Shards),
        Some([_, id, asked @ ..]) if may_have_several_types(&asked) => {
            gpus_of_types::ask(&id, node, &run).map(SlurmsChoice::Types)
        }
        _ => Ok(SlurmsChoice::Gpus),
    });
    choice.unwrap_or_else(|e| {
        log::error(format_args!(
            "job {job}: slurmctld cannot be asked whether its GPUs are shards, or of several types: it has alone those that Slurm's prolog names: {e}"
        ));
        SlurmsChoice::Gpus
    })
}

/// Tells whether a job may have GPUs of several types on a node: it did not ask for those of exactly one type. From 23.02 on Slurm
/// keeps GPUs of any type apart by their types, too.
fn may_have_several_types(asked: &[String]) -> bool {
    let mut gpus = entries(asked, &["gpu"]);
    !matches!((gpus.next(), gpus.next()), (Some(only), None) if only.starts_with(|c: char| !c.is_ascii_digit()))
}

/// Finds what a job asked for of these GRES: `gres:shard:10`, since 23.11 `gres/shard:10`, perhaps with a type. Gives what follows the name.
fn entries<'a>(asked: &'a [String], names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    asked.iter().flat_map(|tres| tres.split([',', ' '])).filter_map(|entry| {
        let entry = entry.strip_prefix("gres:").or_else(|| entry.strip_prefix("gres/")).unwrap_or(entry);
        let (name, rest) = entry.split_once([':', '=']).unwrap_or((entry, ""));
        names.contains(&name).then_some(rest)
    })
}

/// Says why a job cannot start that asked for GPUs by Tessera's options and has none on this node: slurmctld took its submission without
/// Tessera, which adds the GPUs. `None`: Slurm counts GPUs or shards for it, which other nodes have.
pub(crate) fn got_nothing(job: u32, request: &str, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    nothing(request, squeue::ask(job, &COLUMNS, &squeue::commands(env, ASK_TIMEOUT)))
}

/// Decides by slurmctld's answer.
fn nothing(request: &str, found: Result<Option<[String; COLUMNS.len()]>, String>) -> Option<String> {
    let also = match found {
        Ok(Some([_, _, asked @ ..])) if entries(&asked, &["gpu", "shard"]).next().is_some() => return None,
        Ok(_) => String::new(),
        Err(e) => format!(" (slurmctld cannot be asked whether other nodes have its GPUs: {e})"),
    };
    let asked = parse_request(request)
        .map_or_else(|_| "GPUs by Tessera's options".to_owned(), |asked| describe::asked(&asked));
    Some(format!(
        "it asked for {asked}, but slurmctld gave it no GPU, because Tessera's job submit plugin was off when the job \
         was submitted; submit it again once `tessera doctor` finds nothing there{also}"
    ))
}

/// Says why a job with shards and no placement cannot start, if it cannot: its request, made while placement was on, is for more
/// than shards. Slurm alone would run it beside others with nothing that keeps them apart.
pub(crate) fn asked_in_vain(request: Option<&str>) -> Option<String> {
    let asked = parse_request(request?).ok().filter(|asked| asked.isolation != Isolation::None)?;
    Some(format!(
        "it asked for {}, but slurmctld gave it shards only, because Tessera is off there; it can start once \
         slurmctld places GPUs again; or submit it again with --gres=shard:N",
        describe::asked(&asked)
    ))
}

#[cfg(test)]
mod tests {
    use protocol::Request;
    use protocol::wire::encode_request;

    use super::*;

    #[test]
    fn only_a_request_for_more_than_shards_is_in_vain() {
        let of = |isolation| asked_in_vain(Some(&encode_request(&Request::new(isolation))));
        assert!(of(Isolation::Mps).unwrap().contains("shards only"));
        assert!(of(Isolation::Tasks { probes: false }).is_some() && of(Isolation::Auto).is_some());
        assert_eq!(of(Isolation::None), None);
        assert_eq!((asked_in_vain(None), asked_in_vain(Some("?"))), (None, None));
    }

    #[test]
    fn a_request_without_any_gpu_is_in_vain() {
        let of = |request: &str, per_node: &str, per_job: &str| {
            nothing(request, Ok(Some(["12", "12", per_node, per_job, "N/A", "N/A"].map(str::to_owned))))
        };
        let auto = encode_request(&Request::new(Isolation::Auto));
        assert!(
            of(&auto, "N/A", "N/A").unwrap().starts_with("it asked for auto, but slurmctld gave it no GPU")
        );
        assert!(of(&auto, "gres:nic:1", "N/A").is_some());
        assert!(of("v9 ?", "N/A", "N/A").unwrap().starts_with("it asked for GPUs by Tessera's options, "));
        assert_eq!(of(&auto, "N/A", "gres:gpu:2"), None, "another node of the job has them");
        assert_eq!(of(&auto, "gres/shard:5", "N/A"), None);
        let unknown = nothing(&auto, Err("no answer in 10 s".to_owned())).unwrap();
        assert!(unknown.ends_with("other nodes have its GPUs: no answer in 10 s)"), "{unknown}");
        assert!(nothing(&auto, Ok(None)).is_some());
    }

    #[test]
    fn shards_are_told_from_gpus() {
        let of = |per_node: &str, per_job: &str| {
            entries(&[per_node, per_job, "", ""].map(str::to_owned), &["shard"]).next().is_some()
        };
        assert!(of("gres:shard:10", "") && of("gres/shard:10", "") && of("gres:shard:a100:10", ""));
        assert!(of("gres/scratch:1,gres/shard=10", "") && of("", "gres:shard:3"));
        // Types and other GRES may have any name.
        assert!(!of("gres:gpu:shard:1", "") && !of("gres/shards:1", "") && !of("", "gres:gpu:2"));
        assert!(!of("", ""));
    }

    #[test]
    fn only_a_job_that_names_one_type_has_only_that() {
        let of = |per_node: &str| may_have_several_types(&[per_node.to_owned()]);
        assert!(of("gres:gpu:a100:1,gres:gpu:a30:1") && of("gres/gpu:a100:1,gres/gpu:a30:1"));
        assert!(of("gres/gpu:3") && of("gres/gpu=3") && of("gres:gpu:3") && of("gres:gpu"));
        assert!(of(""), "an exclusive job");
        assert!(!of("gres/gpu:a100:3,gres/nic:1") && !of("gres:gpu:a100") && !of("gres/gpu:a100=2"));
    }

    #[test]
    fn another_jobs_record_says_nothing() {
        let line = |job: u32, per_node: &str| {
            format!("{job:<12}{job:<24}{per_node:<500}{:<500}{:<500}{:<500}\n", "N/A", "N/A", "N/A")
        };
        let text = line(13, "gres:shard:1") + &line(12, "N/A");
        let asks = |job| {
            let cells = squeue::cells(text.as_bytes(), job, &COLUMNS).unwrap();
            cells.map(|[_, _, asked @ ..]| entries(&asked, &["shard"]).next().is_some())
        };
        assert_eq!([asks(12), asks(13), asks(14)], [Some(false), Some(true), None]);
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in ".*") {
            let _ = squeue::cells(text.as_bytes(), 12, &COLUMNS);
        }
    }
}
