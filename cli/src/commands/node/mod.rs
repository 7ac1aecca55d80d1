//! `tessera node`: the node side by hand, and at slurmd's start.

mod args;
mod follow;
mod hardware;
mod health;
mod idle;
mod reconciled;
mod says;

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

use error_chain::with_causes;
use geometry::JobId;
use gpu_node::{
    JobContext, LiveJobs, Numbering, RealiseError, blocks_gpu_jobs, hand_over, inspect, lacks_broker,
    lacks_daemon, mps, realise, reconcile, release, release_dead,
};
use node_journal::{Entry, Phase};
use protocol::wire::parse_placement;
use serde_json::json;
use site_config::SiteConfig;

pub(crate) use args::NodeCommand;

use health::HealthTask;
use says::Word;

use crate::globals::Globals;
use crate::local_node::{Local, compare, ending, require_root};
use crate::outcome::{Failure, Outcome, status as say};
use crate::render::colour::Paint;
use crate::render::{layout, table, terminal};
use crate::site;
use crate::slurm::squeue::JobNames;
use crate::this_machine::this_node;

pub(crate) fn run(command: &NodeCommand, globals: &Globals) -> Result<Outcome, Failure> {
    require_root(&format!("tessera node {}", command.name()))?;
    // slurmd's start runs this, so the node keeps a good version before its first job.
    let name = command.node().map(str::to_owned).or_else(this_node);
    let config = config_of(command, globals, name.as_deref())?;
    let local = Local::new(&config, command.node())?;
    match command {
        NodeCommand::Reconcile { if_dead, until_ended, .. } => {
            reconcile_node(&local, Word::of(&config, &local.name).as_ref(), *if_dead, *until_ended)
        }
        NodeCommand::HandOver { .. } => hand_over_node(&local),
        NodeCommand::Status { json, color, .. } => status(&local, *json, Paint::new(*color)),
        NodeCommand::Health { json, .. } => health::run(&local, &config, &HealthTask::Look { json: *json }),
        NodeCommand::Idle { json, .. } => idle::run(&local, &config, *json),
        NodeCommand::Sick { gpu, reason, .. } => {
            let task = reason.as_deref().map(|reason| HealthTask::Sick { gpu, reason });
            health::run(&local, &config, &task.unwrap_or(HealthTask::NotSick { gpu }))
        }
        NodeCommand::Accept { gpu, .. } => {
            health::run(&local, &config, &HealthTask::Accept { gpu: gpu.as_deref() })
        }
        NodeCommand::Realise { placement, uid, gid, .. } => realise_job(&local, placement, *uid, *gid),
        NodeCommand::Release { job, .. } => release_job(&local, JobId(*job)),
    }
}

