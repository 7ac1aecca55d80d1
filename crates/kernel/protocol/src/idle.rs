//! The jobs of a node that hold GPUs without using them, in one word of the node's `extra`.
//!
//! ```text
//! tessera gpu0-7=free idle=1764100000,4711:1764092000:2:2:3174 node=same:1764097557:9f86d081884c7d65
//! ```
//!
//! First the time at which the node wrote the word, in seconds since 1970. Then for each job its number, the time since when
//! it uses none of its idle devices here, the number of those, the number of all its devices here, and the most memory that
//! it was seen to hold on one of them, in MiB. A device is a whole GPU, an instance, or what the job has a share of. The node writes
//! the word, and slurmctld keeps it as it is.

use geometry::JobId;

use crate::time::{U64_DIGITS, digits};

/// Begins the word.
const KEY: &str = "idle=";
/// Most jobs in the word. A node has up to 56 instances, and more shares; those that are idle longest come first.
pub const MAX_JOBS: usize = 64;

/// A job that does not use all that it holds on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleJob {
    /// The job.
    pub job: JobId,
    /// Since when it uses none of its idle devices, seconds since 1970.
    pub since: u64,
    /// Devices here that it does not use, at least one.
    pub idle: u16,
    /// All its devices here.
    pub of: u16,
    /// Most memory that it was seen to hold on one device, MiB.
    pub most_mib: u64,
}

/// The word of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleWord {
    /// Time at which the node wrote it, seconds since 1970.
    pub at: u64,
    /// The jobs, each once.
    pub jobs: Vec<IdleJob>,
}

impl IdleWord {
    /// Writes the word, with [`MAX_JOBS`] jobs at most.
    #[must_use]
    pub fn encode(&self) -> String {
        let entry = |j: &IdleJob| format!(",{}:{}:{}:{}:{}", j.job.0, j.since, j.idle, j.of, j.most_mib);
        let entries: String = self.jobs.iter().take(MAX_JOBS).map(entry).collect();
        format!("{KEY}{}{entries}", self.at)
    }

    /// Reads the word, strictly: an administrator may have edited it.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let mut parts = word.strip_prefix(KEY)?.split(',');
        let number = |text| digits(text, U64_DIGITS);
        let at = number(parts.next()?)?;
        let mut jobs: Vec<IdleJob> = Vec::new();
        for part in parts {
            let numbers: Vec<u64> = part.split(':').map(number).collect::<Option<_>>()?;
            let [job, since, idle, of, most_mib] = numbers[..] else { return None };
            let job = JobId(u32::try_from(job).ok()?);
            let (idle, of) = (u16::try_from(idle).ok()?, u16::try_from(of).ok()?);
            let is_good = idle > 0 && idle <= of && jobs.len() < MAX_JOBS && since <= at;
            if !is_good || jobs.iter().any(|known| known.job == job) {
                return None;
            }
            jobs.push(IdleJob { job, since, idle, of, most_mib });
        }
        Some(Self { at, jobs })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_word_is_refused() {
        let job = IdleJob { job: JobId(7), since: 90, idle: 1, of: 2, most_mib: 3 };
        assert_eq!(IdleWord::parse("idle=100"), Some(IdleWord { at: 100, jobs: vec![] }));
        assert_eq!(IdleWord::parse("idle=100,7:90:1:2:3"), Some(IdleWord { at: 100, jobs: vec![job] }));
        for bad in [
            "",
            "idle=",
            "idle=100,",
            "idle=100,7:90:1:2",
            "idle=100,7:90:1:2:3:4",
            "idle=100,7:101:1:2:3",
            "idle=100,7:90:0:2:3",
            "idle=100,7:90:3:2:3",
            "idle=100,7:90:+1:2:3",
            "idle=100,4294967296:90:1:2:3",
            "idle=100,7:90:1:2:3,7:91:1:2:3",
            "idle=1 00",
        ] {
            assert_eq!(IdleWord::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_word_has_a_longest_length() {
        let job = |n| IdleJob { job: JobId(u32::MAX - n), since: 9, idle: 9, of: 9, most_mib: 1 << 40 };
        let many = IdleWord { at: u64::MAX, jobs: (0..1000).map(job).collect() };
        let text = many.encode();
        assert!(text.len() < 4000, "{}", text.len());
        assert_eq!(IdleWord::parse(&text).unwrap().jobs[..], many.jobs[..MAX_JOBS]);
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back(at in 10_u64.., ids in proptest::collection::btree_set(0_u32.., 0..9), most_mib: u64) {
            let job = |id: u32| IdleJob { job: JobId(id), since: 9, idle: 1, of: 1, most_mib };
            let word = IdleWord { at, jobs: ids.into_iter().map(job).collect() };
            prop_assert_eq!(IdleWord::parse(&word.encode()), Some(word));
        }

        #[test]
        fn any_text_can_be_read(text: String) {
            let _ = IdleWord::parse(&text);
            let _ = IdleWord::parse(&format!("idle={text}"));
        }
    }
}
