//! A published layout, read for a node that `tessera.toml` describes.

use std::collections::BTreeSet;

use geometry::{GpuIndex, JobId, Model, Profile, Slice, Uid, counted};
use node_layout::{ComputeLayout, GpuLayout, HolderLayout, OFF, Seats, Shares};
use node_layout::{Layout, parse_layout};
use node_state::{Claim, ComputeHold, GpuState, Holder, Instance, Node, Seat, Share};
use protocol::node_word::UNFIT;
use protocol::{MigSpec, ShareOn};

/// Reads a layout and checks it against the node's models. A line that ended early leaves the other GPUs out.
pub(crate) fn read(line: &str, models: &[&'static Model]) -> Result<Layout, String> {
    if let Some(why) = line.trim().strip_prefix(UNFIT) {
        return Err(format!("takes no jobs with GPUs: {why}"));
    }
    if line.trim() == OFF {
        return Err(OFF.to_owned());
    }
    let layout = parse_layout(line.trim()).map_err(|e| e.to_string())?;
    if layout.gpus.len() > models.len() {
        return Err(format!(
            "it shows {}, tessera.toml has {} for the node",
            counted(layout.gpus.len(), "GPU"),
            models.len()
        ));
    }
    for (i, (gpu, model)) in layout.gpus.iter().zip(models).enumerate() {
        let GpuLayout::Mig(instances) = gpu else { continue };
        let mut taken = 0;
        for instance in instances {
            let at = |p: &&Profile| p.starts.contains(&instance.start);
            let profile = model.profile(&instance.profile).filter(at).ok_or_else(|| {
                format!(
                    "gpu{i}: a {} cannot start at memory slice {} ({})",
                    instance.profile, instance.start, model.key
                )
            })?;
            let mask = profile.at(instance.start).mask();
            if taken & mask != 0 {
                return Err(format!("gpu{i}: {} at {} overlaps another", instance.profile, instance.start));
            }
            taken |= mask;
            if let HolderLayout::Compute(parts) = &instance.holder {
                compute_fits(profile, parts).map_err(|why| format!("gpu{i}: {why}"))?;
            }
        }
    }
    Ok(layout)
}

/// Checks that these compute instances can be beside each other.
fn compute_fits(profile: &Profile, parts: &[ComputeLayout]) -> Result<(), String> {
    let mut taken = 0;
    for ComputeLayout { part, .. } in parts {
        let size = profile.compute(part.slices).filter(|size| size.starts.contains(&part.start));
        if size.is_none() || taken & part.mask() != 0 {
            let name = profile.compute_name(part.slices);
            return Err(format!("no {name} can start at compute slice {} next to the others", part.start));
        }
        taken |= part.mask();
    }
    Ok(())
}

/// Stands for each job whose share a layout does not list.
pub(crate) const UNLISTED: JobId = JobId(0);

/// Most shares that are taken over for jobs that a layout does not list: MPS has 48 clients on a device.
const MOST_UNLISTED: usize = 64;

/// Lists the jobs on a node, and [`UNLISTED`] for those that its layout does not list.
pub(crate) fn holders(node: &Node) -> BTreeSet<JobId> {
    let layout = node_layout::layout_of(node);
    let hidden = node.gpus_of(UNLISTED).next().map(|_| UNLISTED);
    layout.gpus.iter().flat_map(|gpu| gpu.jobs()).chain(hidden).collect()
}

/// Puts a layout onto a node. Layouts do not name users: `owner` tells whose a job is. Shares that a layout only adds up belong to
/// [`UNLISTED`], each with an equal part of the sum. GPUs that it does not have stay as they are.
pub(crate) fn take_over(layout: &Layout, node: &mut Node, owner: &dyn Fn(JobId) -> Uid) {
    node.claims = claims(layout, node);
    for (gpu, says) in node.gpus.iter_mut().zip(&layout.gpus) {
        gpu.state = match says {
            GpuLayout::Free | GpuLayout::Slurm => GpuState::Free,
            GpuLayout::Whole(job) => GpuState::Whole(*job),
            GpuLayout::Mps(list) => GpuState::Mps(shares(list, owner)),
            GpuLayout::Tasks(pool) => GpuState::Tasks(seats(pool, owner)),
            GpuLayout::Mig(instances) => {
                let known = instances.iter().filter_map(|i| {
                    let profile = gpu.model.profile(&i.profile)?.id;
                    Some(Instance { profile, start: Slice(i.start.0), holder: holder(&i.holder, owner) })
                });
                GpuState::Mig(known.collect())
            }
        };
    }
}

fn holder(holder: &HolderLayout, owner: &dyn Fn(JobId) -> Uid) -> Holder {
    match holder {
        HolderLayout::Job(job) => Holder::Isolated(*job),
        HolderLayout::Mps(list) => Holder::Shared(shares(list, owner)),
        HolderLayout::Compute(parts) => {
            let hold = |p: &ComputeLayout| ComputeHold {
                job: p.job,
                uid: owner(p.job),
                part: p.part,
                mem_mib: p.mem_mib,
            };
            Holder::Compute(parts.iter().map(hold).collect())
        }
        HolderLayout::Tasks(pool) => Holder::Pool(seats(pool, owner)),
        HolderLayout::Idle => Holder::Idle,
    }
}

fn seats(pool: &Seats, owner: &dyn Fn(JobId) -> Uid) -> Vec<Seat> {
    let listed = pool.listed.iter().map(|(job, seats)| Seat { job: *job, uid: owner(*job), seats: *seats });
    // Each has one seat at least.
    let unlisted = Seat { job: UNLISTED, uid: owner(UNLISTED), seats: 1 };
    listed.chain(std::iter::repeat_n(unlisted, pool.more.min(MOST_UNLISTED))).collect()
}

/// The claims that a layout shows.
fn claims(layout: &Layout, node: &Node) -> Vec<Claim> {
    let mut all = Vec::new();
    for ((says, gpu), i) in layout.gpus.iter().zip(&node.gpus).zip(0_u16..) {
        let index = GpuIndex(i);
        match says {
            GpuLayout::Tasks(pool) => {
                all.extend(pool.claimed.map(|job| Claim { job, on: ShareOn::Gpu(index) }));
            }
            GpuLayout::Mig(instances) => all.extend(instances.iter().filter_map(|i| {
                let HolderLayout::Tasks(pool) = &i.holder else { return None };
                let profile = gpu.model.profile(&i.profile)?.id;
                let spec = MigSpec { gpu: index, profile, start: i.start };
                Some(Claim { job: pool.claimed?, on: ShareOn::Instance(spec) })
            })),
            _ => {}
        }
    }
    all
}

fn shares(list: &Shares, owner: &dyn Fn(JobId) -> Uid) -> Vec<Share> {
    let share = |s: &node_layout::ShareLayout| Share {
        job: s.job,
        uid: owner(s.job),
        mem_mib: s.mem_mib,
        threads: s.threads,
    };
    let count = list.more.min(MOST_UNLISTED) as u64;
    let part =
        |sum: u64, i: u64| (sum.saturating_mul(i + 1) / count).saturating_sub(sum.saturating_mul(i) / count);
    // Where users do not share, a device has one: else nobody knows whose they are.
    let mut uids = list.listed.iter().map(|share| owner(share.job));
    let first = uids.next();
    let uid = first.filter(|uid| uids.all(|other| other == *uid)).unwrap_or_else(|| owner(UNLISTED));
    let unlisted = (0..count).map(|i| Share {
        job: UNLISTED,
        uid,
        mem_mib: part(list.rest.0, i),
        threads: u8::try_from(part(list.rest.1, i)).unwrap_or(u8::MAX),
    });
    list.listed.iter().map(share).chain(unlisted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_state::{Gpu, MigPolicy};
    use topology::HardwareGraph;

    #[test]
    fn a_layout_comes_back_from_the_node_it_is_put_onto() {
        let model = Model::find("a100-40gb").unwrap();
        let gpu = Gpu::new(model, MigPolicy::Dynamic);
        let mut node = Node::new(vec![gpu; 4], HardwareGraph::uniform(4, 10.0));
        let line = "tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:mps[job3:100M/5%,job4:200M/6%],1g.5gb@3:idle] \
                    gpu1=whole[job13] gpu2=mps[job14:2862M/25%] gpu3=mig[7g.40gb@0:ci[4c@0:job15:9537M,3c@4:job16:9537M]]";
        take_over(&read(line, &[model; 4]).unwrap(), &mut node, &|_| Uid(7));
        assert_eq!(node_layout::layout_of(&node).to_string(), line);
    }

    #[test]
    fn shares_that_a_layout_does_not_list_take_what_they_take() {
        let model = Model::find("a100-40gb").unwrap();
        let mut node = Node::new(vec![Gpu::new(model, MigPolicy::Off)], HardwareGraph::uniform(1, 10.0));
        let listed: Vec<String> = (1..=8).map(|job| format!("job{job}:1000M/3%")).collect();
        let line = format!("tessera gpu0=mps[{}+7:20000M/74%]", listed.join(","));
        // Where all that are listed are one user's, the others are his: users do not share.
        let owner = |job: JobId| if job == UNLISTED { Uid(u32::MAX) } else { Uid(7) };
        take_over(&read(&line, &[model]).unwrap(), &mut node, &owner);
        assert_eq!(node_layout::layout_of(&node).to_string(), line);
        assert!(holders(&node).contains(&UNLISTED));
        let GpuState::Mps(shares) = &node.gpus[0].state else { panic!("{node:?}") };
        let sum = |of: &dyn Fn(&Share) -> u64| shares[8..].iter().map(of).sum::<u64>();
        assert_eq!(
            [sum(&|s| s.mem_mib), sum(&|s| u64::from(s.threads)), shares.len() as u64],
            [20_000, 74, 15]
        );
        assert!(shares.iter().all(|share| share.uid == Uid(7)));
        take_over(&read(&line, &[model]).unwrap(), &mut node, &|job| Uid(job.0));
        let GpuState::Mps(shares) = &node.gpus[0].state else { panic!("{node:?}") };
        assert_eq!(shares[8].uid, Uid(0), "somebody's");
    }

    #[test]
    fn a_node_that_takes_no_jobs_with_gpus_says_why() {
        let why = read("tessera unfit: GPU 1 is missing\n", &[]).unwrap_err();
        assert_eq!(why, "takes no jobs with GPUs: GPU 1 is missing");
    }

    #[test]
    fn what_the_node_cannot_have_is_refused() {
        let model = Model::find("a100-40gb").unwrap();
        for line in [
            "tessera gpu0-1=free",
            "tessera gpu0=mig[2g.11gb@0:idle]",
            "tessera gpu0=mig[2g.10gb@1:idle]",
            "tessera gpu0=mig[7g.40gb@0:ci[4c@0:job1:1M,3c@0:job2:1M]]",
            "tessera gpu0=mig[7g.40gb@0:ci[5c@0:job1:1M]]",
            "tessera gpu0=mig[2g.10gb@0:idle,1g.5gb@1:idle]",
            "gpu0=free",
        ] {
            assert!(read(line, &[model]).is_err(), "{line}");
        }
    }
}
