//! Versions of Slurm.

use std::fmt;
use std::str::FromStr;

/// A version of Slurm as its `SLURM_VERSION_NUMBER`: 0xMMmmuu, major, minor, micro.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// Makes the version of these numbers.
    #[must_use]
    pub const fn new(major: u8, minor: u8, micro: u8) -> Self {
        Self((major as u32) << 16 | (minor as u32) << 8 | micro as u32)
    }

    /// Tells whether this is a version of the series `major.minor` or of a later one.
    #[must_use]
    pub const fn since(self, major: u8, minor: u8) -> bool {
        self.0 >= Self::new(major, minor, 0).0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = self;
        write!(f, "{:02}.{:02}.{}", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff)
    }
}

/// A text that is no version of Slurm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version of Slurm: it looks like 24.11.5")]
pub struct BadVersion(String);

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let parts: Option<Vec<u8>> = text.split('.').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some([major, minor, micro]) => Ok(Self::new(*major, *minor, *micro)),
            _ => Err(BadVersion(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_slurm_prints_it() {
        for (text, number) in [("22.05.8", 0x16_0508), ("24.11.5", 0x18_0b05), ("26.05.0", 0x1a_0500)] {
            assert_eq!((text.parse(), Version(number).to_string().as_str()), (Ok(Version(number)), text));
        }
        for bad in ["", "24.11", "24.11.5.1", "24.11.x", "24.11.256", "24.11.5-1"] {
            assert_eq!(bad.parse::<Version>(), Err(BadVersion(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn a_series_begins_with_its_first_release() {
        let version = Version::new(24, 11, 0);
        assert!(version.since(24, 11) && version.since(24, 5) && !version.since(25, 5));
    }
}
