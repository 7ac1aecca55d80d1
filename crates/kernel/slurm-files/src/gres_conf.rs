//! Reads from Slurm's `gres.conf` which GPU each of Slurm's numbers means.
//!
//! Slurm numbers a node's GPUs by their places in the file, whatever their device files are called (22.05 and 24.11
//! `gres_common.c`: `gres_device->index`). If all lines are of one type, their order is that of the file. With several
//! types, it is the order of the types in slurm.conf's `Gres=` [`gres.c`, `_merge_config`]. With `AutoDetect`, Slurm
//! sorts the GPUs again: by the numbers of their device files, then by their links, which are in NVML's order; `nvidia` knows no links
//! [`gres_gpu.c`, `_merge_system_gres_conf`].

use std::collections::HashMap;

use site_config::hostlist::{MOST_NAMES, expand, expand_with};

use crate::{Line, lines};

/// The characters that a file in a list like `/dev/nvidia[0-3]` may have in addition to letters and digits.
const FILE_MARKS: &str = "-_./:";

/// Order in which Slurm numbers a node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuOrder {
    /// The file names no device files: Slurm finds them itself, in the driver's order.
    Drivers,
    /// The file names no device files: Slurm finds them itself and sorts them by their minor numbers (`AutoDetect=nvidia`).
    Minors,
    /// The file names no device files: Slurm finds them itself, in one of these two orders (`AutoDetect=full`). If they differ, the
    /// order cannot be known.
    DriversOrMinors,
    /// Slurm's numbers follow the order of these device files.
    Files(Vec<String>),
    /// Slurm's numbers follow the order of these device files if that is also the driver's order. If it is not, the order
    /// cannot be known, for this reason.
    IfDrivers(Vec<String>, &'static str),
}

/// Reads how Slurm numbers the GPUs of `node`.
///
/// # Errors
///
/// The file has something that cannot be read here: a phrase that names it.
pub fn gpu_order(text: &str, node: &str) -> Result<GpuOrder, String> {
    // Slurm puts the lines of named nodes behind those of all nodes [`gres.c`, `gres_g_node_config_load`].
    let (mut of_all, mut of_node) = (Vec::new(), Vec::new());
    for line in lines(text) {
        if line.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("include")) {
            return Err("it includes another file".to_owned());
        }
        let line = Line::read(&line);
        let own = line.begins("NodeName");
        if own && !is_for(&line, node)? {
            continue;
        }
        if !line.field("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")) {
            continue;
        }
        if line.field("MultipleFiles").is_some() {
            return Err("MultipleFiles= gives GPUs several device files".to_owned());
        }
        if let Some(list) = line.field("File").or_else(|| line.field("Files")) {
            let files =
                expand_with(list, FILE_MARKS, MOST_NAMES).map_err(|why| format!("File={list} {why}"))?;
            let kind = line.field("Type").map(str::to_ascii_lowercase);
            if own { &mut of_node } else { &mut of_all }.push((kind, files));
        }
    }
    let (mut types, files): (Vec<_>, Vec<_>) = of_all.into_iter().chain(of_node).unzip();
    let files: Vec<String> = files.into_iter().flatten().collect();
    types.dedup();
    let detect = AutoDetect::of(text).way(node);
    Ok(match (files.is_empty(), detect != Detect::Off, types.len()) {
        (true, ..) => match detect {
            Detect::Off | Detect::Linked => GpuOrder::Drivers,
            Detect::Unlinked => GpuOrder::Minors,
            Detect::Either => GpuOrder::DriversOrMinors,
        },
        (false, true, _) => GpuOrder::IfDrivers(files, "AutoDetect sorts them again"),
        (false, false, 0 | 1) => GpuOrder::Files(files),
        (false, false, _) => GpuOrder::IfDrivers(files, "slurm.conf's Gres= orders the types of GPU"),
    })
}

/// Nodes on which slurmd finds GPUs by itself (`AutoDetect`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoDetect {
    everywhere: Detect,
    /// Settings of each node's own lines.
    nodes: HashMap<String, Detect>,
}

