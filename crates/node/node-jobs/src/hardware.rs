//! Compares the GPUs that the driver shows with those that the site describes: no job starts on less than it was promised.

use geometry::Model;
use gpu_rules::Purpose;

use crate::fault::Fault;
use crate::gpu_settings::GpuSettings;
use crate::numbering::Numbering;
use crate::settings::Settings;
use node_driver::NvmlIndex;
use node_driver::nvml::{GpuInfo, LiveProfile, Nvml};

/// Least part of the described memory that a GPU must have, percent: drivers differ a little in what they report.
const LEAST_PERCENT: u64 = 95;
/// Least part of an instance's described memory that the driver must show, percent. Early drivers give a GB200's `1g.23gb`
/// 9 % less (`geometry/data/models.toml`, `memory_mib_also_seen`); the same profile of the next smaller model has half.
const LEAST_PROFILE_PERCENT: u64 = 90;

/// Checks that the driver, which shows this number of GPUs, has all that the site describes and does not leave to Slurm. Where
/// one is missing, NVML's numbers of those behind it mean other GPUs than before.
///
/// # Errors
///
/// It shows fewer.
pub fn are_enough(settings: &Settings, numbering: &Numbering, shown: usize) -> Result<(), Fault> {
    let described = settings.gpus.len();
    if described > shown + numbering.may_be_missing(settings, shown) {
        return Err(Fault::FewerGpus { described, shown });
    }
    Ok(())
}

/// Compares a GPU with the site's description. One that is left to Slurm may be anything.
///
/// # Errors
///
/// It is another model, or has less memory.
pub fn compare(found: &GpuInfo, described: Option<GpuSettings>) -> Result<(), Fault> {
    let ours = described.filter(|d| d.purpose != Purpose::Slurm);
    let Some(GpuSettings { model, .. }) = ours else { return Ok(()) };
    let other_model = found.model().is_some_and(|known| known.key != model.key);
    if other_model || is_less(found.memory_mib, model.total_memory_mib, LEAST_PERCENT) {
        return Err(Fault::NotAsDescribed {
            gpu: found.index,
            found: format!("{} with {} MiB", found.name, found.memory_mib),
            described: described_as(model),
        });
    }
    Ok(())
}

/// Compares the driver's profile with the promises of the described one.
pub(crate) fn compare_profile(
    gpu: NvmlIndex,
    live: &LiveProfile,
    model: &Model,
    promised: &geometry::Profile,
) -> Result<(), Fault> {
    let less = is_less(live.memory_mib, promised.memory_mib, LEAST_PROFILE_PERCENT);
    if less || live.slices < u32::from(promised.compute_slices) {
        let found = format!("a GPU whose {} has {} MiB", promised.name, live.memory_mib);
        let described = format!("{}, where it has {} MiB", model.key, promised.memory_mib);
        return Err(Fault::NotAsDescribed { gpu, found, described });
    }
    Ok(())
}

/// Tells whether the driver answers for any GPU. If it does not, no GPU is at fault alone.
pub(crate) fn any_answers(settings: &Settings) -> bool {
    match Nvml::load(&settings.node.nvml_library) {
        Ok(nvml) => nvml.count().is_ok_and(|n| (0..n).map(NvmlIndex).any(|gpu| nvml.uuid(gpu).is_ok())),
        Err(e) => !e.drains_node(),
    }
}

fn is_less(found_mib: u64, promised_mib: u64, least_percent: u64) -> bool {
    found_mib * 100 < promised_mib * least_percent
}

fn described_as(model: &Model) -> String {
    format!("{} with {} MiB", model.key, model.total_memory_mib)
}

#[cfg(test)]
mod tests {
    use gpu_rules::MigPolicy;

    use super::*;
    use node_driver::GpuMinor;

    fn found(name: &str, memory_mib: u64) -> GpuInfo {
        GpuInfo {
            index: NvmlIndex(3),
            uuid: "GPU-3".to_owned(),
            name: name.to_owned(),
            minor: GpuMinor(3),
            pci_bus_id: "00000000:07:00.0".to_owned(),
            memory_mib,
        }
    }

    fn wrong(found: &GpuInfo, described: &str) -> Option<String> {
        let model = Model::find(described).unwrap();
        let described = GpuSettings::of(model, &site_config::GpuUse::AsMig, MigPolicy::Dynamic);
        compare(found, Some(described)).err().map(|fault| fault.to_string())
    }

    #[test]
    fn another_model_or_less_memory_is_told() {
        let a100 = found("NVIDIA A100-SXM4-40GB", 40536);
        assert_eq!(wrong(&a100, "a100-40gb"), None);
        assert_eq!(
            wrong(&a100, "a100-80gb").as_deref(),
            Some(
                "GPU 3 is NVIDIA A100-SXM4-40GB with 40536 MiB, tessera.toml describes a100-80gb with 81920 MiB: correct \
                 the file or the node"
            )
        );
        // More than described is another model as well: instances would lie elsewhere.
        assert!(wrong(&a100, "a30-24gb").is_some());
        // A name that nobody knows yet counts by its memory.
        assert_eq!(wrong(&found("NVIDIA A100-NEW", 40000), "a100-40gb"), None);
        assert!(wrong(&found("NVIDIA A100-NEW", 32768), "a100-40gb").is_some());
        assert!(wrong(&found("NVIDIA A100-SXM4-40GB", 20000), "a100-40gb").is_some());
        assert!(compare(&found("anything", 1), None).is_ok(), "not described");
    }

    #[test]
    fn what_early_drivers_give_an_instance_is_not_less() {
        let model = Model::find("gb200-186gb").unwrap();
        let promised = model.profile("1g.23gb").unwrap();
        let gives = |memory_mib, slices| {
            let live = LiveProfile {
                id: promised.id,
                name: String::new(),
                slices,
                instances: 7,
                sm: promised.sm,
                memory_mib,
            };
            compare_profile(NvmlIndex(0), &live, model, promised).is_ok()
        };
        assert!(gives(22528, 1) && gives(20480, 1));
        assert!(!gives(11264, 1) && !gives(22528, 0));
    }
}
