//! Memory and utilisation of a job's GPUs, from what its steps say. Pure.
//!
//! Up to Slurm 24.11 the extern step says it for the whole job. From 25.05 on, one step answers on each node, for the whole job there: the
//! job's script on the first node, and on the others one step of `srun` after the other (`docs/energy-and-usage.md`).

use crate::slurm::tres::{mib, tres};

/// A step as sacct prints it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepUse<'a> {
    /// The job's number, a dot, and `extern`, `batch`, `interactive` or the step's number.
    pub(crate) id: &'a str,
    pub(crate) nodes: &'a str,
    pub(crate) elapsed_s: &'a str,
    /// `TRESUsageInTot`.
    pub(crate) total_in: &'a str,
    /// `TRESUsageOutTot`.
    pub(crate) total_out: &'a str,
}

/// Role of a step in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepKind {
    Extern,
    /// The batch script, or salloc's shell on the node.
    Script,
    /// A step of `srun`.
    Srun,
}

impl StepUse<'_> {
    fn kind(&self) -> StepKind {
        match self.id.split_once('.').map(|(_, step)| step) {
            Some("extern") => StepKind::Extern,
            Some("batch" | "interactive") => StepKind::Script,
            _ => StepKind::Srun,
        }
    }

    /// Most memory, MiB, summed over the nodes.
    fn memory(&self) -> Option<u64> {
        tres(self.total_in, "gres/gpumem").and_then(mib)
    }

    /// Mean utilisation, percent, summed over the nodes.
    fn busy(&self) -> Option<u64> {
        tres(self.total_out, "gres/gpuutil")?.parse().ok()
    }

    fn nodes(&self) -> u64 {
        self.nodes.parse().unwrap_or(1).max(1)
    }

    /// Seconds that it ran, bounded: products with them do not overflow.
    fn seconds(&self) -> u64 {
        self.elapsed_s.parse().unwrap_or(0).clamp(1, 1 << 40)
    }
}

/// The most memory that a job on so many nodes had on all devices together, MiB.
pub(crate) fn most_memory(steps: &[StepUse], job_nodes: u64) -> Option<u64> {
    let most = |kind| steps.iter().filter(|step| step.kind() == kind).filter_map(StepUse::memory).max();
    let [all, script, srun] = [StepKind::Extern, StepKind::Script, StepKind::Srun].map(most);
    if job_nodes > 1 && all.is_none() {
        // The script is on the first node, and the steps answer on the others.
        return script.into_iter().chain(srun).reduce(u64::saturating_add);
    }
    all.max(script).max(srun)
}

/// Mean utilisation of the GPUs of a job on so many nodes, percent.
pub(crate) fn mean_busy(steps: &[StepUse], job_nodes: u64) -> Option<u64> {
    let of = |kind| steps.iter().filter(move |step| step.kind() == kind);
    let told = |kind| of(kind).find_map(|step| Some((step.busy()?, step.nodes())));
    if let Some((sum, nodes)) = told(StepKind::Extern) {
        return Some(sum / nodes);
    }
    match told(StepKind::Script) {
        Some((first, _)) if job_nodes > 1 => {
            let others = over_time(of(StepKind::Srun), |_| 1);
            Some(others.map_or(first, |others| (first + others) / job_nodes))
        }
        Some((only, _)) => Some(only),
        None => over_time(of(StepKind::Srun), StepUse::nodes),
    }
}

/// Mean over time of what steps say that ran one after the other, each divided by a number.
fn over_time<'a, 's: 'a>(
    steps: impl Iterator<Item = &'a StepUse<'s>>,
    by: impl Fn(&StepUse<'s>) -> u64,
) -> Option<u64> {
    let told = steps
        .filter_map(|step| Some((step.busy()?.min(1 << 20) * step.seconds() / by(step), step.seconds())));
    let (weighted, seconds) = told.reduce(|all, one| (all.0.saturating_add(one.0), all.1 + one.1))?;
    weighted.checked_div(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, nodes, seconds, memory in MiB, utilisation summed over nodes.
    fn check(steps: &[(&str, u64, u64, u64, u64)], job_nodes: u64) -> (Option<u64>, Option<u64>) {
        let texts: Vec<[String; 5]> = steps
            .iter()
            .map(|(name, nodes, seconds, memory, busy)| {
                let id = format!("7.{name}");
                let [memory, busy] = [format!("gres/gpumem={memory}M"), format!("gres/gpuutil={busy}")];
                [id, nodes.to_string(), seconds.to_string(), memory, busy]
            })
            .collect();
        let uses = texts.iter().map(|[id, nodes, elapsed_s, total_in, total_out]| StepUse {
            id,
            nodes,
            elapsed_s,
            total_in,
            total_out,
        });
        let steps: Vec<StepUse> = uses.collect();
        (most_memory(&steps, job_nodes), mean_busy(&steps, job_nodes))
    }

    #[test]
    fn an_extern_step_speaks_for_all_nodes() {
        let all = [("extern", 2, 100, 8000, 120), ("batch", 1, 100, 10, 0), ("0", 2, 10, 10, 0)];
        assert_eq!(check(&all, 2), (Some(8000), Some(60)));
    }

    #[test]
    fn a_script_speaks_for_its_node_and_steps_for_the_others() {
        assert_eq!(check(&[("batch", 1, 100, 4000, 20)], 1), (Some(4000), Some(20)));
        let two = [("batch", 1, 100, 4000, 20), ("0", 2, 90, 3000, 80), ("1", 2, 10, 1000, 80)];
        assert_eq!(check(&two, 2), (Some(7000), Some(50)));
        assert_eq!(check(&two[..1], 2), (Some(4000), Some(20)), "nothing is known of the second node");
        let three = [("batch", 1, 100, 4000, 90), ("0", 3, 90, 6000, 60)];
        assert_eq!(check(&three, 3), (Some(10_000), Some(50)));
    }

    #[test]
    fn steps_without_a_script_count_by_their_time() {
        let all = [("0", 1, 20, 9000, 100), ("1", 1, 980, 5000, 5)];
        assert_eq!(check(&all, 1), (Some(9000), Some(6)));
        assert_eq!(check(&[("0", 2, 20, 9000, 100)], 2), (Some(9000), Some(50)));
        assert_eq!(check(&[], 2), (None, None));
    }
}