/// The longest pause between two looks at a bad file.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Reads the configuration in force. At slurmd's start, a bad file without a good version is waited for to be put right, for as
/// long as that slurmd runs: until then slurmctld hears nothing of the node.
fn config_of(command: &NodeCommand, globals: &Globals, name: Option<&str>) -> Result<SiteConfig, Failure> {
    let named = globals.config.as_deref();
    let starts = matches!(command, NodeCommand::Reconcile { until_ended: true, .. });
    let may_wait = || starts && site::path(named).exists() && name.is_some_and(says::slurmd_loads_us);
    let mut pause = Duration::from_millis(500);
    let mut said = false;
    loop {
        match site::in_force(named, name, true) {
            Ok(in_force) => return Ok(in_force.config),
            Err(bad) if may_wait() => {
                if !said {
                    say(&format!("{bad}tessera node reconcile changes nothing until this is fixed\n"));
                    said = true;
                }
            }
            Err(bad) => return Err(bad),
        }
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn reconcile_node(
    local: &Local<'_>,
    word: Option<&Word>,
    if_dead: bool,
    until_ended: bool,
) -> Result<Outcome, Failure> {
    // By another file than before, other device nodes may have to be closed before jobs come.
    let if_dead = if_dead && !word.is_some_and(Word::is_news);
    let done = put_right(local, if_dead);
    // Whatever became of that: the node's GPUs have been compared, and slurmctld knows if they are unfit.
    let said = match word {
        Some(word) if until_ended => word.say_when_registered(),
        Some(word) if !if_dead => word.say(),
        _ => String::new(),
    };
    let Done { mut text, ending, problems } = done?;
    text.push_str(&said);
    if until_ended {
        text.push_str(&follow::until_ended(local, ending)?);
        text.push_str(&word.map(Word::say_again).unwrap_or_default());
    }
    if text.is_empty() && !if_dead {
        text = format!("{}: nothing to do\n", local.name);
    }
    Ok(Outcome { text, status: u8::from(problems) })
}

/// Results of a reconciliation.
#[derive(Default)]
struct Done {
    /// As lines.
    text: String,
    /// Jobs that Slurm has ended and that still live here.
    ending: Vec<Entry>,
    /// Something could not be put right.
    problems: bool,
}

fn put_right(local: &Local<'_>, if_dead: bool) -> Result<Done, Failure> {
    let mut text = String::new();
    if if_dead {
        // A second of each health check at most, and no prolog waits for it.
        let _not_yet_gone = mps::still_there(&local.settings);
    }
    if !if_dead || blocks_gpu_jobs(&local.settings) || hardware::lacks_gpu(local) {
        text.push_str(&hardware::check(local));
    }
    let mut ending = Vec::new();
    let (changed, live) = match compare(local, if_dead) {
        // Nothing is known to be wrong, and to look at the driver keeps prologs waiting.
        Ok(jobs)
            if if_dead
                && jobs.dead.is_empty()
                && !lacks_broker(&local.settings)
                && !lacks_daemon(&local.settings) =>
        {
            return Ok(Done { text, ..Done::default() });
        }
        Err(_) if if_dead => return Ok(Done { text, ..Done::default() }),
        Ok(jobs) => {
            ending = jobs.ending;
            (give_back(local, jobs.dead, &mut text)?, Some(jobs.live))
        }
        Err(why) => {
            // A restart of slurmd must not end anybody's job.
            let why = why.to_string();
            let first = why.lines().next().unwrap_or("");
            let _ = writeln!(text, "Slurm did not answer, so every journalled job counts as live: {first}");
            (false, None)
        }
    };
    let live = live.as_ref().map_or(LiveJobs::Unknown, LiveJobs::AtLeast);
    let report = reconcile(&local.settings, live).map_err(|e| Failure::of(&e))?;
    text.push_str(&reconciled::lines(&report));
    if changed {
        // Every prolog that was at work then has ended: reconciliation has waited for it.
        give_back(local, compare(local, true)?.dead, &mut text)?;
    }
    Ok(Done { text, ending, problems: !report.problems.is_empty() })
}

fn hand_over_node(local: &Local<'_>) -> Result<Outcome, Failure> {
    let done = hand_over(&local.settings).map_err(|e| Failure::of(&e))?;
    if !done.busy.is_empty() {
        let names = JobNames::of(done.busy.iter().copied());
        let jobs: Vec<String> = done.busy.iter().map(|job| names.name(*job)).collect();
        return Err(Failure::new(format!(
            "jobs have instances or shares on {}: {}",
            local.name,
            jobs.join(", ")
        ))
        .hint(
            "let them end, or cancel them; if they have ended, `tessera node reconcile` frees what they had; nothing was changed",
        ));
    }
    let s = if done.gpus.len() == 1 { "" } else { "s" };
    let mut text = format!("{}: {} GPU{s} left to Slurm\n", local.name, done.gpus.len());
    done.problems.iter().for_each(|p| text.push_str(&format!("problem: {p}\n")));
    Ok(Outcome { text, status: u8::from(!done.problems.is_empty()) })
}

/// Gives back what these dead jobs have. True where an entry has changed since Slurm was asked: the job was started
/// again, its epilog has run, or its prolog has outlived its slurmd and only finished now.
fn give_back(local: &Local<'_>, dead: Vec<Entry>, text: &mut String) -> Result<bool, Failure> {
    let mut changed = false;
    for entry in dead {
        let done = release_dead(&local.settings, &entry).map_err(|e| Failure::of(&e))?;
        if !done.known {
            changed = true;
            continue;
        }
        let _ = writeln!(text, "job {} is not on this node any more: released", entry.job);
        done.problems.iter().for_each(|p| text.push_str(&format!("problem: {p}\n")));
    }
    Ok(changed)
}

fn status(local: &Local<'_>, as_json: bool, paint: Paint) -> Result<Outcome, Failure> {
    let inspection = inspect(&local.settings, None).map_err(|e| Failure::of(&e))?;
    let status = u8::from(!inspection.disagreements.is_empty());
    let ending = ending(&local.name, &inspection.entries);
    let drawn = local.drawn(&inspection, &ending);
    if as_json {
        let said: Vec<String> = inspection.disagreements.iter().map(ToString::to_string).collect();
        let value =
            json!({ "node": layout::json::node(&drawn), "jobs": inspection.entries, "disagreements": said });
        return Ok(Outcome::json(&value, status));
    }
    let mut text = layout::text::picture(&[drawn], paint, terminal::width());
    if !inspection.entries.is_empty() {
        let mut rows = vec![["JOB", "UID", "STATE", "HAS", "WHY"].map(str::to_owned).to_vec()];
        let names = JobNames::of(inspection.entries.iter().map(Entry::job));
        rows.extend(inspection.entries.iter().map(|e| entry_row(e, &names, ending.contains(&e.job()))));
        text.push('\n');
        text.push_str(&table::render(&rows, &[0, 1]));
    }
    for disagreement in &inspection.disagreements {
        let _ = writeln!(text, "bad   {disagreement}");
    }
    Ok(Outcome { text, status })
}

fn entry_row(entry: &Entry, names: &JobNames, ending: bool) -> Vec<String> {
    let state = match &entry.phase {
        Phase::Intent => "being made".to_owned(),
        Phase::Ready if ending => "ending".to_owned(),
        Phase::Ready => "ready".to_owned(),
        Phase::Failed(why) => format!("failed: {why}"),
    };
    let on = |list: &[String]| list.join(" ");
    let instances: Vec<String> =
        entry.instances.iter().map(|i| format!("{}@{} on GPU {}", i.name, i.start, i.gpu)).collect();
    let gpus: Vec<String> = entry.gpus.iter().map(|g| format!("GPU {}", g.index)).collect();
    let device = if instances.is_empty() { on(&gpus) } else { instances.join(", ") };
    let has = match &entry.share {
        Some(share) => {
            let mem = geometry::size::display_gb(share.mem_mib);
            format!("{mem}, {} % of {device}", share.threads)
        }
        None => device,
    };
    vec![names.name(entry.job()), entry.uid.to_string(), state, has, entry.decision.clone()]
}

fn realise_job(local: &Local<'_>, placement: &str, uid: u32, gid: u32) -> Result<Outcome, Failure> {
    let model_of = |node: &str, gpu: geometry::GpuIndex| {
        if node == local.name { local.settings.gpus.get(usize::from(gpu.0)).map(|g| g.model) } else { None }
    };
    let placed = parse_placement(placement, &model_of).map_err(|e| {
        Failure::new(format!("--placement: {e}")).hint("such as 'v1 job=12;n1=mig:3/2g.10gb@4'")
    })?;
    let given = placed
        .on(&local.name)
        .ok_or_else(|| Failure::new(format!("--placement says nothing about node {}", local.name)))?;
    let grant = Numbering::default()
        .translate(&local.settings, &given.grant)
        .map_err(|e| Failure::new(format!("--placement: {}", with_causes(&e))))?;
    let job = JobContext {
        job: placed.job,
        uid,
        gid,
        restart: 0,
        grant,
        cap_w: given.cap_w,
        decision: "made by hand with tessera node realise".to_owned(),
        plain: false,
        matched: None,
        live: None,
        group: None,
        slurmd: None,
    };
    let realised = realise(&local.settings, &job).map_err(|e| {
        let said = Failure::of(&e);
        match e {
            RealiseError::JobFailed(_) => {
                said.hint("the journal says so too: `tessera node release` forgets it")
            }
            RealiseError::NodeUnfit(_) => said,
        }
    })?;
    let row = entry_row(&realised.entry, &JobNames::default(), false);
    Ok(Outcome::ok(format!("job {}: {}\n", row[0], row[3])))
}

fn release_job(local: &Local<'_>, job: JobId) -> Result<Outcome, Failure> {
    let done = release(&local.settings, job).map_err(|e| Failure::of(&e))?;
    if !done.known {
        return Err(Failure::new(format!("the journal of {} has no job {job}", local.name)));
    }
    let mut text = format!("job {job}: released\n");
    done.problems.iter().for_each(|p| text.push_str(&format!("problem: {p}\n")));
    Ok(Outcome { text, status: u8::from(!done.problems.is_empty()) })
}
