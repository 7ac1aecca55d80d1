//! The present state of a GPU for planning, from a layout line.

use far::{Micros, PresentGpu, PresentInstance};
use geometry::{GpuIndex, JobId};
use node_layout::{GpuLayout, HolderLayout, Seats, Shares};

/// A GPU as a node's layout line tells it, with the expected end of every job that holds some of it (µs from now,
/// `None` if unknown). Under MPS a GPU or an instance is free when the last of its jobs ends.
#[must_use]
pub(crate) fn of_layout(
    node: &str,
    index: GpuIndex,
    gpu: &GpuLayout,
    end: &dyn Fn(JobId) -> Option<Micros>,
) -> PresentGpu {
    let shares = |s: &Shares| {
        let ends = s.listed.iter().map(|share| end(share.job));
        if s.more > 0 { None } else { ends.collect::<Option<Vec<_>>>()?.into_iter().max() }
    };
    // New jobs join the pool: its devices come back with the last of those that are there now at the earliest.
    let seats = |s: &Seats| {
        let ends = s.listed.iter().map(|(job, _)| end(*job));
        if s.more > 0 { None } else { ends.collect::<Option<Vec<_>>>()?.into_iter().max() }
    };
    let mut present = PresentGpu::empty(node, index.0);
    match gpu {
        GpuLayout::Free => {}
        // No instance can be planned there.
        GpuLayout::Slurm => present.usable_from = None,
        GpuLayout::Whole(job) => present.usable_from = end(*job),
        GpuLayout::Mps(s) => present.usable_from = shares(s),
        GpuLayout::Tasks(s) => present.usable_from = seats(s),
        GpuLayout::Mig(instances) => {
            for i in instances {
                let until = match &i.holder {
                    HolderLayout::Job(job) => end(*job),
                    HolderLayout::Mps(s) => shares(s),
                    HolderLayout::Compute(parts) => {
                        let ends = parts.iter().map(|part| end(part.job));
                        ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max())
                    }
                    HolderLayout::Tasks(s) => seats(s),
                    HolderLayout::Idle => Some(0),
                };
                let (profile, start) = (i.profile.clone(), i.start.0);
                present.instances.push(PresentInstance { profile, start, until });
            }
        }
    }
    present
}

#[cfg(test)]
mod tests {
    use far::Present;
    use geometry::Model;
    use node_layout::parse_layout;

    use super::*;

    const S: Micros = 1_000_000;

    #[test]
    fn a_layout_line_is_a_present_state() {
        let layout = parse_layout(
            "tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle,1g.5gb@3:mps[job14:2862M/25%]] gpu1=whole[job13] gpu2=free",
        )
        .unwrap();
        let end = |job: JobId| (job.0 != 14).then(|| Micros::from(job.0) * S);
        let gpus = layout.gpus.iter().zip(0..).map(|(g, k)| of_layout("n1", GpuIndex(k), g, &end));
        let gpus: Vec<PresentGpu> = gpus.collect();
        let until: Vec<_> = gpus[0].instances.iter().map(|i| i.until).collect();
        assert_eq!(until, [Some(12 * S), Some(0), None]);
        assert_eq!((gpus[1].usable_from, gpus[2].usable_from), (Some(13 * S), Some(0)));
        assert!(Present::new(Model::find("a100-40gb").unwrap(), gpus).is_ok());
    }
}
