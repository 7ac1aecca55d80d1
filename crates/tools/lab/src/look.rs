//! Reads what a cluster's nodes and jobs have.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::Standing;
use protocol::node_word::split;

use crate::cluster::Cluster;
use crate::command::{Done, PATIENCE, run};
use crate::error::{HarnessError, at};
use crate::jobs::JobId;
use crate::process::leftovers;
use crate::user::User;

/// How long a slurmd may take to say that it loads Tessera.
const SPOKEN: Duration = Duration::from_secs(60);
const STEP_DAEMON: &str = "slurmstepd";
/// Names that a node without jobs does not have.
const LASTING: [&str; 3] = ["nvidia-cuda-mps", "tessera-broker", STEP_DAEMON];

impl Cluster {
    /// The layout line of each node, as the controller publishes it, without the node's word.
    ///
    /// # Errors
    ///
    /// If sinfo fails.
    pub fn published_layouts(&self) -> Result<Vec<(String, String)>, HarnessError> {
        let own = |(node, extra): (String, String)| (node, split(&extra).0.to_owned());
        Ok(self.extras()?.into_iter().map(own).collect())
    }

    /// How the controller judges what each node says of itself; nodes without a word are left out.
    ///
    /// # Errors
    ///
    /// If sinfo fails.
    pub fn standings(&self) -> Result<Vec<(String, Standing)>, HarnessError> {
        let judged = |(node, extra): (String, String)| Some((node, split(&extra).1?.standing()?));
        Ok(self.extras()?.into_iter().filter_map(judged).collect())
    }

    /// The `extra` of each node.
    fn extras(&self) -> Result<Vec<(String, String)>, HarnessError> {
        let out = self.run(User::Root, "sinfo", &["-h", "-N", "-O", "nodelist:64,extra:16000"])?.ok()?;
        let split = |line: &str| {
            let (node, layout) = line.split_once(' ')?;
            Some((node.to_owned(), layout.trim().to_owned()))
        };
        Ok(out.lines().filter_map(split).collect())
    }

    /// Indices of the GPUs that Slurm gave a job on its one node.
    ///
    /// # Errors
    ///
    /// If scontrol fails.
    pub fn gpus_of(&self, id: JobId) -> Result<Vec<u32>, HarnessError> {
        let out = self.run(User::Root, "scontrol", &["-d", "-o", "show", "job", &id.to_string()])?.ok()?;
        // One entry per type of GPU: GRES=gpu:a:1(IDX:0),gpu:b:1(IDX:4)
        let gres = out.split_once(" GRES=gpu").map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
        let lists = gres.unwrap_or_default().split("(IDX:").skip(1).filter_map(|rest| rest.split(')').next());
        Ok(lists.flat_map(index_list).collect())
    }

    /// NVLinks among a set of GPUs of `node`, by the `Links` of gres.conf.
    ///
    /// # Errors
    ///
    /// If gres.conf cannot be read.
    pub fn links_within(&self, node: &str, gpus: &[u32]) -> Result<u32, HarnessError> {
        let path = self.layout().etc("gres.conf");
        let text = at(&path, fs::read_to_string(&path))?;
        let own = format!("NodeName={node} ");
        let rows: Vec<Vec<i32>> = text
            .lines()
            .filter(|line| line.starts_with(&own))
            .filter_map(|line| line.split_once("Links="))
            .map(|(_, links)| links.split(',').filter_map(|link| link.trim().parse().ok()).collect())
            .collect();
        let link = |a: u32, b: u32| -> u32 {
            let row = rows.get(a as usize);
            row.and_then(|row| row.get(b as usize)).map_or(0, |links| u32::try_from(*links).unwrap_or(0))
        };
        let pairs = gpus.iter().enumerate().flat_map(|(i, a)| gpus[i + 1..].iter().map(move |b| (*a, *b)));
        Ok(pairs.map(|(a, b)| link(a, b)).sum())
    }

