//! A fleet's directories and configuration files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use geometry::Model;

use super::{CORES_PER_NODE, Controller, GPUS_PER_NODE};
use crate::cluster::Cluster;
use crate::command::run;
use crate::config::{Place, Templates, Variant};
use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::{ports, small_disk};

/// The model of every GPU, and what gres.conf calls it.
const MODEL: (&str, &str) = ("a100-40gb", "a100");

/// Partitions over all nodes: a site's usual one, and one for each kind of job that is measured alone.
pub const PARTITIONS: [&str; 6] = ["gpu", "pcpu", "pgpu", "ppart", "pmulti", "podd"];

/// Lines of the shipped slurm.conf that a fleet has otherwise, or not at all: nobody looks after its nodes' health.
const REPLACED: [&str; 6] =
    ["NodeName=", "PartitionName=", "HealthCheck", "SlurmctldDebug=", "SlurmdDebug=", "TaskProlog="];

/// Lines of slurm.conf that all of a fleet's Slurm has. Nodes are never taken for lost: a slurmd of a thousand answers late.
const COMMON: &str = "\
SlurmctldDebug=info
SlurmdDebug=error
DebugFlags=NO_CONF_HASH
MinJobAge=10
SlurmdTimeout=0
MessageTimeout=100
TreeWidth=2000
PriorityType=priority/basic
";

/// The ports of slurmctld and of the slurmds.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) controller: u16,
    first: u16,
    last: u16,
}

impl Ports {
    /// Takes one for slurmctld and as many behind it, one after the other, as slurm.conf's list of ports wants them.
    pub(super) fn take(nodes: usize) -> Result<Self, HarnessError> {
        let all = ports::block(nodes + 1)?;
        Ok(Self { controller: all.start, first: all.start + 1, last: all.end - 1 })
    }
}

fn digits(nodes: usize) -> usize {
    nodes.to_string().len()
}

/// The names of so many nodes.
pub(super) fn names(nodes: usize) -> Vec<String> {
    (1..=nodes).map(|number| format!("n{number:0width$}", width = digits(nodes))).collect()
}

/// All names in one list, as Slurm and tessera.toml read it.
fn list(nodes: usize) -> String {
    format!("n[{:0width$}-{nodes}]", 1, width = digits(nodes))
}

pub(super) fn make_dirs(layout: &Layout) -> Result<(), HarnessError> {
    crate::files::make_dirs(layout, &[])?;
    for name in [Controller::Tessera.etc(), "dev"] {
        let path = layout.at(name);
        at(&path, fs::create_dir_all(&path))?;
    }
    for index in 0..GPUS_PER_NODE {
        let path = layout.at("dev").join(format!("nvidia{index}"));
        run(Command::new("mknod").arg(&path).args(["c", "195", &index.to_string()]))?.ok()?;
    }
    Ok(())
}

/// Writes a key for munge, and makes the slurmds' directories.
pub(super) fn write_common(cluster: &Cluster) -> Result<(), HarnessError> {
    for node in &cluster.nodes {
        let spool = cluster.layout.at("spool").join(node);
        at(&spool, fs::create_dir_all(&spool))?;
    }
    crate::files::write_munge_key(&cluster.layout)
}

/// Keeps what slurmctld saves in memory: the more files a disk's file system has deleted, the longer it takes for a new one (ext4), and
/// whichever controller is second would pay for the first one's.
pub(super) fn keep_state_in_memory(layout: &Layout) -> Result<(), HarnessError> {
    let state = layout.at("state");
    let owner = at(&state, fs::metadata(&state))?.uid();
    small_disk::mount_at(&state, &format!("mode=0755,uid={owner}"))
}

/// Removes what an earlier slurmctld has saved.
pub(super) fn empty_state(layout: &Layout) -> Result<(), HarnessError> {
    let state = layout.at("state");
    for entry in at(&state, fs::read_dir(&state))? {
        let path = at(&state, entry)?.path();
        at(&path, if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) })?;
    }
    Ok(())
}

/// Writes a controller's files, with these lines at the end of slurm.conf.
pub(super) fn write(
    cluster: &Cluster,
    controller: Controller,
    ports: &Ports,
    lines: &str,
) -> Result<(), HarnessError> {
    let host = run(&mut Command::new("hostname"))?.ok()?;
    let stock = controller == Controller::Stock;
    let place = Place {
        layout: &cluster.layout,
        host: host.trim(),
        controller_port: ports.controller,
        node_ports: &[],
        slurm_plugins: &cluster.slurm.plugin_dir(),
        variant: Variant { stock, ..Variant::default() },
    };
    let templates = Templates::shipped()?;
    let etc = cluster.layout.at(controller.etc());
    // Slurmds may be reading them: a file has its name only when it is whole.
    let write = |name: &str, text: &str| {
        let (path, part) = (etc.join(name), etc.join(format!("{name}.part")));
        at(&part, fs::write(&part, text))?;
        at(&part, fs::set_permissions(&part, fs::Permissions::from_mode(0o644)))?;
        at(&path, fs::rename(&part, &path))
    };
    let nodes = cluster.nodes.len();
    // The example's place is `etc`, which belongs to Slurm alone here.
    let own = |text: String| {
        text.replace(&format!("{}/", cluster.layout.at("etc").display()), &format!("{}/", etc.display()))
    };
    write("slurm.conf", &own(slurm_conf(&place, &templates.slurm, nodes, ports, lines)))?;
    let dev = cluster.layout.at("dev").display().to_string();
    write("gres.conf", &gres_conf(nodes, &dev))?;
    write("cgroup.conf", &format!("CgroupPlugin={}\n", cluster.slurm.release.cgroup_plugin))?;
    if stock {
        return write("plugstack.conf", "");
    }
    write("plugstack.conf", &own(place.plugstack(&templates.plugstack)))?;
    write("tessera.toml", &tessera_toml(&place, &templates.tessera, nodes))
}

