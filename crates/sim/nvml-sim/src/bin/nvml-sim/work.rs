//! `nvml-sim work`: stands for a CUDA program.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use nvidia_ml::engine::code::Code;
use nvidia_ml::engine::cuda;
use nvidia_ml::engine::process::{Process, start_time};
use nvidia_ml::engine::session::Session;
use nvidia_ml::engine::state::State;
use nvidia_ml::engine::worker::Worker;

use super::{Failure, duration};

#[derive(Args)]
pub(super) struct WorkArgs {
    /// The application of Arima et al., Table 7: hgemm, stream, …
    #[arg(long, value_name = "NAME")]
    app: String,
    /// End after this time: 30s, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    lasts: Option<Duration>,
    /// End after so many iterations
    #[arg(long, value_name = "N")]
    iterations: Option<f64>,
    /// Print the rate this often
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    every: Duration,
    /// Memory that it holds on each device, MiB
    #[arg(long, value_name = "M", default_value_t = 512)]
    memory_mib: u64,
    /// MB/s that each of its GPUs sends to the next one, over NVLink where there is one and else over PCIe
    #[arg(long, value_name = "R", default_value_t = 0)]
    link_mbps: u32,
}

/// How often the speed is asked for.
const TICK: Duration = Duration::from_millis(40);

pub(super) fn run(path: &Path, args: &WorkArgs) -> Result<String, Failure> {
    let app = physics::find(&args.app).ok_or_else(|| {
        let known: Vec<&str> = physics::apps().iter().map(|app| app.name).collect();
        format!("no application {:?}; known: {}", args.app, known.join(", "))
    })?;
    let session = Session::at(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let variable = std::env::var(cuda::VISIBLE_DEVICES).ok();
    let devices = cuda::devices(&session, variable.as_deref())
        .map_err(|e| format!("{}: {e}", cuda::VISIBLE_DEVICES))?;
    let pid = std::process::id();
    let started = start_time(pid).ok_or("this process is not in /proc")?;
    let mps = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").is_some();
    let worker = |device: &cuda::Device| Worker {
        process: Process {
            pid,
            started,
            gi: device.gi,
            ci: device.ci,
            memory_mib: args.memory_mib,
            mps,
            cuda_until_ms: None,
        },
        gpu: device.gpu,
        app: app.name.to_owned(),
        link_mbps: args.link_mbps,
    };
    let workers: Vec<Worker> = devices.iter().map(worker).collect();
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: Code| format!("{what}: {e}")
    };
    let registered = session.store().register(&workers).map_err(failed("cannot open the devices"))?;
    let mut progress = Progress { app: app.name, begun: Instant::now(), done: 0.0, rate: 0.0, alone: 1.0 };
    let (mut printed, mut last) = (progress.begun, progress.begun);
    loop {
        let state = session.state().map_err(failed("the driver is gone"))?;
        for device in &devices {
            device.alive(&session, &state).map_err(failed(&format!("GPU {}", device.gpu)))?;
        }
        let of = |device: &cuda::Device| speed(&state, device.gpu, pid);
        progress.rate = devices.iter().map(of).sum::<Result<f64, Code>>().map_err(failed("no speed"))?;
        progress.alone = state.speed_alone(devices[0].gpu, app).map_err(failed("no speed"))?;
        session.store().integrate(&state).map_err(failed("cannot integrate energy"))?;
        std::thread::sleep(progress.rest(args).min(TICK));
        progress.add(last.elapsed());
        last = Instant::now();
        if progress.rest(args).is_zero() {
            break;
        }
        if printed.elapsed() >= args.every {
            printed = Instant::now();
            let line = progress.line(&state, &devices).map_err(failed("no speed"))?;
            // A reader that went away ends the program, as SIGPIPE would.
            write!(std::io::stdout(), "{line}").map_err(|e| e.to_string())?;
        }
    }
    let state = session.state().map_err(failed("the driver is gone"))?;
    session.store().integrate(&state).map_err(failed("cannot integrate energy"))?;
    drop(registered);
    Ok(progress.summary())
}

fn speed(state: &State, gpu: u32, pid: u32) -> Result<f64, Code> {
    let load = state.load(gpu)?;
    load.speeds.iter().find(|(of, _)| *of == pid).map(|(_, speed)| *speed).ok_or(Code::NotFound)
}

struct Progress {
    app: &'static str,
    begun: Instant,
    /// Iterations.
    done: f64,
    /// Iterations per second now.
    rate: f64,
    /// Iterations per second alone on one GPU, without MIG and a lower limit.
    alone: f64,
}

impl Progress {
    /// Counts a moment at the present rate.
    fn add(&mut self, moment: Duration) {
        self.done += self.rate * moment.as_secs_f64();
    }

    /// Until the time is over or the iterations are done at the present rate.
    fn rest(&self, args: &WorkArgs) -> Duration {
        let time = args.lasts.map_or(Duration::MAX, |lasts| lasts.saturating_sub(self.begun.elapsed()));
        let work = args.iterations.map_or(Duration::MAX, |wanted| {
            Duration::try_from_secs_f64(((wanted - self.done) / self.rate).max(0.0)).unwrap_or(Duration::MAX)
        });
        time.min(work)
    }

    fn line(&self, state: &State, devices: &[cuda::Device]) -> Result<String, Code> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let mut gpus: Vec<u32> = devices.iter().map(|device| device.gpu).collect();
        gpus.dedup();
        let mut text = format!(
            "{} {seconds:.1} s: {:.3} iterations/s, {:.3} of its speed alone",
            self.app,
            self.rate,
            self.rate / self.alone
        );
        for gpu in gpus {
            let load = state.load(gpu)?;
            let (watts, limit) = (load.power_mw / 1000, state.enforced_limit(gpu)? / 1000);
            text += &format!("; GPU {gpu} at {} MHz, {watts} W of {limit} W", load.clock_mhz);
        }
        Ok(text + "\n")
    }

    fn summary(&self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = self.done / seconds;
        format!(
            "{} done: {:.3} iterations in {seconds:.3} s, {rate:.3} iterations/s, {:.3} of its speed alone\n",
            self.app,
            self.done,
            rate / self.alone
        )
    }
}
