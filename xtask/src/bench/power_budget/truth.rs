//! Performance of each workload in each state and under each cap, and a model's prediction of it.

use std::collections::BTreeMap;
use std::fs;

use lab::{Cluster, User};
use serde_json::Value;

use super::{CAP_W, GPUS, RACKS, tessera};
use crate::command::{TaskError, at};

/// The workloads of Table 8 on a simulated A100.
pub(super) struct Truth {
    /// The two applications of each, as `--apps` takes them.
    workloads: Vec<String>,
    known: Known,
}

/// Throughput and the lower of both speeds, by applications as `--apps` takes them, state and cap.
type Known = BTreeMap<(String, String, u32), (f64, f64)>;

/// Paths of the files that the commands read.
struct Files {
    counters: String,
    model: String,
}

impl Truth {
    /// Simulates all co-runs, and fits a model to them.
    pub(super) fn simulated(cluster: &Cluster) -> Result<Self, TaskError> {
        let path = lab::paths::workspace().join("crates/power/power-study/data/table8.csv");
        let table = at(&path, fs::read_to_string(&path))?;
        let rows = table.lines().filter(|line| !line.starts_with('#')).skip(1);
        let workloads = rows.filter_map(|line| Some(line.split_once(',')?.1.to_owned())).collect();
        let dir = |name: &str| cluster.layout().jobs().join(name).display().to_string();
        let simulate = |args: &[&str]| {
            let all = [&["power", "simulate", "--figure", "4", "--calibration"], args].concat();
            cluster.run(User::Root, "tessera", &all)?.ok()
        };
        // What is measured has errors, what is true has none.
        simulate(&[&dir("."), "--noise", "0.01"])?;
        simulate(&[&dir("true"), "--noise", "0"])?;
        let path = cluster.layout().jobs().join("true/runs.csv");
        let known = together(&at(&path, fs::read_to_string(&path))?);
        let truth = Self { workloads, known };
        let files = files(cluster);
        let runs = cluster.layout().jobs().join("runs.csv").display().to_string();
        let fit = ["power", "fit", &files.counters, &runs, "--gpu", "a100-40gb", "--out", &files.model];
        cluster.run(User::Root, "tessera", &fit)?.ok()?;
        Ok(truth)
    }

    pub(super) fn workloads(&self) -> usize {
        self.workloads.len()
    }

    /// The caps with the highest throughput per watt, as the model sees it.
    pub(super) fn most_efficient(&self, cluster: &Cluster) -> Result<Vec<Option<u32>>, TaskError> {
        let one = |apps: &String| Ok(Some(chosen(cluster, apps, None)?.1));
        self.workloads.iter().map(one).collect()
    }

    /// The sum of the throughputs under these caps, in the states that the model chooses. `None`: it waits.
    pub(super) fn throughput(&self, cluster: &Cluster, caps: &[Option<u32>]) -> Result<f64, TaskError> {
        let mut sum = 0.0;
        for (apps, cap) in self.workloads.iter().zip(caps) {
            let Some(cap) = cap.and_then(|cap| self.caps().into_iter().rev().find(|known| *known <= cap))
            else {
                continue;
            };
            let (state, _) = chosen(cluster, apps, Some(cap))?;
            sum += self.of(apps, &state, cap)?;
        }
        Ok(sum)
    }

    /// The sum of the throughputs where `tessera lab power divide` says who has what.
    pub(super) fn divided(&self, cluster: &Cluster, budget_w: u32) -> Result<f64, TaskError> {
        let gpus = RACKS.into_iter().flat_map(|rack| (0..GPUS).map(move |gpu| format!("{rack}:{gpu}")));
        let lines =
            gpus.zip(&self.workloads).map(|(gpu, apps)| format!("{gpu} {}\n", apps.replace(',', "+")));
        let path = cluster.layout().jobs().join("groups");
        at(&path, fs::write(&path, lines.collect::<String>()))?;
        let (files, groups, budget) = (files(cluster), path.display().to_string(), budget_w.to_string());
        let args = [
            "power",
            "divide",
            "--power-model",
            &files.model,
            "--counters",
            &files.counters,
            "--guard",
            "off",
        ];
        let said = tessera(cluster, &[&args[..], &["--budget", &budget, "--groups", &groups]].concat())?;
        let mut sum = 0.0;
        for (gpu, apps) in said["gpus"].as_array().into_iter().flatten().zip(&self.workloads) {
            let (state, cap) = state_and_cap(gpu)?;
            sum += self.of(apps, &state, cap)?;
        }
        Ok(sum)
    }

