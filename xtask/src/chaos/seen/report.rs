//! Reports that jobs write about themselves, when they begin and before they end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use super::processes::device_list;
use super::slurm::order_of;

/// Report of one task at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct Report {
    pub(in crate::chaos) moment: Moment,
    pub(in crate::chaos) job: u32,
    pub(in crate::chaos) order: u32,
    pub(in crate::chaos) uid: u32,
    pub(in crate::chaos) node: String,
    /// `batch`, or the number of the step's task.
    pub(in crate::chaos) task: String,
    pub(in crate::chaos) devices: Vec<String>,
    /// Devices that the driver shows to the user: UUID, and profile of an instance.
    pub(in crate::chaos) visible: BTreeMap<String, Option<String>>,
    /// Answers of the driver about the others.
    pub(in crate::chaos) lacks: Vec<String>,
    /// `CUDA_MPS_PIPE_DIRECTORY`.
    pub(in crate::chaos) mps: Option<String>,
    /// `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` of its device, in MiB.
    pub(in crate::chaos) mem_mib: Option<u64>,
    /// `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`.
    pub(in crate::chaos) threads: Option<u32>,
    /// `TESSERA_TASK_SOCKET`.
    pub(in crate::chaos) socket: Option<String>,
    /// `LD_PRELOAD`.
    pub(in crate::chaos) preload: Option<String>,
    /// How the programs with GPU tasks ended, and their last words.
    pub(in crate::chaos) work: Option<(i32, String)>,
    /// `SLURM_NNODES`.
    pub(in crate::chaos) nodes: u32,
}

/// When a task looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) enum Moment {
    #[default]
    Begin,
    End,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = if self.moment == Moment::Begin { "at its begin" } else { "at its end" };
        write!(
            f,
            "job {} (order {}) on {}, task {}, {moment}: ",
            self.job, self.order, self.node, self.task
        )?;
        write!(f, "CUDA_VISIBLE_DEVICES={}", self.devices.join(","))?;
        if let Some(mps) = &self.mps {
            write!(f, " mps={mps} mem={:?} threads={:?}", self.mem_mib, self.threads)?;
        }
        if let Some(socket) = &self.socket {
            write!(f, " socket={socket} preload={:?} work={:?}", self.preload, self.work)?;
        }
        write!(f, "; it sees {:?}, lacks {:?}", self.visible, self.lacks)
    }
}

/// The program that asks the driver for devices. See there why nvidia-smi does not do.
pub(in crate::chaos) const LOOK: &str = include_str!("look.c");

/// The program without probes that jobs of GPU tasks run. It says there what it does.
pub(in crate::chaos) const HOLD: &str = include_str!("hold.c");

/// Begins the script of jobs: `state` is where the simulated driver of `$SLURMD_NODENAME` has its state. The step daemon sets that variable
/// itself. slurmd's task prolog sets the simulator's too, but it is a process of the user: at his limit of processes it does not start, and a
/// job on one node would ask another node's driver, whose state sbatch was given.
pub(in crate::chaos) fn script(state: &str) -> String {
    format!("#!/bin/sh\nexport NVML_SIM_STATE=\"{state}\"\n{SCRIPT}")
}

/// The rest of the script of jobs. It gets the seconds to sleep, its manner (`meek` or `stubborn`) and
/// whether it runs a step (`step`); the step's tasks get `task` as their manner. [`LOOK`] lies beside it, as `look`. A job of GPU tasks runs [`HOLD`] or, if it
/// has probes, `churn` of `cargo xtask chaos-tasks`: in its step's tasks, where it has a step.
const SCRIPT: &str = r#"seconds=$1; manner=$2; step=$3
task=batch; [ "$manner" != task ] || task=$SLURM_PROCID
file=seen.$SLURM_JOB_NAME.$SLURM_JOB_ID.$SLURMD_NODENAME.$task
named=$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' | grep -E '^(MIG|GPU)-')
look() {
  {
    echo "== $1 $SLURM_JOB_ID $SLURM_JOB_NAME $(id -u) $SLURMD_NODENAME $task ${SLURM_NNODES:-1}"
    echo "devices=$CUDA_VISIBLE_DEVICES"
    echo "mps=$CUDA_MPS_PIPE_DIRECTORY"
    echo "mem=$CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
    echo "threads=$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    echo "socket=$TESSERA_TASK_SOCKET"
    echo "preload=$LD_PRELOAD"
    echo "work=$work"
    [ -z "$named" ] || ./look $named
    echo "=="
  } >> $file
}
look begin
if [ -n "$TESSERA_TASK_SOCKET" ] && [ "$step" != step ]; then
  if [ -n "$LD_PRELOAD" ]; then said=$(./hold "$TESSERA_GPU_MEM_MIB" 2>&1)
  else said=$(./churn $SLURM_JOB_ID 20 4000 /dev/stdout 2>&1); fi
  work="$? $(echo "$said" | tail -n 1)"
fi
if [ "$manner" = stubborn ]; then trap 'sleep 2; look end; kill $!; exit 143' TERM; fi
[ "$step" != step ] || srun sh "$0" 0 task
sleep $seconds & wait $!
look end
"#;

/// Reads the reports of a directory as they are written.
#[derive(Debug)]
pub(in crate::chaos) struct Reports {
    dir: PathBuf,
    /// How much of each file has been read.
    read: BTreeMap<PathBuf, usize>,
}

