//! The request and the grant of a job, in words for the person who reads its output.

use geometry::counted;
use geometry::size::display_gb;
use node_jobs::MemoryLevel;
use node_journal::{Entry, GrantKind, InstanceRecord};
use protocol::{Bandwidth, Isolation, Request};
use topology::Pattern;

/// Why a job got what it has on `node`, which is one of `nodes`. slurmctld says it of the node with the least bandwidth, and
/// names that if there are others.
pub(crate) fn why_on(node: &str, nodes: &[String], why: &str) -> String {
    match why.split_once(": ") {
        Some((slowest, why)) if slowest == node => why.to_owned(),
        Some((slowest, _)) if nodes.iter().any(|one| one == slowest) => {
            format!("the slowest set of the job is on {why}")
        }
        _ => why.to_owned(),
    }
}

/// Describes the request: `mig with at least 10.0 GB`. Made from checked values: none of the user's own text is in it.
pub(crate) fn asked(request: &Request) -> String {
    let mut out = request.isolation.to_string();
    let mut with = Vec::new();
    if request.instances > 1 {
        with.push(format!("{} instances", request.instances));
    }
    if let Some(mem) = request.mem_mib {
        let each = if request.instances > 1 { " each" } else { "" };
        let tasks = matches!(request.isolation, Isolation::Tasks { .. });
        let bound = if request.isolation == Isolation::Mps || tasks { "" } else { "at least " };
        let each = if tasks { " per process" } else { each };
        with.push(format!("{bound}{}{each}", display_gb(mem)));
    }
    if let Some(threads) = request.threads {
        let bound = if request.isolation == Isolation::Mps { "at most" } else { "at least" };
        with.push(format!("{bound} {threads} % of the SMs"));
    }
    match &request.pattern {
        None => {}
        Some(Pattern::Edges(edges)) => with.push(format!("a pattern of {} edges", edges.len())),
        Some(pattern) => with.push(format!("pattern {}", pattern.name())),
    }
    if request.bandwidth == Some(Bandwidth::Sensitive) {
        with.push("bandwidth that matters".to_owned());
    }
    if let Some(policy) = request.policy {
        with.push(format!("a set by {}", policy.name()));
    }
    if !request.times.is_empty() {
        with.push(format!("times for {}", request.listed()));
    }
    if let Some(name) = &request.job_profile {
        with.push(format!("job profile {name}"));
    }
    if let Some(place) = request.place {
        with.push(format!("a wish for GPU {} from memory slice {}", place.gpu, place.start));
    }
    if request.auto_cap {
        with.push("the most efficient power cap".to_owned());
    }
    if let Some(watts) = request.cap_w {
        with.push(format!("a power cap of {watts} W"));
    }
    if !with.is_empty() {
        out += " with ";
        out += &with.join(", ");
    }
    out
}

/// Describes the job's grant on this node: `2g.10gb (10.3 GB) on GPU 3, memory slices 4-5, MIG-…`.
pub(crate) fn got(entry: &Entry) -> String {
    got_by_processes(entry, None)
}

/// Describes the grant when `each_mib` is the most that one process may take of a share, MiB.
pub(crate) fn got_by_processes(entry: &Entry, each_mib: Option<u64>) -> String {
    match (entry.kind, &entry.share) {
        (GrantKind::Mig, _) => {
            let each: Vec<String> = entry.instances.iter().map(instance).collect();
            let fence =
                if entry.is_fenced() { format!("; memory: {}", MemoryLevel::Kernel) } else { String::new() };
            each.join("; ") + &fence
        }
        (GrantKind::Mps, Some(share)) => {
            let level = MemoryLevel::of_share(share.memory_enforced).fenced(entry.is_fenced());
            let each = each_mib.filter(|each| *each < share.mem_mib);
            // MPS has no limit for a job: its processes divide the memory, and each of them may use these SMs.
            let sms = each.map_or("", |_| " per process");
            let each = each.map_or_else(String::new, |each| format!("; {} per process", display_gb(each)));
            let gpu = || entry.gpus.first().map_or_else(String::new, |g| format!("GPU {}", g.index));
            let on = entry.instances.first().map_or_else(gpu, instance);
            format!(
                "a share of {} ({level}{each}) and {} % of the SMs{sms} of {on}",
                display_gb(share.mem_mib),
                share.threads
            )
        }
        (GrantKind::Tasks, _) if entry.shares_device() => {
            let seats = seats(entry);
            let instances: Vec<String> = entry.instances.iter().map(instance).collect();
            format!("{seats} on {}", if instances.is_empty() { gpus(entry) } else { instances.join("; ") })
        }
        (GrantKind::Tasks, _) => format!("{} on {}", seats(entry), whole(entry)),
        (GrantKind::Shards, _) => format!("shards on {}, as Slurm gives them", gpus(entry)),
        (GrantKind::Whole | GrantKind::Mps, _) => whole(entry),
    }
}

