//! Changes to the lists of trackable resources in a job description.

use site_limits::tres::{MOST_TEXT, entries, named};

/// `list` without its entries for shards, and with `entry` at the end.
#[must_use]
pub fn with_shards(list: Option<&str>, entry: &str) -> String {
    with_entry(without(list, &["shard"]).as_deref(), entry)
}

/// `list` without its entries for these GRES; `None` if none is left.
#[must_use]
pub fn without(list: Option<&str>, names: &[&str]) -> Option<String> {
    let others = list.unwrap_or_default().split([',', ';']).map(str::trim).filter(|part| {
        let text = named(part);
        !part.is_empty() && !text.split([':', '=']).next().is_some_and(|name| names.contains(&name))
    });
    let kept: Vec<&str> = others.collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// `list` with the entries for `gpu` and `shard` of `before` at the end; `None` if it names some itself, names nothing at all, or
/// `before` has none.
#[must_use]
pub fn with_gpus_of(list: &str, before: &str) -> Option<String> {
    let gpus = |list: &str| -> Vec<String> {
        let of_gpus = |part: &&str| !entries(Some(part), "", true).is_empty();
        list.split([',', ';']).map(str::trim).filter(of_gpus).map(str::to_owned).collect()
    };
    if names_none(list) || !gpus(list).is_empty() {
        return None;
    }
    let kept = gpus(before);
    (!kept.is_empty()).then(|| with_entry(Some(list), &kept.join(",")))
}

/// `list` with `entry` at the end.
#[must_use]
pub fn with_entry(list: Option<&str>, entry: &str) -> String {
    match list.filter(|l| !l.is_empty()) {
        Some(list) => format!("{list},{entry}"),
        None => entry.to_owned(),
    }
}

/// Tells whether a list of GRES names none, as that of `scontrol update gres=`.
#[must_use]
pub fn names_none(list: &str) -> bool {
    ["", "gres:", "gres/"].contains(&list.trim())
}

/// Reads a job's `--gpu-bind` from Slurm's list of bindings such as `gres:gpu:closest`, or `gres/gpu:closest` in later
/// versions; `None` without one. A user may write a text of any length: it is cut.
#[must_use]
pub fn gpu_bind(list: &str) -> Option<String> {
    let of_gpus = |part: &str| {
        let text = part.strip_prefix("gres").and_then(|p| p.strip_prefix([':', '/'])).unwrap_or(part);
        text.strip_prefix("gpu:").map(|bind| bind.chars().take(MOST_TEXT).collect())
    };
    list.split(['+', ';']).find_map(of_gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_stay_beside_another_gres() {
        let had = "gres/nic:2,gres/shard:10";
        assert_eq!(with_gpus_of("gres/nic:1", had).as_deref(), Some("gres/nic:1,gres/shard:10"));
        assert_eq!(
            with_gpus_of("gres:nic:1", "gres:gpu:a:1,gpu:b:1").as_deref(),
            Some("gres:nic:1,gres:gpu:a:1,gpu:b:1")
        );
        assert_eq!(with_gpus_of("gres/shard:20", had), None);
        assert_eq!(with_gpus_of("gres/", had), None);
        assert_eq!(with_gpus_of("gres/nic:1", "gres/nic:2"), None);
    }

    #[test]
    fn an_empty_list_may_still_have_its_prefix() {
        assert!(["", "gres:", "gres/"].into_iter().all(names_none));
        assert!(!["gres:gpu:1", "gpu", "gres/nic:0"].into_iter().any(names_none));
    }

    #[test]
    fn a_binding_of_gpus_is_found_in_either_form() {
        for list in ["gres:gpu:closest", "gres/gpu:closest", "gpu:closest", "verbose+gres/gpu:closest"] {
            assert_eq!(gpu_bind(list).as_deref(), Some("closest"), "{list}");
        }
        assert_eq!(gpu_bind("gres:shard:closest"), None);
        assert_eq!(gpu_bind(&format!("gpu:{}", "x".repeat(1000))).map(|bind| bind.len()), Some(MOST_TEXT));
    }

    #[test]
    fn new_shards_replace_those_of_the_list() {
        assert_eq!(with_shards(Some("gres:shard:5"), "gres:shard:10"), "gres:shard:10");
        assert_eq!(with_shards(Some("gres/shard=5,gres/nic:1"), "gres/shard:10"), "gres/nic:1,gres/shard:10");
        assert_eq!(with_shards(None, "gres:shard:10"), "gres:shard:10");
    }

    #[test]
    fn entries_are_taken_out() {
        let list = Some("gres/gpu:a100:1,gres/nic:1,gres/shard:10");
        assert_eq!(without(list, &["shard"]).as_deref(), Some("gres/gpu:a100:1,gres/nic:1"));
        assert_eq!(without(list, &["shard", "gpu"]).as_deref(), Some("gres/nic:1"));
        assert_eq!(without(Some("gres:shard"), &["shard"]), None);
        assert_eq!(without(None, &["shard"]), None);
    }

    #[test]
    fn an_entry_is_appended_to_the_list() {
        assert_eq!(with_entry(None, "gres:gpu:1"), "gres:gpu:1");
        assert_eq!(with_entry(Some("gres:nic:1"), "gres:gpu:1"), "gres:nic:1,gres:gpu:1");
    }

    #[test]
    fn what_stands_before_gres_is_taken_out_with_it() {
        for hidden in ["xgres/gpu:4", "gresgpu:4", "gres/xgres:gpu:4"] {
            assert_eq!(without(Some(hidden), &["gpu"]), None, "{hidden}");
        }
    }
}
