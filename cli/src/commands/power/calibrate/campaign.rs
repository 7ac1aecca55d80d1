//! Plan of the measurements: the command line, the site's configuration and the files, checked.

use std::path::PathBuf;

use geometry::Model;
use power::{Cap, CounterTable};
use power_study::FitError;
use power_study::calibration::{App, Setting, check, parse_apps, settings};
use site_config::{NodeSpec, SiteConfig};

use super::args::CalibrateArgs;
use crate::files;
use crate::globals::Globals;
use crate::outcome::Failure;
use crate::site;

/// Options of sbatch that would change what is measured.
const OURS: [&str; 18] = [
    "--gpu-",
    "--gpus",
    "-G",
    "--gres",
    "--nodelist",
    "-w",
    "--nodes",
    "-N",
    "--nodefile",
    "-F",
    "--array",
    "-a",
    "--wrap",
    "--output",
    "-o",
    "--error",
    "-e",
    "--exclusive",
];

/// A calibration.
pub(super) struct Campaign {
    pub(super) node: String,
    pub(super) gpu: &'static Model,
    /// Slurm's numbers of the GPUs that are measured on at the same time.
    pub(super) gpus: Vec<u16>,
    pub(super) apps: Vec<App>,
    pub(super) counters: CounterTable,
    /// Ascending.
    pub(super) caps: Vec<Cap>,
    /// References first.
    pub(super) settings: Vec<Setting>,
    /// Further words for sbatch.
    pub(super) sbatch: Vec<String>,
    /// Absolute: a job may begin elsewhere.
    pub(super) out: PathBuf,
}

impl Campaign {
    pub(super) fn new(args: &CalibrateArgs, globals: &Globals) -> Result<Self, Failure> {
        let file = args.apps.display().to_string();
        let apps = parse_apps(&file, &files::read_text(&args.apps)?).map_err(|e| Failure::of(&e))?;
        if let Some(word) = contradicts(&args.sbatch) {
            return Err(Failure::new(format!("{word} after --: the calibration decides this")).hint(
                "it sets each job's node, GPU, part and cap; options such as --partition may follow --",
            ));
        }
        let config = site::load(globals.config.as_deref())?;
        let spec = config.node(&args.node).ok_or_else(|| site::unknown_node(&args.node, &config))?;
        let (gpu, gpus) = gpus(args, spec)?;
        let caps = caps(args, spec)?;
        let settings = settings(gpu, &caps, apps.len()).map_err(|e| Failure::of(&e))?;
        let counters = counters(args, &config)?;
        check(gpu, &counters, &apps, &settings).map_err(|e| unfit(&file, &e))?;
        let out = std::path::absolute(&args.out)
            .map_err(|e| Failure::new(format!("--out {}: {e}", args.out.display())))?;
        let (node, sbatch) = (args.node.clone(), args.sbatch.clone());
        Ok(Self { node, gpu, gpus, apps, counters, caps, settings, sbatch, out })
    }

    /// The name of the instance with so many compute slices; every part of a setting has one.
    pub(super) fn profile(&self, slices: u8) -> &str {
        let mut plain = self.gpu.profiles.iter().filter(|p| !p.is_variant());
        plain.find(|p| p.compute_slices == slices).map_or("", |p| p.name.as_str())
    }

    /// The memory that a shared part states, MiB: a little less than half of the GPU's, since what is free of it for jobs is
    /// counted in whole shards.
    pub(super) fn shared_mib(&self) -> u64 {
        let whole = self.gpu.profile(self.profile(self.gpu.compute_slices));
        whole.map_or(1, |profile| profile.memory_mib * 15 / 32)
    }

    /// The names of a setting's applications, joined as in files.
    pub(super) fn names(&self, setting: &Setting) -> String {
        setting.names(&self.apps).join("+")
    }

    /// A setting for people: `4c+3c at 150 W, stream beside dgemm`.
    pub(super) fn described(&self, setting: &Setting) -> String {
        let names = setting.names(&self.apps).join(" beside ");
        if setting.state.is_full() {
            return format!("{names} on a whole GPU");
        }
        format!("{names} on {} at {}", setting.state, setting.cap)
    }
}

