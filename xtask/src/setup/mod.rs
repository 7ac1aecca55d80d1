//! `cargo xtask setup`: installs what building and testing need on a Debian 12 that has only Rust.
//!
//! Each step first checks whether its work is done: a second run takes well below a second. Everything except the Debian
//! packages and the two test users lies in `target/`.

mod apt;
pub(crate) mod cargo_deny;
mod chroot;
mod disk;
mod packages;
mod real_parts;
mod slurm_source;
mod sources;
mod users;
pub(crate) mod zig;

use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Instant;

use error_chain::with_causes;
use lab::Slurm;
use lab::paths::{self, target_dir};
use slurm_releases::{Debian, Release};

use crate::command::{TaskError, at};
use crate::progress::ShownStep;

pub(crate) use packages::check_machine;

/// Purpose for which the machine is set up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Test clusters, the demo among them
    Clusters,
    /// Tests and benchmarks too: compilers, a browser, Slurm's sources
    Tests,
}

/// Sets up beside `work`, for instance a build, which needs nothing that compiling this program did not.
pub(crate) fn beside<T>(
    only: Option<Release>,
    purpose: Purpose,
    work: impl FnOnce() -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    thread::scope(|scope| {
        let tools = scope.spawn(|| {
            let done = run(only, purpose);
            // Said at once: the work takes minutes.
            done.inspect_err(|error| eprintln!("setup: {}", with_causes(error)))
        });
        let done = work();
        tools.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        done
    })
}

/// Sets up for one Slurm series, or for all.
pub(crate) fn run(only: Option<Release>, purpose: Purpose) -> Result<(), TaskError> {
    check_machine()?;
    let target = target_dir();
    at(&target, fs::create_dir_all(&target))?;
    if let Some(warning) = disk::warning(&target) {
        eprintln!("setup: {warning}");
    }
    let lock_path = target.join("setup.lock");
    let lock = at(&lock_path, fs::File::create(&lock_path))?;
    at(&lock_path, lock.lock())?;

    packages::install(purpose)?;
    users::create(None)?;
    if let Some(release) = only.filter(|release| release.debian().is_none()) {
        return Err(TaskError::Other(format!(
            "no Debian ships Slurm {release}: build it, and name it by --slurm-prefix and --slurm-source"
        )));
    }
    for (release, debian) in Release::packaged() {
        if only.is_some_and(|wanted| wanted != release) {
            continue;
        }
        match slurm(release, debian, only.is_none(), purpose) {
            // Tomorrow's Debian may be broken today. The tests on it are left out, and say so.
            Err(error) if debian.moves && only.is_none() => {
                eprintln!("setup: Slurm {release}, left out: {}", with_causes(&error));
            }
            done => done?,
        }
    }
    real_parts::unpack()?;
    if purpose == Purpose::Clusters {
        return Ok(());
    }
    real_parts::bindings()?;
    cargo_deny::install()
}

/// Sets up the Slurm of one Debian; with `all`, also what only tests of packages need.
fn slurm(release: Release, debian: Debian, all: bool, purpose: Purpose) -> Result<(), TaskError> {
    let root = paths::debian_root(release);
    if purpose == Purpose::Tests && !debian.moves {
        slurm_source::configure(release, debian)?;
    }
    if paths::chroot(release).is_none() {
        return if all { chroot::create(release, debian, &root) } else { Ok(()) };
    }
    chroot::create(release, debian, &root)?;
    if debian.moves {
        Slurm::from(release).check()?;
    }
    for extra in &chroot::extras(debian) {
        chroot::unpack(extra, release, debian, &root)?;
    }
    users::create(Some(&root))
}

/// Runs `work` unless the file `stamp` already says `key`; writes it afterwards.
///
/// The key names what was done, package versions for instance: when the key changes, the work is done again.
fn once(
    stamp: &Path,
    key: &str,
    what: &str,
    work: impl FnOnce() -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    if fs::read_to_string(stamp).is_ok_and(|done| done == key) {
        return Ok(());
    }
    eprintln!("setup: {what}");
    let begin = Instant::now();
    let step = ShownStep::new(what);
    work()?;
    drop(step);
    at(stamp, fs::write(stamp, key))?;
    eprintln!("setup: {what}: done in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}
