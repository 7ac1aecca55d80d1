//! `tessera lab power calibrate`: the measurement of a power model as Slurm jobs.
//!
//! `power_study::calibration` says what to measure and when it is measured. Here jobs are submitted and looked at, and what they
//! measured is kept. A setting has a GPU to itself; several GPUs are measured on at the same time.

mod args;
mod campaign;
mod flight;
mod script;
mod show;
mod store;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use power::CounterTable;
use power_study::{fit_best, runs};
use signal_hook::consts::{SIGINT, SIGTERM};

pub(crate) use args::CalibrateArgs;

use super::fit;
use crate::files;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome, status};
use crate::slurm::squeue::{self, QueuedJob};
use campaign::Campaign;
use flight::{Flight, FlightState};
use show::Shown;
use store::Store;

/// Between two looks at the jobs.
const LOOK: Duration = Duration::from_secs(1);

/// Looks in a row for which slurmctld may be silent, as it is while it starts anew.
const SILENT_LOOKS: u32 = 600;

/// Looks for a job whose sbatch was under way when an earlier call was killed.
const LATE_LOOKS: u32 = 5;

pub(super) fn run(args: &CalibrateArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let campaign = Campaign::new(args, globals)?;
    if args.dry_run {
        return Ok(Outcome::ok(show::plan(&campaign, &[])));
    }
    let mut store = Store::open(&campaign)?;
    status(&show::plan(&campaign, &store.measured));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::new(format!("cannot wait for signals: {e}")))?;
    }
    let mut flights = left(&campaign, &store)?;
    let shown = Shown::new(&campaign, &store);
    let measured = measure(&campaign, &mut store, &mut flights, &shown, &stop);
    drop(shown);
    if let Err(why) = measured {
        flights.iter().for_each(Flight::cancel);
        return Err(why);
    }
    fitted(&campaign, &store)
}

/// Measures what is left.
fn measure(
    campaign: &Campaign,
    store: &mut Store,
    flights: &mut Vec<Flight>,
    shown: &Shown,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut silent = 0;
    loop {
        match jobs(flights) {
            Ok(known) => {
                silent = 0;
                look(campaign, store, flights, &known)?;
            }
            Err(why) if silent >= SILENT_LOOKS => return Err(why),
            Err(_) => silent += 1,
        }
        while !stop.load(Ordering::Relaxed)
            && let Some((at, gpu)) = next(campaign, &store.measured, flights)
        {
            flights.push(Flight::start(campaign, store, at, gpu)?);
        }
        shown.at(campaign, store, flights);
        if flights.is_empty() && store.measured.iter().all(|measured| *measured) {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            let done = store.measured.iter().filter(|measured| **measured).count();
            let what = format!("interrupted: {done} of {} settings are measured", store.measured.len());
            return Err(Failure::new(what).hint("its jobs are cancelled; the same command goes on"));
        }
        std::thread::sleep(LOOK);
    }
}

/// Asks Slurm about the jobs.
fn jobs(flights: &[Flight]) -> Result<HashMap<u32, QueuedJob>, Failure> {
    let ids: Vec<u32> = flights.iter().flat_map(|flight| flight.jobs.iter().copied()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    Ok(squeue::jobs(Some(&ids))?.into_iter().map(|job| (job.id, job)).collect())
}

/// Keeps what is measured, and forgets flights whose jobs have ended.
fn look(
    campaign: &Campaign,
    store: &mut Store,
    flights: &mut Vec<Flight>,
    known: &HashMap<u32, QueuedJob>,
) -> Result<(), Failure> {
    let mut ended = Vec::new();
    for flight in flights.iter_mut() {
        match flight.look(campaign, known)? {
            FlightState::Runs => {}
            FlightState::Measured(seconds) => {
                store.keep(campaign, flight.at, &seconds)?;
                flight.kept = true;
                flight.cancel();
            }
            FlightState::Ended => ended.push(flight.at),
        }
    }
    flights.retain(|flight| !ended.contains(&flight.at));
    Ok(())
}

/// The next setting and a GPU for it. Nothing else begins before all references are measured, nor while jobs live of which nobody
/// has noted what GPU they have.
fn next(campaign: &Campaign, measured: &[bool], flights: &[Flight]) -> Option<(usize, u16)> {
    if flights.iter().any(|flight| flight.gpu.is_none()) {
        return None;
    }
    let gpu = campaign.gpus.iter().find(|gpu| flights.iter().all(|flight| flight.gpu != Some(**gpu)))?;
    let is_full = |at: usize| campaign.settings[at].state.is_full();
    let waits_for_references =
        flights.iter().any(|f| is_full(f.at)) || (0..measured.len()).any(|at| is_full(at) && !measured[at]);
    let is_free = |at: &usize| !measured[*at] && flights.iter().all(|flight| flight.at != *at);
    let at = (0..measured.len()).find(is_free)?;
    (is_full(at) || !waits_for_references).then_some((at, *gpu))
}

/// The settings that an earlier call was measuring. Those that cannot be gone on with are ended, and keep their GPUs until then.
fn left(campaign: &Campaign, store: &Store) -> Result<Vec<Flight>, Failure> {
    let all = 0..store.measured.len();
    let mut flights: Vec<Flight> = all.filter_map(|at| Flight::left(store, at)).collect();
    if flights.is_empty() {
        return Ok(flights);
    }
    take_unnoted(campaign, &mut flights)?;
    let known = jobs(&flights)?;
    for flight in &mut flights {
        let is_needed = !store.measured[flight.at] && flight.is_whole(campaign);
        if !is_needed || flight.is_lost(campaign, &known) {
            flight.kept = true;
        }
    }
    let over = flights.iter().filter(|flight| flight.kept && flight.may_live(&known));
    over.for_each(Flight::cancel);
    flights.retain(|flight| !flight.kept || flight.lives(&known));
    Ok(flights)
}

/// Finds the jobs that were submitted in the moment when an earlier call was killed. sbatch outlives that call, so a job that
/// is missing is waited for.
fn take_unnoted(campaign: &Campaign, flights: &mut [Flight]) -> Result<(), Failure> {
    for _ in 0..LATE_LOOKS {
        let outputs = squeue::outputs()?;
        let missing = flights.iter_mut().filter_map(|f| f.take_unnoted(campaign, &outputs).then_some(()));
        if missing.count() == 0 {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Fits the model and writes it beside what was measured.
fn fitted(campaign: &Campaign, store: &Store) -> Result<Outcome, Failure> {
    let text = |name: &str| -> Result<(String, String), Failure> {
        let path = campaign.out.join(name);
        Ok((path.display().to_string(), files::read_text(&path)?))
    };
    let ((counters_file, counters), (runs_file, measured)) = (text("counters.csv")?, text("runs.csv")?);
    let counters = CounterTable::parse(&counters_file, &counters).map_err(|e| Failure::of(&e))?;
    let runs = runs::parse_on(campaign.gpu, &runs_file, &measured).map_err(|e| Failure::of(&e))?;
    let model = fit_best(campaign.gpu, &counters, &runs).map_err(|e| Failure::of(&e))?;
    let model = model.measured_under(store.driver());
    let out = campaign.out.join(format!("{}.json", campaign.gpu.key));
    files::write_text(&out, &format!("{:#}\n", model.to_json()))?;
    let summary = fit::summary(&model, Some(&out));
    Ok(Outcome::ok(summary + &show::use_it(campaign, &out, &counters_file)))
}