/// `4 seats for GPU tasks with 3.0 GB per process (library, cooperative)`.
fn seats(entry: &Entry) -> String {
    let Some(tasks) = &entry.tasks else { return "no seat for GPU tasks".to_owned() };
    let level = MemoryLevel::of_tasks(!tasks.probes).fenced(entry.is_fenced());
    let mem = tasks.mem_mib.map(|mib| format!(" with {} per process ({level})", display_gb(mib)));
    format!("{} for GPU tasks{}", counted(tasks.seats as usize, "seat"), mem.unwrap_or_default())
}

fn whole(entry: &Entry) -> String {
    format!("whole {}", gpus(entry))
}

/// `GPUs 0, 3`.
fn gpus(entry: &Entry) -> String {
    let gpus: Vec<String> = entry.gpus.iter().map(|g| g.index.to_string()).collect();
    format!("GPU{} {}", if gpus.len() == 1 { "" } else { "s" }, gpus.join(", "))
}

fn instance(record: &InstanceRecord) -> String {
    let uuid = record.live.as_ref().map_or("not there", |live| live.uuid.as_str());
    if let Some(part) = record.part {
        let last = part.start + part.slices.saturating_sub(1);
        return format!(
            "{} ({} of shared memory) on GPU {}, compute slices {}-{last}, {uuid}",
            record.name,
            display_gb(record.memory_mib),
            record.gpu,
            part.start
        );
    }
    let last = record.start + record.size.saturating_sub(1);
    let slices = if last == record.start {
        format!("memory slice {last}")
    } else {
        format!("memory slices {}-{last}", record.start)
    };
    format!("{} ({}) on GPU {}, {slices}, {uuid}", record.name, display_gb(record.memory_mib), record.gpu)
}

#[cfg(test)]
mod tests {
    use protocol::wire::parse_request;

    use super::*;

    #[test]
    fn the_reason_of_several_nodes_holds_on_each() {
        let nodes = ["n1", "n2"].map(str::to_owned);
        for (node, why, want) in [
            ("n1", "n1: ring at 43 GB/s", "ring at 43 GB/s"),
            ("n2", "n1: ring at 43 GB/s", "the slowest set of the job is on n1: ring at 43 GB/s"),
            ("n1", "smallest instance with 5 GB", "smallest instance with 5 GB"),
            ("n1", "n3: of another job", "n3: of another job"),
        ] {
            assert_eq!(why_on(node, &nodes, why), want);
        }
    }

    #[test]
    fn a_request_is_described_in_words() {
        for (wire, want) in [
            ("v1 iso=mig:2g.10gb", "mig:2g.10gb"),
            ("v1 iso=auto mem=9537", "auto with at least 10.0 GB"),
            ("v1 iso=mig mem=4769 inst=2", "mig with 2 instances, at least 5.0 GB each"),
            ("v1 iso=mps mem=2862 threads=25", "mps with 3.0 GB, at most 25 % of the SMs"),
            ("v1 iso=whole pattern=ring bw=sensitive", "whole with pattern ring, bandwidth that matters"),
            ("v1 iso=whole cap=200", "whole with a power cap of 200 W"),
            ("v1 iso=whole policy=topo-aware", "whole with a set by topo-aware"),
            ("v1 iso=whole pattern=edges:0-1,1-2", "whole with a pattern of 2 edges"),
            (
                "v1 iso=mig times=1g:60,2g:35 job-profile=bert place=3@4",
                "mig with times for 1g, 2g, job profile bert, a wish for GPU 3 from memory slice 4",
            ),
        ] {
            assert_eq!(asked(&parse_request(wire).unwrap()), want);
        }
    }
}
