//! Figures 9 and 11 of Arima et al. through Slurm: the planner pairs two waiting jobs by the power model, the node sets part
//! and cap, and simulated programs run at the speed that these give. Beside each figure stands what `tessera lab power simulate`
//! says of the same choice.
//!
//! A speed is the mean of the rates that a program prints while both run, relative to its rate alone on a whole GPU at 250 W.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::command::{run, wait_for};
use lab::config::Templates;
use lab::{Cluster, JobId, User};
use serde_json::Value;

use super::Bench;
use super::stats::Spread;
use super::table::{Reference, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};

const NODE: &str = "[[nodes]]\nnames = \"g1\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";
/// Three workloads of Table 8, six applications of all four classes.
const WORKLOADS: [(&str, [&str; 2]); 3] =
    [("TI-MI2", ["igemm4", "stream"]), ("CI-US2", ["dgemm", "dwt2d"]), ("MI-US1", ["leukocyte", "kmeans"])];
/// Figure, objective, its cap in W, alpha.
const FIGURES: [(u8, &str, u16, f64); 3] =
    [(11, "efficiency", 250, 0.2), (11, "efficiency", 250, 0.42), (9, "throughput", 230, 0.2)];
/// How many rates of each program are averaged.
const RATES: usize = 20;
/// How long a step may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

struct Live {
    cluster: Cluster,
    /// tessera.toml without what a figure sets.
    site: String,
    dir: PathBuf,
}

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let builder = Cluster::builder().templates(Templates::for_nodes(NODE)?).guardian(guardian()?);
    let cluster = if bench.debug { builder } else { builder.release() }.start()?;
    let file = cluster.layout().etc("tessera.toml");
    let site = at(&file, fs::read_to_string(&file))?;
    let dir = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let live = Live { cluster, site, dir };
    live.calibrate()?;
    let mut alone: Vec<[f64; 2]> = Vec::new();
    let mut rows = Vec::new();
    for (figure, objective, cap_w, alpha) in FIGURES {
        live.configure(objective, cap_w, alpha)?;
        if alone.is_empty() {
            // The highest cap comes first.
            for (_, apps) in WORKLOADS {
                alone.push([live.alone(apps[0])?, live.alone(apps[1])?]);
            }
        }
        let simulated = live.simulated(figure)?;
        for ((name, apps), alone) in WORKLOADS.iter().zip(&alone) {
            eprintln!("bench: power-live: figure {figure}, {name}, alpha {alpha}");
            rows.push(live.row(figure, alpha, name, *apps, *alone, &simulated)?);
        }
    }
    Ok(rows)
}

/// Two jobs beside each other.
struct Pair {
    state: String,
    cap_w: f64,
    /// Iterations per second.
    rates: [f64; 2],
}

