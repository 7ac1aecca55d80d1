//! The CPUs that running jobs leave on the site's nodes, as Slurm has given them out.

use std::collections::HashMap;

use geometry::JobId;

/// CPUs by a node's place in the node table.
#[derive(Debug, Default)]
pub(crate) struct Cpus {
    /// All CPUs of each of the site's nodes, and those that jobs have; `None`: another's node.
    of: Vec<Option<(u32, u32)>>,
    /// By job, what it has on the site's nodes.
    jobs: HashMap<JobId, Vec<(usize, u32)>>,
}

impl Cpus {
    /// Nodes with all of their CPUs, and no jobs.
    pub(super) fn new(nodes: &[(usize, u32)]) -> Self {
        let mut of = vec![None; nodes.iter().map(|(node, _)| node + 1).max().unwrap_or(0)];
        nodes.iter().for_each(|(node, all)| of[*node] = Some((*all, 0)));
        Self { of, jobs: HashMap::new() }
    }

    /// Tells whether a node is one of the site's.
    pub(crate) fn knows(&self, node: usize) -> bool {
        self.at(node).is_some()
    }

    /// The places of the site's nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = usize> {
        self.of.iter().enumerate().filter(|(_, cpus)| cpus.is_some()).map(|(node, _)| node)
    }

    /// CPUs that jobs leave; `None`: it is not one of the site's nodes.
    pub(super) fn free(&self, node: usize) -> Option<u32> {
        self.at(node).map(|(all, taken)| all.saturating_sub(taken))
    }

    /// Takes note of a job that starts, or is found running, instead of what it had before.
    pub(crate) fn begin(&mut self, job: JobId, has: Vec<(usize, u32)>) {
        self.end(job);
        for (node, cpus) in &has {
            if let Some((_, taken)) = self.of.get_mut(*node).and_then(Option::as_mut) {
                *taken = taken.saturating_add(*cpus);
            }
        }
        if !has.is_empty() {
            self.jobs.insert(job, has);
        }
    }

    /// Gives back what a job had.
    pub(crate) fn end(&mut self, job: JobId) {
        for (node, cpus) in self.jobs.remove(&job).unwrap_or_default() {
            self.give_back(node, cpus);
        }
    }

    /// Gives back what a job had on one node.
    pub(crate) fn lose(&mut self, job: JobId, node: usize) {
        let Some(has) = self.jobs.get_mut(&job) else { return };
        let lost: u32 = has.iter().filter(|(on, _)| *on == node).map(|(_, cpus)| *cpus).sum();
        has.retain(|(on, _)| *on != node);
        self.give_back(node, lost);
    }

    fn at(&self, node: usize) -> Option<(u32, u32)> {
        self.of.get(node).copied().flatten()
    }

    fn give_back(&mut self, node: usize, cpus: u32) {
        if let Some((_, taken)) = self.of.get_mut(node).and_then(Option::as_mut) {
            *taken = taken.saturating_sub(cpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jobs_have_is_taken_once_and_given_back_whole() {
        let mut cpus = Cpus::new(&[(0, 64), (2, 8)]);
        let free = |cpus: &Cpus| [0, 1, 2].map(|node| cpus.free(node));
        cpus.begin(JobId(1), vec![(0, 10), (2, 4)]);
        cpus.begin(JobId(2), vec![(2, 2)]);
        assert_eq!(free(&cpus), [Some(54), None, Some(2)]);
        cpus.begin(JobId(1), vec![(0, 20), (2, 4)]);
        assert_eq!(free(&cpus), [Some(44), None, Some(2)], "a job that is seen again has what it has now");
        cpus.lose(JobId(1), 2);
        cpus.lose(JobId(1), 2);
        cpus.lose(JobId(9), 0);
        assert_eq!(free(&cpus), [Some(44), None, Some(6)]);
        cpus.end(JobId(1));
        cpus.end(JobId(1));
        cpus.end(JobId(2));
        assert_eq!(free(&cpus), [Some(64), None, Some(8)]);
        assert!(cpus.jobs.is_empty());
        cpus.begin(JobId(3), vec![(0, u32::MAX), (5, 1)]);
        assert_eq!(free(&cpus), [Some(0), None, Some(8)]);
    }
}
