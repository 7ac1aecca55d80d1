//! Values that can be completed while a user types.

use geometry::Model;

use crate::table::Opt;

impl Opt {
    /// Fixed values of the option, for completion in shells; empty where every value is a number, a size or a name of one's own.
    #[must_use]
    pub fn words(self) -> Vec<String> {
        let fixed: &[&str] = match self {
            Self::Isolation => return isolations(),
            Self::Instances => &["1/task"],
            Self::Pattern => &["ring", "tree", "chain", "star", "all", "none", "ring+tree", "file:"],
            Self::Bandwidth => &["sensitive", "insensitive"],
            Self::SetPolicy => &["preserve", "greedy", "topo-aware", "baseline"],
            Self::Wait => &["none"],
            Self::Power => &["auto"],
            Self::Mem | Self::Sms | Self::Times | Self::App | Self::Place => &[],
        };
        fixed.iter().map(|&word| word.to_owned()).collect()
    }
}

/// The kinds, and the profiles of all models that Tessera knows.
fn isolations() -> Vec<String> {
    let kinds = ["auto", "mig", "mps", "gpu-tasks", "gpu-tasks:probes", "whole", "slurm"].map(str::to_owned);
    let all = || Model::all().iter().flat_map(|model| &model.profiles);
    let mut profiles: Vec<String> = all().map(|p| format!("mig:{}", p.name)).collect();
    profiles
        .extend(all().flat_map(|p| {
            p.compute.iter().map(|size| format!("mig-shared:{}", p.compute_name(size.slices)))
        }));
    profiles.sort();
    profiles.dedup();
    kinds.into_iter().chain(profiles).collect()
}

#[cfg(test)]
mod tests {
    use crate::table::Spec;
    use crate::value::read;

    #[test]
    fn every_completed_value_is_accepted() {
        let mut count = 0;
        for spec in &Spec::ALL {
            for word in spec.opt.words().iter().filter(|word| !word.ends_with(':')) {
                let answer = read(spec.opt, word, &|_| Err("no file".to_owned()));
                assert!(answer.is_ok(), "--{}={word}: {answer:?}", spec.name);
                count += 1;
            }
        }
        assert!(count > 40, "{count}");
    }
}
