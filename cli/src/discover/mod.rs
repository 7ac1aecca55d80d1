//! `tessera discover`: what NVML shows, as configuration.

use std::fmt::Write as _;
use std::path::Path;

use gpu_node::nvml::{GpuInfo, NvLink, Nvml};
use placement::{GpuIndex, LinkMatrix, Model};
use site_config::systems;

use crate::args::{Cli, DiscoverArgs, Format};
use crate::local::{chain, this_node};
use crate::outcome::{Failure, Outcome};
use crate::site;

/// What one machine has.
struct Found {
    name: String,
    driver: String,
    gpus: Vec<GpuInfo>,
    models: Vec<&'static Model>,
    /// NVLinks between each two, as gres.conf counts them.
    links: Vec<Vec<u32>>,
    matrix: LinkMatrix,
}

/// GB/s between GPUs that are joined by PCIe alone: MAPA's figure (socal-ucr/MAPA, 10 in its code).
const PCIE_GBPS: f64 = 10.0;

pub(crate) fn run(args: &DiscoverArgs, cli: &Cli) -> Result<Outcome, Failure> {
    // Discovery comes before configuration: without a file, or with a bad one, the usual library is asked.
    let configured = site::load(cli.config.as_deref()).ok();
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
    let nvlinks: Vec<Vec<NvLink>> = indices().map(|i| nvml.nvlinks(i)).collect::<Result<_, _>>()?;
    let models = gpus.iter().filter_map(GpuInfo::model).collect();
    let rows: Vec<Vec<f64>> =
        indices().map(|a| indices().map(|b| bandwidth(&nvlinks, a, b)).collect()).collect();
    let matrix = LinkMatrix::from_rows(&rows).unwrap_or_else(|| LinkMatrix::uniform(gpus.len(), PCIE_GBPS));
    let links = indices().map(|a| indices().map(|b| direct(&nvlinks, a, b)).collect()).collect();
    let driver = nvml.driver_version()?;
    Ok(Found { name, driver, gpus, models, links, matrix })
}

/// NVLinks from `a` straight to `b`.
fn direct(nvlinks: &[Vec<NvLink>], a: GpuIndex, b: GpuIndex) -> u32 {
    let of = |x: GpuIndex| nvlinks.get(usize::from(x.0)).map_or(&[][..], Vec::as_slice);
    // The two ends may disagree while a link trains: what both have.
    let count = |from, to| of(from).iter().filter(|l| l.peer == Some(to)).count();
    if a == b { 0 } else { u32::try_from(count(a, b).min(count(b, a))).unwrap_or(0) }
}

/// GB/s in one direction between two GPUs: their own links, else the narrower way to the switch, else PCIe.
fn bandwidth(nvlinks: &[Vec<NvLink>], a: GpuIndex, b: GpuIndex) -> f64 {
    let of = |x: GpuIndex| nvlinks.get(usize::from(x.0)).map_or(&[][..], Vec::as_slice);
    let own: f64 = of(a).iter().filter(|l| l.peer == Some(b)).map(per_link).sum();
    let back: f64 = of(b).iter().filter(|l| l.peer == Some(a)).map(per_link).sum();
    let to_switch = |x| of(x).iter().filter(|l| l.to_switch).map(per_link).sum::<f64>();
    let switched = to_switch(a).min(to_switch(b));
    match own.min(back).max(switched) {
        _ if a == b => 0.0,
        nvlink if nvlink > 0.0 => nvlink,
        _ => PCIE_GBPS,
    }
}

/// GB/s of one link in one direction, by `nvmlNvlinkVersion_t`: 1 is NVLink 1, 7 is NVLink 5. NVIDIA's data sheets,
/// both directions: P100 160 GB/s over 4 links, V100 300 over 6, A100 600 over 12, H100 900 over 18, B200 1800 over 18.
fn per_link(link: &NvLink) -> f64 {
    match link.version {
        1 => 20.0,
        7.. => 50.0,
        _ => 25.0,
    }
}

/// The known interconnect with exactly these bandwidths.
fn system(found: &Found) -> Option<&'static str> {
    let n = found.gpus.len();
    systems().iter().find(|s| s.matrix(n).as_ref() == Some(&found.matrix)).map(|s| s.name.as_str())
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
    match system(found) {
        Some(name) => {
            let _ = writeln!(text, "interconnect = {name:?}");
        }
        None => {
            text.push_str("matrix = [ # GB/s in one direction\n");
            let n = u16::try_from(found.gpus.len()).unwrap_or(0);
            for a in (0..n).map(GpuIndex) {
                let row: Vec<String> =
                    (0..n).map(|b| found.matrix.bw_gbps(a, GpuIndex(b)).to_string()).collect();
                let _ = writeln!(text, "  [{}],", row.join(", "));
            }
            text.push_str("]\n");
        }
    }
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
    let linked = found.links.iter().flatten().any(|n| *n > 0);
    let n = found.gpus.len();
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
            let count = |(j, links): (usize, &u32)| if i == j { "-1".to_owned() } else { links.to_string() };
            let row: Vec<String> = found.links[i].iter().enumerate().map(count).collect();
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