fn slurm_conf(place: &Place<'_>, shipped: &str, nodes: usize, ports: &Ports, lines: &str) -> String {
    let text = place.slurm(shipped);
    // Only Tessera counts slices.
    let counts_slices = |line: &str| place.variant.stock && line.starts_with("Licenses=");
    let is_left_out = |line: &str| REPLACED.iter().any(|key| line.starts_with(key)) || counts_slices(line);
    let mut out: String =
        text.lines().filter(|line| !is_left_out(line)).map(|line| format!("{line}\n")).collect();
    out.push_str(COMMON);
    out.push_str(&format!(
        "NodeName={} NodeHostname={} NodeAddr=127.0.0.1 Port=[{}-{}] CPUs={CORES_PER_NODE} Sockets=2 CoresPerSocket={} \
         ThreadsPerCore=1 RealMemory=1024000 Gres=gpu:{}:{GPUS_PER_NODE},shard:{}\n",
        list(nodes),
        place.host,
        ports.first,
        ports.last,
        CORES_PER_NODE / 2,
        MODEL.1,
        shards(),
    ));
    for (index, name) in PARTITIONS.iter().enumerate() {
        let default = if index == 0 { " Default=YES" } else { "" };
        out.push_str(&format!("PartitionName={name} Nodes=ALL{default} MaxTime=INFINITE State=UP\n"));
    }
    out + lines
}

/// Shards of a node: one for each nominal GB.
fn shards() -> u32 {
    Model::find(MODEL.0).map_or(0, |model| model.shards()) * GPUS_PER_NODE
}

fn gres_conf(nodes: usize, dev: &str) -> String {
    let (names, last) = (list(nodes), GPUS_PER_NODE - 1);
    format!(
        "NodeName={names} Name=gpu Type={} File={dev}/nvidia[0-{last}]\nNodeName={names} Name=shard Count={}\n",
        MODEL.1,
        shards()
    )
}

fn tessera_toml(place: &Place<'_>, shipped: &str, nodes: usize) -> String {
    let head = shipped.split("[[nodes]]").next().unwrap_or_default();
    format!(
        "{}\n[[nodes]]\nnames = \"{}\"\ngpu = \"{}\"\ncount = {GPUS_PER_NODE}\nmig = \"dynamic\"\ninterconnect = \"dgx-a100\"\n",
        place.tessera(head),
        list(nodes),
        MODEL.0
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn conf(stock: bool) -> String {
        let layout = Layout::new(Path::new("/tmp/fleet"));
        let place = Place {
            layout: &layout,
            host: "host",
            controller_port: 20_000,
            node_ports: &[],
            slurm_plugins: "/lib/slurm",
            variant: Variant { stock, ..Variant::default() },
        };
        let ports = Ports { controller: 20_000, first: 20_001, last: 20_100 };
        slurm_conf(&place, &Templates::shipped().unwrap().slurm, 100, &ports, "FirstJobId=7\n")
    }

    #[test]
    fn both_controllers_have_the_same_nodes_and_only_one_has_tessera() {
        let (stock, tessera) = (conf(true), conf(false));
        for text in [&stock, &tessera] {
            assert_eq!(text.matches("NodeName=").count(), 1);
            assert!(text.contains("NodeName=n[001-100] NodeHostname=host"), "{text}");
            assert!(
                text.contains("Port=[20001-20100] CPUs=128") && text.ends_with("FirstJobId=7\n"),
                "{text}"
            );
            assert!(text.contains("Gres=gpu:a100:8,shard:320\n") && !text.contains("HealthCheck"), "{text}");
        }
        let of_tessera = ["JobSubmitPlugins=tessera", "Licenses=slice", "PluginDir=/tmp/fleet/plugins:"];
        for line in of_tessera {
            assert!(tessera.contains(line) && !stock.contains(line), "{line}");
        }
    }

    #[test]
    fn names_are_those_of_the_list() {
        assert_eq!((names(20)[0].as_str(), names(20)[19].as_str()), ("n01", "n20"));
        assert_eq!(list(1000), "n[0001-1000]");
    }
}
