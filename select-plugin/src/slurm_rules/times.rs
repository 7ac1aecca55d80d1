//! Times that Slurm holds a job to.

use slurm_numbers::{INFINITE, NO_VAL};

/// Gives the last start that a job's deadline leaves, seconds since 1970: Slurm cancels it when its least run time does not fit any more.
/// `run_minutes` has its least and its most run time, as Slurm's record has them.
pub(crate) fn starts_by(deadline: i64, run_minutes: [u32; 2]) -> Option<u64> {
    let deadline = u64::try_from(deadline).ok().filter(|at| *at != 0 && *at != u64::from(NO_VAL))?;
    let is_set = |minutes: &u32| ![0, NO_VAL, INFINITE].contains(minutes);
    let minutes = run_minutes.into_iter().find(is_set).unwrap_or(0);
    Some(deadline.saturating_sub(u64::from(minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_leaves_time_for_the_least_run_time() {
        assert_eq!(starts_by(10_000, [0, 3]), Some(9820));
        assert_eq!(starts_by(10_000, [NO_VAL, 3]), Some(9820));
        assert_eq!(starts_by(10_000, [2, 3]), Some(9880));
        assert_eq!(starts_by(10_000, [0, INFINITE]), Some(10_000));
    }

    #[test]
    fn a_job_without_a_deadline_may_start_at_any_time() {
        assert_eq!([0, -1, i64::from(NO_VAL)].map(|at| starts_by(at, [0, 3])), [None; 3]);
    }
}
