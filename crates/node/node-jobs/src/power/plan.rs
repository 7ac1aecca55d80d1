//! Decides the next step for a GPU's power limit: values in, a step out.
//!
//! NVML limits whole GPUs only. So the highest cap of the jobs on a GPU counts, and a job without a cap counts as the limit
//! that was found: nobody slows a stranger. A cap above the limit found is that limit.

/// A change of a GPU's limit, as the journal has it, mW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// In force before the first change; the last job that ends puts it back.
    pub found_mw: u32,
    /// In force before this change.
    pub was_mw: u32,
    /// In force after it.
    pub to_mw: u32,
}

impl Change {
    /// Tells whether Tessera may have set this limit: the change was not made yet, was made, or was taken back.
    #[must_use]
    pub fn explains(&self, limit_mw: u32) -> bool {
        [self.found_mw, self.was_mw, self.to_mw].contains(&limit_mw)
    }
}

/// The action that a GPU's limit needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitStep {
    /// As it was found: what the journal says of it is over.
    Forget,
    /// The jobs' limit is in force.
    Keep,
    /// Journal the change, make it, and read it back.
    Set(Change),
    /// Put back what was found, mW, and read it back.
    Restore(u32),
}

/// A step, and whether somebody else has changed the limit since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPlan {
    /// The action.
    pub step: LimitStep,
    /// The limit in force is neither ours nor what we found: what the journal says of it is over.
    pub is_foreign: bool,
}

/// Decides for one GPU. `recorded` is the journal's change of this boot, `now_mw` the limit in force, `caps_mw` has one
/// entry for each job on the GPU: its cap, or none.
#[must_use]
pub fn plan(recorded: Option<Change>, now_mw: u32, caps_mw: &[Option<u32>]) -> LimitPlan {
    let ours = recorded.filter(|change| change.explains(now_mw));
    let found_mw = ours.map_or(now_mw, |change| change.found_mw);
    let to_mw = wanted(found_mw, caps_mw);
    let step = match (to_mw == found_mw, now_mw == to_mw) {
        (true, true) => LimitStep::Forget,
        (true, false) => LimitStep::Restore(found_mw),
        (false, true) if ours.is_some_and(|change| change.to_mw == to_mw) => LimitStep::Keep,
        (false, _) => LimitStep::Set(Change { found_mw, was_mw: now_mw, to_mw }),
    };
    LimitPlan { step, is_foreign: recorded.is_some() && ours.is_none() }
}

/// The limit that the jobs on a GPU ask for together, mW.
fn wanted(found_mw: u32, caps_mw: &[Option<u32>]) -> u32 {
    let each = caps_mw.iter().map(|cap| cap.map_or(found_mw, |cap| cap.min(found_mw)));
    each.max().unwrap_or(found_mw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: u32 = 250;

    fn change(was_mw: u32, to_mw: u32) -> Change {
        Change { found_mw: FOUND, was_mw, to_mw }
    }

    type Act = Box<dyn FnOnce(&mut Option<Change>, &mut u32)>;

    /// A GPU that does what a plan says, until it is killed after so many of the plan's writes and calls.
    fn carry_out(recorded: &mut Option<Change>, limit: &mut u32, caps: &[Option<u32>], killed_after: usize) {
        let LimitPlan { step, is_foreign } = plan(*recorded, *limit, caps);
        let mut acts: Vec<Act> = Vec::new();
        if is_foreign {
            acts.push(Box::new(|recorded, _| *recorded = None));
        }
        match step {
            LimitStep::Keep => {}
            LimitStep::Forget => acts.push(Box::new(|recorded, _| *recorded = None)),
            LimitStep::Set(change) => {
                acts.push(Box::new(move |recorded, _| *recorded = Some(change)));
                acts.push(Box::new(move |_, limit| *limit = change.to_mw));
            }
            LimitStep::Restore(found) => {
                acts.push(Box::new(move |_, limit| *limit = found));
                acts.push(Box::new(|recorded, _| *recorded = None));
            }
        }
        acts.into_iter().take(killed_after).for_each(|act| act(recorded, limit));
    }

    #[test]
    fn the_highest_cap_counts_and_who_has_none_is_not_slowed() {
        let set = |caps: &[Option<u32>]| plan(None, FOUND, caps).step;
        assert_eq!(set(&[Some(190)]), LimitStep::Set(change(FOUND, 190)));
        assert_eq!(set(&[Some(190), Some(210)]), LimitStep::Set(change(FOUND, 210)));
        assert_eq!(set(&[Some(190), None]), LimitStep::Forget);
        assert_eq!(set(&[Some(300)]), LimitStep::Forget);
        assert_eq!(set(&[]), LimitStep::Forget);
        let recorded = Some(change(FOUND, 190));
        assert_eq!(plan(recorded, 190, &[Some(190)]).step, LimitStep::Keep);
        assert_eq!(plan(recorded, 190, &[Some(190), None]).step, LimitStep::Restore(FOUND));
        assert_eq!(plan(recorded, 190, &[Some(190), Some(200)]).step, LimitStep::Set(change(190, 200)));
    }

    #[test]
    fn a_limit_that_is_not_ours_stays() {
        let recorded = Some(change(FOUND, 190));
        assert_eq!(plan(recorded, 170, &[]), LimitPlan { step: LimitStep::Forget, is_foreign: true });
        // A later job starts from the administrator's limit, and gives that back.
        let next = Change { found_mw: 170, was_mw: 170, to_mw: 160 };
        assert_eq!(
            plan(recorded, 170, &[Some(160)]),
            LimitPlan { step: LimitStep::Set(next), is_foreign: true }
        );
        assert_eq!(plan(recorded, 170, &[Some(190)]).step, LimitStep::Forget);
    }

    /// Jobs come and go, and every plan is killed anywhere: once all are gone, the limit is as it was found.
    #[test]
    fn whoever_is_killed_when_the_limit_found_comes_back() {
        let jobs = [Some(150), None, Some(190), Some(300), Some(170)];
        let mut killed = 0;
        for seed in 0..4096_usize {
            let (mut recorded, mut limit) = (None, FOUND);
            for round in 0..6 {
                let caps: Vec<Option<u32>> = (0..5)
                    .filter(|at| (seed * 7919 + round * 104_729) >> at & 1 == 1)
                    .map(|at| jobs[at])
                    .collect();
                let killed_after = (seed >> (2 * round)) & 3;
                carry_out(&mut recorded, &mut limit, &caps, killed_after);
                killed += usize::from(killed_after < 2);
                assert!(recorded.is_some() || limit == FOUND, "a changed limit is journalled");
                assert!(!plan(recorded, limit, &caps).is_foreign, "ours is never taken for somebody else's");
            }
            carry_out(&mut recorded, &mut limit, &[], usize::MAX);
            assert_eq!((recorded, limit), (None, FOUND), "seed {seed}");
        }
        assert!(killed > 1000);
    }
}
