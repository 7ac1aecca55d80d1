//! The GPUs of the nodes that take jobs, as they are now.

use std::collections::HashMap;

use far::Micros;
use geometry::{GpuIndex, JobId};
use node_layout::GpuLayout;
use protocol::Standing;
use site_config::{NodeSpec, SiteConfig};

use super::decide::Gpu;
use crate::clock;
use crate::layout_line;
use crate::outcome::Failure;
use crate::slurm::{reservations, scontrol, sinfo};

/// A GPU that may be planned.
pub(super) struct Found<'c> {
    pub(super) gpu: Gpu,
    pub(super) layout: GpuLayout,
    pub(super) spec: &'c NodeSpec,
}

/// All GPUs that may be planned. Left out are nodes that are drained, down, reserved or in maintenance, those to which slurmctld gives no
/// jobs of Tessera's, and unhealthy GPUs. A node whose layout cannot be read is named in `lines` and left out as well.
pub(super) fn gpus<'c>(
    config: &'c SiteConfig,
    ends: &HashMap<JobId, Micros>,
    lines: &mut Vec<String>,
) -> Result<Vec<Found<'c>>, Failure> {
    let nodes = sinfo::usable()?;
    let shown = scontrol::nodes()?;
    let layouts = scontrol::layouts_in(&shown);
    let (standings, sick) = (scontrol::standings_in(&shown), scontrol::sick_in(&shown));
    let (reservations, now) = (reservations::reservations()?, clock::epoch_seconds());
    let is_kept = |node: &str| reservations.iter().any(|r| r.is_active(now) && r.keeps(node, None));
    let is_away = |node: &str| standings.get(node).is_some_and(|standing| *standing != Standing::Same);
    let is_sick = |node: &str, gpu| sick.get(node).is_some_and(|all| all.iter().any(|sick| sick.gpu == gpu));
    let end = |job: JobId| ends.get(&job).copied();
    let mut gpus = Vec::new();
    for (spec, name) in config.nodes.iter().flat_map(|s| s.names.iter().map(move |n| (s, n))) {
        let (Some(partitions), Some(line)) = (nodes.get(name), layouts.get(name)) else { continue };
        if is_away(name) || is_kept(name) {
            continue;
        }
        let layout = match layout_line::read(line, &spec.gpus) {
            Ok(layout) => layout,
            Err(why) => {
                lines.push(format!("node {name} is left out: cannot read its layout: {why}\n"));
                continue;
            }
        };
        for (index, &model) in (0_u16..).zip(&spec.gpus) {
            if !crate::site::makes_instances(spec, usize::from(index)) || is_sick(name, GpuIndex(index)) {
                continue;
            }
            let here = layout.gpus.get(usize::from(index)).unwrap_or(&GpuLayout::Free);
            let now = crate::plan_inputs::of_layout(name, GpuIndex(index), here, &end);
            let gpu = Gpu { model, now, partitions: partitions.clone() };
            gpus.push(Found { gpu, layout: here.clone(), spec });
        }
    }
    Ok(gpus)
}
