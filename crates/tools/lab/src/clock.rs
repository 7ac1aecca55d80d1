//! A clock of its own for each host of a cluster, which can be set back and forth.
//!
//! The wall clock belongs to the whole machine, and a time namespace shifts the monotonic clocks only. So every process of a
//! host is started in a mount namespace whose `/etc/ld.so.preload` names a small library (`clock/shift.c`). The dynamic loader
//! reads that file at every exec, so the library reaches prologs and epilogs too, whose environment Slurm makes anew. It adds
//! what the host's clock differs by, which all processes of the host read in one file.
//!
//! `libfaketime` cannot do this: what keeps the monotonic clock alone, and what makes a change reach running processes at once,
//! it reads in the environment (0.9.10).

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::command::{Done, run};
use crate::error::{HarnessError, at};
use crate::layout::Layout;

/// The host of both slurmctlds, and of the commands that no node runs.
pub(crate) const CONTROLLER: &str = "controller";

const SOURCE: &str = include_str!("../clock/shift.c");

/// As in `shift.c`: how often a clock can be set, and the sizes in bytes of one step and of what comes before the first.
const MOST: u64 = 255;
const STEP: u64 = 16;
const HEAD: u64 = 16;

fn dir(cluster: &Path, host: &str) -> PathBuf {
    cluster.join("clock").join(host)
}

/// The directory to be laid over `/etc` for the processes of a host, if its clock can be set.
pub(crate) fn etc(cluster: &Path, host: &str) -> Option<PathBuf> {
    Some(dir(cluster, host).join("etc")).filter(|path| path.exists())
}

/// Builds the library, and gives every host its clock.
pub(crate) fn lay_out(layout: &Layout, nodes: &[String]) -> Result<(), HarnessError> {
    for host in nodes.iter().map(String::as_str).chain([CONTROLLER]) {
        let dir = dir(layout.dir(), host);
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            at(&path, fs::write(&path, bytes))
        };
        at(&dir, fs::create_dir_all(&dir))?;
        write("shift.c", SOURCE.as_bytes())?;
        let library = dir.join("shift.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library);
        run(cc.arg(dir.join("shift.c"))).and_then(Done::ok)?;
        write("steps", &vec![0; usize::try_from(HEAD + MOST * STEP).unwrap_or_default()])?;
        // The library has to be ready before the first process finds it.
        at(&dir, fs::create_dir_all(dir.join("etc")))?;
        write("etc/ld.so.preload", format!("{}\n", library.display()).as_bytes())?;
    }
    Ok(())
}

/// Sets the clock of a host to so many seconds after the machine's.
pub(crate) fn set(layout: &Layout, host: &str, seconds_ahead: i64) -> Result<(), HarnessError> {
    let path = dir(layout.dir(), host).join("steps");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let file = at(&path, fs::OpenOptions::new().read(true).write(true).open(&path))?;
    let mut word = [0_u8; 8];
    at(&path, file.read_exact_at(&mut word, 0))?;
    let count = u64::from_ne_bytes(word);
    if count >= MOST {
        return Err(HarnessError::Unexpected(format!("the clock of {host} was set {MOST} times already")));
    }
    // The count comes last: by it, the step is in force.
    let step = [now.to_ne_bytes(), seconds_ahead.to_ne_bytes()].concat();
    at(&path, file.write_all_at(&step, HEAD + count * STEP))?;
    at(&path, file.write_all_at(&(count + 1).to_ne_bytes(), 0))
}
