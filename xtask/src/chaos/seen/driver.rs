//! Asks the driver by `nvidia-smi`, and looks at the device nodes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use lab::command::run;
use lab::{Cluster, HarnessError};

use super::{Access, Instance, Part, SeenGpu};

/// The GPUs of a node with their instances.
pub(super) fn gpus(cluster: &Cluster, node: &str) -> Result<Vec<SeenGpu>, HarnessError> {
    let smi = |args: &[&str]| -> Result<String, HarnessError> {
        let mut command = Command::new(cluster.layout().at("bin").join("nvidia-smi"));
        command.env("LD_LIBRARY_PATH", cluster.layout().at("lib"));
        command.env("NVML_SIM_STATE", cluster.layout().sim_state(node));
        // It fails where there is no instance at all, or a GPU is lost.
        Ok(run(command.args(args))?.stdout)
    };
    let mut all = listed(&smi(&["-L"])?);
    for (gpu, instance) in instances(&smi(&["mig", "-lgi"])?) {
        if let Some((known, _)) = all.iter_mut().find(|(known, _)| known.index == gpu) {
            known.instances.push(instance);
        }
    }
    let root = cluster.layout().node(node);
    let details = details(&smi(&["-q", "-x"])?);
    for (gpu, uuids) in &mut all {
        gpu.access = access(&root.join("dev").join(format!("nvidia{}", gpu.index)));
        let detail = details.iter().find(|detail| detail.uuid == gpu.uuid);
        gpu.processes = detail.map(|detail| detail.processes.clone()).unwrap_or_default();
        for instance in &mut gpu.instances {
            let devices = detail.map(|d| d.devices.as_slice()).unwrap_or_default();
            instance.parts = parts(instance.id, devices, uuids);
            let dir =
                root.join(format!("proc/driver/nvidia/capabilities/gpu{}/mig/gi{}", gpu.index, instance.id));
            instance.access = cap(&root, &dir);
            for part in &mut instance.parts {
                part.access = cap(&root, &dir.join(format!("ci{}", part.id)));
            }
        }
    }
    Ok(all.into_iter().map(|(gpu, _)| gpu).collect())
}

/// `nvidia-smi -L`: each GPU with the UUIDs of its MIG devices.
pub(super) fn listed(text: &str) -> Vec<(SeenGpu, Vec<String>)> {
    let mut all: Vec<(SeenGpu, Vec<String>)> = Vec::new();
    for line in text.lines() {
        let Some(uuid) = line.split_once("(UUID: ").and_then(|(_, rest)| rest.split(')').next()) else {
            continue;
        };
        if let Some(rest) = line.strip_prefix("GPU ") {
            let index = rest.split(':').next().and_then(|index| index.parse().ok()).unwrap_or_default();
            all.push((SeenGpu { index, uuid: uuid.to_owned(), ..SeenGpu::default() }, Vec::new()));
        } else if let Some((_, uuids)) = all.last_mut() {
            uuids.push(uuid.to_owned());
        }
    }
    all
}

/// The rows of `nvidia-smi mig -lgi`: GPU, name, profile's id, instance's id, start:size.
fn instances(text: &str) -> Vec<(u32, Instance)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.trim_matches('|').split_whitespace().collect();
        let [gpu, "MIG", profile, _, id, place] = words.as_slice() else { return None };
        let (start, _) = place.split_once(':')?;
        let instance = Instance {
            id: id.parse().ok()?,
            profile: (*profile).to_owned(),
            start: start.parse().ok()?,
            ..Instance::default()
        };
        Some((gpu.parse().ok()?, instance))
    };
    text.lines().filter_map(row).collect()
}

/// Facts of a GPU in `nvidia-smi -q -x`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Detail {
    uuid: String,
    /// GPU instance and compute instance of each MIG device, in their order.
    devices: Vec<(u32, u32)>,
    processes: Vec<u32>,
}

