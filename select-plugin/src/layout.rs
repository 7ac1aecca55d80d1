//! A node's layout in one line, for `sinfo -O nodelist,extra`.

use std::fmt::Write as _;

use placement::{Gpu, GpuState, Holder, Instance, Node, Share};

/// Every layout begins with this; a site's own text in `extra` does not, and is left alone.
pub(crate) const MARKER: &str = "tessera ";

/// The layout with its marker: `tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle] gpu1=whole[job13] gpu2=free`.
///
/// Only our own words, names from the model data and numbers occur in it: nothing of it comes from a user.
pub(crate) fn text(node: &Node) -> String {
    let mut out = String::from(MARKER);
    for (i, gpu) in node.gpus.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}gpu{i}={}", if i == 0 { "" } else { " " }, state(gpu));
    }
    out
}

fn state(gpu: &Gpu) -> String {
    match &gpu.state {
        GpuState::Free => "free".to_owned(),
        GpuState::Whole(job) => format!("whole[job{job}]"),
        GpuState::Mps(list) => format!("mps[{}]", shares(list)),
        GpuState::Mig(list) if list.is_empty() => "free".to_owned(),
        GpuState::Mig(list) => {
            let mut list: Vec<&Instance> = list.iter().collect();
            list.sort_by_key(|i| i.start);
            format!("mig[{}]", list.iter().map(|i| instance(gpu, i)).collect::<Vec<_>>().join(","))
        }
    }
}

fn instance(gpu: &Gpu, instance: &Instance) -> String {
    let profile = gpu.profile_of(instance).map_or("?", |p| p.name.as_str());
    let holder = match &instance.holder {
        Holder::Isolated(job) => format!("job{job}"),
        Holder::Shared(list) => format!("mps[{}]", shares(list)),
        Holder::Idle => "idle".to_owned(),
    };
    format!("{profile}@{}:{holder}", instance.start)
}

fn shares(list: &[Share]) -> String {
    list.iter().map(|s| format!("job{} {}M {}%", s.job, s.mem_mib, s.threads)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::{JobId, LinkMatrix, MigPolicy, Model, Slice, Uid};

    #[test]
    fn every_state_has_its_word() {
        let model = Model::find("a100-40gb").unwrap();
        let id = |name: &str| model.profile(name).unwrap().id;
        let share = Share { job: JobId(14), uid: Uid(1), mem_mib: 2862, threads: 25 };
        let states = [
            GpuState::Mig(vec![
                Instance { profile: id("1g.5gb"), start: Slice(2), holder: Holder::Idle },
                Instance { profile: id("2g.10gb"), start: Slice(0), holder: Holder::Isolated(JobId(12)) },
            ]),
            GpuState::Whole(JobId(13)),
            GpuState::Mps(vec![share]),
            GpuState::Free,
        ];
        let gpus = states.into_iter().map(|state| Gpu { model, policy: MigPolicy::Dynamic, state }).collect();
        let node = Node { gpus, links: LinkMatrix::uniform(4, 20.0) };
        assert_eq!(
            text(&node),
            "tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle] gpu1=whole[job13] gpu2=mps[job14 2862M 25%] gpu3=free"
        );
    }
}
