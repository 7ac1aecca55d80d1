//! Licenses by which Slurm counts the slices of jobs' GPUs: users neither ask for them nor give them back.

use admission::Refusal;
use decision_counts::decisions::Reason;
use site_limits::slices::{LICENSE, names_slices, names_slices_per_task, slices_in};

use crate::submission::{Described, Recorded, Slurm};

/// Why a job may not name the license that counts its slices itself; `None` if it does not.
pub(crate) fn slices_named(job: &Described, slurm: &impl Slurm) -> Option<Refusal> {
    let of_job = job.licenses.as_deref().filter(|list| names_slices(list)).map(|list| ("licenses", list));
    let of_task = job.tres.per_task.as_deref().filter(|list| names_slices_per_task(list));
    let (option, list) =
        of_job.or(of_task.map(|list| ("tres-per-task", list))).filter(|_| slurm.counts_slices())?;
    let why = format!(
        "--{option}={list}: Slurm counts the slices of each job's GPUs by the license {LICENSE}; leave it out"
    );
    Some(Refusal::new(Reason::Licenses, why))
}

/// Why a change may not touch a job's licenses; `None` if it may. Slurm lets any user give back the licenses of their running
/// jobs, which then would cost nothing.
pub(crate) fn slices_changed(change: &Described, job: &Recorded, slurm: &impl Slurm) -> Option<Refusal> {
    if let Some(why) = slices_named(change, slurm) {
        return Some(why);
    }
    let list = change.licenses.as_deref()?;
    (!job.pending && slices_in(&job.licenses) != slices_in(list) && slurm.counts_slices()).then(|| {
        let why =
            "the job runs, and the slices of its GPUs are among its licenses: only root can change them now";
        Refusal::new(Reason::Licenses, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Effect;
    use crate::fixtures::Fake;
    use crate::modify::{Asker, modify};
    use crate::site::Rules;
    use crate::submit::submit;
    use site_limits::tres::Tres;

    #[test]
    fn users_neither_ask_for_slices_nor_give_them_back() {
        let with = |list: &str| Described { licenses: Some(list.to_owned()), ..Described::default() };
        let asked = |list| submit(&with(list), Rules::None, &Fake::default()).refused.map(|why| why.text);
        assert_eq!(
            asked("a,slice:9").as_deref(),
            Some(
                "--licenses=a,slice:9: Slurm counts the slices of each job's GPUs by the license slice; leave it out"
            )
        );
        assert_eq!(asked("matlab:2"), None);
        let refused = |list, has: &str, pending, root| {
            let job = Recorded { licenses: has.to_owned(), pending, ..Recorded::default() };
            let asker = if root { Asker::Root } else { Asker::Owner };
            modify(&with(list), &job, asker, Rules::None, &Fake::default()).refused.is_some()
        };
        assert!(refused("", "slice:7", false, false) && refused("slice:1", "", true, false));
        assert!(!refused("", "slice:7", false, true) && !refused("", "matlab", false, false));
        let per_task = |list: &str| Described {
            tres: Tres { per_task: Some(list.to_owned()), ..Tres::default() },
            ..Described::default()
        };
        let asks = per_task("cpu=1,license/slice=5");
        let why = submit(&asks, Rules::None, &Fake::default()).refused;
        assert!(
            why.is_some_and(|why| why
                .text
                .starts_with("--tres-per-task=cpu=1,license/slice=5: Slurm counts"))
        );
        let pending = Recorded { pending: true, ..Recorded::default() };
        assert!(modify(&asks, &pending, Asker::Owner, Rules::None, &Fake::default()).refused.is_some());
        let matlab = per_task("license/matlab=2");
        assert_eq!(submit(&matlab, Rules::None, &Fake::default()).refused, None);
        // An array's pending part has what its last task had.
        assert!(!refused("", "slice:7", true, false));
    }

    #[test]
    fn only_roots_change_keeps_the_flags_that_take_licenses_away() {
        let job = Recorded { licenses: "slice:7".to_owned(), ..Recorded::default() };
        let effects =
            |asker| modify(&Described::default(), &job, asker, Rules::None, &Fake::default()).effects;
        assert_eq!(effects(Asker::Owner), [Effect::Env(None), Effect::KeepLicenses]);
        assert_eq!(effects(Asker::Root), [Effect::Env(None)]);
    }
}