/// The first word behind `--` that would change what is measured.
fn contradicts(words: &[String]) -> Option<&String> {
    words.iter().find(|word| OURS.iter().any(|ours| word.starts_with(ours)))
}

/// The GPU model, and the numbers of the GPUs to measure on.
fn gpus(args: &CalibrateArgs, spec: &NodeSpec) -> Result<(&'static Model, Vec<u16>), Failure> {
    let node = &args.node;
    let usable = |at: usize| {
        let model = spec.gpus.get(at)?;
        // The reference needs a whole GPU without MIG.
        let both = site::makes_instances(spec, at) && matches!(spec.mig, node_state::MigPolicy::Dynamic);
        both.then_some(*model)
    };
    let wanted: Vec<usize> = match args.gpus {
        Some(set) => set.iter().map(|gpu| usize::from(gpu.0)).collect(),
        None => (0..spec.gpus.len()).filter(|at| usable(*at).is_some()).collect(),
    };
    let hint = "the model is about GPUs with MIG on a node with mig = \"dynamic\": parts and whole GPUs are compared";
    if wanted.is_empty() {
        return Err(
            Failure::new(format!("node {node} has no GPU that a power model can be measured on")).hint(hint)
        );
    }
    let mut found: Option<&'static Model> = None;
    for at in &wanted {
        let Some(model) = usable(*at) else {
            let what = format!(
                "GPU {at} of node {node} cannot be measured: tessera.toml has no such GPU, or does not let Tessera partition it"
            );
            return Err(Failure::new(what).hint(hint));
        };
        match found {
            Some(other) if other.key != model.key => {
                let what = format!(
                    "node {node} has {} and {}: a power model is about one of them",
                    other.key, model.key
                );
                return Err(Failure::new(what).hint("name GPUs of one model with --gpus"));
            }
            _ => found = Some(model),
        }
    }
    let numbers = wanted.iter().filter_map(|at| u16::try_from(*at).ok()).collect();
    found
        .map(|model| (model, numbers))
        .ok_or_else(|| Failure::new(format!("node {node} has no GPU")).hint(hint))
}

fn caps(args: &CalibrateArgs, spec: &NodeSpec) -> Result<Vec<Cap>, Failure> {
    let of_design =
        || args.design.design().caps_w().iter().filter_map(|watts| Cap::new(*watts).ok()).collect();
    let mut caps: Vec<Cap> = args.caps.clone().unwrap_or_else(of_design);
    caps.sort_unstable();
    caps.dedup();
    match (caps.last(), spec.power.cap_w) {
        (Some(highest), Some(cap_w)) if highest.watts() > u32::from(cap_w) => {
            let what = format!("{highest} cannot be measured on {}: its cap_w is {cap_w}", args.node);
            Err(Failure::new(what).hint("name lower ones with --caps, or raise cap_w in tessera.toml"))
        }
        _ => Ok(caps),
    }
}

fn counters(args: &CalibrateArgs, config: &SiteConfig) -> Result<CounterTable, Failure> {
    if let Some(path) = &args.counters {
        return super::super::counters(path);
    }
    let of_site = config.power.counters.as_ref().map(|table| CounterTable::clone(table));
    of_site.ok_or_else(|| {
        Failure::new("no counters of the applications: the site's [power] names no file").hint(
            "name one with --counters; `tessera lab power import` makes its lines from profiles of Nsight Compute",
        )
    })
}

fn unfit(file: &str, error: &FitError) -> Failure {
    let failure = Failure::new(format!("{file}: {error}"));
    match error {
        FitError::TooFewRuns { needed, .. } => failure
            .hint(format!("a model needs at least {needed} applications here, better twenty of all kinds")),
        FitError::Profile(_) | FitError::NoCounters { .. } => {
            failure.hint("`tessera lab power import` makes the lines of counters; --counters names the file")
        }
        _ => failure,
    }
}
