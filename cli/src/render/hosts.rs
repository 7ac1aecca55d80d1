//! Names of many nodes in little room.

use site_config::hostlist;

/// Characters of a list that is shown whole.
const MOST: usize = 60;
/// Characters that are left of a longer one.
const KEPT: usize = 24;

/// A hostlist, the names of one stem together and in the order of their numbers; of a long one its beginning and the number of nodes: `n[1,8,11,18-20,…] (193 nodes)`.
pub(crate) fn brief(names: &[String]) -> String {
    let mut stems: Vec<&str> = Vec::new();
    for (stem, _) in names.iter().map(|name| stem_and_number(name)) {
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    let place = |name: &String| {
        let (stem, number) = stem_and_number(name);
        (stems.iter().position(|known| *known == stem), number)
    };
    let mut sorted = names.to_vec();
    sorted.sort_by_cached_key(place);
    let all = hostlist::compress(&sorted);
    if all.chars().count() <= MOST {
        return all;
    }
    let kept: String = all.chars().take(KEPT).collect();
    let kept = kept.rsplit_once(',').map_or(kept.as_str(), |(whole, _)| whole);
    let close = if kept.matches('[').count() > kept.matches(']').count() { "]" } else { "" };
    format!("{kept},…{close} ({} nodes)", names.len())
}

/// The parts of a name by which it is ordered: `n9` comes before `n10`.
fn stem_and_number(name: &str) -> (&str, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_order() {
        let of = |names: &[&str]| brief(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["n2", "n1"]), "n[1-2]");
        assert_eq!(of(&["n10", "n9", "login", "gpu1", "n1"]), "n[1,9-10],login,gpu1");
    }

    #[test]
    fn long_lists_are_counted() {
        let names =
            |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|n| format!("n{n}")).collect::<Vec<_>>();
        assert_eq!(brief(&names(&mut (1..=1000))), "n[1-1000]");
        assert_eq!(brief(&names(&mut (0..200).map(|n| 3 * n))), "n[0,3,6,9,12,15,18,21,…] (200 nodes)");
        // A list that is cut behind a bracket gets no other one.
        let racks: Vec<String> = (1..=20).map(|r| format!("r{r}n4")).chain(["r1n9".to_owned()]).collect();
        assert_eq!(brief(&racks), "r1n[4,9],r2n4,r3n4,r4n4,… (21 nodes)");
    }
}