    /// The highest throughput of each workload under each cap up to [`CAP_W`], where both applications keep more than 0.2.
    pub(super) fn best_under(&self) -> Vec<Vec<(u32, f64)>> {
        let under = |apps: &str, cap: u32| {
            let of = self.known.iter().filter(|((of, _, at), _)| of == apps && *at == cap);
            of.filter(|(_, (_, least))| *least > 0.2).map(|(_, (sum, _))| *sum).fold(0.0, f64::max)
        };
        let all = |apps: &String| self.caps().iter().map(|cap| (*cap, under(apps, *cap))).collect();
        self.workloads.iter().map(all).collect()
    }

    /// All caps, ascending.
    fn caps(&self) -> Vec<u32> {
        let mut caps: Vec<u32> =
            self.known.keys().map(|(_, _, cap)| *cap).filter(|cap| *cap <= CAP_W).collect();
        caps.sort_unstable();
        caps.dedup();
        caps
    }

    fn of(&self, apps: &str, state: &str, cap: u32) -> Result<f64, TaskError> {
        let known = self.known.get(&(apps.to_owned(), state.to_owned(), cap)).map(|(sum, _)| *sum);
        known.ok_or_else(|| TaskError::Other(format!("nothing is known of {apps} on {state} at {cap} W")))
    }
}

/// The co-runs among runs, as `tessera lab power fit` takes them: `4c+3c,150,hgemm+lud,0.5+0.6`.
fn together(runs: &str) -> Known {
    let run = |line: &str| {
        let mut fields = line.split(',');
        let (state, cap, apps, speeds) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let speeds: Vec<f64> = speeds.split('+').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [a, b] = speeds[..] else { return None };
        Some(((apps.replace('+', ","), state.to_owned(), cap.parse().ok()?), (a + b, a.min(b))))
    };
    runs.lines().filter_map(run).collect()
}

fn files(cluster: &Cluster) -> Files {
    let path = |name: &str| cluster.layout().jobs().join(name).display().to_string();
    Files { counters: path("counters.csv"), model: path("model.json") }
}

/// The state and the cap that the model chooses: under `cap`, or the most efficient.
fn chosen(cluster: &Cluster, apps: &str, cap: Option<u32>) -> Result<(String, u32), TaskError> {
    let files = files(cluster);
    let cap = cap.map(|watts| watts.to_string());
    let mut args = vec!["power", "choose", "--power-model", &files.model, "--counters", &files.counters];
    args.extend(["--guard", "off", "--apps", apps]);
    args.extend(cap.iter().flat_map(|watts| ["--cap", watts.as_str()]));
    state_and_cap(&tessera(cluster, &args)?)
}

fn state_and_cap(value: &Value) -> Result<(String, u32), TaskError> {
    let pair = || Some((value["state"].as_str()?.to_owned(), u32::try_from(value["cap_w"].as_u64()?).ok()?));
    pair().ok_or_else(|| TaskError::Other(format!("no state and cap in {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_runs_are_read() {
        let known = together("state,cap_w,apps,rperf\n4c,150,hgemm,0.7\n4c+3c,150,hgemm+lud,0.5+0.25\n");
        let key = ("hgemm,lud".to_owned(), "4c+3c".to_owned(), 150);
        assert_eq!(known, Known::from([(key, (0.75, 0.25))]));
    }
}
