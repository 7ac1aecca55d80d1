//! `tessera discover`: what NVML shows, as configuration.

mod args;

use std::fmt::Write as _;
use std::path::Path;

use gpu_node::nvml::{GpuInfo, LinkAnswers, Nvml};
use placement::mapa::{HardwareGraph, LinkKind};
use placement::{GpuIndex, Model};
use site_config::{System, systems};

pub(crate) use args::DiscoverArgs;
use args::Format;

use crate::globals::Globals;
use crate::local::this_node;
use crate::outcome::{Failure, Outcome, chain};
use crate::site;

/// What one machine has.
struct Found {
    name: String,
    driver: String,
    gpus: Vec<GpuInfo>,
    models: Vec<&'static Model>,
    links: LinkAnswers,
}

pub(crate) fn run(args: &DiscoverArgs, globals: &Globals) -> Result<Outcome, Failure> {
    // Discovery comes before configuration: without a file, or with a bad one, the usual library is asked.
    let configured = site::load(globals.config.as_deref()).ok();
    let name = args.node.clone().or_else(this_node).unwrap_or_else(|| "n1".to_owned());
    let library =
        configured.map_or_else(|| "libnvidia-ml.so.1".to_owned(), |c| c.node.for_node(&name).nvml_library);
    let found = look(name, Path::new(&library)).map_err(|e| {
        Failure::new(chain(&e)).hint("run this on a node with GPUs, where the NVIDIA driver is loaded")
    })?;
    let text = match args.format {
        Format::Toml => toml(&found),
        Format::Gres => gres(&found),
        Format::Slurm => slurm(&found),
        Format::All => {
            format!(
                "# tessera.toml\n{}\n# gres.conf\n{}\n# slurm.conf\n{}",
                toml(&found),
                gres(&found),
                slurm(&found)
            )
        }
    };
    let unknown = found.gpus.len() != found.models.len();
    Ok(Outcome { text, status: u8::from(unknown) })
}

fn look(name: String, library: &Path) -> Result<Found, gpu_node::nvml::NvmlError> {
    let nvml = Nvml::load(library)?;
    let indices = || (0..nvml.count().unwrap_or(0)).map(GpuIndex);
    nvml.count()?;
    let gpus: Vec<GpuInfo> = indices().map(|i| nvml.info(i)).collect::<Result<_, _>>()?;
    let models = gpus.iter().filter_map(GpuInfo::model).collect();
    let (links, driver) = (nvml.links()?, nvml.driver_version()?);
    Ok(Found { name, driver, gpus, models, links })
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
fn links(found: &Found) -> String {
    let graph = found.links.graph();
    let mut text = String::new();
    let off = |(i, mig): (usize, &bool)| (*mig && found.links.nvlinks[i].is_empty()).then(|| i.to_string());
    let off: Vec<String> = found.links.mig.iter().enumerate().filter_map(off).collect();
    if !off.is_empty() && found.links.nvlinks.iter().any(|l| !l.is_empty()) {
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
            text.push_str(&site_config::links_text(&graph, found.links.slot()));
        }
    }
    text
}

fn toml(found: &Found) -> String {
    let mut text = format!("# Written by `tessera discover` on {}, driver {}.\n", found.name, found.driver);
    for gpu in found.gpus.iter().filter(|g| g.model().is_none()) {
        let _ = writeln!(
            text,
            "# GPU {} is {:?}, which Tessera does not know: it cannot be managed.",
            gpu.index, gpu.name
        );
    }
    let _ = writeln!(text, "[[nodes]]\nnames = {:?}", found.name);
    match &found.models[..] {
        [first, rest @ ..] if rest.iter().all(|m| m.key == first.key) => {
            let _ = writeln!(text, "gpu = {:?}\ncount = {}", first.key, found.models.len());
        }
        models => {
            let keys: Vec<String> = models.iter().map(|m| format!("{:?}", m.key)).collect();
            let _ = writeln!(text, "gpus = [{}]", keys.join(", "));
        }
    }
    text.push_str("mig = \"dynamic\"\n");
    text.push_str(&links(found));
    text
}

/// Slurm's type of a GPU: the key up to its first dash, `a100`.
fn gres_type(model: &Model) -> &str {
    model.key.split('-').next().unwrap_or(&model.key)
}

fn shards(found: &Found) -> u32 {
    found.models.iter().map(|m| m.shards()).sum()
}

fn gres(found: &Found) -> String {
    let n = found.gpus.len();
    let linked = (0..n).any(|a| (0..n).any(|b| found.links.direct(a, b) > 0));
    let minors_in_order = found.gpus.iter().enumerate().all(|(i, g)| usize::try_from(g.minor) == Ok(i));
    let one_model = found.models.len() == n && found.models.windows(2).all(|w| w[0].key == w[1].key);
    let mut text = String::new();
    let line = |text: &mut String, gpu: usize, file: &str, links: &str| {
        let kind = found.gpus[gpu].model().map(|m| format!(" Type={}", gres_type(m))).unwrap_or_default();
        let _ = writeln!(text, "NodeName={} Name=gpu{kind} File={file}{links}", found.name);
    };
    if !linked && minors_in_order && one_model && n > 1 {
        line(&mut text, 0, &format!("/dev/nvidia[0-{}]", n - 1), "");
    } else {
        for (i, gpu) in found.gpus.iter().enumerate() {
            let count = |j| if i == j { "-1".to_owned() } else { found.links.direct(i, j).to_string() };
            let row: Vec<String> = (0..n).map(count).collect();
            let links = if linked { format!(" Links={}", row.join(",")) } else { String::new() };
            line(&mut text, i, &format!("/dev/nvidia{}", gpu.minor), &links);
        }
    }
    let _ = writeln!(text, "NodeName={} Name=shard Count={}", found.name, shards(found));
    text
}

fn slurm(found: &Found) -> String {
    let mut types: Vec<(&str, usize)> = Vec::new();
    for model in &found.models {
        match types.iter_mut().find(|(t, _)| *t == gres_type(model)) {
            Some((_, n)) => *n += 1,
            None => types.push((gres_type(model), 1)),
        }
    }
    let gpus: Vec<String> = types.iter().map(|(t, n)| format!("gpu:{t}:{n}")).collect();
    format!(
        "GresTypes=gpu,shard\nNodeName={} Gres={},shard:{} # and CPUs, RealMemory as `slurmd -C` prints them\n",
        found.name,
        gpus.join(","),
        shards(found)
    )
}

#[cfg(test)]
mod tests;