impl AutoDetect {
    /// Reads it from a gres.conf. Lines that cannot be read count as none: [`gpu_order`] names them.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut found = Self::default();
        if !text.to_ascii_lowercase().contains("autodetect") {
            return found;
        }
        for line in lines(text) {
            let line = Line::read(&line);
            // In a line that begins with GPUs of all nodes it has no effect.
            let Some(how) = line.field("AutoDetect").and_then(detects).filter(|_| !line.begins("Name"))
            else {
                continue;
            };
            match line.field("NodeName").filter(|_| line.begins("NodeName")) {
                Some(list) => {
                    found.nodes.extend(expand(list).unwrap_or_default().into_iter().map(|n| (n, how)))
                }
                None => found.everywhere = how,
            }
        }
        found
    }

    /// Tells whether slurmd finds the GPUs of this node by itself.
    #[must_use]
    pub fn on(&self, node: &str) -> bool {
        self.way(node) != Detect::Off
    }

    /// Tells whether it may ask NVML for them, which shows MIG instances as GPUs.
    #[must_use]
    pub fn asks_nvml(&self, node: &str) -> bool {
        matches!(self.way(node), Detect::Linked | Detect::Either)
    }

    fn way(&self, node: &str) -> Detect {
        self.nodes.get(node).copied().unwrap_or(self.everywhere)
    }
}

/// A way to find GPUs, as far as their order depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Detect {
    #[default]
    Off,
    /// With their links: `nvml`, and what finds GPUs of other makers.
    Linked,
    /// Without links: `nvidia`.
    Unlinked,
    /// `nvml` if that finds any, then `nvidia`: `full`.
    Either,
}

/// Gives the way of an `AutoDetect` with this value; `None` for a value that Slurm ignores.
fn detects(how: &str) -> Option<Detect> {
    match how.to_ascii_lowercase().as_str() {
        "none" => None,
        "off" => Some(Detect::Off),
        "nvidia" => Some(Detect::Unlinked),
        "full" => Some(Detect::Either),
        _ => Some(Detect::Linked),
    }
}

