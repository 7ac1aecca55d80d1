//! Names of many nodes in little room.

use site_config::hostlist;

/// Characters of a list that is shown whole.
const MOST: usize = 60;
/// Characters that are left of a longer one.
const KEPT: usize = 24;

/// A hostlist in the order of its numbers; of a long one its beginning and the number of nodes: `n[1,8,11,18-20,…] (193 nodes)`.
pub(crate) fn brief(names: &[String]) -> String {
    let mut names = names.to_vec();
    names.sort_by(|a, b| by_number(a).cmp(&by_number(b)));
    let all = hostlist::compress(&names);
    if all.chars().count() <= MOST {
        return all;
    }
    let kept: String = all.chars().take(KEPT).collect();
    let kept = kept.rsplit_once(',').map_or(kept.as_str(), |(whole, _)| whole);
    let close = if kept.contains('[') && !kept.ends_with(']') { "]" } else { "" };
    format!("{kept},…{close} ({} nodes)", names.len())
}

/// A name as it is ordered: `n9` comes before `n10`.
fn by_number(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(u64::MAX), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_order() {
        let of = |names: &[&str]| brief(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["n2", "n1"]), "n[1-2]");
        assert_eq!(of(&["n10", "n9", "login", "gpu1", "n1"]), "gpu1,login,n[1,9-10]");
    }

    #[test]
    fn long_lists_are_counted() {
        let names =
            |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|n| format!("n{n}")).collect::<Vec<_>>();
        assert_eq!(brief(&names(&mut (1..=1000))), "n[1-1000]");
        assert_eq!(brief(&names(&mut (0..200).map(|n| 3 * n))), "n[0,3,6,9,12,15,18,21,…] (200 nodes)");
    }
}
