//! Variables in a job's SPANK environment, which Slurm saves with the job. It is the user's to fill: whoever writes a
//! variable there removes what else claims to be it.

use std::collections::HashSet;

/// Most entries of the environment that a job may bring to its submission. Tessera's own commands bring one, and other plugins a
/// few. The scheduler looks through them in each test of the job.
pub const MAX_ENTRIES: u32 = 256;
/// Most entries of a job that slurmctld has accepted: Tessera adds its request, a change of that, the placement, the reason and the match.
pub const MAX_RECORDED_ENTRIES: u32 = MAX_ENTRIES + 5;
/// Most bytes of one entry. slurmd puts all of them into the environment of the node's prolog; Linux starts no program with a
/// string of 128 KiB (`MAX_ARG_STRLEN`), and Slurm then drains the node.
pub const MAX_ENTRY_BYTES: usize = 32 * 1024;
/// Most bytes of all entries. Linux starts no program whose environment takes a quarter of its stack.
pub const MAX_BYTES: usize = 128 * 1024;

/// Says why a job's SPANK environment is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEnv {
    /// Too many entries.
    #[error("the job has {0} variables for SPANK plugins; at most {MAX_ENTRIES} are accepted")]
    Entries(u32),
    /// An entry is too long: how its text begins.
    #[error("the job's variable {0} for SPANK plugins has more than {MAX_ENTRY_BYTES} bytes; shorten it")]
    Entry(String),
    /// All entries together are too long.
    #[error("the job's variables for SPANK plugins have more than {MAX_BYTES} bytes together; shorten them")]
    All,
    /// An entry is no variable: it has no `=`, or another entry has the same name.
    #[error(
        "{0} is among the job's variables for SPANK plugins twice or without a value; give each a value, once"
    )]
    Malformed(String),
}

/// Checks that each entry of an environment is a variable of its own.
///
/// For a job's mail and for `PrologSlurmctld`, slurmctld merges the entries into one environment and then reads as many of that
/// as the job had: beyond its end if two have one name (`job_common_env_vars`, 22.05 and 24.11).
///
/// # Errors
///
/// The first entry that has no `=`, or the name of an earlier one.
pub fn check_names(entries: &[String]) -> Result<(), BadEnv> {
    let mut names = HashSet::new();
    for entry in entries {
        let name = entry.split_once('=').map(|(name, _)| name);
        if !name.is_some_and(|name| !name.is_empty() && names.insert(name)) {
            let shown = name.unwrap_or(entry).chars().take(40);
            return Err(BadEnv::Malformed(shown.map(|c| if c.is_control() { '?' } else { c }).collect()));
        }
    }
    Ok(())
}

/// Checks the number of entries.
///
/// # Errors
///
/// There are more than `most`.
pub const fn check_number(entries: u32, most: u32) -> Result<(), BadEnv> {
    if entries > most { Err(BadEnv::Entries(entries)) } else { Ok(()) }
}

/// Tells whether an entry claims to be this variable; Slurm's commands put `SPANK_` before a name.
#[must_use]
pub fn is_named(entry: &str, wanted: &str) -> bool {
    let name = entry.split('=').next().unwrap_or_default();
    name == wanted || name.strip_prefix("SPANK_") == Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variable_itself_is_meant() {
        for text in
            ["TESSERA_PLACEMENT=x", "TESSERA_PLACEMENT", "SPANK_TESSERA_PLACEMENT=x", "TESSERA_PLACEMENT="]
        {
            assert!(is_named(text, "TESSERA_PLACEMENT"), "{text}");
        }
        for text in ["TESSERA_REQUEST=TESSERA_PLACEMENT=", "XTESSERA_PLACEMENT=x", "TESSERA_PLACEMENTS=x", ""]
        {
            assert!(!is_named(text, "TESSERA_PLACEMENT"), "{text}");
        }
    }

    #[test]
    fn each_entry_is_a_variable_of_its_own() {
        let check =
            |entries: &[&str]| check_names(&entries.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>());
        assert_eq!(check(&["A=1", "AB=", "B=A=1"]), Ok(()));
        for (entries, named) in [(&["A=1", "A=2"][..], "A"), (&["A=1", "B"], "B"), (&["=1"], ""), (&[""], "")]
        {
            assert_eq!(check(entries), Err(BadEnv::Malformed(named.to_owned())), "{entries:?}");
        }
    }
}
