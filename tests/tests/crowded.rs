//! Users who use up what they share with root: room in `run_dir`, processes, open files, the exporter's connections. It
//! concerns their own jobs at most. No node is drained, and their neighbours' jobs run.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{LOOK_AND_STAY, builder, looked, on, variable};
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::process::Started;
use lab::{Cluster, Daemon, JobId, User};

const SHARE: [&str; 4] = ["-w", "n1", "--gpu-isolation=mps", "--gpu-mem=1G"];

/// No node of the cluster is drained, whatever else it does.
fn no_node_is_drained(cluster: &Cluster) {
    let nodes = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T %E"]).unwrap().ok().unwrap();
    assert!(!nodes.contains("drain"), "{nodes}");
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
}

fn slurmd_log(cluster: &Cluster, node: &str) -> String {
    std::fs::read_to_string(cluster.layout().log(&format!("slurmd-{node}"))).unwrap()
}

/// The job went back to the queue and its node's log says why.
fn requeued(cluster: &Cluster, job: JobId, why: &str) {
    let back = |job: &lab::Job| job.state() == "PENDING" && job.get("Restarts") == "1";
    cluster.wait_job(job, "requeued", back).unwrap();
    let log = slurmd_log(cluster, "n1");
    assert!(
        log.lines().any(|line| line.contains(&format!("job {job}")) && line.contains(why)),
        "{why}: {log}"
    );
    no_node_is_drained(cluster);
}

/// Files until there is no room for another one.
const FILL: &str = "k=0; while true 2>/dev/null > \"$CUDA_MPS_PIPE_DIRECTORY/$1$k\"; do k=$((k+1)); done";

#[test]
fn users_who_use_up_a_nodes_room_processes_and_files_drain_nothing() {
    on(&mut builder().small_run(2048, 400).start().unwrap(), |cluster| {
        a_full_run_directory(cluster);
        a_process_limit(cluster);
        many_files_at_a_jobs_end(cluster);
    });
}

/// A user fills `run_dir` twice: first root's own room is left, then nothing.
fn a_full_run_directory(cluster: &Cluster) {
    let script = format!(
        "set -- a; {FILL}; echo full\nwhile ! test -e again; do sleep 0.1; done\nset -- b; {FILL}; echo twice\nexec sleep 600"
    );
    let again = cluster.layout().jobs().join("again");
    let says = |job: JobId, word: &str| {
        cluster.wait_job(job, word, |_| cluster.output(job).lines().any(|line| line == word)).unwrap();
    };
    let filler = cluster.sbatch(User::Alice, &SHARE, &script).unwrap();
    says(filler, "full");
    let first = cluster.sbatch(User::Bob, &SHARE, LOOK_AND_STAY).unwrap();
    assert!(variable(&looked(cluster, first), "CUDA_MPS_PIPE_DIRECTORY").is_some());
    let (uid, _) = User::Alice.ids().unwrap();
    assert!(slurmd_log(cluster, "n1").contains(&format!("the most is used by uid {uid}")));
    cancel(cluster, first);
    cluster.wait_end(first).unwrap();
    std::fs::write(again, "").unwrap();
    says(filler, "twice");
    let second = cluster.sbatch(User::Bob, &SHARE, LOOK_AND_STAY).unwrap();
    requeued(cluster, second, &format!("the most is used by uid {uid}"));
    // A neighbour without a share needs no room there.
    cluster.complete(User::Bob, &["-w", "n1", "--gres=gpu:1"], "true").unwrap();
    cancel(cluster, second);
    cancel(cluster, filler);
    cluster.wait_idle().unwrap();
    cluster.complete(User::Bob, &SHARE, "true").unwrap();
}

