//! Formats of the journal's files: what this Tessera writes, and what it still reads.
//!
//! Every file says its format in `version`. A node is upgraded while jobs run, so the format before is read as well, and
//! brought to today's in memory. A file of a newer format is left alone: only the Tessera that wrote it knows what it
//! says, and it may be all that keeps a job's GPUs its own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The format that is written.
///
/// - 2: every GPU has its `number`.
/// - 1: a GPU has its `number` only where that is not its `index`.
pub const VERSION: u32 = 2;

/// The oldest format that is read.
pub(super) const OLDEST: u32 = 1;

/// A record that a file may hold.
pub(super) trait JournalRecord: Serialize + DeserializeOwned {
    /// The name of the file that holds it. A file of another name is somebody's copy, which nobody keeps up to date.
    fn file_name(&self) -> String;

    /// Brings a record of format 1 to format 2, but for its `version`. Most kinds are the same in both.
    fn upgrade_from_1(_record: &mut Map<String, Value>) {}
}

/// Result of parsing a file's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<T> {
    /// A record of a format that is known.
    JournalRecord(T),
    /// None, for this reason.
    Damaged(String),
    /// A record of this format, which is newer than [`VERSION`].
    Newer(u64),
}

/// Reads one file's text.
pub(super) fn parse<T: JournalRecord>(text: &[u8]) -> Parsed<T> {
    match read(text) {
        Ok(parsed) => parsed,
        Err(why) => Parsed::Damaged(why.to_string()),
    }
}

fn read<T: JournalRecord>(text: &[u8]) -> serde_json::Result<Parsed<T>> {
    let mut record: Map<String, Value> = serde_json::from_slice(text)?;
    match record.get("version").and_then(Value::as_u64) {
        None => return Ok(Parsed::Damaged("it does not say its format".to_owned())),
        Some(newer) if newer > u64::from(VERSION) => return Ok(Parsed::Newer(newer)),
        Some(1) => {
            T::upgrade_from_1(&mut record);
            record.insert("version".to_owned(), VERSION.into());
        }
        Some(version) if version < u64::from(OLDEST) => {
            return Ok(Parsed::Damaged(format!("there is no format {version}")));
        }
        Some(_) => {}
    }
    serde_json::from_value(Value::Object(record)).map(Parsed::JournalRecord)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{DaemonRecord, Entry, GpuRecord, GrantKind, Phase};
    use geometry::GpuIndex;
    use node_driver::{GpuMinor, NvmlIndex};

    /// As a node wrote it whose gres.conf lists GPU 1 first.
    const JOB_1: &str = r#"{
  "version": 1,
  "boot": "b2c1e0c6-52ba-4c46-9d0b-2f0f3b8f1f6e",
  "job": 12,
  "uid": 1001,
  "gid": 1001,
  "restart": 0,
  "decision": "smallest instance with 5 GB",
  "matched": null,
  "phase": "ready",
  "kind": "mps",
  "gpus": [
    {
      "index": 1,
      "minor": 1,
      "uuid": "GPU-1d8e7a6c",
      "number": 0
    },
    {
      "index": 2,
      "minor": 2,
      "uuid": "GPU-77aa0c13"
    }
  ],
  "instances": [
    {
      "gpu": 1,
      "profile": 14,
      "name": "2g.10gb",
      "start": 4,
      "size": 2,
      "memory_mib": 9856,
      "live": {
        "gi": 3,
        "ci": 0,
        "uuid": "MIG-0f4f2a55"
      }
    }
  ],
  "share": {
    "daemon": "gpu1-14-4",
    "mem_mib": 4769,
    "threads": 50,
    "memory_enforced": true,
    "pipe_dir": "/run/tessera/mps/gpu1-14-4/pipe",
    "log_dir": "/run/tessera/mps/gpu1-14-4/log"
  },
  "device_nodes": [
    "nvidia-caps/nvidia-cap30",
    "nvidia-caps/nvidia-cap31"
  ],
  "begun": true
}"#;

    #[test]
    fn a_job_of_the_format_before_is_kept() {
        let Parsed::JournalRecord(entry) = parse::<Entry>(JOB_1.as_bytes()) else { panic!("not read") };
        assert_eq!(
            (entry.version, entry.job, entry.kind, &entry.phase),
            (2, 12, GrantKind::Mps, &Phase::Ready)
        );
        let gpu = |index: u16, uuid: &str, number| GpuRecord {
            index: NvmlIndex(index),
            minor: GpuMinor(index.into()),
            uuid: uuid.into(),
            number: GpuIndex(number),
        };
        assert_eq!(entry.gpus, [gpu(1, "GPU-1d8e7a6c", 0), gpu(2, "GPU-77aa0c13", 2)]);
        assert_eq!(entry.instances[0].live.as_ref().unwrap().uuid, "MIG-0f4f2a55");
        assert_eq!(entry.share.as_ref().unwrap().pipe_dir, PathBuf::from("/run/tessera/mps/gpu1-14-4/pipe"));
        assert!(entry.begun && entry.device_nodes.len() == 2);
        // What is read is written in today's format, and reads the same.
        let text = serde_json::to_vec(&entry).unwrap();
        assert_eq!(parse::<Entry>(&text), Parsed::JournalRecord(entry));
    }

    #[test]
    fn a_daemon_of_the_format_before_is_kept() {
        let text = r#"{ "version": 1, "boot": "b", "key": "gpu0", "uid": 1001, "gid": 1001, "device": "GPU-1",
                        "process": [ 4242, 123456 ] }"#;
        let Parsed::JournalRecord(daemon) = parse::<DaemonRecord>(text.as_bytes()) else {
            panic!("not read")
        };
        assert_eq!((daemon.version, daemon.process), (2, Some((4242, 123_456))));
    }

    #[test]
    fn what_is_newer_is_not_damaged() {
        let of = |version: &str| parse::<Entry>(JOB_1.replacen('1', version, 1).as_bytes());
        assert_eq!(of("3"), Parsed::Newer(3));
        assert_eq!(parse::<Entry>(br#"{"version": 9, "jobs": []}"#), Parsed::Newer(9));
        assert!(matches!(of("0"), Parsed::Damaged(why) if why == "there is no format 0"));
        assert!(matches!(of("-1"), Parsed::Damaged(why) if why == "it does not say its format"));
        // What the format before might leave out, today's must have.
        assert!(matches!(of("2"), Parsed::Damaged(why) if why.contains("missing field `number`")));
    }
}
