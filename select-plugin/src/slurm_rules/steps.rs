//! The devices of a step in Slurm's accounts.

use topology::GpuSet;

/// Devices of one GRES entry of a job or step on each of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Number of the type asked for; 0: any.
    pub(crate) type_id: u32,
    pub(crate) by_node: Vec<GpuSet>,
}

/// Finds the GPUs that a step with shards lacks of its job's shards, on each of its nodes. Slurm 22.05 gives it one (`gres_ctld.c`,
/// `_set_step_gres_bit_alloc`), and a device cgroup would keep it from instances on the others. Which of the job's instances are the
/// step's is settled on the node.
pub(crate) fn missing_gpus(step: &Given, job: &[Given]) -> Vec<(usize, GpuSet)> {
    let mut has = step.by_node.clone();
    let mut missing = Vec::new();
    for all in job.iter().filter(|all| all.type_id == step.type_id || step.type_id == 0) {
        for (node, (has, may_have)) in has.iter_mut().zip(&all.by_node).enumerate() {
            let is_part = !has.is_empty() && may_have.len() > 1 && has.and(*may_have) == *has;
            if is_part {
                missing.push((node, *may_have));
                *has = *may_have;
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(type_id: u32, by_node: &[u64]) -> Given {
        Given { type_id, by_node: by_node.iter().copied().map(GpuSet::from_bits).collect() }
    }

    #[test]
    fn a_step_gets_all_gpus_of_its_jobs_shards() {
        let step = given(0, &[0b01, 0b10, 0b100, 0]);
        let job = given(7, &[0b11, 0b10, 0b011, 0b11]);
        // One GPU is all of them, another is not the job's, and a node without any is not the step's.
        assert_eq!(missing_gpus(&step, &[job]), [(0, GpuSet::from_bits(0b11))]);
    }

    #[test]
    fn entries_of_another_type_are_not_the_steps() {
        let job = [given(7, &[0b11]), given(8, &[0b1101])];
        assert_eq!(missing_gpus(&given(8, &[0b01]), &job), [(0, GpuSet::from_bits(0b1101))]);
        assert_eq!(missing_gpus(&given(9, &[0b01]), &job), []);
        assert_eq!(missing_gpus(&given(8, &[]), &job), [], "a step on none of its nodes");
    }
}
