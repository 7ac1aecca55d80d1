//! Chooses a step's instances among those of its job.
//!
//! Slurm gives a step of `srun --exact` some of the job's cores, and no core to two such steps at a time. The job's
//! instances go with its cores: the first core of each instance's part of them stands for the instance. So steps beside
//! each other have no instance in common, and an instance is given back with the core, whatever becomes of the step.

use node_journal::{Entry, GrantKind};

/// The job's entry with the instances of the step alone. `job` and `step` are their cores on this node as Slurm lists
/// them: `0-2,5`. Without such lists, and for a step with all cores, these are all instances.
pub(crate) fn of_step(mut entry: Entry, job: Option<&str>, step: Option<&str>) -> Entry {
    let lists = job.and_then(cores).zip(step.and_then(cores));
    let Some((job, step)) = lists.filter(|_| entry.kind == GrantKind::Mig && entry.instances.len() > 1)
    else {
        return entry;
    };
    let places: Vec<usize> = step.iter().filter_map(|core| job.iter().position(|c| c == core)).collect();
    if places.is_empty() || places.len() >= job.len() {
        return entry;
    }
    let own = instances_at(entry.instances.len(), job.len(), &places);
    let mut number = 0..;
    entry.instances.retain(|_| number.next().is_some_and(|n| own.contains(&n)));
    entry
}

/// The instances, of `instances`, whose first of `cores` cores is at one of `places`; for a step with fewer cores than an
/// instance's part, the instance that its first core belongs to.
fn instances_at(instances: usize, cores: usize, places: &[usize]) -> Vec<usize> {
    let first = |instance: usize| instance * cores / instances;
    let own: Vec<usize> = (0..instances).filter(|i| places.contains(&first(*i))).collect();
    if !own.is_empty() {
        return own;
    }
    let lowest = places.iter().min().copied().unwrap_or(0);
    (0..instances).rev().find(|i| first(*i) <= lowest).into_iter().collect()
}

const MOST_CORES: usize = 4096;

/// The cores of a list, ascending; `None` for any other text.
pub(crate) fn cores(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.trim_matches(['[', ']']).split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || (last - first) as usize >= MOST_CORES || all.len() > MOST_CORES {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(instances: usize) -> Entry {
        let one = |i: usize| {
            format!(
                r#"{{"gpu":0,"profile":19,"name":"1g.5gb","start":{i},"size":1,"memory_mib":4864,"live":null}}"#
            )
        };
        let instances: Vec<String> = (0..instances).map(one).collect();
        let text = format!(
            r#"{{"version":2,"boot":"b","job":12,"uid":1000,"gid":1000,"restart":0,"decision":"","phase":"ready",
            "kind":"mig","gpus":[],"instances":[{}],"share":null,"device_nodes":[]}}"#,
            instances.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    fn starts(instances: usize, job: &str, step: &str) -> Vec<u8> {
        of_step(entry(instances), Some(job), Some(step)).instances.iter().map(|i| i.start).collect()
    }

    #[test]
    fn steps_beside_each_other_have_no_instance_in_common() {
        assert_eq!(["4", "5", "9"].map(|core| starts(3, "4-5,9", core)), [[0], [1], [2]]);
        assert_eq!(["0-1", "2-3", "4-5"].map(|cores| starts(3, "0-5", cores)), [[0], [1], [2]]);
        assert_eq!((starts(4, "0-7", "0-3"), starts(4, "0-7", "4-7")), (vec![0, 1], vec![2, 3]));
        // Cores that do not go evenly into instances.
        assert_eq!(
            (starts(3, "0-7", "0-1"), starts(3, "0-7", "2-4"), starts(3, "0-7", "5-7")),
            (vec![0], vec![1], vec![2])
        );
        // Fewer cores than instances: two tasks on the threads of one core.
        assert_eq!((starts(3, "0-1", "0"), starts(3, "0-1", "1")), (vec![0, 1], vec![2]));
        // A step that has less than an instance's part of the cores.
        assert_eq!((starts(2, "0-7", "1"), starts(2, "0-7", "6")), (vec![0], vec![1]));
    }

    #[test]
    fn other_steps_have_all_instances() {
        let all = vec![0, 1, 2];
        assert_eq!(starts(3, "0-2", "0-2"), all);
        for (job, step) in [("0-2", "x"), ("", "1"), ("0-2", "7"), ("0-99999", "1"), ("2-0", "1")] {
            assert_eq!(starts(3, job, step), all, "{job} {step}");
        }
        assert_eq!(of_step(entry(3), None, None).instances.len(), 3);
        assert_eq!(starts(1, "0-2", "2"), [0]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn disjoint_steps_share_nothing_as_long_as_each_has_an_instances_part(
            instances in 1_usize..8, per in 1_usize..5, cut in 0_usize..8,
        ) {
            let cores = instances * per;
            let cut = (cut % (instances + 1)) * per;
            let list = |from: usize, to: usize| (from..to).map(|c| c.to_string()).collect::<Vec<_>>().join(",");
            if cut > 0 && cut < cores {
                let job = list(0, cores);
                let (a, b) = (starts(instances, &job, &list(0, cut)), starts(instances, &job, &list(cut, cores)));
                proptest::prop_assert_eq!(a.len(), cut / per);
                proptest::prop_assert_eq!([a, b].concat().len(), instances);
            }
        }
    }
}
