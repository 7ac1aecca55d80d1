//! The GPUs of the nodes that take jobs, as they are now.

use std::collections::HashMap;

use placement::far::{Micros, PresentGpu};
use placement::layout::GpuLayout;
use placement::{GpuIndex, JobId, MigPolicy};
use site_config::SiteConfig;

use super::decide::Gpu;
use crate::outcome::Failure;
use crate::{layout, slurm};

/// States of a node that takes jobs.
const USABLE: [&str; 4] = ["idle", "mixed", "allocated", "completing"];

/// All GPUs that may be planned. A node that is drained, down, reserved or in maintenance is left out.
pub(super) fn gpus(config: &SiteConfig, ends: &HashMap<JobId, Micros>) -> Result<Vec<Gpu>, Failure> {
    let nodes = nodes_in(&slurm::run(
        "sinfo",
        &["-h", "-N", "-a", "-O", "nodelist:256,statelong:32,partitionname:128"],
    )?);
    let published = slurm::layouts()?;
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
}
