//! The shapes that are counted, and how a user asks for one.

use admission::gres_list::Tres;
use geometry::Model;
use geometry::size::{display_gb, gigabytes_as_mib};
use protocol::{Isolation, Request};
use site_config::SiteConfig;

/// Share that is counted where neither the user nor the site names one, GB.
const SHARE_GB: u32 = 5;

/// Something a job can ask for.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// As a person calls it: `2g.10gb`, `share of 5.0 GB`, `2 GPUs`.
    pub(crate) name: String,
    /// The options of sbatch for one.
    pub(crate) options: String,
    pub(crate) request: Request,
    /// What the options ask of Slurm itself.
    pub(crate) tres: Tres,
}

/// Every shape that these GPUs could have, the smallest first: instances, a share, whole GPUs. With `mem_mib`, only those
/// with so much memory.
pub(super) fn shapes(
    config: &SiteConfig,
    models: &[&Model],
    most_gpus: usize,
    mem_mib: Option<u64>,
) -> Vec<Shape> {
    let mut all = instances(models, mem_mib);
    all.push(share(mem_mib.or(config.defaults.gpu_mem_mib).unwrap_or(gigabytes_as_mib(SHARE_GB))));
    all.extend(numbers(most_gpus).map(|n| whole(n, mem_mib)));
    all
}

fn instances(models: &[&Model], mem_mib: Option<u64>) -> Vec<Shape> {
    let mut profiles: Vec<(u64, &str)> = Vec::new();
    for profile in models.iter().flat_map(|m| &m.profiles).filter(|p| !p.is_variant()) {
        let fits = mem_mib.is_none_or(|mem| profile.memory_mib >= mem);
        if fits && !profiles.iter().any(|(_, name)| *name == profile.name) {
            profiles.push((profile.memory_mib, &profile.name));
        }
    }
    profiles.sort_unstable();
    profiles.into_iter().map(|(_, name)| instance(name)).collect()
}

fn instance(profile: &str) -> Shape {
    let request = Request::new(Isolation::Mig(Some(profile.to_owned())));
    Shape {
        name: profile.to_owned(),
        options: format!("--gpu-isolation=mig:{profile}"),
        request,
        tres: Tres::default(),
    }
}

fn share(mem_mib: u64) -> Shape {
    let size = display_gb(mem_mib);
    Shape {
        name: format!("share of {size}"),
        options: format!("--gpu-isolation=mps --gpu-mem={}", typed(mem_mib)),
        request: Request { mem_mib: Some(mem_mib), ..Request::new(Isolation::Mps) },
        tres: Tres::default(),
    }
}

fn whole(n: u32, mem_mib: Option<u64>) -> Shape {
    let mem = mem_mib.map(|mem| format!(" --gpu-mem={}", typed(mem))).unwrap_or_default();
    Shape {
        name: format!("{n} GPU{}", if n == 1 { "" } else { "s" }),
        options: format!("--gpu-isolation=whole --gpus-per-node={n}{mem}"),
        request: Request { mem_mib, ..Request::new(Isolation::Whole) },
        tres: Tres { per_node: Some(format!("gres:gpu:{n}")), ..Tres::default() },
    }
}

/// A size as a user types it: `10G` where that is what it is.
fn typed(mib: u64) -> String {
    let gb = mib * 1_048_576 / 1_000_000_000;
    let exact = u32::try_from(gb).is_ok_and(|gb| gigabytes_as_mib(gb) == mib);
    if exact { format!("{gb}G") } else { format!("{mib}Mi") }
}

/// 1, 2, 4, … and all GPUs of the largest node.
fn numbers(most: usize) -> impl Iterator<Item = u32> {
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let powers = (0..7).map(|power| 1_u32 << power).take_while(move |n| *n < most);
    powers.chain((most > 0).then_some(most))
}
