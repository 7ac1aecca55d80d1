//! The options of sbatch that make a request, as `tessera explain` takes them.

use clap::Args;
use placement::mapa::Selection;
use placement::moldable::{PlannedStart, SizeTime, is_job_profile_name, parse_times};
use placement::patience::SetWait;
use placement::size::parse_mib;
use placement::{Bandwidth, Isolation, Pattern, Request};

use crate::options::pattern;

/// A request, in the words of sbatch.
#[derive(Args)]
#[command(next_help_heading = "Request, as for sbatch")]
pub(crate) struct RequestArgs {
    /// auto, mig, mig:PROFILE, mps, whole or none
    ///
    /// Default: auto, or whole if only GPUs, a pattern or bandwidth are given.
    #[arg(long, value_name = "KIND", value_parser = isolation)]
    gpu_isolation: Option<Isolation>,
    /// Memory per instance or share, such as 10G
    #[arg(long, value_name = "SIZE", value_parser = memory, allow_hyphen_values = true)]
    gpu_mem: Option<u64>,
    /// MIG instances per node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpu_instances: Option<u32>,
    /// Percentage of the SMs: the most that an mps job gets, the least that a mig job gets
    #[arg(long, value_name = "PERCENT", value_parser = threads)]
    gpu_threads: Option<u8>,
    /// How whole GPUs talk to each other: ring, tree, chain, star, all, none or ring+tree
    #[arg(long, value_name = "SHAPE", value_parser = pattern)]
    gpu_pattern: Option<Pattern>,
    /// sensitive or insensitive to the bandwidth between whole GPUs
    #[arg(long, value_name = "NEED", value_parser = bandwidth)]
    gpu_bandwidth: Option<Bandwidth>,
    /// Policy that selects a set of whole GPUs: preserve, greedy, topo-aware or baseline
    #[arg(long, value_name = "POLICY", value_parser = set_policy)]
    gpu_set_policy: Option<Selection>,
    /// Run time on each size, such as 1g:60,2g:35 for seconds; a planner chooses among the sizes
    #[arg(long, value_name = "LIST", value_parser = times)]
    gpu_times: Option<Times>,
    /// Job profile: a planner learns run times from past jobs of this name
    #[arg(long, value_name = "NAME", value_parser = job_profile)]
    gpu_profile: Option<String>,
    /// Preferred place of the instance, GPU and first slice such as 3@4; another if it is taken
    #[arg(long, value_name = "GPU@START", value_parser = place)]
    gpu_place: Option<PlannedStart>,
    /// Wait up to TIME for whole GPUs that are predicted to exceed GBPS, or none
    #[arg(long, value_name = "GBPS:TIME", value_parser = wait)]
    gpu_wait: Option<SetWait>,
    /// Whole GPUs per node
    #[arg(long, visible_alias = "gpus-per-node", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus: Option<u32>,
}

impl RequestArgs {
    /// The request; `None` if no option was given.
    pub(crate) fn request(&self) -> Option<Request> {
        let partial = self.gpu_mem.is_some() || self.gpu_instances.is_some() || self.gpu_threads.is_some();
        let whole = self.gpus.is_some() || self.gpu_pattern.is_some() || self.gpu_bandwidth.is_some();
        let whole = whole || self.gpu_set_policy.is_some() || self.gpu_wait.is_some();
        let moldable = self.about_one_instance().is_some();
        let isolation = match &self.gpu_isolation {
            Some(isolation) => isolation.clone(),
            None if moldable => Isolation::Mig(None),
            None if partial => Isolation::Auto,
            None if whole => Isolation::Whole,
            None => return None,
        };
        Some(Request {
            isolation_typed: self.gpu_isolation.is_some(),
            mem_mib: self.gpu_mem,
            instances: self.gpu_instances.unwrap_or(1),
            threads: self.gpu_threads,
            pattern: self.gpu_pattern.clone(),
            bandwidth: self.gpu_bandwidth,
            policy: self.gpu_set_policy,
            wait: self.gpu_wait,
            gpus: self.gpus,
            times: self.gpu_times.clone().map(|times| times.0).unwrap_or_default(),
            job_profile: self.gpu_profile.clone(),
            place: self.gpu_place,
            ..Request::new(isolation)
        })
    }

    /// The first option that is about one MIG instance, whose size or place others may choose.
    fn about_one_instance(&self) -> Option<&'static str> {
        let given = [
            (self.gpu_times.is_some(), "--gpu-times"),
            (self.gpu_profile.is_some(), "--gpu-profile"),
            (self.gpu_place.is_some(), "--gpu-place"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }

    /// Why sbatch refuses these options together, if it does: some are about one MIG instance, others are not.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let about = self.about_one_instance()?;
        let isolation =
            self.gpu_isolation.as_ref().filter(|i| !matches!(i, Isolation::Mig(_) | Isolation::Auto));
        if let Some(other) = isolation {
            return Some(format!(
                "{about} does not go with --gpu-isolation={other}: it is about a MIG instance"
            ));
        }
        if self.gpu_instances.is_some_and(|n| n > 1) {
            return Some(format!("{about} does not go with --gpu-instances: it is about one instance"));
        }
        self.gpus.map(|_| format!("{about} does not go with --gpus: it is about a MIG instance"))
    }
}

/// Times by size: a list is one value of its option.
#[derive(Clone)]
struct Times(Vec<SizeTime>);

fn times(text: &str) -> Result<Times, String> {
    parse_times(text).map(Times).map_err(|e| e.to_string())
}

fn job_profile(text: &str) -> Result<String, String> {
    let expected = || "expected letters, digits, dots, underscores and hyphens, at most 64".to_owned();
    Some(text.to_owned()).filter(|t| is_job_profile_name(t)).ok_or_else(expected)
}

fn place(text: &str) -> Result<PlannedStart, String> {
    PlannedStart::parse(text).ok_or_else(|| "expected a GPU and a first slice, such as 3@4".to_owned())
}

fn isolation(text: &str) -> Result<Isolation, String> {
    Isolation::parse(text).map_err(|e| e.to_string())
}

fn memory(text: &str) -> Result<u64, String> {
    parse_mib(text).map_err(|why| format!("it {why}"))
}

fn threads(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|n| (1..=100).contains(n)).ok_or_else(|| "expected 1 to 100".to_owned())
}

fn set_policy(text: &str) -> Result<Selection, String> {
    Selection::parse(text).ok_or_else(|| "expected preserve, greedy, topo-aware or baseline".to_owned())
}

fn wait(text: &str) -> Result<SetWait, String> {
    SetWait::parse(text).ok_or_else(|| SetWait::EXPECTED.to_owned())
}

fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    match text {
        "sensitive" => Ok(Bandwidth::Sensitive),
        "insensitive" => Ok(Bandwidth::Insensitive),
        _ => Err("expected sensitive or insensitive".to_owned()),
    }
}
