//! Options that several commands read: GPUs, patterns, policies, models.

pub(crate) mod links;

use std::ops::RangeInclusive;

use clap::ValueEnum;
use geometry::{GpuIndex, Model};
use plugin_rt::read_file::{CONFIG, EDGE_LIST, read_small};
use topology::{BandwidthModel, Coefficients, GpuSet, HardwareGraph, Pattern, Selection};

use crate::outcome::Failure;

/// Sensitivity of a job to the bandwidth between its GPUs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sensitivity {
    /// Well-linked GPUs make it faster
    Sensitive,
    /// Any GPUs do
    Insensitive,
}

/// A pattern by name, or the edge list of `file:PATH`.
pub(crate) fn pattern(text: &str) -> Result<Pattern, String> {
    if let Some(named) = Pattern::by_name(text) {
        return Ok(named);
    }
    let path = text.strip_prefix("file:").ok_or(Pattern::EXPECTED)?;
    let list = read_small(path.as_ref(), EDGE_LIST).map_err(|e| format!("cannot read {path}: {e}"))?;
    job_options::parse_edges(&list).map_err(|e| format!("{path}: {e}"))
}

pub(crate) fn policy(text: &str) -> Result<Selection, String> {
    Selection::parse(text).ok_or_else(|| "expected baseline, topo-aware, greedy or preserve".to_owned())
}

/// Reads a part of a list such as `0,3-5`: a number, or a range that does not descend.
pub(crate) fn range(part: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// A list of GPUs, ranges allowed; GPUs up to 63. An empty list is no GPU.
pub(crate) fn gpu_list(text: &str) -> Result<GpuSet, String> {
    let gpus = |part: &str| range(part).filter(|gpus| *gpus.end() < 64);
    let mut set = GpuSet::EMPTY;
    for part in text.split(',').filter(|p| !p.trim().is_empty()) {
        let gpus = gpus(part).ok_or("expected GPUs such as 0,3-5")?;
        gpus.filter_map(|g| u16::try_from(g).ok()).for_each(|g| set.insert(GpuIndex(g)));
    }
    Ok(set)
}

/// A number of GPUs, 1 or more.
pub(crate) fn gpu_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected 1 or more".to_owned())
}

/// A GPU model and how many of them: `a100-40gb,8`; one without a number.
pub(crate) fn model_and_count(text: &str) -> Result<(String, usize), String> {
    let (model, count) = text.rsplit_once(',').unwrap_or((text, "1"));
    match count.trim().parse() {
        Ok(count @ 1..=64) => Ok((model.trim().to_owned(), count)),
        _ => Err(format!("{count:?} is not a number of GPUs (1 to 64)")),
    }
}

/// The GPUs that are not busy.
pub(crate) fn free(graph: &HardwareGraph, busy: GpuSet) -> Result<GpuSet, Failure> {
    let strange: Vec<String> =
        busy.iter().filter(|g| !graph.all().contains(*g)).map(|g| g.to_string()).collect();
    if strange.is_empty() {
        return Ok(GpuSet::from_bits(graph.all().bits() & !busy.bits()));
    }
    let last = graph.len().saturating_sub(1);
    Err(Failure::new(format!("--busy: no GPU {}", strange.join(", "))).hint(format!("GPUs 0 to {last}")))
}

/// A model by name or from a file of `tessera fit bandwidth`.
pub(crate) fn model(text: &str) -> Result<BandwidthModel, Failure> {
    let named = [BandwidthModel::Mapa2021, BandwidthModel::default()];
    if let Some(model) = named.into_iter().find(|model| model.name() == text) {
        return Ok(model);
    }
    let known = "bottleneck, mapa2021 or a file that `tessera fit bandwidth` wrote";
    let read = read_small(text.as_ref(), CONFIG)
        .map_err(|e| Failure::new(format!("no model {text:?}: {e}")).hint(known))?;
    let number = |key: &str| {
        let line = read.lines().find_map(|l| l.split_once('=').filter(|(k, _)| k.trim() == key))?;
        line.1.trim().parse::<f64>().ok()
    };
    number("slowest")
        .zip(number("sends"))
        .and_then(|(slowest, sends)| Coefficients::new(slowest, sends))
        .map(BandwidthModel::Bottleneck)
        .ok_or_else(|| Failure::new(format!("{text} has no coefficients slowest and sends")).hint(known))
}

/// The GPU model with this key or NVML name.
pub(crate) fn gpu_model(name: &str) -> Result<&'static Model, Failure> {
    Model::find(name).ok_or_else(|| {
        let begin: Vec<&str> = Model::beginning_with(name).iter().map(|m| m.key.as_str()).collect();
        let hint = match &begin[..] {
            [] => "`tessera profiles` lists all models".to_owned(),
            meant => format!("did you mean {}?", meant.join(" or ")),
        };
        Failure::new(format!("unknown GPU model {name:?}")).hint(hint)
    })
}

/// The GPU model with this name, for work on MIG instances.
pub(crate) fn mig_model(name: &str) -> Result<&'static Model, Failure> {
    let model = gpu_model(name)?;
    if model.has_mig() {
        return Ok(model);
    }
    Err(Failure::new(format!("{} cannot be partitioned into MIG instances", model.key))
        .hint("`tessera profiles` lists the models and their instances"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_gpus_reads_numbers_and_ranges() {
        assert_eq!(gpu_list("0,3-5").map(|s| s.to_string()), Ok("0,3-5".to_owned()));
        assert_eq!(gpu_list(""), Ok(GpuSet::EMPTY));
        assert!(["a", "5-3", "64", "-1"].iter().all(|t| gpu_list(t).is_err()));
    }
}
