//! `tessera planner`: sizes, places and order of pending moldable jobs, every interval.

mod args;
mod decide;
mod jobs;
mod nice;
mod order;
mod pairs;
mod plans;
mod reorder;
mod report;
mod round;
mod sharing;
mod site;
mod time_limit;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use args::PlannerArgs;
use nice::Nices;
use reorder::NiceOrder;
use round::Planner;

use crate::files::own_dir::own_file;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome, status};
use crate::power_models::PowerModels;
use crate::site as config_file;
use crate::slurm::{command, scontrol};

pub(crate) fn run(args: &PlannerArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = config_file::load(globals.config.as_deref())?;
    let settings = command::run("scontrol", &["show", "config"])?;
    let setting = |key: &str| scontrol::setting(&settings, key).unwrap_or_default().to_owned();
    let path = lock_path(args, &setting("StateSaveLocation"));
    let mut lock = if args.dry_run { None } else { Some(hold(&path)?) };
    // A dry run reads what it may.
    let nices = match &mut lock {
        Some(file) => Nices::read(file).map_err(|e| {
            Failure::new(format!(
                "cannot read {}, which records the Nice that jobs were given: {e}",
                path.display()
            ))
            .hint("--lock names another file; the Nice that jobs have now then counts as set by their users")
        })?,
        None => own_file(&path, false).and_then(|mut file| Nices::read(&mut file)).unwrap_or_default(),
    };
    let multifactor = setting("PriorityType") == "priority/multifactor";
    let order = NiceOrder::new(multifactor, args.dry_run, nices, lock);
    let models = PowerModels::of(&config)?;
    let mut planner = Planner::new(args, config, models, order);
    if args.once {
        let report = planner.round()?;
        return Ok(Outcome { text: report.lines.concat(), status: u8::from(report.failed) });
    }
    serve(&mut planner)
}

/// Rounds until SIGTERM or SIGINT.
fn serve(planner: &mut Planner<'_>) -> Result<Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::new(format!("cannot wait for signals: {e}")))?;
    }
    status(&format!("tessera planner: planning every {} s\n", planner.args.interval.as_secs_f64()));
    let mut last_error = String::new();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        match planner.round() {
            Ok(report) => {
                last_error.clear();
                status(&report.lines.concat());
            }
            // slurmctld may be away for a while: said once, tried again.
            Err(e) if e.what() != last_error => {
                status(&e.to_string());
                e.what().clone_into(&mut last_error);
            }
            Err(_) => {}
        }
        while !stop.load(Ordering::Relaxed) && begin.elapsed() < planner.args.interval {
            thread::sleep(Duration::from_millis(100));
        }
    }
    status("tessera planner: stopped; its plans expire by themselves\n");
    Ok(Outcome::ok(""))
}

fn lock_path(args: &PlannerArgs, state_dir: &str) -> PathBuf {
    args.lock.clone().unwrap_or_else(|| PathBuf::from(state_dir).join("tessera-planner.lock"))
}

/// Keeps a second planner out for as long as the file is open.
fn hold(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    let wrong = |e: std::io::Error| {
        Failure::new(format!("cannot hold {shown}: {e}"))
            .hint("run as root or SlurmUser where slurmctld runs, or name another file with --lock")
    };
    // Not truncated: it may be another planner's, and says which Nice an earlier one has given.
    let file = own_file(path, true).map_err(wrong)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Failure::new(format!("another planner is running: it holds {shown}")))
        }
        Err(std::fs::TryLockError::Error(e)) => Err(wrong(e)),
    }
}
