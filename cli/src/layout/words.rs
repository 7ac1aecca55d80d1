//! The one-line layout that the controller publishes, read back.
//!
//! `tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle] gpu1=whole[job13] gpu2=mps[job14 2862M 25%] gpu3=free`

use placement::{GpuState, Holder, Instance, JobId, Model, Node, Share, Slice, Uid};

/// Sets the state of a node's GPUs as `text` says. GPUs that it does not name stay as they are. Users are not
/// published: every share is given to `uid`.
pub(crate) fn read(text: &str, node: &mut Node, uid: Uid) -> Result<(), String> {
    let text = text.trim();
    for word in split(text.strip_prefix("tessera ").unwrap_or(text), ' ') {
        let parts = word.strip_prefix("gpu").and_then(|w| w.split_once('='));
        let (index, state) = parts.ok_or_else(|| format!("{word:?} is not gpuN=…"))?;
        let index: usize = index.parse().map_err(|_| format!("{index:?} is not the number of a GPU"))?;
        let n = node.gpus.len();
        let gpu = node.gpus.get_mut(index).ok_or_else(|| format!("gpu{index}: the node has {n} GPUs"))?;
        gpu.state = read_state(state, gpu.model, uid).map_err(|why| format!("gpu{index}: {why}"))?;
    }
    Ok(())
}

fn read_state(text: &str, model: &'static Model, uid: Uid) -> Result<GpuState, String> {
    let inside = |name: &str| text.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']');
    if text == "free" {
        Ok(GpuState::Free)
    } else if let Some(id) = inside("whole") {
        Ok(GpuState::Whole(job(id)?))
    } else if let Some(list) = inside("mps") {
        Ok(GpuState::Mps(shares(list, uid)?))
    } else if let Some(list) = inside("mig") {
        let list: Result<Vec<Instance>, String> = split(list, ',').map(|i| instance(i, model, uid)).collect();
        list.map(GpuState::Mig)
    } else {
        Err(format!("{text:?} is none of free, whole[…], mps[…], mig[…]"))
    }
}

fn instance(text: &str, model: &'static Model, uid: Uid) -> Result<Instance, String> {
    let parts = text.split_once(':').and_then(|(place, holder)| Some((place.split_once('@')?, holder)));
    let ((profile, start), holder) = parts.ok_or_else(|| format!("{text:?} is not PROFILE@START:HOLDER"))?;
    let known = model.profile(profile).ok_or_else(|| format!("{} has no profile {profile:?}", model.key))?;
    let start = start.parse().ok().map(Slice).filter(|s| known.starts.contains(s));
    let start = start.ok_or_else(|| format!("{text:?}: no {profile} can start there"))?;
    let holder = match holder.strip_prefix("mps[").and_then(|h| h.strip_suffix(']')) {
        Some(list) => Holder::Shared(shares(list, uid)?),
        None if holder == "idle" => Holder::Idle,
        None => Holder::Isolated(job(holder)?),
    };
    Ok(Instance { profile: known.id, start, holder })
}

fn job(text: &str) -> Result<JobId, String> {
    let id = text.strip_prefix("job").and_then(|id| id.parse().ok());
    id.map(JobId).ok_or_else(|| format!("{text:?} is not jobN"))
}

/// `job14 2862M 25%`, more after commas.
fn shares(list: &str, uid: Uid) -> Result<Vec<Share>, String> {
    let share = |text: &str| {
        let mut words = text.split(' ');
        let (id, mem, threads) =
            (words.next()?, words.next()?.strip_suffix('M')?, words.next()?.strip_suffix('%')?);
        let job = job(id).ok()?;
        Some(Share { job, uid, mem_mib: mem.parse().ok()?, threads: threads.parse().ok()? })
    };
    list.split(',').map(|t| share(t).ok_or_else(|| format!("{t:?} is not jobN MEMORYM THREADS%"))).collect()
}

/// Parts between separators that are not within brackets; empty ones are left out.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c == separator
    });
    parts.filter(|p| !p.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::{Gpu, LinkMatrix, MigPolicy};

    fn node(n: usize) -> Node {
        let model = Model::find("a100-40gb").unwrap();
        let gpu = || Gpu { model, policy: MigPolicy::Dynamic, state: GpuState::Free };
        Node { gpus: (0..n).map(|_| gpu()).collect(), links: LinkMatrix::uniform(n, 10.0) }
    }

    #[test]
    fn every_state_is_read() {
        let mut node = node(4);
        let text = "tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:mps[job3 100M 5%,job4 200M 6%],1g.5gb@3:idle] \
                    gpu1=whole[job13] gpu2=mps[job14 2862M 25%] gpu3=free";
        read(text, &mut node, Uid(7)).unwrap();
        let GpuState::Mig(instances) = &node.gpus[0].state else { panic!("{:?}", node.gpus[0].state) };
        assert_eq!(instances[0].holder, Holder::Isolated(JobId(12)));
        assert!(
            matches!(&instances[1].holder, Holder::Shared(s) if s[1].mem_mib == 200 && s[1].uid == Uid(7))
        );
        assert_eq!((instances[2].start, &instances[2].holder), (Slice(3), &Holder::Idle));
        assert_eq!(node.gpus[1].state, GpuState::Whole(JobId(13)));
        assert!(matches!(&node.gpus[2].state, GpuState::Mps(s) if s[0].threads == 25));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "gpu4=free",
            "gpu0=busy",
            "gpu=free",
            "gpu0=mig[2g.11gb@0:idle]",
            "gpu0=mig[2g.10gb@1:idle]",
            "gpu0=whole[x]",
            "gpu0=mps[job1]",
            "hello",
            "gpu0=mig[",
            "gpu0=mig[2g.10gb@0]",
        ] {
            assert!(read(text, &mut node(1), Uid(0)).is_err(), "{text}");
        }
    }
}
