//! Decides whose requests are served first.

use std::collections::BTreeMap;

/// The token of something that is ready; if a job made it so, the job, and a count that grows with each time it is served.
pub(super) type Ready = (u64, Option<(u32, u64)>);

/// Orders what is ready: first whatever no job sent, then one connection of each job, then a second one of each, and so on; those
/// of one job by how long ago they were served. A job with a thousand connections thus keeps nobody waiting for more than its own
/// turn. The second value is how many come before the second turn of any job: those are always served, the rest only while there
/// is time.
pub(super) fn in_turns(ready: &[Ready]) -> (Vec<u64>, usize) {
    let mut ready = ready.to_vec();
    // Stable: of those that were never served, the kernel's order stays.
    ready.sort_by_key(|(_, sender)| sender.map(|(_, served)| served));
    let mut turns: BTreeMap<u32, usize> = BTreeMap::new();
    let mut ordered: Vec<(usize, u64)> = ready
        .iter()
        .map(|(token, job)| match job {
            None => (0, *token),
            Some((job, _)) => {
                let turn = turns.entry(*job).or_default();
                *turn += 1;
                (*turn, *token)
            }
        })
        .collect();
    ordered.sort_by_key(|(turn, _)| *turn);
    let always = ordered.partition_point(|(turn, _)| *turn <= 1);
    (ordered.into_iter().map(|(_, token)| token).collect(), always)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_one_job_comes_after_one_of_each_other_job() {
        let crowd = (0..60).map(|token| (token, Some((13, 5))));
        let others = [(60, Some((12, 7))), (61, Some((14, 9))), (62, None), (63, Some((12, 8)))];
        let ready: Vec<Ready> = crowd.chain(others).collect();
        let (order, always) = in_turns(&ready);
        assert_eq!(order[..6], [62, 0, 60, 61, 1, 63]);
        assert_eq!((always, order.len()), (4, 64));
        assert!(order[6..].iter().copied().eq(2..60), "the rest in the order in which it came");
    }

    #[test]
    fn of_one_job_those_come_first_that_were_served_longest_ago() {
        let ready = [(1, Some((13, 9))), (2, Some((13, 3))), (3, Some((13, 0))), (4, Some((13, 4)))];
        assert_eq!(in_turns(&ready), (vec![3, 2, 4, 1], 1));
    }

    #[test]
    fn without_jobs_everybody_is_served() {
        assert_eq!(in_turns(&[(3, None), (1, None)]), (vec![3, 1], 2));
        assert_eq!(in_turns(&[]), (Vec::new(), 0));
    }
}
