//! Instants and durations as text.

/// Writes an instant, seconds since 1970, in UTC: `2026-11-21T06:45:00Z`.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days of the Gregorian calendar in years that begin in March, so that the leap day is the last: 400 years have
    // 146097 days, and five months from March have 153.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, for years from 1970 on.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years and months from March on, so that leap days come last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468
}

/// Reads what [`utc`] writes; `None` for anything else.
#[must_use]
pub fn parse_utc(text: &str) -> Option<u64> {
    let at = |from: usize, to: usize| {
        text.get(from..to).filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?.parse::<u64>().ok()
    };
    let (year, month, day) = (at(0, 4)?, at(5, 7)?, at(8, 10)?);
    let seconds = days(year.max(1970), month.clamp(1, 12), day.max(1)) * 86_400
        + at(11, 13)? * 3600
        + at(14, 16)? * 60
        + at(17, 19)?;
    (utc(seconds) == text).then_some(seconds)
}

/// Reads `SECONDS[.FRACTION]`, `MM:SS` or `H:MM:SS` as milliseconds; `None` for anything else.
#[must_use]
pub fn parse_millis(text: &str) -> Option<u64> {
    if text.contains(':') {
        let fields: Vec<&str> = text.split(':').collect();
        let (first, rest) = fields.split_first()?;
        if rest.len() > 2 || rest.iter().any(|f| f.len() != 2) {
            return None;
        }
        let add = |sum: u64, field: &str| Some(sum * 60 + digits(field, 2).filter(|v| *v < 60)?);
        let seconds = rest.iter().try_fold(digits(first, 8)?, |sum, field| add(sum, field))?;
        return Some(seconds * 1000);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let scale = [1, 100, 10, 1].get(fraction.len()).filter(|_| !fraction.is_empty())?;
    Some(digits(whole, 8)? * 1000 + digits(fraction, 3)? * scale)
}

/// Reads a time that a person has written, as milliseconds: a number with a unit (`90s`, `0.25s`, `20m`, `2h`, `7d`, `50ms`), or as for
/// sbatch minutes, `MM:SS`, `H:MM:SS`, `D-HH`, `D-HH:MM` and `D-HH:MM:SS`. `None` for anything else.
#[must_use]
pub fn parse_span(text: &str) -> Option<u64> {
    const MINUTE: u64 = 60_000;
    if let Some((days, rest)) = text.split_once('-') {
        let mut fields = rest.split(':').map(|field| digits(field, 2));
        let hours = fields.next()??;
        let [minutes, seconds] = [fields.next().unwrap_or(Some(0))?, fields.next().unwrap_or(Some(0))?];
        let sound = fields.next().is_none() && hours < 24 && minutes < 60 && seconds < 60;
        let seconds = digits(days, 6)? * 86_400 + hours * 3600 + minutes * 60 + seconds;
        return sound.then_some(seconds * 1000);
    }
    if text.contains(':') {
        return parse_millis(text);
    }
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => return Some(digits(number, 8)? * MINUTE),
        "ms" => return digits(number, 11),
        "s" => 1000,
        "m" | "min" => MINUTE,
        "h" => 60 * MINUTE,
        "d" => 24 * 60 * MINUTE,
        _ => return None,
    };
    // As seconds with their thousandths, then in the unit.
    Some(parse_millis(number)? * (unit / 1000))
}

/// Digits of the largest number of 64 bits.
pub(crate) const U64_DIGITS: usize = 20;

/// Reads a decimal number of 1 to `most` digits without sign, which `parse` would take.
pub(crate) fn digits(text: &str, most: usize) -> Option<u64> {
    let plain = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_survive_being_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_795_256_400, "2026-11-21T10:20:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
            assert_eq!(parse_utc(text), Some(seconds));
        }
        for bad in
            ["2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-21 09:00:00Z", "2026-11-21T09:00:0xZ"]
        {
            assert_eq!(parse_utc(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_of_people_have_a_unit_or_are_sbatchs() {
        for (text, seconds) in [
            ("20", 1200),
            ("90s", 90),
            ("20m", 1200),
            ("20min", 1200),
            ("1.5h", 5400),
            ("7d", 604_800),
            ("20:00", 1200),
            ("1:00:05", 3605),
            ("1-12", 129_600),
            ("1-0:30", 88_200),
            ("2-00:00:10", 172_810),
            ("0", 0),
        ] {
            assert_eq!(parse_span(text), Some(seconds * 1000), "{text}");
        }
        assert_eq!(["0.25s", "50ms", "0.001h"].map(parse_span), [Some(250), Some(50), Some(3600)]);
        for bad in [
            "",
            "s",
            "1.5",
            "-5",
            "+5m",
            "5 m",
            "5w",
            "1e3s",
            "1:60",
            "1-24",
            "1-1:60",
            "1-1:1:1:1",
            "-1:00",
            "1.2345s",
            "0.5ms",
            "999999999",
            "2\u{e4}",
            "1-",
            "5M",
        ] {
            assert_eq!(parse_span(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_time_or_none(text in "[0-9:.smhd-]{0,20}") {
            let _ = parse_span(&text);
        }
    }

    #[test]
    fn instants_are_those_of_the_calendar() {
        // date -u -d @N +%FT%TZ
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_790_000_035, "2026-09-21T14:13:55Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (9_999_999_999, "2286-11-20T17:46:39Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
