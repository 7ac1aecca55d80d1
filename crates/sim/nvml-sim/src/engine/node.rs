//! Reads the node file: what a person writes to describe a node. See the crate's README for every key.

use super::chip::Chip;
use super::interconnect;
use super::node_file::fail;

pub use super::node_file::{GpuGroup, GpuSpec, Node, NodeError, NodeFile, Start};

/// Reads a node file: the node, and how it starts.
///
/// The node is called `name` if that is given, else what the file says, else `default_name`.
///
/// # Errors
///
/// A sentence for the first thing that is wrong; TOML's own errors carry line and column.
pub fn parse(text: &str, name: Option<&str>, default_name: &str) -> Result<(Node, Start), NodeError> {
    let file: NodeFile = toml::from_str(text).map_err(|e| NodeError(e.to_string()))?;
    let name = name.or(file.name.as_deref()).unwrap_or(default_name).to_owned();
    let mut gpus = Vec::new();
    let mut mig = Vec::new();
    let total: u32 = file.gpus.iter().map(|g| g.count).sum();
    if total == 0 || total > 32 {
        return fail(format!("{total} GPUs: a node has 1 to 32"));
    }
    let system = interconnect::named(&file)?;
    for group in &file.gpus {
        let on = match group.mig.as_deref() {
            None | Some("off") => false,
            Some("on") if Chip::find(&group.model).is_some_and(|c| !c.model.has_mig()) => {
                return fail(format!("mig = \"on\": {} has no MIG", group.model));
            }
            Some("on") => true,
            Some(other) => return fail(format!("mig = {other:?}: \"on\" or \"off\"")),
        };
        for i in 0..group.count as usize {
            let default_numa = interconnect::numa(system, gpus.len(), total as usize);
            gpus.push(gpu(group, i, gpus.len(), default_numa, &name)?);
            mig.push(on);
        }
    }
    let links = interconnect::links(&file, &gpus)?;
    let links_down = interconnect::down(&file, &links)?;
    let levels = interconnect::levels(&file, &gpus)?;
    let cap_mode = u32::from_str_radix(&file.cap_mode, 8)
        .map_err(|_| NodeError(format!("cap_mode = {:?}: octal permission bits", file.cap_mode)))?;
    let node = Node {
        name,
        driver_version: file.driver_version,
        cuda_version: cuda_version(&file.cuda_version)?,
        time_scale: file.time_scale,
        cap_mode,
        modify_device_files: file.modify_device_files,
        links: links.pairs,
        switch_links: links.to_switch,
        nvlink_version: links.version,
        levels,
        set_mode_resets: file.set_mode_resets,
        late_free_ms: file.late_free_ms,
        context_mib: file.context_mib,
        gpus,
    };
    Ok((node, Start { mig, links_down }))
}

