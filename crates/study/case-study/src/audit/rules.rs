//! Decides again from the books what each policy's rule allows.

use super::{Audit, BegunTask};
use task_sched::{Need, TaskId, WorkerId};

impl Audit {
    /// The device that the algorithm names, where it names one.
    pub(super) fn named(&self, seen: &BegunTask) -> Option<usize> {
        if self.bound.contains_key(&seen.job) {
            return self.bound.get(&seen.job).copied();
        }
        let able = self.books.keys().copied().filter(|d| self.can_take(*d, seen));
        match self.policy {
            "alg2" => { able }.next(),
            "alg3" => able.min_by_key(|d| (self.books[d].warps, *d)),
            "schedgpu" => Some(0),
            _ => None,
        }
    }

    /// True if the policy's rule lets `dev` take the task now.
    fn can_take(&self, dev: usize, seen: &BegunTask) -> bool {
        let book = &self.books[&dev];
        if self.bound.get(&seen.job).is_some_and(|bound| *bound != dev) {
            return false;
        }
        if book.owner.is_some_and(|owner| owner != seen.job) || self.is_full_of_workers(dev, seen.job) {
            return false;
        }
        let (after, mem) = (book.used + u128::from(seen.need.mem().0), u128::from(book.device.mem.0));
        if self.bound.contains_key(&seen.job) {
            return after <= mem;
        }
        match self.policy {
            "alg3" | "case-mig" => after < mem,
            "alg2" => after <= mem && self.can_deal(dev, &seen.need),
            "schedgpu" => dev == 0 && after <= mem,
            _ => after <= mem,
        }
    }

    fn is_full_of_workers(&self, dev: usize, job: WorkerId) -> bool {
        let Some(max) = self.books[&dev].device.max_workers else { return false };
        let mut jobs: Vec<WorkerId> =
            self.tasks.iter().filter(|(_, s)| s.dev == Some(dev)).map(|(_, s)| s.job).collect();
        jobs.sort();
        jobs.dedup();
        !jobs.contains(&job) && jobs.len() >= max as usize
    }

    /// True if `alg2` finds room on the SMs, or an empty device for a task above any.
    fn can_deal(&self, dev: usize, need: &Need) -> bool {
        let here = || self.tasks.iter().filter(|(_, s)| s.dev == Some(dev));
        if here().any(|(_, s)| s.blocks.is_empty()) {
            return false;
        }
        if self.deal(dev, need).is_some() {
            return true;
        }
        let book = &self.books[&dev];
        let per_sm = (u64::from(book.device.warps_per_sm) / u64::from(need.warps_per_block()))
            .min(u64::from(book.device.blocks_per_sm));
        need.blocks() > per_sm * u64::from(book.device.sms) && here().count() == 0
    }

    /// Deals the blocks one by one: blocks per SM and the pointer behind them.
    pub(super) fn deal(&self, dev: usize, need: &Need) -> Option<(Vec<u64>, usize)> {
        let book = &self.books[&dev];
        let n = book.sms.len();
        if need.blocks() > n as u64 * u64::from(book.device.blocks_per_sm) {
            return None;
        }
        let warps = u64::from(need.warps_per_block());
        let (mut sms, mut dealt, mut pointer) = (book.sms.clone(), vec![0; n], book.pointer);
        for _ in 0..need.blocks() {
            let has_room = |i: &usize| {
                sms[*i].0 < u64::from(book.device.blocks_per_sm)
                    && sms[*i].1 + warps <= u64::from(book.device.warps_per_sm)
            };
            let sm = (0..n).map(|i| (pointer + i) % n).find(has_room)?;
            sms[sm] = (sms[sm].0 + 1, sms[sm].1 + warps);
            dealt[sm] += 1;
            pointer = (sm + 1) % n;
        }
        Some((dealt, pointer))
    }

    /// Reports `only` or, without it, every waiting task that a device could take.
    pub(super) fn nobody_waits_in_vain(&mut self, only: Option<TaskId>) {
        // A kept device is free on purpose, and a job's class is not in the events.
        if matches!(self.policy, "case-mig") || (self.policy == "tessera" && self.someone_was_passed_often())
        {
            return;
        }
        let waiting = self.tasks.iter().filter(|(id, s)| s.dev.is_none() && only.is_none_or(|o| o == *id));
        let in_vain =
            waiting.filter(|(_, s)| self.books.keys().any(|d| self.can_take(*d, s)) || self.could_make(s));
        let what: Vec<String> =
            in_vain.map(|(id, _)| format!("task {} waits although a device could take it", id.0)).collect();
        what.into_iter().for_each(|what| self.report(what));
    }

    fn someone_was_passed_often(&self) -> bool {
        self.tasks.iter().any(|(_, s)| s.dev.is_none() && s.passed >= 16)
    }
}
