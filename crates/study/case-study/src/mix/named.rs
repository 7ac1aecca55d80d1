//! Mixes by name.

use super::{Darknet, Machine, Ratio, System, darknet, darknet_mix, mig, rodinia, rodinia_random};
use crate::sim::Job;

/// A text that names no mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not a mix: rodinia:W1 to W8, rodinia:LARGE-SMALL:JOBS, darknet:predict, detect, generate, train or mix, \
     mig:SYSTEM:ISOLATED-SHARED or mig-small:SYSTEM:ISOLATED-SHARED with a system A to D"
)]
pub struct UnknownMix(pub String);

/// Most jobs of a random mix.
const MAX_JOBS: usize = 100_000;

/// Section 5.3's number of jobs of random kinds.
const DARKNET_JOBS: u64 = 128;

/// `2-1` as two numbers, not both 0.
fn ratio(text: &str) -> Option<(usize, usize)> {
    let (a, b) = text.split_once('-')?;
    let pair: (usize, usize) = (a.parse().ok()?, b.parse().ok()?);
    (pair != (0, 0) && pair.0 <= 100 && pair.1 <= 100).then_some(pair)
}

fn system(text: &str) -> Option<System> {
    Some(match text {
        "A" => System::A,
        "B" => System::B,
        "C" => System::C,
        "D" => System::D,
        _ => return None,
    })
}

fn find(name: &str, machine: Machine, seed: u64) -> Option<Vec<Job>> {
    let parts: Vec<&str> = name.split(':').collect();
    let jobs = match parts.as_slice() {
        ["rodinia", mix] => rodinia(mix, machine),
        ["rodinia", of, n] => {
            let (large, small) = ratio(of)?;
            let n = n.parse().ok().filter(|n| *n <= MAX_JOBS)?;
            rodinia_random(large, small, n, seed, machine)
        }
        ["darknet", "mix"] => darknet_mix(DARKNET_JOBS, seed),
        ["darknet", kind] => darknet(Darknet::ALL.into_iter().find(|k| k.name() == *kind)?, 8),
        [family @ ("mig" | "mig-small"), on, of] => {
            let (isolated, shared) = ratio(of)?;
            mig(system(on)?, Ratio(isolated, shared), *family == "mig-small", seed)
        }
        _ => return None,
    };
    (!jobs.is_empty()).then_some(jobs)
}

/// The jobs of a mix of the papers, all at time 0. Random ones depend on the seed alone.
///
/// # Errors
///
/// Where no mix has this name.
pub fn named(name: &str, machine: Machine, seed: u64) -> Result<Vec<Job>, UnknownMix> {
    find(name, machine, seed).ok_or_else(|| UnknownMix(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mix_has_its_number_of_jobs() {
        let n = |name: &str| named(name, Machine::V100, 1).map(|jobs| jobs.len()).ok();
        assert_eq!((n("rodinia:W1"), n("rodinia:W8"), n("rodinia:2-1:128")), (Some(16), Some(32), Some(128)));
        assert_eq!((n("darknet:train"), n("darknet:mix")), (Some(8), Some(128)));
        assert_eq!((n("mig:C:2-1"), n("mig-small:D:0-1")), (Some(128), Some(32)));
        for wrong in
            ["", "W1", "rodinia:W9", "rodinia:0-0:4", "rodinia:1-1:0", "darknet:", "mig:E:1-1", "mig:A:1"]
        {
            assert_eq!(n(wrong), None, "{wrong}");
        }
    }
}