fn details(xml: &str) -> Vec<Detail> {
    let (mut all, mut next, mut in_device) = (Vec::new(), Detail::default(), false);
    for line in xml.lines().map(str::trim) {
        let value =
            |tag: &str| line.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?.split('<').next();
        match line {
            "<mig_device>" => in_device = true,
            "</mig_device>" => in_device = false,
            "</gpu>" => all.push(std::mem::take(&mut next)),
            _ => {}
        }
        if let Some(uuid) = value("uuid") {
            uuid.clone_into(&mut next.uuid);
        }
        next.processes.extend(value("pid").and_then(|pid| pid.parse::<u32>().ok()));
        if in_device {
            let number = |tag| value(tag).and_then(|id| id.parse::<u32>().ok());
            next.devices.extend(number("gpu_instance_id").map(|gpu_instance| (gpu_instance, 0)));
            if let (Some(id), Some(last)) = (number("compute_instance_id"), next.devices.last_mut()) {
                last.1 = id;
            }
        }
    }
    all
}

/// Owner and mode of a device node.
fn access(path: &Path) -> Access {
    fs::metadata(path).map(|meta| Access { uid: meta.uid(), mode: meta.mode() & 0o777 }).unwrap_or_default()
}

/// The capability node that belongs to a directory below `capabilities`, if the driver has an entry there.
fn cap(root: &Path, dir: &Path) -> Option<Access> {
    let text = fs::read_to_string(dir.join("access")).ok()?;
    let minor =
        text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor: ")?.trim().parse::<u32>().ok())?;
    Some(access(&root.join(format!("dev/nvidia-caps/nvidia-cap{minor}"))))
}

/// The compute instances of a GPU instance, by the MIG devices of the GPU.
fn parts(instance: u32, devices: &[(u32, u32)], uuids: &[String]) -> Vec<Part> {
    let own = devices.iter().zip(uuids).filter(|((gpu_instance, _), _)| *gpu_instance == instance);
    own.map(|((_, id), uuid)| Part { id: *id, uuid: uuid.clone(), access: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nvidia_smi_prints_is_read() {
        let list = "GPU 0: NVIDIA A100 (UUID: GPU-a)\n  MIG 1g.5gb      Device  0: (UUID: MIG-b)\n\
                    GPU 1: NVIDIA A100 (UUID: GPU-c)\n";
        let found: Vec<_> =
            listed(list).into_iter().map(|(gpu, uuids)| (gpu.index, gpu.uuid, uuids)).collect();
        let expected = [(0, "GPU-a".to_owned(), vec!["MIG-b".to_owned()]), (1, "GPU-c".to_owned(), vec![])];
        assert_eq!(found, expected);

        let table = "|   0  MIG 1g.5gb          19        7          4:1     |\n\
                     +-------------------------------------------------------+\n";
        let found = instances(table);
        let (gpu, instance) = &found[0];
        assert_eq!((*gpu, instance.id, instance.start), (0, 7, 4));
        assert_eq!((found.len(), instance.profile.as_str()), (1, "1g.5gb"));

        let xml = "<gpu id=\"0\">\n<mig_device>\n<index>0</index>\n<gpu_instance_id>7</gpu_instance_id>\n\
                   <compute_instance_id>2</compute_instance_id>\n</mig_device>\n<uuid>GPU-a</uuid>\n<process_info>\n<gpu_instance_id>7</gpu_instance_id>\n\
                   <pid>42</pid>\n</process_info>\n</gpu>\n";
        let expected = Detail { uuid: "GPU-a".to_owned(), devices: vec![(7, 2)], processes: vec![42] };
        assert_eq!(details(xml), [expected]);

        let uuids = ["MIG-a", "MIG-b", "MIG-c"].map(str::to_owned);
        let found = parts(7, &[(3, 0), (7, 0), (7, 1)], &uuids);
        let found: Vec<_> = found.iter().map(|part| (part.id, part.uuid.as_str())).collect();
        assert_eq!(found, [(0, "MIG-b"), (1, "MIG-c")]);
    }
}
