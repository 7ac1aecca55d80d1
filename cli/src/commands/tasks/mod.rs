//! `tessera tasks`: who holds and waits for what in the pool of GPU tasks of this node.

mod args;
mod text;

use std::time::Duration;

use task_control::{Broker, ControlError, Status};

pub(crate) use args::TasksArgs;

use crate::globals::Globals;
use crate::local_node::{Local, require_root};
use crate::outcome::{Failure, Outcome};
use crate::site;
use crate::slurm::caller;

/// How long the broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &TasksArgs, globals: &Globals) -> Result<Outcome, Failure> {
    require_root("tessera tasks")?;
    let config = site::load(globals.config.as_deref())?;
    let local = Local::new(&config, args.node.as_deref())?;
    let status = match Broker::at(&local.settings.node.run_dir, PATIENCE).status() {
        Ok(status) => Some(status),
        // It runs only while the node has such jobs.
        Err(ControlError::NotRunning { .. }) => None,
        Err(e) => return Err(Failure::of(&e)),
    };
    if args.json {
        let (devices, jobs) = status.map_or_else(Default::default, |s: Status| (s.devices, s.jobs));
        let value = serde_json::json!({ "node": local.name, "devices": devices, "jobs": jobs });
        return Ok(Outcome::json(&value, 0));
    }
    let none = || format!("{}: no job of GPU tasks\n", local.name);
    Ok(Outcome::ok(
        status.filter(|s| !s.jobs.is_empty()).map_or_else(none, |s| text::tables(&s, &caller::name_of)),
    ))
}
