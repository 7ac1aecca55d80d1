//! Memory sizes as users write them.

/// Parses a size such as `10G` into MiB, rounded up.
///
/// K, M, G and T are decimal, as in the profile names (`10G` is 10^10 bytes and fits a `2g.10gb`); Ki, Mi, Gi and Ti
/// are binary. A trailing `B` and either case are accepted, and so is a fraction: `1.5G`. A bare number is refused: some readers would take it
/// for megabytes, as Slurm does, and others for gigabytes.
///
/// # Errors
///
/// What is wrong with the text, as the end of a sentence that names it.
pub fn parse_mib(text: &str) -> Result<u64, &'static str> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    if text.starts_with('-') {
        return Err("is negative");
    }
    if number.is_empty() || number.starts_with('.') || number.ends_with('.') {
        return Err("is not a number with a suffix K, M, G or T");
    }
    let value: f64 = number.parse().map_err(|_| "is not a number with a suffix K, M, G or T")?;
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let bytes = match unit {
        "k" => 1e3,
        "" if value > 0.0 => return Err("has no unit"),
        "" | "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1_048_576.0,
        "gi" => 1_073_741_824.0,
        "ti" => 1_099_511_627_776.0,
        _ => return Err("has an unknown suffix: use K, M, G, T or Ki, Mi, Gi, Ti"),
    };
    let mib = (value * bytes / 1_048_576.0).ceil();
    if mib < 1.0 {
        return Err("is zero");
    }
    if mib > MAX_MIB {
        return Err("is larger than any GPU");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and MAX_MIB")]
    Ok(mib as u64)
}

/// 1 TiB: no GPU has it, and every sum of such sizes fits easily.
const MAX_MIB: f64 = 1_048_576.0;

/// A size in MiB as decimal gigabytes, or megabytes where it is less than one: `10.3 GB`, `500 MB`. Of the megabytes that come to the
/// same MiB, the roundest: `280M` is 268 MiB, which are 281 MB, and a user wrote 280.
#[must_use]
pub fn display_gb(mib: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    let gb = mib as f64 * 1_048_576.0 / 1e9;
    // Users' sizes were rounded up to MiB; more than this is 1.0 GB.
    if gb < 0.95 { format!("{} MB", roundest_mb(mib)) } else { format!("{gb:.1} GB") }
}

/// Finds the roundest number of decimal megabytes that [`parse_mib`] reads as this many MiB.
fn roundest_mb(mib: u64) -> u64 {
    let most = mib * 1_048_576 / 1_000_000;
    let same = |mb: &u64| (mb * 1_000_000).div_ceil(1_048_576) == mib;
    [100, 10].into_iter().map(|step| most / step * step).find(same).unwrap_or(most)
}

/// Decimal gigabytes in MiB, rounded up, as [`parse_mib`] reads `10G`.
#[must_use]
pub fn gigabytes_as_mib(gb: u32) -> u64 {
    (u64::from(gb) * 1_000_000_000).div_ceil(1_048_576)
}

/// A size in MiB as whole decimal gigabytes, rounded up: the shards that a share of this size takes.
#[must_use]
pub fn shards(mib: u64) -> u32 {
    // MiB that were rounded up from a decimal size must not tip into the next gigabyte.
    let bytes = u128::from(mib.saturating_sub(1)) * 1_048_576 + 1;
    u32::try_from(bytes.div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_decimal_unless_binary() {
        let cases = [
            ("10G", Ok(9537)),
            ("10GB", Ok(9537)),
            ("10Gi", Ok(10240)),
            ("10gib", Ok(10240)),
            ("500M", Ok(477)),
            ("500", Err("has no unit")),
            ("0", Err("is zero")),
            ("1.5G", Ok(1431)),
            ("1k", Ok(1)),
        ];
        for (text, want) in cases {
            assert_eq!(parse_mib(text), want, "{text}");
        }
    }

    #[test]
    fn gigabytes_are_what_users_write() {
        for gb in [1, 10, 40, 80, 144] {
            assert_eq!(Ok(gigabytes_as_mib(gb)), parse_mib(&format!("{gb}G")));
        }
    }

    #[test]
    fn less_than_a_gigabyte_is_megabytes() {
        let shown = ["10M", "500M", "900M", "1G", "10G"].map(|size| display_gb(parse_mib(size).unwrap()));
        assert_eq!(shown, ["10 MB", "500 MB", "900 MB", "1.0 GB", "10.0 GB"]);
    }

    #[test]
    fn bad_sizes_are_refused() {
        for text in ["", "G", "0", "0G", "-3G", "10X", "1.2.3G", "1e3G", "99999999T", ".5G", "５G", "10 G G"]
        {
            assert!(parse_mib(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shards_are_decimal_gigabytes_rounded_up() {
        let of = |text| shards(parse_mib(text).unwrap());
        assert_eq!([of("3G"), of("10G"), of("1M"), of("3100M")], [3, 10, 1, 4]);
    }
}
