//! Slurm's lists of trackable resources, as sacct prints them: `cpu=00:00:07,gres/gpumem=6100M`.

/// The value of one TRES in a list.
pub(crate) fn tres<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    list.split(',').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
}

/// Most bytes that a count may have.
const MOST_BYTES: f64 = 1e18;

/// A count of bytes as sacct prints it, `1.50G` or a whole number.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 0,
        unit => 1 + "KMGTPE".find(unit).filter(|_| unit.len() == 1)?,
    };
    let bytes = number.parse::<f64>().ok()? * 1024_f64.powi(i32::try_from(unit).ok()?);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range that is checked"
    )]
    (0.0..=MOST_BYTES).contains(&bytes).then_some(bytes.round() as u64)
}

/// An amount of memory as sacct prints it, `6100M`, `5.96G` or bytes, in MiB rounded up.
pub(crate) fn mib(text: &str) -> Option<u64> {
    bytes(text).map(|bytes| bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_any_unit() {
        assert_eq!(
            ["6100M", "5.5G", "1048577", "0", "2T"].map(mib),
            [Some(6100), Some(5632), Some(2), Some(0), Some(2 << 20)]
        );
        assert_eq!(["", "x", "6X", "-1M", "NaN"].map(mib), [None; 5]);
    }

    #[test]
    fn bytes_are_read_in_any_unit() {
        assert_eq!(
            ["0", "1023", "1.50G", "3P", "12345678901"].map(bytes),
            [Some(0), Some(1023), Some(3 << 29), Some(3 << 50), Some(12_345_678_901)]
        );
        assert_eq!(["", "x", "5KM", "6X", "-1", "NaN", "9E"].map(bytes), [None; 7]);
    }

    #[test]
    fn a_tres_is_found_by_its_whole_name() {
        let list = "billing=3,gres/gpu:a100=2,gres/gpu=4,license/slice=28";
        assert_eq!([tres(list, "gres/gpu"), tres(list, "gres")], [Some("4"), None]);
    }
}
