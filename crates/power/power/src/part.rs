//! Parts of a partitioned GPU.

use std::fmt;
use std::str::FromStr;

/// Tells whether a part has its own last-level cache and memory modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// `c`: a compute instance of the GPU instance that spans the GPU. Cache and memory are everybody's.
    Shared,
    /// `g`: a GPU instance. Cache and memory are its own.
    Private,
}

/// Names one part of a GPU, `4g` or `4c`. Shared parts come before private ones, then small before large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Cache and memory that it uses.
    pub memory: Memory,
    /// Compute slices (the paper's GPCs), at least 1.
    pub slices: u8,
}

/// Says that a word is neither `Ng` nor `Nc`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a part: expected compute slices and g (private memory) or c (shared), such as 4g")]
pub struct PartError(String);

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.memory {
            Memory::Shared => 'c',
            Memory::Private => 'g',
        };
        write!(f, "{}{kind}", self.slices)
    }
}

impl FromStr for Part {
    type Err = PartError;

    fn from_str(word: &str) -> Result<Self, PartError> {
        let unknown = || PartError(word.to_owned());
        let (memory, digits) = match (word.strip_suffix('g'), word.strip_suffix('c')) {
            (Some(digits), _) => (Memory::Private, digits),
            (_, Some(digits)) => (Memory::Shared, digits),
            _ => return Err(unknown()),
        };
        // `parse` would also take "+4" and "04".
        if digits.starts_with(['+', '0']) {
            return Err(unknown());
        }
        digits.parse().map(|slices| Self { memory, slices }).map_err(|_| unknown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_slices_and_a_kind_of_memory() {
        for word in ["4c", "3g", "1g", "7c"] {
            assert_eq!(word.parse::<Part>().unwrap().to_string(), word);
        }
        for word in ["", "4", "g", "0g", "04g", "+4g", "4G", "4g3g", "256g", "full", "-1g"] {
            assert!(word.parse::<Part>().is_err(), "{word}");
        }
    }
}