impl Live {
    fn tessera(&self, args: &[&str]) -> Result<String, TaskError> {
        let mut command = self.cluster.command(User::Root, "tessera")?;
        Ok(run(command.args(args))?.ok()?)
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// The paper's basis on the simulated A100's runs, as `simulate` fits it.
    fn calibrate(&self) -> Result<(), TaskError> {
        let dir = self.dir.display().to_string();
        self.tessera(&["power", "simulate", "--figure", "4", "--calibration", &dir])?;
        let [counters, runs, model] = ["counters.csv", "runs.csv", "a100.json"].map(|name| self.path(name));
        let gpu = ["--gpu", "a100-40gb", "--basis", "arima2022", "--out", &model];
        self.tessera(&[&["power", "fit", &counters, &runs][..], &gpu].concat())?;
        Ok(())
    }

    /// The plain rule, as `simulate` has it.
    fn configure(&self, objective: &str, cap_w: u16, alpha: f64) -> Result<(), TaskError> {
        let node = format!("names = \"g1\"\npower_model = \"a100.json\"\ncap_w = {cap_w}\n");
        let power = format!(
            "[power]\nobjective = \"{objective}\"\nalpha = {alpha}\nguard = false\ncounters = \"counters.csv\"\n\
             stretch_limits = true\n"
        );
        let file = self.dir.join("tessera.toml");
        at(&file, fs::write(&file, format!("{}\n{power}", self.site.replace("names = \"g1\"\n", &node))))?;
        self.cluster.run(User::Root, "scontrol", &["reconfigure"])?.ok()?;
        Ok(())
    }

    fn submit(&self, options: &[&str], app: &str) -> Result<JobId, TaskError> {
        let script = format!("exec nvml-sim work --app {app} --every 250ms");
        Ok(self.cluster.sbatch(User::Alice, options, &script)?)
    }

    fn cancel(&self, jobs: &[JobId]) -> Result<(), TaskError> {
        for job in jobs {
            self.cluster.run(User::Root, "scancel", &[&job.to_string()])?;
        }
        Ok(self.cluster.wait_idle()?)
    }

    /// The rates that a job has printed, iterations per second.
    fn rates(&self, job: JobId) -> Vec<f64> {
        let rate = |line: &str| line.split_once(" s: ")?.1.split(' ').next()?.parse().ok();
        self.cluster.output(job).lines().filter_map(rate).collect()
    }

    /// The mean of the next rates of all these jobs.
    fn measured(&self, jobs: &[JobId]) -> Result<Vec<f64>, TaskError> {
        let wait = |what: &str, enough: &dyn Fn() -> bool| {
            wait_for(what, LIMIT, || if enough() { Ok(()) } else { Err("not yet".to_owned()) })
        };
        wait("the programs to compute", &|| jobs.iter().all(|job| self.rates(*job).len() > 4))?;
        let before: Vec<usize> = jobs.iter().map(|job| self.rates(*job).len()).collect();
        wait("their rates", &|| {
            jobs.iter().zip(&before).all(|(job, before)| self.rates(*job).len() >= before + RATES)
        })?;
        let mean = |(job, before): (&JobId, &usize)| {
            let rates: Vec<f64> = self.rates(*job).into_iter().skip(*before).take(RATES).collect();
            rates.iter().sum::<f64>() / f64::from(u32::try_from(rates.len().max(1)).unwrap_or(1))
        };
        Ok(jobs.iter().zip(&before).map(mean).collect())
    }

    fn alone(&self, app: &str) -> Result<f64, TaskError> {
        let job = self.submit(&["--gpu-isolation=whole", "--gpus-per-node=1", "--gpu-power=250"], app)?;
        let rate = self.measured(&[job])?[0];
        self.cancel(&[job])?;
        Ok(rate)
    }

    /// Both wait for a GPU, the planner pairs them, and then the GPU comes free.
    fn pair(&self, apps: [&str; 2]) -> Result<Pair, TaskError> {
        let full = ["--gpu-isolation=whole", "--gpus-per-node=1"];
        let before = self.cluster.sbatch(User::Bob, &full, "sleep 600")?;
        self.cluster.wait_running(before)?;
        let submit = |app| {
            let name = format!("--gpu-app={app}");
            self.submit(&[&name, "--gpu-mem=15G", "--time=60"], app)
        };
        let jobs = [submit(apps[0])?, submit(apps[1])?];
        let said = self.tessera(&["planner", "--once"])?;
        self.cluster.run(User::Root, "scancel", &[&before.to_string()])?;
        for job in jobs {
            self.cluster.wait_running(job)?;
        }
        let rates = self.measured(&jobs)?;
        let mut parts = Vec::new();
        let mut cap_w = 0.0;
        for job in jobs {
            let args = ["-h", "-t", "all", "-O", "admin_comment:1000", &format!("--jobs={job}")];
            let comment = self.cluster.run(User::Root, "squeue", &args)?.ok()?;
            let (part, watts) = granted(&comment)
                .ok_or_else(|| TaskError::Other(format!("not paired: {}: {said}", comment.trim())))?;
            parts.push(part);
            cap_w = watts;
        }
        self.cancel(&jobs)?;
        Ok(Pair { state: parts.join("+"), cap_w, rates: [rates[0], rates[1]] })
    }

    fn simulated(&self, figure: u8) -> Result<Value, TaskError> {
        let json = self.tessera(&["power", "simulate", "--figure", &figure.to_string(), "--json"])?;
        serde_json::from_str(&json).map_err(|e| TaskError::Other(format!("tessera lab power simulate: {e}")))
    }

    fn row(
        &self,
        figure: u8,
        alpha: f64,
        name: &str,
        apps: [&str; 2],
        alone: [f64; 2],
        simulated: &Value,
    ) -> Result<Row, TaskError> {
        let pair = self.pair(apps)?;
        let throughput = pair.rates[0] / alone[0] + pair.rates[1] / alone[1];
        let is_it = |row: &&Value| {
            row["workload"] == name && row["alpha"].as_f64().is_some_and(|a| (a - alpha).abs() < 1e-9)
        };
        let row = simulated["rows"].as_array().and_then(|rows| rows.iter().find(is_it));
        let row = row.ok_or_else(|| TaskError::Other(format!("figure {figure} has no {name}")))?;
        let proposal = row["proposal"].as_f64().unwrap_or(f64::NAN);
        let (unit, ours, reference) = match figure {
            9 => ("% of alone", 100.0 * throughput, 100.0 * proposal),
            _ => ("% per 100 W", 10_000.0 * throughput / pair.cap_w, 10_000.0 * proposal),
        };
        let case = format!(
            "figure {figure}, alpha {alpha}, {name}: {} at {} W; simulated {} at {} W",
            pair.state,
            pair.cap_w,
            row["state"].as_str().unwrap_or("-"),
            row["cap_w"],
        );
        let spread = |value| Spread::of(&[value]).ok_or_else(|| TaskError::Other("no rate".to_owned()));
        let reference = Reference::Measured("simulate".to_owned(), spread(reference)?);
        Ok(Row { bench: "power-live", case, unit, ours: spread(ours)?, reference })
    }
}

/// The part and the cap in an AdminComment such as `tessera: g1=mig:0/7g.40gb@0/4c@0/mem=14306/cap=190 …`.
fn granted(comment: &str) -> Option<(String, f64)> {
    let got = comment.split_once("=mig:")?.1.split([' ', ':']).next()?;
    let cap_w = got.split_once("/cap=")?.1.parse().ok()?;
    let sizes: Vec<&str> = got.split('/').filter_map(|word| Some(word.split_once('@')?.0)).collect();
    let part = sizes.last()?.split('.').next()?;
    Some((part.to_owned(), cap_w))
}

#[cfg(test)]
mod tests {
    use super::granted;

    #[test]
    fn part_and_cap_are_read() {
        let shared = "tessera: g1=mig:0/7g.40gb@0/4c@0/mem=14306/cap=190 job-profile=bert low=74: why";
        assert_eq!(granted(shared), Some(("4c".to_owned(), 190.0)));
        assert_eq!(granted("tessera: g1=mig:0/3g.20gb@4/cap=150: why"), Some(("3g".to_owned(), 150.0)));
        assert_eq!(granted("tessera: g1=whole:0: why"), None);
    }
}
