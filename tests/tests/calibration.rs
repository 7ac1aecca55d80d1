//! `tessera lab power calibrate` measures a node's power model by jobs, whoever interrupts it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use common::builder;
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, User};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Neighbours in this list are workloads of the paper's Table 8.
const APPS: [&str; 6] = ["stream", "leukocyte", "kmeans", "needle", "lud", "hgemm"];
const WORKLOADS: [&str; 5] =
    ["stream+leukocyte", "leukocyte+kmeans", "kmeans+needle", "needle+lud", "lud+hgemm"];
const STATES: [&str; 4] = ["4c+3c", "3c+4c", "4g+3g", "3g+4g"];
const SETTINGS: usize = 6 + 6 * 5 + 6 * 4;

/// A calibration in a directory of Alice's.
struct Calibration<'c> {
    cluster: &'c Cluster,
    dir: PathBuf,
}

impl<'c> Calibration<'c> {
    /// The simulated A100's counters, and a list of programs that say themselves how long they took.
    fn new(cluster: &'c Cluster) -> Self {
        let dir = cluster.layout().jobs().join("calibration");
        let mut tessera = cluster.command(User::Alice, "tessera").unwrap();
        tessera.args(["power", "simulate", "--figure", "4", "--noise", "0", "--calibration"]).arg(&dir);
        run(&mut tessera).unwrap().ok().unwrap();
        let all = Self { cluster, dir };
        all.list(|app| {
            let seconds = "awk '/ done: / { print $6 / $3 }' \"$TESSERA_SECONDS.said\" >\"$TESSERA_SECONDS\"";
            format!("nvml-sim work --app {app} --iterations 1 >\"$TESSERA_SECONDS.said\" && {seconds}")
        });
        all
    }

    fn list(&self, command: impl Fn(&str) -> String) {
        let lines: String = APPS.iter().map(|app| format!("{app},2,{}\n", command(app))).collect();
        fs::write(self.dir.join("apps.csv"), format!("app,seconds,command\n{lines}")).unwrap();
    }

