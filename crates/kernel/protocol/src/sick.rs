//! The GPUs of a node that get no new job because they are unhealthy, in one word of the node's `extra`.
//!
//! ```text
//! tessera gpu0-7=free sick=3:1764097557:xid_79,5:1764097600:too_hot node=same:1764097557:9f86d081884c7d65
//! ```
//!
//! Each entry has Slurm's number of the GPU, the time since when it is left out, in seconds since 1970, and the reason, with `_`
//! for spaces. The node writes the word. slurmctld leaves these GPUs out of placement and keeps the word as it is, until the node says
//! `sick=none`.

use geometry::GpuIndex;

use crate::time::{U64_DIGITS, digits};

/// The word of a node that takes back an earlier one.
pub const NONE: &str = "sick=none";
/// Begins the word.
const KEY: &str = "sick=";
/// Most GPUs in the word, which is more than any node has.
const MAX_GPUS: usize = 64;
/// Longest reason, bytes.
const MAX_WHY: usize = 48;

/// A GPU that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SickGpu {
    /// Slurm's number of it.
    pub gpu: GpuIndex,
    /// Since when, seconds since 1970.
    pub since: u64,
    /// Why, for people.
    pub why: String,
}

/// Writes the word, which is [`NONE`] without GPUs. A reason loses what is neither a letter, a digit, a space nor one of `. + -`.
#[must_use]
pub fn encode(gpus: &[SickGpu]) -> String {
    let entry = |sick: &SickGpu| format!("{}:{}:{}", sick.gpu.0, sick.since, word_of(&sick.why));
    let entries: Vec<String> = gpus.iter().take(MAX_GPUS).map(entry).collect();
    if entries.is_empty() { NONE.to_owned() } else { format!("{KEY}{}", entries.join(",")) }
}

fn word_of(why: &str) -> String {
    let kept = why.chars().filter_map(|c| match c {
        ' ' | '_' => Some('_'),
        c if is_plain(c) => Some(c),
        _ => None,
    });
    let word: String = kept.take(MAX_WHY).collect();
    if word.is_empty() { "unknown".to_owned() } else { word }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-')
}

/// Reads the word, strictly: an administrator may have edited it. GPUs ascend.
#[must_use]
pub fn parse(word: &str) -> Option<Vec<SickGpu>> {
    let mut all: Vec<SickGpu> = Vec::new();
    if word == NONE {
        return Some(all);
    }
    for entry in word.strip_prefix(KEY)?.split(',') {
        let mut parts = entry.splitn(3, ':');
        let (gpu, since, why) = (parts.next()?, parts.next()?, parts.next()?);
        if why.is_empty() || why.len() > MAX_WHY {
            return None;
        }
        let gpu = GpuIndex(u16::try_from(digits(gpu, U64_DIGITS)?).ok()?);
        let since = digits(since, U64_DIGITS)?;
        let in_order = all.last().is_none_or(|before| before.gpu < gpu);
        if !in_order || usize::from(gpu.0) >= MAX_GPUS || !why.chars().all(|c| c == '_' || is_plain(c)) {
            return None;
        }
        all.push(SickGpu { gpu, since, why: why.replace('_', " ") });
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reasons_are_words_for_people() {
        let sick = |gpu, why: &str| SickGpu { gpu: GpuIndex(gpu), since: 7, why: why.to_owned() };
        assert_eq!((encode(&[]).as_str(), parse(NONE)), (NONE, Some(vec![])));
        assert_eq!(
            encode(&[sick(3, "xid 79"), sick(5, "dcgm: 'bad', 2%\n")]),
            "sick=3:7:xid_79,5:7:dcgm_bad_2"
        );
        assert_eq!(encode(&[sick(0, "\u{7}")]), "sick=0:7:unknown");
        assert_eq!(parse("sick=3:7:xid_79"), Some(vec![sick(3, "xid 79")]));
        for bad in
            ["", "sick=", "sick=3", "sick=3:7", "sick=3:7:", "sick=-3:7:x", "sick=64:7:x", "sick=3:7:a b"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(parse("sick=5:7:x,3:7:x"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back(gpus in proptest::collection::btree_set(0_u16..64, 1..9), since: u64, why: String) {
            let all: Vec<SickGpu> =
                gpus.iter().map(|gpu| SickGpu { gpu: GpuIndex(*gpu), since, why: why.clone() }).collect();
            let word = encode(&all);
            let read = parse(&word).unwrap();
            prop_assert_eq!(read.iter().map(|s| (s.gpu, s.since)).collect::<Vec<_>>(),
                all.iter().map(|s| (s.gpu, s.since)).collect::<Vec<_>>());
            prop_assert_eq!(encode(&read), word);
        }

        #[test]
        fn any_text_can_be_read(text: String) {
            let _ = parse(&text);
            let _ = parse(&format!("sick={text}"));
        }
    }
}
