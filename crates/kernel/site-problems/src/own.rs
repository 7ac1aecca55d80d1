//! Finds settings that contradict each other or have no effect, from the file alone.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::power::untaken_limits;
use site_config::{RUN_DIR, STATE_DIR};
use slurm_names::walk;
use toml_tables::ConfigError;
use toml_tables::{At, TableReader};

/// Directories in memory, and `/tmp`, which is in memory or emptied at a boot on many systems.
const VOLATILE: [&str; 4] = ["/run", "/var/run", "/dev/shm", "/tmp"];

/// Finds settings of a file without errors that contradict each other or have no effect.
#[must_use]
pub fn own_problems(file_name: &str, text: &str) -> Vec<ConfigError> {
    walk(file_name, text, |root| {
        if let Some(node) = root.table("node") {
            one_in_the_other(&node);
        }
        objective_without_model(root);
        untaken_limits(root);
    })
}

/// Finds a `state_dir` that a reboot empties.
///
/// Tells it by the path alone: another directory may be a tmpfs as well, and a site may keep `/tmp`.
#[must_use]
pub fn state_lost_at_reboot(file_name: &str, text: &str) -> Vec<ConfigError> {
    walk(file_name, text, |root| {
        let Some(node) = root.table("node") else { return };
        let Some(At { value: dir, span }) = node.string("state_dir") else { return };
        if let Some(above) = VOLATILE.into_iter().find(|above| Path::new(&dir).starts_with(above)) {
            let what = match above {
                "/tmp" => {
                    format!("state_dir = {dir:?} may be lost at a reboot: many systems empty /tmp then")
                }
                _ => format!("state_dir = {dir:?} is lost at a reboot: {above} is in memory"),
            };
            let hint = format!("use a directory on a disk, such as {STATE_DIR}");
            node.errors.push(span, what, Some(hint));
        }
    })
}

/// The directory that the file or the default names, with its place in the file.
fn directory(
    table: &TableReader<'_, '_>,
    key: &'static str,
    default: &str,
) -> (PathBuf, Option<Range<usize>>) {
    match table.string(key) {
        Some(At { value, span }) => (PathBuf::from(value), Some(span)),
        None => (PathBuf::from(default), None),
    }
}

fn one_in_the_other(table: &TableReader<'_, '_>) {
    let (state, state_at) = directory(table, "state_dir", STATE_DIR);
    let (run, run_at) = directory(table, "run_dir", RUN_DIR);
    let (state_is, run_is) = (state.display(), run.display());
    let what = if state == run {
        format!("state_dir and run_dir are the same directory, {state_is}")
    } else if state.starts_with(&run) {
        format!("state_dir = {state_is} is inside run_dir = {run_is}")
    } else if run.starts_with(&state) {
        format!("run_dir = {run_is} is inside state_dir = {state_is}")
    } else {
        return;
    };
    // One of them is in the file: the defaults are apart.
    let Some(place) = state_at.or(run_at) else { return };
    let hint =
        "give each a directory of its own: users write below run_dir, only root below state_dir".to_owned();
    table.errors.push(place, what, Some(hint));
}

fn objective_without_model(root: &TableReader<'_, '_>) {
    if root.tables("nodes").iter().any(|set| set.has("power_model")) {
        return;
    }
    let places = root.table("power").into_iter().chain(root.tables("partitions"));
    for table in places {
        let Some(At { value, span }) = table.string("objective").filter(|at| at.value != "off") else {
            continue;
        };
        let what = format!("objective = {value:?} has no effect: no [[nodes]] has a power_model");
        let hint = "add power_model to the [[nodes]] whose jobs a planner may pair; `tessera lab power fit` writes one";
        table.errors.push(span, what, Some(hint.to_owned()));
    }
}
