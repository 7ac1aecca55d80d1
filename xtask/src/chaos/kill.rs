//! Kills processes that do the work: step daemons, prologs, epilogs, MPS daemons.

use std::fs;
use std::time::{Duration, Instant};

use lab::command::run;
use lab::process::Started;
use lab::{Cluster, HarnessError};
use rustix::process::Signal;

use super::plan::{Broker, Pick, Work};
use super::seen::{BrokerProcess, Processes, journal, scan};
use super::wound::Wound;

/// How long a process to be killed is looked for.
const MEET: Duration = Duration::from_secs(4);

pub(super) fn one_of<T>(all: &[T], pick: Pick) -> Option<&T> {
    let at = usize::try_from(pick.0).unwrap_or_default().checked_rem(all.len())?;
    all.get(at)
}

fn kill(pid: i32) {
    if let Some(process) = Started::of("victim", pid) {
        process.signal(Signal::KILL);
    }
}

/// A step daemon and its tasks. slurmctld takes the job for running until somebody cancels it.
pub(super) fn kill_step(cluster: &Cluster, node: &str, pick: Pick) -> Wound {
    let Processes { tasks, mut steps, .. } = scan(cluster);
    steps.retain(|step| step.node.as_deref() == Some(node));
    steps.sort_by_key(|step| (step.job, step.pid));
    let Some(step) = one_of(&steps, pick) else { return Wound::met("no step there") };
    kill(step.pid);
    for task in tasks.iter().filter(|task| task.job == step.job && task.node == node) {
        kill(task.pid);
    }
    Wound { met: format!("job {}", step.job), cancel: vec![step.job], ..Wound::default() }
}

/// An MPS daemon. Its clients hang or fail, so their jobs are cancelled; also those of GPU tasks, which may have more devices.
pub(super) fn kill_mps(cluster: &Cluster, node: &str, pick: Pick) -> Wound {
    let Processes { tasks, mps: mut daemons, .. } = scan(cluster);
    daemons.retain(|daemon| daemon.node.as_deref() == Some(node));
    daemons.sort_by_key(|daemon| daemon.pid);
    let Some(daemon) = one_of(&daemons, pick) else { return Wound::met("no daemon there") };
    kill(daemon.pid);
    let clients = tasks.iter().filter(|task| task.mps.as_deref() == Some(&daemon.pipe_dir));
    let (entries, _) = journal(&cluster.layout().node(node));
    let entries = entries.iter().filter(|entry| entry.pipe_dirs.contains(&daemon.pipe_dir));
    let mut cancel: Vec<u32> = clients.map(|task| task.job).chain(entries.map(|entry| entry.job)).collect();
    cancel.sort_unstable();
    cancel.dedup();
    Wound { met: format!("process {}, jobs {cancel:?}", daemon.pid), cancel, ..Wound::default() }
}

/// Waits for a broker of GPU tasks, and kills it. Nobody's job fails by that.
pub(super) fn kill_broker(cluster: &Cluster, node: &str, which: Broker) -> Wound {
    let begin = Instant::now();
    while begin.elapsed() < MEET {
        let mut here = scan(cluster).brokers;
        here.retain(|broker| broker.node.as_deref() == Some(node));
        let pids = victims(&here, which);
        if !pids.is_empty() {
            pids.iter().for_each(|pid| kill(*pid));
            return Wound::met(format!("processes {pids:?}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Wound::met("no broker there")
}

fn victims(brokers: &[BrokerProcess], which: Broker) -> Vec<i32> {
    let is_child = |broker: &BrokerProcess| brokers.iter().any(|other| other.pid == broker.parent);
    let chosen = |broker: &&BrokerProcess| match which {
        Broker::Both => true,
        Broker::Child => is_child(broker),
        Broker::Parent => !is_child(broker),
    };
    brokers.iter().filter(chosen).map(|broker| broker.pid).collect()
}

/// Waits for a process of this kind to be at work, and kills it.
pub(super) fn kill_work(cluster: &Cluster, node: &str, work: Work) -> Result<String, HarnessError> {
    let (program, what) = match work {
        Work::Prolog => ("slurmstepd", "prolog"),
        Work::Epilog => ("slurmstepd", "epilog"),
        Work::Reconciliation => ("tessera", "reconcile"),
    };
    if work == Work::Reconciliation {
        let check = cluster.layout().etc("tessera-health");
        run(std::process::Command::new(check).env_clear().env("SLURMD_NODENAME", node))?;
    }
    let begin = Instant::now();
    while begin.elapsed() < MEET {
        if let Some(pid) = at_work(cluster, node, program, what) {
            kill(pid);
            return Ok(format!("process {pid}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok("none met".to_owned())
}

fn at_work(cluster: &Cluster, node: &str, program: &str, what: &str) -> Option<i32> {
    let (dir, own) = (cluster.layout().dir().display().to_string(), format!("SLURMD_NODENAME={node}"));
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let read = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let is_it = read("comm").trim() == program && read("cmdline").contains(what);
        let environment = if is_it { read("environ") } else { String::new() };
        (environment.contains(&own) && (environment.contains(&dir) || read("cmdline").contains(&dir)))
            .then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brokers_child_is_told_from_its_parent() {
        let process = |pid, parent| BrokerProcess { pid, parent, node: None };
        let both = [process(7, 1), process(8, 7)];
        assert_eq!(victims(&both, Broker::Child), [8]);
        assert_eq!(victims(&both, Broker::Parent), [7]);
        assert_eq!(victims(&both, Broker::Both), [7, 8]);
        assert_eq!(victims(&[], Broker::Both), Vec::<i32>::new());
    }
}