impl Reports {
    pub(in crate::chaos) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), read: BTreeMap::new() }
    }

    /// The reports written since the last call, each with its file. One that is not whole yet comes later.
    pub(in crate::chaos) fn fresh(&mut self) -> Vec<Report> {
        let mut all = Vec::new();
        for file in fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if !file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"seen.")) {
                continue;
            }
            let before = self.read.get(&file).copied().unwrap_or(0);
            if fs::metadata(&file).is_ok_and(|meta| meta.len() == before as u64) {
                continue;
            }
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let fresh = text.get(before..).unwrap_or_default();
            // Each report ends with a line of its own.
            let whole = fresh.rfind("\n==\n").map_or(0, |at| at + "\n==\n".len());
            all.extend(fresh[..whole].split("\n==\n").filter_map(parse));
            self.read.insert(file, before + whole);
        }
        all
    }
}

fn parse(text: &str) -> Option<Report> {
    // What a killed writer left comes before the last head.
    let text = text.get(text.rfind("== ")?..)?;
    let mut head = text.lines().next()?.split(' ').skip(1);
    let moment = if head.next()? == "begin" { Moment::Begin } else { Moment::End };
    let value =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).filter(|text| !text.is_empty());
    Some(Report {
        moment,
        job: head.next()?.parse().ok()?,
        order: order_of(head.next()?)?,
        uid: head.next()?.parse().ok()?,
        node: head.next()?.to_owned(),
        task: head.next()?.to_owned(),
        nodes: head.next()?.parse().ok()?,
        devices: value("devices=").map(device_list).unwrap_or_default(),
        visible: visible(text),
        lacks: text.lines().filter_map(|line| line.strip_prefix("lacks ")).map(str::to_owned).collect(),
        mps: value("mps=").map(str::to_owned),
        // "0=2862M": of the first device that it sees.
        mem_mib: value("mem=").and_then(|text| text.strip_prefix("0=")?.strip_suffix('M')?.parse().ok()),
        threads: value("threads=").and_then(|text| text.parse().ok()),
        socket: value("socket=").map(str::to_owned),
        preload: value("preload=").map(str::to_owned),
        work: value("work=").and_then(|text| {
            let (status, words) = text.split_once(' ')?;
            Some((status.parse().ok()?, words.to_owned()))
        }),
    })
}

fn visible(text: &str) -> BTreeMap<String, Option<String>> {
    let has = |line: &str| {
        let (uuid, profile) = line.strip_prefix("has ")?.split_once(' ')?;
        Some((uuid.to_owned(), Some(profile.to_owned()).filter(|profile| !profile.is_empty())))
    };
    text.lines().filter_map(has).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_report_is_read_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seen.chaos4.17.n1.batch");
        let mut reports = Reports::new(dir.path());
        let head = "== begin 17 chaos4 1001 n1 batch 1\ndevices=MIG-b\nmps=/p\nmem=0=2862M\nthreads=25\n\
                    socket=/r/17.sock\npreload=\nwork=1 no memory\n";
        let list = "has GPU-a \nhas MIG-b 1g.5gb\nlacks MIG-c handle 6\n";
        fs::write(&file, head).unwrap();
        assert_eq!(reports.fresh(), []);
        fs::write(&file, format!("{head}{list}==\n")).unwrap();
        let found = reports.fresh();
        assert_eq!(found.len(), 1);
        let report = &found[0];
        assert_eq!((report.job, report.order, report.uid, report.nodes), (17, 4, 1001, 1));
        assert_eq!((report.mem_mib, report.threads), (Some(2862), Some(25)));
        assert_eq!((report.socket.as_deref(), report.preload.as_deref()), (Some("/r/17.sock"), None));
        assert_eq!(report.work, Some((1, "no memory".to_owned())));
        assert_eq!(report.visible.get("MIG-b"), Some(&Some("1g.5gb".to_owned())));
        assert_eq!(report.visible.get("GPU-a"), Some(&None));
        assert_eq!(report.lacks, ["MIG-c handle 6"]);
        assert_eq!(reports.fresh(), []);
    }

    #[test]
    fn a_job_asks_its_own_nodes_driver_even_if_no_task_prolog_ran() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        };
        write("chaos.sh", &script("/nodes/$SLURMD_NODENAME/state"));
        write("look", "#!/bin/sh\necho \"asks $NVML_SIM_STATE\"\n");
        let mut job = Command::new("sh");
        job.args(["chaos.sh", "0", "meek", ""]).current_dir(dir.path());
        job.env("SLURM_JOB_NAME", "chaos4").env("SLURM_JOB_ID", "17").env("SLURMD_NODENAME", "n2");
        job.env("CUDA_VISIBLE_DEVICES", "GPU-a").env("NVML_SIM_STATE", "/nodes/n1/state");
        assert!(job.status().unwrap().success());
        let written = fs::read_to_string(dir.path().join("seen.chaos4.17.n2.batch")).unwrap();
        let asked: Vec<&str> = written.lines().filter(|line| line.starts_with("asks ")).collect();
        assert_eq!(asked, ["asks /nodes/n2/state"; 2], "{written}");
    }

    #[test]
    fn what_a_killed_job_left_half_written_does_not_hide_the_next_report() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seen.chaos4.17.n1.batch");
        let half = "== begin 17 chaos4 1001 n1 batch 1\ndevices=MIG-x\n";
        let whole = "== begin 17 chaos4 1001 n1 batch 1\ndevices=MIG-b\n==\n";
        fs::write(&file, format!("{half}{whole}")).unwrap();
        let found = Reports::new(dir.path()).fresh();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].devices, ["MIG-b"]);
    }
}