    /// Lists what must not exist when no job runs: journal entries, MPS daemons, step daemons. One line each.
    ///
    /// # Errors
    ///
    /// If a node's directory cannot be read.
    pub fn leftovers(&self) -> Result<Vec<String>, HarnessError> {
        let begin = Instant::now();
        let mut left = self.journal_entries()?;
        // Whoever works on a node, as its health check does, writes a temporary file first, and takes it back.
        while left.iter().any(|(_, path)| is_hidden(path)) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            left = self.journal_entries()?;
        }
        let mut left: Vec<String> =
            left.into_iter().map(|(node, path)| format!("{node}: journal {}", path.display())).collect();
        // Slurm reports a step daemon as ended slightly before its process ends.
        let begin = Instant::now();
        let mut processes = self.left_processes();
        while processes.iter().any(|line| line.ends_with(STEP_DAEMON)) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            processes = self.left_processes();
        }
        left.extend(processes);
        Ok(left)
    }

    /// The node and path of each file of a journal: of jobs, of MPS daemons, and those that could not be read.
    fn journal_entries(&self) -> Result<Vec<(String, PathBuf)>, HarnessError> {
        let mut found = Vec::new();
        for node in self.nodes() {
            for kind in ["jobs", "daemons", "bad"] {
                let files = files_in(&self.layout().node(node).join("state").join(kind))?;
                found.extend(files.into_iter().map(|path| (node.to_owned(), path)));
            }
        }
        Ok(found)
    }

    fn left_processes(&self) -> Vec<String> {
        let comm = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let all = leftovers(self.layout().dir()).into_iter().map(|p| (p.pid, comm(p.pid)));
        all.filter(|(_, comm)| LASTING.iter().any(|name| comm.starts_with(name)))
            .map(|(pid, comm)| format!("process {pid} {}", comm.trim()))
            .collect()
    }

    /// Runs `tessera doctor` on every node and looks for [`Cluster::leftovers`].
    ///
    /// # Errors
    ///
    /// Everything that was found.
    pub fn assert_clean(&self) -> Result<(), HarnessError> {
        let mut found = self.leftovers()?;
        for node in self.nodes() {
            let done = self.doctor(node)?;
            if done.code != Some(0) {
                found.push(format!("doctor on {node}: {}{}", done.stdout, done.stderr));
            }
        }
        if found.is_empty() { Ok(()) } else { Err(HarnessError::Unexpected(found.join("\n"))) }
    }

    /// Runs `tessera doctor` on a node, again as long as it finds a node without a word, or with one of an earlier file. A slurmd that a
    /// reconfiguration starts anew gets that time to speak, and so does a health check, and slurmctld forgets the old word only once it has begun anew itself.
    fn doctor(&self, node: &str) -> Result<Done, HarnessError> {
        let begin = Instant::now();
        loop {
            let done = run(self.command_on(node, User::Root, "tessera")?.arg("doctor"))?;
            let speaks_late = ["does not load Tessera", "has another tessera.toml"]
                .iter()
                .any(|word| done.stdout.contains(word));
            if done.code == Some(0) || !speaks_late || begin.elapsed() > SPOKEN {
                return Ok(done);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Adds or clears faults of a node's simulated driver: arguments of `nvml-sim fault`.
    ///
    /// # Errors
    ///
    /// What nvml-sim said.
    pub fn fault(&self, node: &str, args: &[&str]) -> Result<(), HarnessError> {
        run(self.command_on(node, User::Root, "nvml-sim")?.arg("fault").args(args))?.ok().map(drop)
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Files in a directory; none if it is not there.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(at(dir, entry)?.path())).collect()
}

/// Reads `0,3-5`.
fn index_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn index_lists_are_expanded() {
        assert_eq!(super::index_list("0,3-5"), [0, 3, 4, 5]);
        assert_eq!(super::index_list(""), Vec::<u32>::new());
    }
}
