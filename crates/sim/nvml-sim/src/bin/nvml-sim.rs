//! Makes and steers a simulated GPU node.
#![forbid(unsafe_code)]

use std::io::Write;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[path = "nvml-sim/kmsg.rs"]
mod kmsg;
#[path = "nvml-sim/work.rs"]
mod work;

use clap::{Parser, Subcommand, ValueEnum};
use nvidia_ml::engine::code::{Answer, Code};
use nvidia_ml::engine::fault::{self, Fault, Kind};
use nvidia_ml::engine::process::{Process, start_time};
use nvidia_ml::engine::session::{STATE_VARIABLE, Session};
use nvidia_ml::engine::state::State;
use nvidia_ml::engine::store::Store;
use nvidia_ml::engine::{node, tree};

/// Makes and steers a simulated GPU node: the state behind libnvidia-ml.so.1
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// State file of the node
    #[arg(long, global = true, env = STATE_VARIABLE, value_name = "PATH")]
    state: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a node: its state file, device nodes and proc files
    Create {
        /// Description of the node, TOML
        #[arg(long, value_name = "FILE")]
        node: PathBuf,
        /// Directory that gets dev/ and proc/
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// Name of the node, over the file's; UUIDs depend on it
        #[arg(long)]
        name: Option<String>,
    },
    /// Show the state
    Show {
        /// Everything, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Reset GPUs, as nvidia-smi --gpu-reset does
    Reset {
        /// GPU; all without it
        #[arg(long)]
        gpu: Option<u32>,
    },
    /// Show or set a power limit
    Power {
        /// GPU
        #[arg(long)]
        gpu: u32,
        /// New limit in W
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Compute until stopped, as a CUDA program: opens its CUDA_VISIBLE_DEVICES and prints its rate
    ///
    /// Runs at the speed that the simulated physics gives from moment to moment: by what else runs on the GPU, the instances,
    /// and the power limit. An iteration takes one second alone on an idealized GPU.
    Work(work::WorkArgs),
    /// Take an NVLink down or bring it up, at both ends
    Link {
        /// GPU
        #[arg(long)]
        gpu: u32,
        /// Its link number, as in nvidia-smi nvlink -s
        #[arg(long)]
        link: u32,
        /// What becomes of it
        #[arg(value_enum)]
        to: LinkState,
    },
    /// Register or remove processes that use a GPU
    Proc {
        #[command(subcommand)]
        command: ProcCommand,
    },
    /// Add or clear faults
    Fault {
        #[command(subcommand)]
        command: FaultCommand,
    },
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum LinkState {
    /// Works
    Up,
    /// Does not
    Down,
}

#[derive(Subcommand)]
enum ProcCommand {
    /// Count a live process as a user of a GPU until it ends
    Add {
        /// GPU
        #[arg(long)]
        gpu: u32,
        /// Process id
        #[arg(long)]
        pid: u32,
        /// Memory it holds, MiB
        #[arg(long, default_value_t = 0)]
        memory_mib: u64,
        /// GPU instance it runs in
        #[arg(long)]
        gi: Option<u32>,
        /// Compute instance it runs in
        #[arg(long, requires = "gi")]
        ci: Option<u32>,
        /// It is an MPS client
        #[arg(long)]
        mps: bool,
    },
    /// Forget a process
    Remove {
        /// Process id
        #[arg(long)]
        pid: u32,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum FaultKind {
    /// Destroying answers IN_USE
    BusyDestroy,
    /// Creating answers INSUFFICIENT_RESOURCES
    OutOfResources,
    /// Every change answers NO_PERMISSION
    NoPermission,
    /// Listing compute instances or their profiles answers TIMEOUT
    ListTimeout,
    /// Every call on the GPU answers GPU_IS_LOST
    GpuLost,
    /// The driver does not list the GPU; proc files and device nodes stay
    Hidden,
    /// Creating and destroying takes longer
    Slow,
    /// Setting the power limit answers NOT_SUPPORTED
    LimitRefused,
    /// Setting the power limit answers success and does nothing
    LimitIgnored,
    /// Somebody sets the power limit to --watts as soon as it has been set
    LimitChanged,
    /// A limit of --watts is enforced out of band
    LimitEnforcedLower,
    /// The driver reports an error with the number --number, also in the kernel's log (ROOT/dev/kmsg)
    Xid,
    /// --number uncorrectable memory errors
    EccUncorrected,
    /// A row of memory is remapped at the next reset
    RemapPending,
    /// No row is left to remap to
    RemapFailed,
    /// The clock is lowered because the GPU is too hot
    Hot,
    /// The driver asks for a reset of the GPU
    NeedsReset,
    /// --number NVLink recoveries
    LinkRecoveries,
}

#[derive(Subcommand)]
enum FaultCommand {
    /// Let something go wrong on a GPU
    Add {
        /// GPU; all without it
        #[arg(long)]
        gpu: Option<u32>,
        /// What goes wrong
        #[arg(long, value_enum)]
        kind: FaultKind,
        /// Until then it stays: 5s, 200ms, 2m
        #[arg(long = "for", value_parser = duration)]
        lasts: Option<Duration>,
        /// Over after this many calls met it
        #[arg(long)]
        count: Option<u32>,
        /// How many times as long, for `slow`
        #[arg(long, default_value_t = 10.0)]
        factor: f64,
        /// The power limit, for `limit-changed` and `limit-enforced-lower`
        #[arg(long, value_name = "W", required_if_eq_any([("kind", "limit-changed"), ("kind", "limit-enforced-lower")]))]
        watts: Option<u32>,
        /// The Xid, or a count, for `xid`, `ecc-uncorrected` and `link-recoveries`
        #[arg(long, value_name = "N", default_value_t = 1)]
        number: u32,
        /// Report an `xid` so many times
        #[arg(long, value_name = "N", default_value_t = 1)]
        times: u32,
    },
    /// Remove faults
    Clear {
        /// GPU; all without it
        #[arg(long)]
        gpu: Option<u32>,
        /// Faults of this kind; all without it
        #[arg(long, value_enum)]
        kind: Option<FaultKind>,
    },
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| format!("{text:?} is not a time such as 5s or 200ms"))?;
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        other => return Err(format!("unit {other:?}: ms, s or m")),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|e| e.to_string())
}

/// A sentence for the user.
type Failure = String;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(text) => {
            // A reader that went away is not our failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "nvml-sim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<String, Failure> {
    let path = cli.state.ok_or_else(|| format!("no state file: give --state or set {STATE_VARIABLE}"))?;
    let failed = |what: &str, e: Code| format!("{}: {what}: {e}", path.display());
    match cli.command {
        Command::Create { node, root, name } => create(&node, &path, &root, name),
        Command::Show { json } => show(&path, json),
        Command::Reset { gpu } => each_gpu(&path, gpu, |s, gpu| {
            s.reset(gpu).map_err(|e| failed(&format!("cannot reset GPU {gpu}"), e))
        }),
        Command::Work(args) => work::run(&path, &args),
        Command::Power { gpu, limit } => power(&path, gpu, limit),
        Command::Link { gpu, link, to } => change(&path, |s| s.set_link(gpu, link, to == LinkState::Up))
            .map_err(|e| failed(&format!("GPU {gpu}, link {link}"), e)),
        Command::Proc { command } => {
            change(&path, |s| proc(s, &command)).map_err(|e| failed("cannot register the process", e))
        }
        Command::Fault { command } => {
            kmsg::log(&Store::new(&path), &command)
                .map_err(|e| format!("{}: cannot write the kernel's log: {e}", path.display()))?;
            change(&path, |s| fault(s, &command)).map_err(|e| failed("cannot change faults", e))
        }
    }
}

fn create(file: &Path, state: &Path, root: &Path, name: Option<String>) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let (described, start) = node::parse(&text, name.as_deref(), &state.display().to_string())
        .map_err(|e| format!("{}: {e}", file.display()))?;
    std::fs::create_dir_all(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let root = root.canonicalize().map_err(|e| format!("{}: {e}", root.display()))?;
    let mut fresh = State::new(described, &start, root, tree::free_major());
    tree::create(&fresh).map_err(|e| format!("{}: {e}", fresh.root.display()))?;
    fresh.tree_dirty = false;
    Store::create(state, &fresh).map_err(|e| format!("{}: {e}", state.display()))?;
    Ok(String::new())
}

fn each_gpu(
    path: &Path,
    gpu: Option<u32>,
    f: impl Fn(&Session, u32) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let session = Session::at(path).map_err(|e| format!("{}: {e}", path.display()))?;
    match gpu {
        Some(gpu) => f(&session, gpu)?,
        None => session.visible().iter().try_for_each(|gpu| f(&session, *gpu))?,
    }
    Ok(String::new())
}

fn change(path: &Path, f: impl FnOnce(&mut State) -> Answer<()>) -> Answer<String> {
    Store::new(path).update(f)?;
    Ok(String::new())
}

fn power(path: &Path, gpu: u32, limit: Option<u32>) -> Result<String, Failure> {
    let session = Session::at(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if let Some(watt) = limit {
        let handle = nvidia_ml::engine::handle::Handle::Gpu(gpu);
        session
            .set_power_limit(handle, watt.saturating_mul(1000))
            .map_err(|e| format!("cannot set the power limit of GPU {gpu} to {watt} W: {e}"))?;
    }
    let read = |s: &State| -> Answer<String> {
        let (min, max) = s.power_constraints(gpu)?;
        let (now, limit) = (s.load(gpu)?.power_mw, s.gpu(gpu)?.power_limit_mw);
        Ok(format!(
            "GPU {gpu}: {} W of {} W ({} to {} W)\n",
            now / 1000,
            limit / 1000,
            min / 1000,
            max / 1000
        ))
    };
    session.state().and_then(|s| read(&s)).map_err(|e| format!("GPU {gpu}: {e}"))
}

fn proc(state: &mut State, command: &ProcCommand) -> Answer<()> {
    match *command {
        ProcCommand::Add { gpu, pid, memory_mib, gi, ci, mps } => {
            let started = start_time(pid).ok_or(Code::NotFound)?;
            if let Some(id) = gi {
                let found = state.gpu(gpu)?.instances.iter().find(|g| g.id == id).ok_or(Code::NotFound)?;
                if ci.is_some_and(|ci| found.cis.iter().all(|c| c.id != ci)) {
                    return Err(Code::NotFound);
                }
            }
            let processes = &mut state.gpu_mut(gpu)?.processes;
            processes.retain(|p| p.pid != pid);
            processes.push(Process { pid, started, gi, ci, memory_mib, mps, cuda_until_ms: None });
        }
        ProcCommand::Remove { pid } => {
            for gpu in &mut state.gpus {
                gpu.processes.retain(|p| p.pid != pid);
            }
        }
    }
    Ok(())
}

fn fault(state: &mut State, command: &FaultCommand) -> Answer<()> {
    let n_gpus = u32::try_from(state.gpus.len()).unwrap_or(0);
    let (FaultCommand::Clear { gpu, .. } | FaultCommand::Add { gpu, .. }) = *command;
    for index in gpu.map_or(0..n_gpus, |g| g..g.saturating_add(1)) {
        let faults = &mut state.gpu_mut(index)?.faults;
        match *command {
            FaultCommand::Clear { kind: None, .. } => faults.clear(),
            FaultCommand::Clear { kind: Some(kind), .. } => {
                let cleared = discriminant(&kind_of(kind, 0.0, 0, 0));
                faults.retain(|fault| discriminant(&fault.kind) != cleared);
            }
            FaultCommand::Add { kind, lasts, count, factor, watts, number, .. } => {
                let until =
                    |d: Duration| fault::now_ms() + u64::try_from(d.as_millis()).unwrap_or(u64::MAX / 2);
                let kind = kind_of(kind, factor, watts.unwrap_or(0), number);
                faults.push(Fault { kind, until_ms: lasts.map(until), remaining: count });
            }
        }
    }
    Ok(())
}

/// `factor`, `watts` and `number` are for the kinds that have one.
fn kind_of(kind: FaultKind, factor: f64, watts: u32, number: u32) -> Kind {
    match kind {
        FaultKind::BusyDestroy => Kind::BusyDestroy,
        FaultKind::OutOfResources => Kind::OutOfResources,
        FaultKind::NoPermission => Kind::NoPermission,
        FaultKind::ListTimeout => Kind::ListTimeout,
        FaultKind::GpuLost => Kind::GpuLost,
        FaultKind::Hidden => Kind::Hidden,
        FaultKind::Slow => Kind::Slow(factor),
        FaultKind::LimitRefused => Kind::LimitRefused,
        FaultKind::LimitIgnored => Kind::LimitIgnored,
        FaultKind::LimitChanged => Kind::LimitChanged(watts),
        FaultKind::LimitEnforcedLower => Kind::LimitEnforcedLower(watts),
        FaultKind::Xid => Kind::Xid(number),
        FaultKind::EccUncorrected => Kind::EccUncorrected(number.into()),
        FaultKind::RemapPending => Kind::RemapPending,
        FaultKind::RemapFailed => Kind::RemapFailed,
        FaultKind::Hot => Kind::Hot,
        FaultKind::NeedsReset => Kind::NeedsReset,
        FaultKind::LinkRecoveries => Kind::LinkRecoveries(number.into()),
    }
}

fn show(path: &Path, json: bool) -> Result<String, Failure> {
    let state = Store::new(path).read().map_err(|e| format!("{}: {e}", path.display()))?;
    if json {
        return serde_json::to_string_pretty(&*state).map(|t| t + "\n").map_err(|e| e.to_string());
    }
    let mut out = format!(
        "{} (driver {}), root {}\n",
        state.node.name,
        state.node.driver_version,
        state.root.display()
    );
    for (index, (gpu, spec)) in state.gpus.iter().zip(&state.node.gpus).enumerate() {
        let mode = |on: bool| if on { "on" } else { "off" };
        out += &format!("GPU {index}: {} {}, MIG {}", spec.name, spec.uuid, mode(gpu.mig));
        if gpu.mig != gpu.mig_pending {
            out += &format!(" (pending {})", mode(gpu.mig_pending));
        }
        out += &format!(
            ", {}, faults {:?}\n",
            match gpu.processes.iter().filter(|p| p.is_alive()).count() {
                1 => "1 process".to_owned(),
                n => format!("{n} processes"),
            },
            gpu.faults
        );
        for gi in &gpu.instances {
            let name = state.chip(u32::try_from(index).unwrap_or(0)).ok().and_then(|c| c.profile(gi.profile));
            let name = name.map_or("?", |p| p.base.name.as_str());
            out += &format!("  GI {} {name} at {}:{}\n", gi.id, gi.start, gi.size);
            for ci in &gi.cis {
                out += &format!("    CI {} at {}:{} {}\n", ci.id, ci.start, ci.size, ci.uuid);
            }
        }
    }
    Ok(out)
}
