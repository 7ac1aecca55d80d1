//! The GPUs of the nodes that take jobs, as they are now.

use std::collections::HashMap;

use placement::far::{Micros, PresentGpu};
use placement::layout::GpuLayout;
use placement::planned::parse_started;
use placement::{GpuIndex, JobId, MigPolicy, Request};
use site_config::SiteConfig;

use super::decide::Gpu;
use crate::outcome::Failure;
use crate::squeue::Job;
use crate::{layout, slurm};

/// States of a node that takes jobs.
const USABLE: [&str; 4] = ["idle", "mixed", "allocated", "completing"];

/// All GPUs that may be planned. A node that is drained, down, reserved or in maintenance is left out.
/// `asked` is what running jobs asked while they were pending, as far as that was seen.
pub(super) fn gpus(
    config: &SiteConfig,
    jobs: &[Job],
    asked: &HashMap<u32, Request>,
    now: u64,
) -> Result<Vec<Gpu>, Failure> {
    let nodes = nodes_in(&slurm::run(
        "sinfo",
        &["-h", "-N", "-a", "-O", "nodelist:256,statelong:32,partitionname:128"],
    )?);
    let published = slurm::layouts()?;
    let ends = ends(jobs, asked, now);
    let end = |job: JobId| ends.get(&job).copied();
    let mut gpus = Vec::new();
    for (spec, name) in config.nodes.iter().flat_map(|s| s.names.iter().map(move |n| (s, n))) {
        let (Some(partitions), Some(line)) = (nodes.get(name), published.get(name)) else { continue };
        if spec.mig == MigPolicy::Off {
            continue;
        }
        let layout =
            layout::read(line, &spec.gpus).map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        for (index, &model) in (0_u16..).zip(&spec.gpus) {
            let here = layout.gpus.get(usize::from(index)).unwrap_or(&GpuLayout::Free);
            let now = PresentGpu::of_layout(name, GpuIndex(index), here, &end);
            gpus.push(Gpu { model, now, partitions: partitions.clone() });
        }
    }
    Ok(gpus)
}

/// Partitions of each usable node. A node has a line per partition.
fn nodes_in(text: &str) -> HashMap<String, Vec<String>> {
    let mut nodes: HashMap<String, Vec<String>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(node), Some(state), Some(partition)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if USABLE.contains(&state) {
            nodes.entry(node.to_owned()).or_default().push(partition.to_owned());
        }
    }
    nodes
}

/// How long each running job is expected to run on, µs: as it was planned, else as it said itself, else until its time
/// limit. Jobs that are past all of that are of unknown end.
fn ends(jobs: &[Job], asked: &HashMap<u32, Request>, now: u64) -> HashMap<JobId, Micros> {
    let end = |job: &Job| {
        if job.state != "RUNNING" && job.state != "COMPLETING" {
            return None;
        }
        let started = parse_started(&job.comment);
        // As long as it was planned to run, from when it really began.
        let planned = started.as_ref().and_then(|s| s.planned).map(|(begin, end)| end.saturating_sub(begin));
        let said = || said(asked.get(&job.id)?, &started.as_ref()?.got);
        let expected = job.start.zip(planned.or_else(said)).map(|(begin, seconds)| begin + seconds);
        let end = expected.filter(|end| *end > now).or(job.end)?;
        Some((JobId(job.id), end.saturating_sub(now).max(1) * 1_000_000))
    };
    jobs.iter().filter_map(end).collect()
}

/// Seconds that a job says it runs on the instance it got, `n1=mig:3/2g.10gb@4`.
fn said(request: &Request, got: &str) -> Option<u64> {
    let (_, instance) = got.split_once("=mig:")?.1.split_once('/')?;
    let slices: u8 = instance.split_once("g.")?.0.parse().ok()?;
    request.times.iter().find(|t| t.slices == slices).map(|t| t.millis.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_take_jobs() {
        let text = "n1   idle     gpu\nn1   idle     debug\nn2   drained  gpu\nn3   mixed    gpu\nn4 reserved gpu\nn5\n";
        let nodes = nodes_in(text);
        assert_eq!(nodes.get("n1").map(Vec::len), Some(2));
        let mut names: Vec<_> = nodes.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["n1", "n3"]);
    }

    #[test]
    fn ends_are_planned_ones_else_limits() {
        let job = |id, comment: &str, end| Job {
            id,
            state: "RUNNING".to_owned(),
            start: Some(1000),
            end,
            comment: comment.to_owned(),
            ..Job::default()
        };
        let got = "tessera: n1=mig:0/1g.5gb@0";
        let planned = |begin, end| format!("{got} planned={begin}-{end}: why");
        let jobs = [
            job(1, &planned(990, 1090), Some(9999)),
            job(2, &planned(900, 910), Some(1500)),
            job(3, &planned(900, 910), None),
            job(4, &format!("{got}: why"), Some(1200)),
            job(5, "", None),
            job(6, &format!("{got}: why"), None),
        ];
        let request = placement::wire::parse_request("v1 iso=mig times=1g:70,2g:40").unwrap();
        let ends = ends(&jobs, &HashMap::from([(6, request)]), 1050);
        let seconds = |id| ends.get(&JobId(id)).map(|us| us / 1_000_000);
        assert_eq!([1, 2, 3, 4, 5, 6].map(seconds), [Some(50), Some(450), None, Some(150), None, Some(20)]);
    }
}
