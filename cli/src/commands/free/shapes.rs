//! The shapes that are counted, and how a user asks for one.

use geometry::Model;
use geometry::size::{display_gb, gigabytes_as_mib, parse_mib};
use protocol::{Isolation, Request};
use site_config::SiteConfig;
use site_limits::tres::Tres;

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
    /// Resources that the options ask of Slurm itself.
    pub(crate) tres: Tres,
    /// Memory of one device, MiB: the least of the models that have the shape. `None`: it differs by GPU.
    pub(crate) memory_mib: Option<u64>,
    /// SMs of one device and of the GPU, by model, each pair once. Empty for a share.
    pub(crate) sms: Vec<(u32, u32)>,
}

impl Shape {
    /// Writes the SMs: `14 of 108`, `14 of 108 or 16 of 132`, `all 108`; `all` of several models, `shared` for a share.
    pub(crate) fn sms_in_words(&self) -> String {
        match &self.sms[..] {
            [] => "shared".to_owned(),
            [(sms, of)] if sms == of => format!("all {of}"),
            all if all.iter().all(|(sms, of)| sms == of) => "all".to_owned(),
            all => all.iter().map(|(sms, of)| format!("{sms} of {of}")).collect::<Vec<_>>().join(" or "),
        }
    }
}

/// Shapes that are wanted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Least memory of each device, MiB.
    pub(crate) mem_mib: Option<u64>,
    /// So many instances or whole GPUs of a node. `None`: one instance or share, and a few numbers of whole GPUs.
    pub(crate) devices: Option<u32>,
    /// Whole GPUs alone.
    pub(crate) whole: bool,
}

/// Lists every shape that these GPUs could have: instances by memory, then by SMs; a share; whole GPUs by number.
pub(super) fn shapes(config: &SiteConfig, models: &[&Model], most_gpus: usize, wanted: Wanted) -> Vec<Shape> {
    let Wanted { mem_mib, devices, .. } = wanted;
    let mut all = if wanted.whole { Vec::new() } else { instances(models, mem_mib, devices.unwrap_or(1)) };
    if !wanted.whole && devices.is_none_or(|n| n == 1) {
        all.push(share(mem_mib.or(config.defaults.gpu_mem_mib).unwrap_or(gigabytes_as_mib(SHARE_GB))));
    }
    match devices {
        None => all.extend(numbers(most_gpus).map(|n| whole(n, mem_mib, models))),
        Some(n) => {
            all.extend(usize::try_from(n).is_ok_and(|n| n <= most_gpus).then(|| whole(n, mem_mib, models)))
        }
    }
    all
}

fn instances(models: &[&Model], mem_mib: Option<u64>, n: u32) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for model in models {
        for profile in model.profiles.iter().filter(|p| !p.is_variant()) {
            if mem_mib.is_some_and(|mem| profile.memory_mib < mem) {
                continue;
            }
            let name = instance_name(&profile.name, n);
            let sms = (profile.sm, model.full_gpu_sm);
            match shapes.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    known.memory_mib = known.memory_mib.min(Some(profile.memory_mib));
                    if !known.sms.contains(&sms) {
                        known.sms.push(sms);
                    }
                }
                None => shapes.push(Shape {
                    memory_mib: Some(profile.memory_mib),
                    sms: vec![sms],
                    ..instance(&profile.name, n)
                }),
            }
        }
    }
    // Memory as the profiles name it: that of 10 GB differs a little between models.
    let nominal = |shape: &Shape| {
        shape.name.rsplit('.').next().and_then(|gb| gb.trim_end_matches("gb").parse::<u32>().ok())
    };
    shapes.sort_by_cached_key(|shape| (nominal(shape), shape.sms.iter().min().copied(), shape.name.clone()));
    shapes
}

fn instance_name(profile: &str, n: u32) -> String {
    if n == 1 { profile.to_owned() } else { format!("{n} x {profile}") }
}

