//! `tessera discover`: what NVML shows, as configuration.

mod args;

use std::fmt::Write as _;
use std::path::Path;

use geometry::{Model, SiteModel};
use gpu_node::{LinkAnswers, memory_regions};
use node_driver::NvmlIndex;
use node_driver::nvml::{GpuInfo, Nvml};
use site_config::{System, systems};
use topology::{HardwareGraph, LinkKind};

pub(crate) use args::DiscoverArgs;
use args::Format;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::site;
use crate::this_machine::this_node;

/// GPUs, links and names of a machine.
struct Machine {
    name: String,
    driver: String,
    gpus: Vec<GpuInfo>,
    models: Vec<&'static Model>,
    links: LinkAnswers,
    /// The kernel has one region for the memory of each GPU.
    fenced: bool,
}

pub(crate) fn run(args: &DiscoverArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let machine = machine(args.node.as_deref(), globals)?;
    let text = match args.format {
        Format::Toml => toml(&machine),
        Format::Gres => gres(&machine),
        Format::Slurm => slurm(&machine),
        Format::All => all(&machine),
    };
    let unknown = machine.gpus.len() != machine.models.len();
    Ok(Outcome { text, status: u8::from(unknown) })
}

/// The text for all files, of this machine's GPUs.
pub(crate) fn everything(node: Option<&str>, globals: &Globals) -> Result<String, Failure> {
    Ok(all(&machine(node, globals)?))
}

fn all(machine: &Machine) -> String {
    format!(
        "# tessera.toml\n{}\n# gres.conf\n{}\n# slurm.conf\n{}",
        toml(machine),
        gres(machine),
        slurm(machine)
    )
}

fn machine(node: Option<&str>, globals: &Globals) -> Result<Machine, Failure> {
    // Discovery comes before configuration: without a file, or with a bad one, the usual library is asked.
    let configured = site::load(globals.config.as_deref()).ok();
    let name = node.map(str::to_owned).or_else(this_node).unwrap_or_else(|| "n1".to_owned());
    let node = configured.map(|config| node_jobs::Settings::of(&config, &name).node);
    let library = node.as_ref().map_or(Path::new("libnvidia-ml.so.1"), |node| &node.nvml_library);
    let cgroups = node.as_ref().map_or(Path::new("/sys/fs/cgroup"), |node| &node.cgroup_root);
    look(name, library, cgroups)
        .map_err(|e| Failure::of(&e).hint("run this on a node with GPUs, where the NVIDIA driver is loaded"))
}

fn look(name: String, library: &Path, cgroup_root: &Path) -> Result<Machine, node_driver::nvml::NvmlError> {
    let nvml = Nvml::load(library)?;
    let indices = || (0..nvml.count().unwrap_or(0)).map(NvmlIndex);
    nvml.count()?;
    let gpus: Vec<GpuInfo> = indices().map(|i| nvml.info(i)).collect::<Result<_, _>>()?;
    let models = gpus.iter().filter_map(GpuInfo::model).collect();
    let (links, driver) = (LinkAnswers::read(&nvml)?, gpu_survey::driver_version(&nvml)?);
    let ids: Vec<&str> = gpus.iter().map(|gpu| gpu.pci_bus_id.as_str()).collect();
    let fenced = memory_regions(cgroup_root, &ids).iter().all(|regions| *regions == 1);
    Ok(Machine { name, driver, gpus, models, links, fenced })
}

/// The known system that is just this, and the one that has the same NVLinks.
fn known(graph: &HardwareGraph) -> (Option<&'static System>, Option<&'static System>) {
    let same = |system: &&System| system.graph(graph.len()).is_some_and(|g| g == *graph);
    let nvlinks = |g: &HardwareGraph| -> Vec<LinkKind> {
        let all = || g.all().iter();
        let kinds = all().flat_map(|a| all().filter_map(move |b| g.link(a, b))).map(|l| l.kind);
        kinds.map(|k| if matches!(k, LinkKind::NvLink { .. }) { k } else { LinkKind::Sys }).collect()
    };
    let mine = nvlinks(graph);
    let any = mine.iter().any(|k| *k != LinkKind::Sys);
    let alike = |system: &&System| any && system.graph(graph.len()).is_some_and(|g| nvlinks(&g) == mine);
    (systems().iter().find(same), systems().iter().find(alike))
}

/// The links, as `[[nodes]]` has them.
fn links(machine: &Machine) -> String {
    let graph = machine.links.graph();
    let mut text = String::new();
    let off = |(i, mig): (usize, &bool)| (*mig && machine.links.nvlinks[i].is_empty()).then(|| i.to_string());
    let off: Vec<String> = machine.links.mig.iter().enumerate().filter_map(off).collect();
    if !off.is_empty() && machine.links.nvlinks.iter().any(|l| !l.is_empty()) {
        let _ = writeln!(text, "# In MIG mode, which turns an A100's NVLinks off: GPU {}.", off.join(", "));
    }
    match known(&graph) {
        (Some(system), _) => {
            let _ = writeln!(text, "interconnect = {:?}", system.name);
        }
        _ if graph.len() < 2 => text.push_str("interconnect = \"pcie\"\n"),
        (None, alike) => {
            if let Some(system) = alike {
                let _ = writeln!(text, "# NVLinks are those of {}.", system.name);
            }
            text.push_str(&gpu_node::links_text(&graph, machine.links.slot()));
        }
    }
    text
}