fn cuda_version(text: &str) -> Result<i32, NodeError> {
    let parsed = text.split_once('.').and_then(|(major, minor)| {
        let (major, minor): (i32, i32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(major * 1000 + minor * 10)
    });
    parsed.ok_or_else(|| NodeError(format!("cuda_version = {text:?}: MAJOR.MINOR")))
}

fn gpu(
    group: &GpuGroup,
    i: usize,
    index: usize,
    default_numa: u32,
    node_name: &str,
) -> Result<GpuSpec, NodeError> {
    let Some(chip) = Chip::find(&group.model) else {
        let known: Vec<_> = Chip::all().iter().map(|c| c.model.key.as_str()).collect();
        return fail(format!("model {:?} is not known; known: {}", group.model, known.join(", ")));
    };
    let model = chip.model;
    let named = model.names.iter().find(|n| n.eq_ignore_ascii_case(&group.model));
    let name = group.name.as_ref().or(named).or(model.names.first()).cloned().unwrap_or_default();
    let index_text = index.to_string();
    let uuid = super::ids::uuid(&[node_name, &index_text, &model.key]);
    let digits: u64 = uuid.bytes().fold(7, |a, b| (a * 31 + u64::from(b)) % 10_000_000_000);
    let numa = match group.numa.get(i) {
        Some(n) => *n,
        None if group.numa.is_empty() => default_numa,
        None => {
            return fail(format!(
                "numa has a value for {} of {}",
                group.numa.len(),
                geometry::counted(group.count, "GPU")
            ));
        }
    };
    let cpus = match group.cpus.get(i) {
        Some(text) => cpu_ranges(text)?,
        None => {
            let n = std::thread::available_parallelism().map_or(1, usize::from);
            vec![(0, u32::try_from(n).unwrap_or(1).saturating_sub(1))]
        }
    };
    let pci = match group.pci.get(i) {
        Some(text) => pci_id(text)?,
        None => [0, u32::try_from(default_bus(index)).unwrap_or(0), 0],
    };
    let (min_w, max_w) = chip.power_limits_w(&name);
    let (min_w, max_w) = (group.min_power_w.unwrap_or(min_w), group.power_w.unwrap_or(max_w));
    if min_w > max_w {
        return fail(format!(
            "the lowest power limit of GPU {index}, {min_w} W, is above the highest, {max_w} W"
        ));
    }
    Ok(GpuSpec {
        model: model.key.clone(),
        name,
        serial: format!("1{digits:012}"),
        uuid: format!("GPU-{uuid}"),
        pci,
        numa,
        cpus,
        power_min_mw: min_w.saturating_mul(1000),
        power_default_mw: max_w.saturating_mul(1000),
    })
}

/// Bus numbers of a DGX A100, then evenly on.
fn default_bus(index: usize) -> usize {
    const DGX: [usize; 8] = [0x07, 0x0f, 0x47, 0x4e, 0x87, 0x90, 0xb7, 0xbd];
    DGX.get(index).copied().unwrap_or(0xc0 + index)
}

/// `0000:07:00.0` or `07:00.0`, domain of any width.
///
/// # Errors
///
/// The text is no bus id; the error shows one that is.
pub fn pci_id(text: &str) -> Result<[u32; 3], NodeError> {
    let parts: Vec<&str> = text.trim().trim_end_matches(".0").split(':').collect();
    let hex = |t: &str| u32::from_str_radix(t, 16).ok();
    let id = match parts.as_slice() {
        [domain, bus, device] => hex(domain).zip(hex(bus)).zip(hex(device)).map(|((d, b), v)| [d, b, v]),
        [bus, device] => hex(bus).zip(hex(device)).map(|(b, v)| [0, b, v]),
        _ => None,
    };
    id.ok_or_else(|| NodeError(format!("{text:?} is not a PCI bus id such as 0000:07:00.0")))
}

fn cpu_ranges(text: &str) -> Result<Vec<(u32, u32)>, NodeError> {
    let range = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b): (u32, u32) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
        (a <= b && b < 4096).then_some((a, b))
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges.ok_or_else(|| NodeError(format!("{text:?} is not a CPU list such as 0-15,32-47")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dgx_v_of_a100s() {
        let text = "interconnect = \"dgx-v\"\n[[gpus]]\nmodel = \"a100-40gb\"\ncount = 8\nmig = \"on\"\n";
        let (node, start) = parse(text, None, "n1").unwrap();
        assert_eq!(node.gpus.len(), 8);
        assert_eq!(node.links[0], [0, 1, 1, 2, 2, 0, 0, 0]);
        assert_eq!((node.levels[0][1], node.levels[0][2], node.levels[0][4]), (10, 40, 50));
        assert!(start.mig.iter().all(|m| *m));
        assert_eq!(node.gpus[0].name, "NVIDIA A100-SXM4-40GB");
        assert_eq!(node.cuda_version, 12080);
        let (other, _) = parse(text, Some("n2"), "n1").unwrap();
        assert_ne!(node.gpus[0].uuid, other.gpus[0].uuid);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let message = |text: &str| parse(text, None, "n").unwrap_err().to_string();
        assert!(message("[[gpus]]\nmodel = \"k80\"\n").contains("a100-40gb"));
        assert!(message("gpus = []\n").contains("1 to 32"));
        assert!(message("interconnect = \"dgx-v\"\n[[gpus]]\nmodel = \"a30-24gb\"\n").contains("8 GPUs"));
        assert!(message("colour = 1\n[[gpus]]\nmodel = \"a30-24gb\"\n").contains("colour"));
        assert!(message("links = [[1]]\n[[gpus]]\nmodel = \"a30-24gb\"\n").contains("diagonal"));
        assert!(message("[[gpus]]\nmodel = \"a30-24gb\"\ncpus = [\"9-1\"]\n").contains("CPU list"));
    }

    #[test]
    fn a_pci_id_reads_domain_bus_and_device() {
        assert_eq!(pci_id("00000000:4E:00.0").unwrap(), [0, 0x4e, 0]);
        assert_eq!(pci_id("07:01.0").unwrap(), [0, 7, 1]);
        assert!(pci_id("x").is_err());
    }
}
