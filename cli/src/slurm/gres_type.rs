//! GPUs that a job names and their types (`--gres=gpu:h100:1`), and the types that a node has (`Gres=gpu:h100:8(S:0-1)`).

use site_limits::tres::{Entry, Tres};
use site_problems::gpu_types_in;

/// Returns the GPU types that a job names, and the entries whose type no node's `Gres` has: those of shards. Slurm passes over a count of
/// 0.
pub(crate) fn named(entries: &[Entry]) -> (Vec<String>, Vec<String>) {
    let asked = entries.iter().filter(|entry| entry.count > 0);
    let typed = asked.filter_map(|entry| Some((entry, entry.kind()?)));
    let (gpus, others): (Vec<_>, Vec<_>) = typed.partition(|(entry, _)| entry.name == "gpu");
    let texts = others.into_iter().map(|(entry, _)| format!("{}={}", entry.option, entry.text));
    (gpus.into_iter().map(|(_, name)| name.to_owned()).collect(), texts.collect())
}

/// Sums what a job's lists of GRES count of `gpu` or `shard`, whatever each counts them for; the largest number where a user wrote more.
pub(crate) fn count_of(tres: &Tres, name: &str) -> u64 {
    let entries = tres.gpu_entries().into_iter().filter(|entry| entry.name == name);
    entries.map(|entry| entry.count).fold(0, u64::saturating_add)
}

/// Tells whether a node with this `Gres` has GPUs of a type. Like Slurm, it compares whole names.
pub(crate) fn has(gres: &str, name: &str) -> bool {
    gpu_types_in(gres).iter().any(|kind| kind == name)
}

/// Says which options of a job the answer leaves out; `None`: none.
pub(crate) fn left_out(options: &[String]) -> Option<String> {
    let list = options.join(", ");
    (!options.is_empty())
        .then(|| format!("Not looked at: {list}. Slurm may rule out nodes that are listed here."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_a_job_are_read_from_any_of_its_lists() {
        let of = |tres: Tres| named(&tres.gpu_entries());
        let per_node = |list: &str| of(Tres { per_node: Some(list.to_owned()), ..Tres::default() });
        let per_task = |list: &str| of(Tres { per_task: Some(list.to_owned()), ..Tres::default() });
        let h100 = || (vec!["h100".to_owned()], Vec::new());
        for typed in ["gres:gpu:h100:1", "gres/gpu:h100", "gres/gpu:h100=2", "gpu:h100:1,nic:a:1"] {
            assert_eq!(per_node(typed), h100(), "{typed}");
        }
        assert_eq!([per_task("gres:gpu:h100:1"), per_task("gres/gpu:h100")], [h100(), h100()]);
        for plain in ["gres:gpu:2", "gres:gpu", "gpu:1K", "gres/gpu=4", "nic:h100:1", "gpu:h100:0", ""] {
            assert_eq!(
                [per_node(plain), per_task(plain)],
                [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())]
            );
        }
        let digits = (vec!["3090".to_owned()], Vec::new());
        assert_eq!([per_node("gres:gpu:3090:1"), per_task("gres:gpu:3090:1")], [digits.clone(), digits]);
        let shards = (Vec::new(), vec!["--gres=shard:h100:5".to_owned()]);
        assert_eq!(per_node("gres:shard:h100:5"), shards);
    }

    #[test]
    fn a_node_has_the_types_of_its_gres() {
        let gres = "gpu:a100:4(S:0,2),gpu:h100:4(S:1),shard:80,nic:x:1";
        assert_eq!(
            ["a100", "h100", "x", "4", "a10"].map(|name| has(gres, name)),
            [true, true, false, false, false]
        );
        assert!(!has("gpu:8(S:0-1)", "a100") && !has("(null)", "a100"));
    }

    #[test]
    fn counts_are_added_up_to_the_largest_number() {
        let tres = |list: &str| Tres { per_node: Some(list.to_owned()), ..Tres::default() };
        let mixed = tres("gres:gpu:a100:2,gpu:h100:1,shard:20,nic:4");
        assert_eq!([count_of(&mixed, "gpu"), count_of(&mixed, "shard")], [3, 20]);
        let half = u64::MAX / 2 + 1;
        assert_eq!(count_of(&tres(&format!("gres:gpu:a100:{half},gpu:h100:{half}")), "gpu"), u64::MAX);
    }
}
