//! Variables in a job's SPANK environment, which Slurm saves with the job. It is the user's to fill: whoever writes a
//! variable there removes what else claims to be it.

/// Whether an entry claims to be this variable; Slurm's commands put `SPANK_` before a name.
#[must_use]
pub fn is_named(entry: &str, wanted: &str) -> bool {
    let name = entry.split('=').next().unwrap_or_default();
    name == wanted || name.strip_prefix("SPANK_") == Some(wanted)
}

/// The value of a variable, the last one if it stands there twice.
#[must_use]
pub fn value(entries: &[String], name: &str) -> Option<String> {
    let values = entries.iter().filter_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    values.map(str::to_owned).next_back()
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
    fn the_last_value_counts() {
        let entries = ["A=1", "AB=2", "A=3=4", "SPANK_A=5"].map(str::to_owned);
        assert_eq!(value(&entries, "A").as_deref(), Some("3=4"));
        assert_eq!(value(&entries, "B"), None);
    }
}
