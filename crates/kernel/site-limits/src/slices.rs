//! Slurm's count of a job's compute slices, as the license `slice` of slurm.conf's `Licenses=`.
//!
//! A list of licenses is `name:count,…`; Slurm also takes `=` for `:` and `;` for `,`, and 1 where there is no count.

/// The license's name. slurm.conf switches the counting on with `Licenses=slice:N`.
pub const LICENSE: &str = "slice";

/// Tells whether a list of licenses names [`LICENSE`].
#[must_use]
pub fn names_slices(licenses: &str) -> bool {
    entries(licenses).any(is_slices)
}

/// Tells whether a list of what each task of a job asks for names [`LICENSE`]: from 24.11 on `--tres-per-task` takes
/// licenses too, as `license/slice=2` or `license:slice:2`.
#[must_use]
pub fn names_slices_per_task(tres: &str) -> bool {
    let license = |entry: &str| {
        let (kind, rest) = entry.split_once(['/', ':', '='])?;
        Some(kind.trim().eq_ignore_ascii_case("license") && is_slices(rest.trim()))
    };
    entries(tres).any(|entry| license(entry) == Some(true))
}

/// A job's list of licenses with `count` slices in it and no others; 0 leaves none. `None`: it has alternatives, and nobody
/// can tell which of them Slurm takes.
#[must_use]
pub fn with_slices(licenses: &str, count: u64) -> Option<String> {
    if licenses.contains('|') {
        return None;
    }
    let ours = (count > 0).then(|| format!("{LICENSE}:{count}"));
    let others = entries(licenses).filter(|entry| !is_slices(entry)).map(str::to_owned);
    Some(others.chain(ours).collect::<Vec<_>>().join(","))
}

/// Counts the slices in a list of licenses; 0 without any, and the largest number where a user wrote more.
#[must_use]
pub fn slices_in(licenses: &str) -> u64 {
    let count = |entry: &str| entry.split_once([':', '=']).map_or(Some(1), |(_, n)| n.parse().ok());
    entries(licenses).filter(|entry| is_slices(entry)).filter_map(count).fold(0, u64::saturating_add)
}

fn entries(licenses: &str) -> impl Iterator<Item = &str> {
    licenses.split([',', ';', '|']).map(str::trim).filter(|entry| !entry.is_empty())
}

/// `slice@server` is a license of that server's, another one.
fn is_slices(entry: &str) -> bool {
    entry.split([':', '=']).next() == Some(LICENSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_slices_by_their_whole_name() {
        assert!(names_slices("slice") && names_slices("matlab:2;slice=3") && names_slices("a:1|slice:2"));
        assert!(!names_slices("") && !names_slices("slices:3,sliced,slice@lab:4"));
    }

    #[test]
    fn a_task_can_name_slices_too() {
        for names in
            ["license/slice=2", "cpu=1,license:slice:2", "License/slice", "gres/gpu:1;license/slice:x=3"]
        {
            assert!(names_slices_per_task(names), "{names}");
        }
        for other in
            ["", "cpu=4", "gres/gpu:slice=1", "gres/slice=1", "license/slices=1", "license/matlab=2", "slice"]
        {
            assert!(!names_slices_per_task(other), "{other}");
        }
    }

    #[test]
    fn the_other_licenses_of_a_job_stay() {
        let with = |list, count| with_slices(list, count).unwrap();
        assert_eq!(with("", 7), "slice:7");
        assert_eq!(with("matlab:2,slice:1;ansys", 3), "matlab:2,ansys,slice:3");
        assert_eq!(with("slice:3", 0), "");
        assert_eq!(with_slices("matlab|ansys", 3), None);
    }

    #[test]
    fn slices_are_added_up_as_slurm_adds_them() {
        assert_eq!(slices_in(&format!("slice:{0},slice:{0}", u64::MAX)), u64::MAX);
        assert_eq!([slices_in("slice"), slices_in("slice:3,a:2,slice=4"), slices_in("a:2")], [1, 7, 0]);
    }
}