    fn at(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn start(&self, out: &str, caps: &str) -> Child {
        let mut tessera = self.cluster.command(User::Alice, "tessera").unwrap();
        let (apps, counters, out) = (self.at("apps.csv"), self.at("counters.csv"), self.at(out));
        tessera.args(["power", "calibrate", "--apps", &apps, "--counters", &counters, "--out", &out]);
        tessera.args(["--node", "n1", "--design", "small", "--caps", caps, "--gpus", "0-3"]);
        tessera.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What it measured, line by line.
    fn measured(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("out/runs.csv")).unwrap_or_default();
        text.split_inclusive('\n').skip(1).filter_map(|l| Some(l.strip_suffix('\n')?.to_owned())).collect()
    }

    /// Waits until the calibration has measured so many. If it ends before, says why.
    fn wait_measured(&self, of: &mut Child, least: usize) -> Result<Vec<String>, String> {
        wait_for(&format!("{least} measured settings"), 3 * PATIENCE, || {
            let lines = self.measured();
            match of.try_wait().unwrap() {
                _ if lines.len() >= least => Ok(Ok(lines)),
                Some(status) => {
                    let mut said = String::new();
                    of.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                    Ok(Err(format!("{status}: {said}")))
                }
                None => Err(format!("{lines:?}")),
            }
        })
        .unwrap()
    }

    /// A job as one that sbatch has submitted for a setting in the moment of a SIGKILL, so that nobody has noted it. It holds the
    /// first GPU, and does not end by itself.
    fn unnoted(&self, setting: usize) -> String {
        let attempt = self.dir.join(format!("out/work/{setting:04}-1"));
        let mut make = self.cluster.command(User::Alice, "mkdir").unwrap();
        run(make.arg(&attempt)).unwrap().ok().unwrap();
        let output = format!("--output={}", attempt.join("0.out").display());
        let mut sbatch = self.cluster.command(User::Alice, "sbatch").unwrap();
        sbatch.args(["--parsable", "--nodelist=n1", "--exclusive=user", &output, "--wrap=sleep 600"]);
        sbatch.args(["--gpu-isolation=mig:7g.40gb", "--gpu-place=0@0"]);
        let job = run(&mut sbatch).unwrap().ok().unwrap().trim().to_owned();
        wait_for("the job that nobody has noted", PATIENCE, || match self.state(&job).as_str() {
            "RUNNING" => Ok(()),
            other => Err(other.to_owned()),
        })
        .unwrap();
        job
    }

    fn state(&self, job: &str) -> String {
        let shown = self.cluster.run(User::Alice, "squeue", &["-h", "-t", "all", "-o", "%T", "-j", job]);
        shown.unwrap().ok().unwrap().trim().to_owned()
    }

    /// Jobs that Slurm has seen, by their number.
    fn jobs(&self) -> usize {
        let attempts = fs::read_dir(self.dir.join("out/work")).unwrap();
        attempts
            .map(|dir| {
                fs::read_to_string(dir.unwrap().path().join("jobs")).unwrap_or_default().lines().count()
            })
            .sum()
    }
}

/// Status and what was said.
fn end(child: Child) -> (Option<i32>, String, String) {
    let out = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Relative performance of runs, by configuration, as `tessera lab power simulate` has them.
fn truths(file: &Path) -> Vec<(String, String, Vec<f64>)> {
    let text = fs::read_to_string(file).unwrap();
    let one = |line: &str| {
        let [state, "150", apps, rperf] = line.split(',').collect::<Vec<_>>()[..] else { return None };
        let rperf = rperf.split('+').map(|r| r.parse().unwrap()).collect();
        Some((state.to_owned(), apps.to_owned(), rperf))
    };
    text.lines().filter_map(one).collect()
}

/// The mean error of what the model predicts for the throughput of the workloads, against the simulator's own.
fn error(all: &Calibration<'_>) -> f64 {
    let truths = truths(&all.dir.join("runs.csv"));
    let mut errors = Vec::new();
    for workload in WORKLOADS {
        let (model, counters) = (all.at("out/a100-40gb.json"), all.at("out/counters.csv"));
        let apps = workload.replace('+', ",");
        let mut tessera = all.cluster.command(User::Alice, "tessera").unwrap();
        tessera.args(["power", "choose", "--power-model", &model, "--counters", &counters, "--apps", &apps]);
        let said = run(tessera.args(["--guard", "off", "--all", "--json", "--cap", "150"])).unwrap();
        let choice: Value = serde_json::from_str(&said.ok().unwrap()).unwrap();
        for candidate in choice["candidates"].as_array().unwrap() {
            let state = candidate["state"].as_str().unwrap();
            assert!(STATES.contains(&state), "{choice}");
            let predicted = candidate["throughput"].as_f64().unwrap();
            // Table 8 names some of them the other way round.
            let (turned_state, turned) = (reversed(state), reversed(workload));
            let truth = truths.iter().find(|(of, apps, _)| {
                (of == state && apps == workload) || (*of == turned_state && *apps == turned)
            });
            let truth: f64 = truth.unwrap_or_else(|| panic!("{state} {workload}")).2.iter().sum();
            errors.push((predicted - truth).abs() / truth);
        }
    }
    assert_eq!(errors.len(), WORKLOADS.len() * STATES.len());
    errors.iter().sum::<f64>() / f64::from(u32::try_from(errors.len()).unwrap())
}

fn reversed(joined: &str) -> String {
    joined.split('+').rev().collect::<Vec<_>>().join("+")
}

#[test]
fn a_calibration_goes_on_after_every_interruption_and_its_model_predicts_the_simulator() {
    let cluster = builder().start().unwrap();
    // The simulator's speeds are relative to a board of 250 W.
    let file = cluster.layout().etc("tessera.toml");
    let site = fs::read_to_string(&file).unwrap();
    fs::write(&file, site.replace("names = \"n1\"\n", "names = \"n1\"\ncap_w = 250\n")).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    let all = Calibration::new(&cluster);

    let mut killed = all.start("out", "150");
    let first = all.wait_measured(&mut killed, 8).unwrap();
    send(&killed, Signal::KILL);
    killed.wait().unwrap();
    let unnoted = all.unnoted(SETTINGS - 1);

    let mut interrupted = all.start("out", "150");
    let second = all.wait_measured(&mut interrupted, first.len() + 8).unwrap();
    assert_eq!(second[..first.len()], first);
    assert_eq!(all.state(&unnoted), "CANCELLED");
    send(&interrupted, Signal::INT);
    let (status, _, said) = end(interrupted);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("are measured already") && said.contains("interrupted: "), "{said}");
    let done = all.measured();
    cluster.wait_idle().unwrap();

    let (status, model, said) = end(all.start("out", "150"));
    assert_eq!(status, Some(0), "{model}{said}");
    let last = all.measured();
    assert_eq!(last[..done.len()], done);
    let settings: BTreeSet<&str> = last.iter().map(|line| line.rsplit_once(',').unwrap().0).collect();
    assert_eq!((last.len(), settings.len()), (SETTINGS, SETTINGS), "{last:?}");
    // Of four GPUs at most four settings are measured anew after Ctrl-C, and after kill -9 only one whose job was not noted.
    let needed = SETTINGS + 6 * 4;
    assert!((needed..=needed + 2 * 4 * 2).contains(&all.jobs()), "{} jobs", all.jobs());
    assert!(model.starts_with("model         a100-40gb"), "{model}");
    let wrong = error(&all);
    eprintln!("mean error of the predicted throughput: {:.1} %\n{model}", 100.0 * wrong);
    assert!(wrong < 0.25, "{wrong}: {last:#?}");

    // Called again, it has nothing to measure; for other caps it wants another directory.
    let (status, again, _) = end(all.start("out", "150"));
    assert_eq!((status, again.lines().next()), (Some(0), model.lines().next()));
    let (status, _, said) = end(all.start("out", "200"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("has a calibration of caps_w [150], not [200]"), "{said}");

    // What goes wrong on the node is said, and leaves no job behind.
    let (status, _, said) = end(all.start("low", "50"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("50 W is refused on n1") && said.contains("it takes 100 to 400 W"), "{said}");
    all.list(|app| if app == "needle" { "echo no input; exit 3".to_owned() } else { "sleep 1".to_owned() });
    let (status, _, said) = end(all.start("failing", "150"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("needle failed in job ") && said.contains("exit status 3"), "{said}");
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}
