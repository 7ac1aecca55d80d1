//! The report for people, and as JSON.

use std::fmt::Write as _;

use geometry::size::{display_gb, gigabytes_as_mib};
use link_learning::SENSITIVE_FROM;
use protocol::Bandwidth;
use serde_json::{Value, json};

use super::earlier::Earlier;
use super::record::Record;
use super::untold::Untold;
use crate::clock::span;
use crate::render::gigabytes;

/// A job is told to ask for less if it used less than this part of what it asked for, in percent.
const USED_LITTLE: u64 = 67;
/// Least wait that is worth a word, seconds.
const LEAST_S: u64 = 60;

/// Stands for a value that Slurm's accounting has only of jobs that are over.
const AT_END: &str = "not known before the job's end";

/// The report, a line for each thing that is known.
pub(super) fn of(job: &Record, earlier: Option<&Earlier>, untold: Option<Untold>) -> String {
    let mut out = format!("job {} of {}: {}\n", job.number, job.user, job.state);
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<11} {text}");
    };
    line("got", got(job));
    if let Some(waited) = job.waited_s {
        line("waited", span(waited));
    }
    line("ran", span(job.ran_s));
    if let Some(slices) = job.slices {
        let hours = slices * job.ran_s;
        let bill = job.billing.map_or(String::new(), |n| format!(", billed as {n}"));
        line("slices", format!("{slices} ({} slice hours){bill}", tenths(hours, 3600)));
    }
    match job.energy_j {
        Some(j) => line("energy", format!("{} kJ{}", tenths(j, 1000), mean_power(j, job.ran_s))),
        None if job.goes_on() => line("energy", AT_END.to_owned()),
        None => {
            line("energy", "not accounted; docs/energy-and-usage.md, \"Energy of jobs\", says how".to_owned())
        }
    }
    line("GPU memory", memory(job));
    if let Some(busy) = job.busy_percent {
        let mean = job.busy_mean_percent.map_or(String::new(), |mean| format!(", {mean} % on average"));
        line("GPU busy", format!("at most {busy} %{mean}"));
    } else if let Some(untold) = untold {
        line("GPU busy", untold.why().to_owned());
    }
    if let Some(links) = links(job) {
        line("links", links);
    }
    if let Some(label) = job.wrong_label() {
        line("bandwidth", contradiction(label));
    }
    if let Some(next) = next_time(job, earlier) {
        line("next time", next);
    }
    out
}

/// Traffic of the job's GPUs, if some was counted.
fn links(job: &Record) -> Option<String> {
    let rate =
        job.run()?.rate().map_or(String::new(), |rate| format!(": {} GB/s by each GPU", gigabytes(rate)));
    let nvlink = job.nvlink_sent.map(|sent| format!("{} GB sent over NVLink", gigabytes(sent)));
    let pcie = job.pcie_sent.map(|sent| format!("about {} GB sent over PCIe", gigabytes(sent)));
    let both: Vec<String> = nvlink.into_iter().chain(pcie).collect();
    Some(format!("{}{rate}", both.join(", ")))
}

/// Says what to do about a label that the job's traffic contradicts.
fn contradiction(label: Bandwidth) -> String {
    let least = gigabytes(SENSITIVE_FROM);
    match label {
        Bandwidth::Insensitive => format!(
            "the job asked for --gpu-bandwidth=insensitive, but {least} GB/s and more need good links: leave the option out"
        ),
        Bandwidth::Sensitive => format!(
            "the job asked for --gpu-bandwidth=sensitive, but less than {least} GB/s needs no good links: with insensitive, it \
             leaves them to other jobs"
        ),
    }
}

