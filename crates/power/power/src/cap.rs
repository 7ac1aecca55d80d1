//! Power caps of the whole GPU, in whole watts.

use std::fmt;
use std::str::FromStr;

/// Bounds the watts of a cap: every GPU with MIG is limited to something in between.
const WATTS: std::ops::RangeInclusive<u32> = 50..=2000;

/// Caps the power of the whole GPU, W.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cap(u32);

/// Says that words or a number are no cap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a power cap: expected whole watts from {first} to {last}", first = WATTS.start(), last = WATTS.end())]
pub struct CapError(String);

impl Cap {
    /// Makes a cap of so many watts.
    ///
    /// # Errors
    ///
    /// [`CapError`] outside 50 to 2000 W, which no GPU allows.
    pub fn new(watts: u32) -> Result<Self, CapError> {
        if WATTS.contains(&watts) { Ok(Self(watts)) } else { Err(CapError(watts.to_string())) }
    }

    /// Gives its watts.
    #[must_use]
    pub fn watts(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} W", self.0)
    }
}

impl FromStr for Cap {
    type Err = CapError;

    fn from_str(word: &str) -> Result<Self, CapError> {
        let error = || CapError(word.to_owned());
        if !word.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        word.parse().map_err(|_| error()).and_then(|watts| Self::new(watts).map_err(|_| error()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_whole_watts_that_a_gpu_could_allow() {
        assert_eq!("230".parse::<Cap>().unwrap().watts(), 230);
        for word in ["", "0", "49", "2001", "99999999999", "230.5", "+230", "-1", "NaN", "230W", " 230"] {
            assert!(word.parse::<Cap>().is_err(), "{word}");
        }
    }
}
