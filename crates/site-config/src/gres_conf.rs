//! Slurm's `gres.conf`, as far as it says which GPU a number of Slurm's is.
//!
//! Slurm numbers a node's GPUs by their places in the file, whatever their device files are called (22.05 and 24.11
//! `gres_common.c`: `gres_device->index`). Lines of one type come in the order of the file; those of several types in
//! the order in which slurm.conf's `Gres=` has the types [`gres.c`, `_merge_config`]; with `AutoDetect` Slurm sorts
//! anew [`gres_gpu.c`, `_merge_system_gres_conf`].

use crate::hostlist::{expand, expand_files};

/// How Slurm numbers a node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuOrder {
    /// No device files are named: Slurm finds them by itself, in the driver's order.
    Drivers,
    /// In the order of these device files.
    Files(Vec<String>),
    /// In the order of these, if it is also the driver's; else that cannot be told, for this reason.
    IfDrivers(Vec<String>, &'static str),
}

/// Reads how Slurm numbers the GPUs of `node`.
///
/// # Errors
///
/// What of the file cannot be read here, one phrase.
pub fn gpu_order(text: &str, node: &str) -> Result<GpuOrder, String> {
    let (mut files, mut types, mut detect) = (Vec::new(), Vec::new(), false);
    for line in lines(text) {
        let line = Line { words: words(&line) };
        if line.words.first().is_some_and(|w| w.eq_ignore_ascii_case("include")) {
            return Err("it includes another file".to_owned());
        }
        if !line.is_for(node)? {
            continue;
        }
        if let Some(how) = line.field("AutoDetect") {
            // Without a node and a name it is for all nodes, and a later line for one node overrides it.
            detect = !["off", "none"].iter().any(|w| how.eq_ignore_ascii_case(w));
        }
        if !line.field("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")) {
            continue;
        }
        if line.field("MultipleFiles").is_some() {
            return Err("MultipleFiles= gives GPUs several device files".to_owned());
        }
        if let Some(list) = line.field("File") {
            files.extend(expand_files(list).map_err(|why| format!("File={list} {why}"))?);
            types.push(line.field("Type").map(str::to_ascii_lowercase));
        }
    }
    types.dedup();
    Ok(match (files.is_empty(), detect, types.len()) {
        (true, ..) => GpuOrder::Drivers,
        (false, true, _) => GpuOrder::IfDrivers(files, "AutoDetect sorts them anew"),
        (false, false, 0 | 1) => GpuOrder::Files(files),
        (false, false, _) => GpuOrder::IfDrivers(files, "slurm.conf's Gres= orders the types of GPU"),
    })
}

/// Lines without comments; one that ends in a backslash goes on in the next.
fn lines(text: &str) -> Vec<String> {
    let (mut out, mut begun) = (Vec::new(), String::new());
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        match line.strip_suffix('\\') {
            Some(part) => begun.push_str(part),
            None => out.push(std::mem::take(&mut begun) + line),
        }
    }
    out.push(begun);
    out
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.replace('"', "")).collect()
}

struct Line {
    words: Vec<String>,
}

impl Line {
    fn field(&self, key: &str) -> Option<&str> {
        let fields = self.words.iter().filter_map(|word| word.split_once('='));
        fields.filter(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, value)| value).next()
    }

    fn is_for(&self, node: &str) -> Result<bool, String> {
        let Some(list) = self.field("NodeName") else { return Ok(true) };
        let names = expand(list).map_err(|why| format!("NodeName={list} {why}"))?;
        Ok(names.iter().any(|name| name == node))
    }
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
        let off_here = "AutoDetect=nvml\nNodeName=n1 AutoDetect=off Name=gpu File=/dev/nvidia0\n";
        assert_eq!(gpu_order(off_here, "n1"), Ok(GpuOrder::Files(files(&["0"]))));
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
