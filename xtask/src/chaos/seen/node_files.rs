//! Reads a node's journal as the files that it is.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Entry of a job in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct JournalEntry {
    pub(in crate::chaos) job: u32,
    pub(in crate::chaos) uid: u32,
    /// `intent`, `ready` or `failed`.
    pub(in crate::chaos) phase: String,
    /// UUIDs of its GPUs, also of those that its instances are on.
    pub(in crate::chaos) gpus: Vec<String>,
    /// Instances of the job: UUID of the MIG device.
    pub(in crate::chaos) instances: Vec<String>,
    /// Directories of the MPS daemons' pipes, for a share or for seats.
    pub(in crate::chaos) pipe_dirs: Vec<String>,
    /// True if it has seats among devices that GPU tasks share.
    pub(in crate::chaos) has_seats: bool,
}

/// The entries of jobs, and the other files: records of MPS daemons and what was found damaged.
pub(in crate::chaos) fn journal(node: &Path) -> (Vec<JournalEntry>, Vec<String>) {
    let state = node.join("state");
    let (mut entries, mut rest) = (Vec::new(), Vec::new());
    for file in files(&state.join("jobs")) {
        // A file that a writer is at work on, or that has gone meanwhile.
        if name(&file).starts_with('.') {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match serde_json::from_str::<Value>(&text).ok().as_ref().and_then(entry) {
            Some(entry) => entries.push(entry),
            None => rest.push(format!("jobs/{}", name(&file))),
        }
    }
    for kind in ["daemons", "bad"] {
        rest.extend(files(&state.join(kind)).iter().map(|file| format!("{kind}/{}", name(file))));
    }
    (entries, rest)
}

fn entry(value: &Value) -> Option<JournalEntry> {
    let number = |key: &str| u32::try_from(value[key].as_u64()?).ok();
    let phase = &value["phase"];
    let uuids = |list: &Value, of: fn(&Value) -> &Value| -> Vec<String> {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|item| of(item)["uuid"].as_str().map(str::to_owned)).collect()
    };
    Some(JournalEntry {
        job: number("job")?,
        uid: number("uid")?,
        phase: phase.as_str().map_or_else(|| "failed".to_owned(), str::to_owned),
        gpus: uuids(&value["gpus"], |gpu| gpu),
        instances: uuids(&value["instances"], |instance| &instance["live"]),
        pipe_dirs: pipe_dirs(value),
        has_seats: value["tasks"].is_object(),
    })
}

fn pipe_dirs(value: &Value) -> Vec<String> {
    let devices = value["tasks"]["devices"].as_array().into_iter().flatten();
    let all = devices.chain([&value["share"]]);
    all.filter_map(|of| of["pipe_dir"].as_str().map(str::to_owned)).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_every_phase() {
        let text = r#"{"job": 3, "uid": 1001, "phase": "ready", "gpus": [{"uuid": "GPU-a"}],
            "instances": [{"live": {"uuid": "MIG-b"}}, {"live": null}]}"#;
        let read = entry(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((read.job, read.uid, read.phase.as_str()), (3, 1001, "ready"));
        assert_eq!((read.gpus, read.instances), (vec!["GPU-a".to_owned()], vec!["MIG-b".to_owned()]));
        let failed = r#"{"job": 3, "uid": 0, "phase": {"failed": "why"}}"#;
        assert_eq!(entry(&serde_json::from_str(failed).unwrap()).unwrap().phase, "failed");
        assert_eq!(entry(&Value::Null), None);
        let seats = r#"{"job": 4, "uid": 1, "phase": "ready", "share": null,
            "tasks": {"devices": [{"pipe_dir": "/p/0"}, {"pipe_dir": "/p/1"}]}}"#;
        let read = entry(&serde_json::from_str(seats).unwrap()).unwrap();
        assert_eq!((read.has_seats, read.pipe_dirs), (true, vec!["/p/0".to_owned(), "/p/1".to_owned()]));
        let share = r#"{"job": 4, "uid": 1, "phase": "ready", "share": {"pipe_dir": "/p/0"}, "tasks": null}"#;
        let read = entry(&serde_json::from_str(share).unwrap()).unwrap();
        assert_eq!((read.has_seats, read.pipe_dirs), (false, vec!["/p/0".to_owned()]));
    }
}
