//! `CUDA_SIM_LOG`: a JSON line per operation.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// What a process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// It got its first context on the device, or was refused one.
    Context,
    /// It asked for memory.
    Alloc,
    /// It gave memory back.
    Free,
    /// It launched a kernel.
    Launch,
    /// Everything that it held on the device was taken back: it ended, or destroyed its last context there.
    Exit,
}

/// One line. `used` is what all processes hold on the device after the operation, bytes; `result` is a `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line<'a> {
    /// Seconds since the epoch.
    pub t: f64,
    /// The process that the line is about.
    pub pid: u32,
    /// UUID of the GPU or MIG device.
    pub device: &'a str,
    /// What it did.
    pub op: Op,
    /// How much memory it is about.
    pub bytes: u64,
    /// Memory in use on the device.
    pub used: u64,
    /// 0, or why it was refused.
    pub result: u32,
}

/// Where lines go.
#[derive(Debug, Default)]
pub struct Log {
    path: Option<PathBuf>,
}

impl Log {
    /// The file that `CUDA_SIM_LOG` names.
    #[must_use]
    pub fn from_env() -> Log {
        Log { path: std::env::var_os("CUDA_SIM_LOG").map(PathBuf::from) }
    }

    /// Whether anybody reads.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.path.is_some()
    }

    /// Appends one line by one write, so that lines of several processes never mix. A program does not fail for its log.
    pub fn write(&self, pid: u32, device: &str, op: Op, bytes: u64, used: u64, result: u32) {
        let Some(path) = &self.path else { return };
        let t = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let line = Line { t, pid, device, op, bytes, used, result };
        if let Ok(mut text) = serde_json::to_vec(&line)
            && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
        {
            text.push(b'\n');
            let _ = file.write_all(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_operation() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log { path: Some(dir.path().join("log")) };
        log.write(7, "GPU-1", Op::Alloc, 100, 2 << 20, 0);
        log.write(7, "GPU-1", Op::Exit, 0, 0, 2);
        let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
        let rest: Vec<&str> = text.lines().map(|l| l.split_once(",\"pid\"").unwrap().1).collect();
        assert_eq!(
            rest,
            [
                r#":7,"device":"GPU-1","op":"alloc","bytes":100,"used":2097152,"result":0}"#,
                r#":7,"device":"GPU-1","op":"exit","bytes":0,"used":0,"result":2}"#
            ]
        );
    }
}
