//! Hardware counters of an application, as they travel with a job's request.

use std::fmt;

use crate::strict::is_word;

/// Most sets of counters in a request: GPU models and tools that one application was profiled with.
pub const MAX_COUNTERS: usize = 8;

/// Thousandths of a percent in 100 %.
const WHOLE_MILLI: u32 = 100_000;

/// Counters F1 to F8 of an application that ran alone, from one tool on one GPU model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AppCounters {
    /// Key of the GPU model.
    gpu: String,
    /// The tool.
    source: String,
    /// Thousandths of a percent; `None` where the tool does not have the counter.
    milli: [Option<u32>; 8],
}

impl AppCounters {
    /// Counters in percent, rounded to thousandths. `None` if a name is longer than 32 bytes or has other characters than
    /// letters, digits, dots, dashes and underscores, or a counter is outside 0 to 100.
    #[must_use]
    pub fn new(gpu: &str, source: &str, percent: [Option<f64>; 8]) -> Option<Self> {
        let mut milli = [None; 8];
        for (to, from) in milli.iter_mut().zip(percent) {
            *to = match from {
                None => None,
                Some(value) if (0.0..=100.0).contains(&value) => Some(thousandths(value)),
                Some(_) => return None,
            };
        }
        (is_word(gpu, 32) && is_word(source, 32)).then(|| Self {
            gpu: gpu.to_owned(),
            source: source.to_owned(),
            milli,
        })
    }

    /// Key of the GPU model.
    #[must_use]
    pub fn gpu(&self) -> &str {
        &self.gpu
    }

    /// The tool.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// F1 to F8, percent.
    #[must_use]
    pub fn percent(&self) -> [Option<f64>; 8] {
        self.milli.map(|milli| milli.map(|milli| f64::from(milli) / 1000.0))
    }

    /// Reads what [`fmt::Display`] writes; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let (gpu, source) = (words.next()?, words.next()?);
        let mut percent = [None; 8];
        for to in &mut percent {
            let word = words.next()?;
            let plain = word.len() <= 6 && word.bytes().all(|b| b.is_ascii_digit());
            *to = match word {
                "" => None,
                _ if plain => {
                    Some(f64::from(word.parse::<u32>().ok().filter(|m| *m <= WHOLE_MILLI)?) / 1000.0)
                }
                _ => return None,
            };
        }
        if words.next().is_some() { None } else { Self::new(gpu, source, percent) }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100 000")]
fn thousandths(percent: f64) -> u32 {
    (percent * 1000.0).round() as u32
}

impl fmt::Display for AppCounters {
    /// `a100-40gb:ncu:45123:12000:::3100:0:0:0`, thousandths of a percent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.gpu, self.source)?;
        self.milli.iter().try_for_each(|milli| match milli {
            Some(milli) => write!(f, ":{milli}"),
            None => f.write_str(":"),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(percent in prop::array::uniform8(prop::option::of(0.0..=100.0_f64))) {
            let counters = AppCounters::new("a100-40gb", "ncu", percent).unwrap();
            prop_assert_eq!(AppCounters::parse(&counters.to_string()), Some(counters));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9:.,-]{0,60}") {
            if let Some(counters) = AppCounters::parse(&text) {
                prop_assert_eq!(AppCounters::parse(&counters.to_string()), Some(counters));
            }
        }
    }

    #[test]
    fn what_no_profile_has_is_refused() {
        let eight = "1:2:3:4:5:6:7:8";
        assert!(AppCounters::parse(&format!("a100:ncu:{eight}")).is_some());
        for bad in [
            "a100:ncu:1:2:3:4:5:6:7",
            "a100:ncu:1:2:3:4:5:6:7:8:9",
            ":ncu:1:2:3:4:5:6:7:8",
            "a:b:100001:2:3:4:5:6:7:8",
            "a:b:+1:2:3:4:5:6:7:8",
            "a b:c:1:2:3:4:5:6:7:8",
        ] {
            assert_eq!(AppCounters::parse(bad), None, "{bad}");
        }
        assert_eq!(AppCounters::new("a", "b", [Some(f64::NAN); 8]), None);
    }
}
