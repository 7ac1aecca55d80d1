//! The papers' baselines beside the policies that a broker offers.

mod bound;
mod case_mig;
mod schedgpu;

pub use bound::{Cg, Sa, Slurm};
pub use case_mig::CaseMig;
pub use schedgpu::SchedGpu;
pub use task_sched::policy::{Alg2, Alg3, OVERTAKEN_AT_MOST, Policy, Refusal, Start, Tessera, Verdict, Want};

/// Every policy by name, in the order that lists print them in.
pub const NAMES: [&str; 8] = ["tessera", "alg3", "alg2", "case-mig", "sa", "cg", "schedgpu", "slurm"];

/// Makes a policy by its name; `None` for a name not in [`NAMES`].
#[must_use]
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "case-mig" => Box::new(CaseMig),
        "sa" => Box::new(Sa::default()),
        "cg" => Box::new(Cg::default()),
        "schedgpu" => Box::new(SchedGpu),
        "slurm" => Box::new(Slurm::default()),
        _ => return task_sched::policy::by_name(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_reads_back_from_its_name() {
        assert!(NAMES.iter().all(|name| by_name(name).unwrap().name() == *name));
        assert!(by_name("case").is_none());
    }
}
