//! Times that Slurm holds a job to.

/// Gives the last start that a job's deadline leaves, seconds since 1970: Slurm cancels it when its least run time does not fit any more.
/// `run_minutes` has its least and its most run time, where they are limited.
pub(crate) fn starts_by(deadline: Option<u64>, run_minutes: [Option<u32>; 2]) -> Option<u64> {
    let minutes = run_minutes.into_iter().flatten().next().unwrap_or(0);
    Some(deadline?.saturating_sub(u64::from(minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_leaves_time_for_the_least_run_time() {
        assert_eq!(starts_by(None, [None, Some(3)]), None);
        assert_eq!(starts_by(Some(10_000), [None, Some(3)]), Some(9820));
        assert_eq!(starts_by(Some(10_000), [Some(2), Some(3)]), Some(9880));
        assert_eq!(starts_by(Some(10_000), [None, None]), Some(10_000));
    }
}