fn instance(profile: &str, n: u32) -> Shape {
    let request = Request { instances: n, ..Request::new(Isolation::Mig(Some(profile.to_owned()))) };
    let option = if n == 1 { String::new() } else { format!(" --gpu-instances={n}") };
    Shape {
        name: instance_name(profile, n),
        options: format!("--gpu-isolation=mig:{profile}{option}"),
        request,
        tres: Tres::default(),
        memory_mib: None,
        sms: Vec::new(),
    }
}

fn share(mem_mib: u64) -> Shape {
    let size = display_gb(mem_mib);
    Shape {
        name: format!("share of {size}"),
        options: format!("--gpu-isolation=mps --gpu-mem={}", typed(mem_mib)),
        request: Request { mem_mib: Some(mem_mib), ..Request::new(Isolation::Mps) },
        tres: Tres::default(),
        memory_mib: Some(mem_mib),
        sms: Vec::new(),
    }
}

/// So many whole GPUs of a node with these models.
fn whole(n: u32, mem_mib: Option<u64>, models: &[&Model]) -> Shape {
    let mut sms: Vec<(u32, u32)> =
        models.iter().map(|model| (model.full_gpu_sm, model.full_gpu_sm)).collect();
    sms.sort_unstable();
    sms.dedup();
    let memory = |model: &&Model| model.usable_mib();
    let mem = mem_mib.map(|mem| format!(" --gpu-mem={}", typed(mem))).unwrap_or_default();
    Shape {
        name: format!("{n} GPU{}", if n == 1 { "" } else { "s" }),
        options: format!("--gpu-isolation=whole --gpus-per-node={n}{mem}"),
        request: Request { mem_mib, ..Request::new(Isolation::Whole) },
        tres: Tres { per_node: Some(format!("gres:gpu:{n}")), ..Tres::default() },
        memory_mib: models
            .iter()
            .map(memory)
            .min()
            .filter(|least| models.iter().map(memory).max() == Some(*least)),
        sms,
    }
}

/// A size as a user types it: `10G`, `1.5G` or `20M` where that is what it is.
fn typed(mib: u64) -> String {
    let shown = display_gb(mib).replace(' ', "").replace(".0GB", "GB");
    let typed = shown.trim_end_matches('B');
    if parse_mib(typed) == Ok(mib) { typed.to_owned() } else { format!("{mib}Mi") }
}

/// 1, 2, 4, … and all GPUs of the largest node.
fn numbers(most: usize) -> impl Iterator<Item = u32> {
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let powers = (0..7).map(|power| 1_u32 << power).take_while(move |n| *n < most);
    powers.chain((most > 0).then_some(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_a_user_types_them() {
        for text in ["20M", "500M", "1.5G", "10G", "40G", "10240Mi"] {
            assert_eq!(typed(parse_mib(text).unwrap()), text);
        }
    }

    #[test]
    fn several_devices_are_asked_for_together() {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        let model = Model::find("a100-40gb").unwrap();
        let of = |devices, mem| {
            let wanted = Wanted { mem_mib: Some(gigabytes_as_mib(mem)), devices, whole: false };
            shapes(&config, &[model], 8, wanted).into_iter().map(|shape| shape.options).collect::<Vec<_>>()
        };
        assert_eq!(
            of(Some(3), 20),
            [
                "--gpu-isolation=mig:3g.20gb --gpu-instances=3",
                "--gpu-isolation=mig:4g.20gb --gpu-instances=3",
                "--gpu-isolation=mig:7g.40gb --gpu-instances=3",
                "--gpu-isolation=whole --gpus-per-node=3 --gpu-mem=20G",
            ]
        );
        assert!(of(Some(9), 40).iter().all(|options| !options.contains("whole")), "no node has nine");
        assert!(of(Some(1), 40).contains(&"--gpu-isolation=mps --gpu-mem=40G".to_owned()));
        assert_eq!(of(None, 40).iter().filter(|options| options.contains("whole")).count(), 4);
    }
}