/// The daemon is its user's process, so it does not start for a user who may have no more of them.
fn a_process_limit(cluster: &Cluster) {
    let slurmd = cluster.process(&Daemon::Slurmd("n1".to_owned())).unwrap().pid.to_string();
    // The soft limit alone, which can be raised again.
    let limit = |limit: &str| {
        run(Command::new("prlimit").args(["--pid", &slurmd, &format!("--nproc={limit}:")]))
            .unwrap()
            .ok()
            .unwrap()
    };
    let before = run(Command::new("prlimit").args([
        "--pid",
        &slurmd,
        "--nproc",
        "--raw",
        "--noheadings",
        "-o",
        "SOFT",
    ]))
    .unwrap()
    .ok()
    .unwrap();
    // Other tests' jobs are of the same users.
    let sleeps = "for k in $(seq 300); do sleep 600 & done; echo ready; read line; kill $(jobs -p)";
    let mut many = cluster.command(User::Bob, "bash").unwrap();
    let mut many = many.args(["-c", sleeps]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(many.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    limit("300");
    let job = cluster.sbatch(User::Bob, &SHARE, "true").unwrap();
    requeued(cluster, job, "Resource temporarily unavailable");
    cluster.complete(User::Alice, &SHARE, "true").unwrap();
    limit(before.trim());
    many.stdin.take().unwrap().write_all(b"\n").unwrap();
    many.wait().unwrap();
    cancel(cluster, job);
}

/// 120 processes that leave their step, each with 19,000 files open, and stay after the job's end: no prolog can look at them all in
/// the time that it has.
const OPEN: &str = r#"ulimit -n 19100
setsid perl -MPOSIX -e 'for (1..19000) { defined(POSIX::dup(0)) or last }
  for (1..120) { fork or do { open($o, ">>", "open"); syswrite $o, "$$\n"; sleep 600; exit } }' </dev/null >/dev/null 2>&1 &
while test "$(cat open 2>/dev/null | wc -l)" -lt 120; do sleep 0.1; done"#;

fn many_files_at_a_jobs_end(cluster: &Cluster) {
    let whole = ["-w", "n2", "--gpu-isolation=whole", "--gpus-per-node=1"];
    cluster.complete(User::Alice, &whole, OPEN).unwrap();
    cluster.wait_idle().unwrap();
    let pids = std::fs::read_to_string(cluster.layout().jobs().join("open")).unwrap();
    let left: Vec<Started> = pids.lines().filter_map(|pid| Started::of("perl", pid.parse().ok()?)).collect();
    assert!(!left.is_empty(), "they have left the job");
    let begin = Instant::now();
    // The next job's prolog looks at them, ends them, and hands the GPU over.
    let job = cluster.sbatch(User::Bob, &whole, "true").unwrap();
    let ended = cluster.wait_end(job);
    let took = begin.elapsed();
    let stays = left.iter().filter(|process| process.is_alive()).count();
    left.iter().for_each(|process| process.signal(rustix::process::Signal::KILL));
    let ended = ended.unwrap();
    assert_eq!((ended.state(), ended.get("Restarts")), ("COMPLETED", "0"), "{}", slurmd_log(cluster, "n2"));
    // Those stay whose files were all looked at.
    assert!(stays < left.len() && took < Duration::from_secs(60), "{stays} stay, {took:?}");
    no_node_is_drained(cluster);
}

/// The exporter beside the cluster, run by a user without rights.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(cluster: &Cluster) -> Self {
        let mut command = cluster.command(User::Bob, "tessera").unwrap();
        command.args(["exporter", "--page", "--listen", "127.0.0.1:0", "--every", "1h"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
        let address = first.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Self { address: address.unwrap_or_else(|| panic!("{first}")).to_owned(), child }
    }

    /// What a client at another address of this machine is answered.
    fn seen_elsewhere(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.address);
        run(Command::new("curl").args(["-sS", "--max-time", "8", "--interface", "127.0.0.2", &url]))
            .unwrap()
            .ok()
            .unwrap()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How often slurmctld has been asked for jobs.
fn asked_for_jobs(cluster: &Cluster) -> u64 {
    let said = cluster.run(User::Root, "sdiag", &[]).unwrap().ok().unwrap();
    let count = |line: &str| line.split_once("count:")?.1.split_whitespace().next()?.parse::<u64>().ok();
    let jobs = |line: &&str| line.trim_start().starts_with("REQUEST_JOB_");
    said.lines().filter(jobs).filter_map(count).sum()
}

#[test]
fn idle_connections_and_clicks_keep_the_exporter_from_nobody_and_slurmctld_from_nothing() {
    common::with(|cluster| {
        let exporter = Exporter::start(cluster);
        let up = |text: &str| text.contains("tessera_slurm_up 1");
        wait_for("the first look", PATIENCE, || {
            let text = exporter.seen_elsewhere("/metrics");
            if up(&text) { Ok(()) } else { Err(text) }
        })
        .unwrap();
        let connect = |_| {
            let mut stream = TcpStream::connect(&exporter.address).unwrap();
            // One that has been closed by now cannot be written to.
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n");
            stream
        };
        let held: Vec<TcpStream> = (0..400).map(connect).collect();
        assert!(up(&exporter.seen_elsewhere("/metrics")));
        let mut oldest = &held[0];
        oldest.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        assert!(matches!(oldest.read(&mut [0; 1]), Ok(0)), "its owner has too many");
        let job = cluster.sbatch(User::Alice, &["-w", "n1", "--gres=gpu:1"], LOOK_AND_STAY).unwrap();
        looked(cluster, job);
        let before = asked_for_jobs(cluster);
        for id in 1..=60 {
            exporter.seen_elsewhere(&format!("/jobs/{id}"));
        }
        let asked = asked_for_jobs(cluster) - before;
        assert!(asked <= 5, "{asked} questions for 60 clicks");
    });
}

/// A node whose GPUs are shared whole, with a pool whose broker ends who takes more than he asked for.
const NODE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"v100-16gb\"\ncount = 1\nmig = \"off\"\n";

/// Takes the name of MPS's own programs, which the broker spares.
const NAMED: &str = "echo nvidia-cuda-mps > /proc/$$/comm; echo $$ > named.new; mv named.new named; while :; do sleep 0.1; done";

#[test]
fn a_process_that_calls_itself_an_mps_server_is_ended_like_any_other() {
    let mut templates = Templates::for_nodes(NODE).unwrap();
    let with = "[tasks]\noveruse = \"end\"\n[mps]\n";
    templates.tessera = templates.tessera.replace("[mps]\nshare_between_users = false\n", with);
    on(&mut builder().templates(templates).start().unwrap(), |cluster| {
        let options = ["--gpu-isolation=gpu-tasks:probes", "--gpu-mem=2G", "-w", "n1"];
        let job = cluster.sbatch(User::Alice, &options, NAMED).unwrap();
        let file = cluster.layout().jobs().join("named");
        let pid = wait_for("the process to be named", PATIENCE, || {
            std::fs::read_to_string(&file).map_err(|e| e.to_string())
        });
        let pid = pid.unwrap().trim().to_owned();
        assert_eq!(std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "nvidia-cuda-mps\n");
        let mut sim = cluster.command_on("n1", User::Root, "nvml-sim").unwrap();
        let add = ["proc", "add", "--gpu", "0", "--mps", "--pid", &pid, "--memory-mib", "8000"];
        run(sim.args(add)).unwrap().ok().unwrap();
        let ended = cluster.wait_end(job).unwrap();
        assert_ne!(ended.state(), "COMPLETED");
        no_node_is_drained(cluster);
    });
}