fn got(job: &Record) -> String {
    match (&job.started, job.gpus) {
        (Some(started), _) if started.why.is_empty() => started.got.clone(),
        (Some(started), _) => format!("{} ({})", started.got, started.why),
        // slurmctld has not said what it gave to a job that runs.
        (None, Some(gpus)) if job.goes_on() => geometry::counted(gpus, "GPU"),
        (None, None) if job.goes_on() => AT_END.to_owned(),
        (None, Some(gpus)) => format!("{}, by Slurm alone", geometry::counted(gpus, "GPU")),
        (None, None) => "no GPU that Slurm's accounting knows of".to_owned(),
    }
}

fn memory(job: &Record) -> String {
    let (Some(all), Some(device)) = (job.memory_mib, job.device_mib) else {
        if job.goes_on() {
            return AT_END.to_owned();
        }
        return "not recorded; `tessera report --help` says what records it".to_owned();
    };
    if all == 0 {
        return "none was seen in use".to_owned();
    }
    let asked =
        job.asked_mib.map_or(String::new(), |asked| format!(" of the {} asked for", display_gb(asked)));
    let most = display_gb(device);
    if device < all {
        return format!("at most {}; on one device {most}{asked}", display_gb(all));
    }
    format!("at most {most}{asked}")
}

/// Computes the memory that would have been enough, with a quarter more, GB.
pub(super) fn enough_gb(job: &Record) -> Option<u32> {
    let (used, asked) = (job.device_mib.filter(|used| *used > 0)?, job.asked_mib?);
    let wanted = used + used / 4;
    let gb = (1..=u32::MAX).find(|gb| gigabytes_as_mib(*gb) >= wanted)?;
    (used * 100 < asked * USED_LITTLE && gigabytes_as_mib(gb) < asked).then_some(gb)
}

/// A job that ran longer than this was looked at several times, s.
const LOOKED_AT: u64 = 300;

fn next_time(job: &Record, earlier: Option<&Earlier>) -> Option<String> {
    if job.memory_mib == Some(0) && job.busy_percent.is_none_or(|busy| busy == 0) && job.ran_s >= LOOKED_AT {
        return Some("the job may need no GPU: it was not seen to use one".to_owned());
    }
    let gb = enough_gb(job)?;
    if let Some(Earlier { node, seconds }) = earlier.filter(|earlier| earlier.seconds >= LEAST_S) {
        return Some(format!(
            "--gpu-mem={gb}G is enough, and {node} would have had a place for it {} earlier.",
            span(*seconds)
        ));
    }
    let waited =
        job.waited_s.filter(|s| *s >= LEAST_S).map_or(String::new(), |s| format!(" It waited {}.", span(s)));
    Some(format!("--gpu-mem={gb}G is enough: smaller requests start sooner and cost less.{waited}"))
}

fn mean_power(joules: u64, seconds: u64) -> String {
    joules.checked_div(seconds).map_or(String::new(), |watts| format!(", {watts} W on average"))
}

/// `n / unit` with one decimal, rounded down.
pub(super) fn tenths(n: u64, unit: u64) -> String {
    format!("{}.{}", n / unit, n % unit * 10 / unit)
}

/// Writes the report as JSON; `null` for what is not known.
pub(super) fn json(job: &Record, earlier: Option<&Earlier>) -> Value {
    json!({
        "job": job.number,
        "user": job.user,
        "state": job.state,
        "got": job.started.as_ref().map(|s| &s.got),
        "why": job.started.as_ref().map(|s| &s.why),
        "gpus": job.gpus,
        "waited_s": job.waited_s,
        "ran_s": job.ran_s,
        "slices": job.slices,
        "billing": job.billing,
        "energy_j": job.energy_j,
        "asked_mib": job.asked_mib,
        "memory_mib": job.memory_mib,
        "device_mib": job.device_mib,
        "busy_percent": job.busy_percent,
        "busy_mean_percent": job.busy_mean_percent,
        "nvlink_sent_bytes": job.nvlink_sent,
        "pcie_sent_bytes": job.pcie_sent,
        "label_contradicted": job.wrong_label().map(Bandwidth::word),
        "enough_gb": enough_gb(job),
        "place_earlier_s": earlier.map(|earlier| earlier.seconds),
    })
}
