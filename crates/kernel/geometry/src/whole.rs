//! GPUs that serve whole jobs and shares only: those of `data/whole-models.toml`, and those that a site describes.

use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::model::{Model, NoMig};

/// The file itself, with sources and PCI ids that [`Model`] leaves out.
pub const WHOLE_GPUS: &str = include_str!("../data/whole-models.toml");

/// Most memory that the first CUDA context of a job takes of the memory that the job is promised, MiB: CUDA 12 on an H100
/// takes about 500.
const CONTEXT_MIB: u64 = 512;

/// Rows of [`WHOLE_GPUS`] as `build.rs` writes them.
const ROWS: &str = include_str!(concat!(env!("OUT_DIR"), "/whole-models.json"));

#[derive(Deserialize)]
struct Raw {
    key: String,
    names: Vec<String>,
    arch: String,
    total_memory_mib: u64,
    cuda_mib: u64,
    nominal_gb: u32,
    sm: u32,
    no_mig: NoMig,
}

/// A GPU model that no table has, as a site describes it. It serves whole jobs and shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteModel {
    /// Name of the model after `gpu = `.
    pub key: String,
    /// Names that NVML reports for it; never empty.
    pub names: Vec<String>,
    /// Architecture, for what its links carry; empty if not said.
    pub arch: String,
    /// `memory.total` of nvidia-smi, MiB.
    pub total_memory_mib: u64,
    /// Memory that jobs can be promised, MiB; `None`: the total less what ECC and a CUDA context take at most.
    pub usable_mib: Option<u64>,
    /// Memory that the GPU is named by, GB.
    pub nominal_gb: u32,
    /// Number of streaming multiprocessors.
    pub sm: u32,
}

impl SiteModel {
    /// The memory that a GPU is named by, GB, if nobody says it. 97,887 MiB are named 96 GB: boards are named by powers of
    /// two, and the driver shows a little less.
    #[must_use]
    pub fn nominal_gb(total_memory_mib: u64) -> u32 {
        u32::try_from(total_memory_mib.div_ceil(1024)).unwrap_or(u32::MAX)
    }

    /// The model. Equal descriptions give the same one, so that reading a file again takes no more memory.
    #[must_use]
    pub fn model(self) -> &'static Model {
        static KNOWN: Mutex<Vec<&'static Model>> = Mutex::new(Vec::new());
        let usable_mib = self.usable_mib.unwrap_or_else(|| cautious_mib(self.total_memory_mib));
        let whole = Model {
            key: self.key,
            names: self.names,
            arch: self.arch,
            mig: Err(NoMig::Unknown),
            total_memory_mib: self.total_memory_mib,
            nominal_gb: self.nominal_gb,
            usable_mib,
            visible_mib: (usable_mib + CONTEXT_MIB).min(self.total_memory_mib),
            compute_slices: 1,
            placement_units: 1,
            full_gpu_sm: self.sm,
            profiles: Vec::new(),
            left: vec![0, 0],
        };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.iter().find(|m| ***m == whole) {
            return same;
        }
        let kept: &'static Model = Box::leak(Box::new(whole));
        known.push(kept);
        kept
    }
}

/// Memory for jobs where only `memory.total` is known: no board of the tables shows a program less than 97 % of it.
fn cautious_mib(total_mib: u64) -> u64 {
    (total_mib * 97 / 100).saturating_sub(CONTEXT_MIB)
}

pub(crate) fn load() -> Vec<Model> {
    // The rows are part of the program and a unit test reads them, so unreadable ones need not panic here.
    let rows: Vec<Raw> = serde_json::from_str(ROWS).unwrap_or_default();
    rows.into_iter().map(model).collect()
}

fn model(raw: Raw) -> Model {
    Model {
        key: raw.key,
        names: raw.names,
        arch: raw.arch,
        mig: Err(raw.no_mig),
        total_memory_mib: raw.total_memory_mib,
        nominal_gb: raw.nominal_gb,
        usable_mib: raw.cuda_mib.saturating_sub(CONTEXT_MIB),
        visible_mib: raw.cuda_mib,
        compute_slices: 1,
        placement_units: 1,
        full_gpu_sm: raw.sm,
        profiles: Vec::new(),
        left: vec![0, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_whole_gpus_reads() {
        assert!(serde_json::from_str::<Vec<Raw>>(ROWS).is_ok());
        assert_eq!(load().len(), 22);
    }
    #[test]
    fn a_cautious_guess_never_exceeds_what_is_known() {
        for model in load() {
            let guess = cautious_mib(model.total_memory_mib);
            assert!(guess <= model.usable_mib(), "{}: {guess} > {}", model.key, model.usable_mib());
        }
    }

    #[test]
    fn equal_descriptions_are_one_model() {
        let described = |sm| SiteModel {
            key: "x1-96gb".to_owned(),
            names: vec!["NVIDIA X1".to_owned()],
            arch: String::new(),
            total_memory_mib: 97_887,
            usable_mib: None,
            nominal_gb: 96,
            sm,
        };
        assert!(std::ptr::eq(described(100).model(), described(100).model()));
        assert!(!std::ptr::eq(described(100).model(), described(101).model()));
        assert_eq!(described(100).model().usable_mib(), 94_438);
    }
}