/// Tells whether a line is for this node.
fn is_for(line: &Line, node: &str) -> Result<bool, String> {
    let Some(list) = line.field("NodeName") else { return Ok(true) };
    let names = expand(list).map_err(|why| format!("NodeName={list} {why}"))?;
    Ok(names.iter().any(|name| name == node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("/dev/nvidia{name}")).collect()
    }

    #[test]
    fn files_count_in_the_order_of_the_file() {
        let text = "AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[2-3] # two\n\
                    nodename=n1 name=gpu type=A100 \\\n  file=\"/dev/nvidia0,/dev/nvidia7\"\n\
                    NodeName=n1 Name=shard Count=9\n";
        assert_eq!(gpu_order(text, "n1"), Ok(GpuOrder::Files(files(&["2", "3", "0", "7"]))));
        assert_eq!(gpu_order(text, "n2"), Ok(GpuOrder::Files(files(&["2", "3"]))));
        assert_eq!(gpu_order(text, "n3"), Ok(GpuOrder::Drivers));
        assert_eq!(gpu_order("Name=gpu File=/dev/gpu/by-id/x", "n1").unwrap(), {
            GpuOrder::Files(vec!["/dev/gpu/by-id/x".to_owned()])
        });
        assert_eq!(gpu_order("Name=gpu File=/dev/nvidia[2-3],/dev/x", "n1").unwrap(), {
            GpuOrder::Files(["/dev/nvidia2", "/dev/nvidia3", "/dev/x"].map(str::to_owned).to_vec())
        });
    }

    #[test]
    fn slurm_may_sort_them_otherwise() {
        let reason = |text| match gpu_order(text, "n1") {
            Ok(GpuOrder::IfDrivers(_, why)) => why,
            other => panic!("{text}: {other:?}"),
        };
        assert!(reason("AutoDetect=nvml\nName=gpu File=/dev/nvidia0\n").contains("AutoDetect"));
        let two = "Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n";
        assert!(reason(two).contains("types"));
        assert_eq!(gpu_order("AutoDetect=nvml\n", "n1"), Ok(GpuOrder::Drivers));
        assert_eq!(gpu_order("AutoDetect=Nvidia\nName=shard Count=9\n", "n1"), Ok(GpuOrder::Minors));
        assert_eq!(gpu_order("NodeName=n1 AutoDetect=full\n", "n1"), Ok(GpuOrder::DriversOrMinors));
        let off_here = "AutoDetect=nvml\nNodeName=n1 AutoDetect=off Name=gpu File=/dev/nvidia0\n";
        assert_eq!(gpu_order(off_here, "n1"), Ok(GpuOrder::Files(files(&["0"]))));
        // A node's own counts wherever it stands, and none in a line for GPUs of all nodes.
        let own = "NodeName=n1 AutoDetect=nvml\nAutoDetect=off\nName=gpu File=/dev/nvidia0\n";
        assert!(reason(own).contains("AutoDetect"));
        let off_first = "NodeName=n1 AutoDetect=off\nAutoDetect=nvml\nName=gpu File=/dev/nvidia0\n";
        assert_eq!(gpu_order(off_first, "n1"), Ok(GpuOrder::Files(files(&["0"]))));
        let in_line = "AutoDetect=nvml\nName=gpu File=/dev/nvidia0 AutoDetect=off\n";
        assert!(reason(in_line).contains("AutoDetect"));
    }

    #[test]
    fn a_nodes_own_word_about_detection_counts() {
        let on = |text: &str| ["n1", "n2"].map(|node| AutoDetect::of(text).on(node));
        assert_eq!(on("Name=gpu File=/dev/nvidia0\n"), [false, false]);
        assert_eq!(on("AutoDetect=nvml\n"), [true, true]);
        let nvml = |text: &str| ["n1", "n2"].map(|node| AutoDetect::of(text).asks_nvml(node));
        assert_eq!(nvml("AutoDetect=full\nNodeName=n2 AutoDetect=nvidia\n"), [true, false]);
        assert_eq!(nvml("AutoDetect=nvml\nNodeName=n2 AutoDetect=off\n"), [true, false]);
        assert_eq!(
            on("autodetect = NVML # all\nNodeName=n2 AutoDetect=off Name=gpu File=/dev/nvidia0\n"),
            [true, false]
        );
        assert_eq!(on("NodeName=n[1,3] AutoDetect=nvml\nAutoDetect=off\n"), [true, false]);
        assert_eq!(
            on("Name=gpu File=/dev/nvidia0 AutoDetect=nvml\nNodeName=n1 AutoDetect=none\n"),
            [false, false]
        );
    }

    #[test]
    fn lines_are_read_as_slurm_reads_them() {
        let of = |text: &str, names: &[&str]| {
            assert_eq!(gpu_order(text, "n1"), Ok(GpuOrder::Files(files(names))), "{text}");
        };
        of("  Name = gpu  File =/dev/nvidia3\n", &["3"]);
        of("Name=gpu Flags=\"a File=b\" Files= \"/dev/nvidia2\"\n", &["2"]);
        of("Name=gpu File=/dev/nvidia1 File+=/dev/nvidia2\n", &["2"]);
        of("Name=gpu Type=a\\#b \\  \n  File=/dev/nvidia1 # x \\\nFile=/dev/nvidia2\n", &["1"]);
        of("Name=gpu\\ \\ # two\nFile=/dev/nvidia1\n", &["1"]);
        // Those of a node come behind those of all nodes.
        of("NodeName=n1 Name=gpu File=/dev/nvidia3\nName=gpu File=/dev/nvidia[0-1]\n", &["0", "1", "3"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, want) in [
            ("Include /etc/gpus.conf\n", "includes"),
            ("NodeName=n[1 Name=gpu File=/dev/nvidia0\n", "NodeName=n[1 has a ["),
            ("Name=gpu File=/dev/nvidia[0-\n", "File=/dev/nvidia[0- has a ["),
            ("Name=gpu MultipleFiles=/dev/nvidia[0-1]\n", "MultipleFiles"),
        ] {
            let why = gpu_order(text, "n1").unwrap_err();
            assert!(why.contains(want), "{text}: {why}");
        }
    }
}