fn toml(machine: &Machine) -> String {
    let mut text =
        format!("# Written by `tessera discover` on {}, driver {}.\n", machine.name, machine.driver);
    let keys: Vec<String> = machine.gpus.iter().map(key).collect();
    let mut described: Vec<&str> = Vec::new();
    for (gpu, key) in machine.gpus.iter().zip(&keys) {
        if gpu.model().is_none() && !described.contains(&key.as_str()) {
            described.push(key);
            text.push_str(&to_complete(gpu, key));
        }
    }
    let _ = writeln!(text, "[[nodes]]\nnames = {:?}", machine.name);
    match &keys[..] {
        [first, rest @ ..] if rest.iter().all(|key| key == first) => {
            let _ = writeln!(text, "gpu = {first:?}\ncount = {}", keys.len());
        }
        keys => {
            let _ = writeln!(text, "gpus = {keys:?}");
        }
    }
    if machine.models.iter().any(|m| m.has_mig()) {
        text.push_str("mig = \"dynamic\"\n");
    }
    text.push_str(memory(machine));
    text.push_str(&links(machine));
    text
}

/// Names the level that limits shares to their memory, in the words of their jobs' logs.
fn memory(machine: &Machine) -> &'static str {
    if machine.fenced {
        "memory_fence = true # memory of shares: kernel\n"
    } else {
        "# Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.\n"
    }
}

/// The key of a GPU's model, which may be one that Tessera does not know.
fn key(gpu: &GpuInfo) -> String {
    gpu.model().map_or_else(|| own_key(gpu), |model| model.key.clone())
}

/// A key for a model that Tessera does not know, by its name and memory: `x1-96gb` for an NVIDIA X1.
fn own_key(gpu: &GpuInfo) -> String {
    let name = gpu.name.trim_start_matches("NVIDIA ").to_ascii_lowercase();
    let word: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    format!("{word}-{}gb", SiteModel::nominal_gb(gpu.memory_mib))
}

/// The `[[models]]` of a GPU that Tessera does not know. It is an error until the administrator has completed it, so that
/// the node is left to Slurm until then.
fn to_complete(gpu: &GpuInfo, key: &str) -> String {
    format!(
        "# Tessera does not know GPU {}. Complete this; it then serves whole GPUs and MPS shares.\n\
         [[models]]\nkey = {key:?}\nnames = [{:?}]\nmemory_mib = {}\n\
         # sms =        the number of multiprocessors, as deviceQuery prints it\n\n",
        gpu.index, gpu.name, gpu.memory_mib
    )
}

/// Slurm's type of a GPU: the key up to its first dash, `a100`.
fn gres_type(gpu: &GpuInfo) -> String {
    let key = key(gpu);
    key.split('-').next().unwrap_or(&key).to_owned()
}

/// The shards of all GPUs. Those of an unknown model are what its `[[models]]` will give it.
fn shards(machine: &Machine) -> u32 {
    let of = |gpu: &GpuInfo| gpu.model().map_or_else(|| SiteModel::nominal_gb(gpu.memory_mib), Model::shards);
    machine.gpus.iter().map(of).sum()
}

fn gres(machine: &Machine) -> String {
    let n = machine.gpus.len();
    let linked = (0..n).any(|a| (0..n).any(|b| machine.links.direct(a, b) > 0));
    let minors_in_order = machine.gpus.iter().enumerate().all(|(i, g)| usize::try_from(g.minor.0) == Ok(i));
    let one_model = machine.gpus.windows(2).all(|w| key(&w[0]) == key(&w[1]));
    let mut text = String::new();
    let line = |text: &mut String, gpu: usize, file: &str, links: &str| {
        let kind = gres_type(&machine.gpus[gpu]);
        let _ = writeln!(text, "NodeName={} Name=gpu Type={kind} File={file}{links}", machine.name);
    };
    if !linked && minors_in_order && one_model && n > 1 {
        line(&mut text, 0, &format!("/dev/nvidia[0-{}]", n - 1), "");
    } else {
        for (i, gpu) in machine.gpus.iter().enumerate() {
            let count = |j| if i == j { "-1".to_owned() } else { machine.links.direct(i, j).to_string() };
            let row: Vec<String> = (0..n).map(count).collect();
            let links = if linked { format!(" Links={}", row.join(",")) } else { String::new() };
            line(&mut text, i, &format!("/dev/nvidia{}", gpu.minor), &links);
        }
    }
    let _ = writeln!(text, "NodeName={} Name=shard Count={}", machine.name, shards(machine));
    text
}

fn slurm(machine: &Machine) -> String {
    let mut types: Vec<(String, usize)> = Vec::new();
    for kind in machine.gpus.iter().map(gres_type) {
        match types.iter_mut().find(|(t, _)| *t == kind) {
            Some((_, n)) => *n += 1,
            None => types.push((kind, 1)),
        }
    }
    let gpus: Vec<String> = types.iter().map(|(t, n)| format!("gpu:{t}:{n}")).collect();
    format!(
        "GresTypes=gpu,shard\nNodeName={} Gres={},shard:{} # and CPUs, RealMemory as `slurmd -C` prints them\n",
        machine.name,
        gpus.join(","),
        shards(machine)
    )
}

#[cfg(test)]
mod tests;
