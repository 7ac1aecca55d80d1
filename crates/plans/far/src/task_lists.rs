//! Lists of tasks per site, in the order in which they run.

use std::cmp::Reverse;

use super::table::{SearchTable, Site};

/// One list of tasks per site, one after another in one vector: a batch has few tasks per site, and most planning time
/// of a small batch would go into allocating a vector for each.
#[derive(Debug, Default)]
pub(super) struct TaskLists {
    tasks: Vec<u32>,
    /// Where each site's tasks begin, and the end of all.
    first: Vec<u32>,
}

impl Clone for TaskLists {
    fn clone(&self) -> Self {
        Self { tasks: self.tasks.clone(), first: self.first.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.tasks.clone_from(&source.tasks);
        self.first.clone_from(&source.first);
    }
}

impl TaskLists {
    /// Takes over (task, site) pairs; tasks of one site stay in their order.
    pub(super) fn fill(&mut self, table: &SearchTable<'_>, placed: impl Iterator<Item = (u32, u32)> + Clone) {
        self.first.clear();
        self.first.resize(table.sites() + 2, 0);
        let mut count = 0;
        for (_, site) in placed.clone() {
            self.first[site as Site + 2] += 1;
            count += 1;
        }
        for site in 2..self.first.len() {
            self.first[site] += self.first[site - 1];
        }
        self.tasks.clear();
        self.tasks.resize(count, 0);
        // first[s + 1] runs from the beginning of s to its end, where it belongs.
        for (task, site) in placed {
            let next = &mut self.first[site as Site + 1];
            self.tasks[*next as usize] = task;
            *next += 1;
        }
        self.first.pop();
    }

    fn range(&self, site: Site) -> std::ops::Range<usize> {
        self.first[site] as usize..self.first[site + 1] as usize
    }

    /// The tasks of a site.
    pub(super) fn at(&self, site: Site) -> &[u32] {
        &self.tasks[self.range(site)]
    }

    /// All lists, by site.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Site, &[u32])> + '_ {
        (0..self.first.len().saturating_sub(1)).map(|site| (site, self.at(site)))
    }

    /// Sorts each list, longest task first.
    pub(super) fn sort(&mut self, table: &SearchTable<'_>) {
        for site in 0..self.first.len() - 1 {
            let range = self.range(site);
            if range.len() > 1 {
                let class = table.class(site);
                self.tasks[range].sort_unstable_by_key(|&t| (Reverse(table.time(t as usize, class)), t));
            }
        }
    }

    /// Takes the task at position `at` from a site's list.
    pub(super) fn take(&mut self, site: Site, at: usize) -> u32 {
        let task = self.tasks.remove(self.first[site] as usize + at);
        self.first[site + 1..].iter_mut().for_each(|f| *f -= 1);
        task
    }

    /// Puts a task into a sorted list.
    pub(super) fn put(&mut self, table: &SearchTable<'_>, site: Site, task: u32) {
        let class = table.class(site);
        let key = |t: u32| (Reverse(table.time(t as usize, class)), t);
        let at = self.at(site).partition_point(|&t| key(t) < key(task));
        self.tasks.insert(self.first[site] as usize + at, task);
        self.first[site + 1..].iter_mut().for_each(|f| *f += 1);
    }
}
