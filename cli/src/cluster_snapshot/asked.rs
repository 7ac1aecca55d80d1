//! Requests of jobs for GPUs, in a few words.

use geometry::size::display_gb;
use protocol::wire::parse_request;
use protocol::{AdminComment, CommentBody, Isolation, Request};
use site_limits::tres::Tres;

use crate::slurm::squeue::QueuedJob;

/// Says in a few characters what a job asked for: `2 x 1g.5gb`, `mps 5.0 GB`, `4 GPUs`, `2 x 8 GPUs` on two nodes; `None`: no GPUs.
pub(crate) fn asks(job: &QueuedJob) -> Option<String> {
    ours(job).or_else(|| {
        let entries = tres(job).gpu_entries();
        let count = |name: &str| {
            let of_name = entries.iter().filter(|entry| entry.name == name);
            of_name.map(|entry| entry.count).fold(0, u64::saturating_add)
        };
        let asked = match (count("gpu"), count("shard")) {
            (0, 0) => return None,
            (0, shards) => format!("{shards} shard{}", if shards == 1 { "" } else { "s" }),
            (gpus, _) => whole(gpus),
        };
        let per = entries.iter().find(|entry| !entry.per_node).map(|entry| entry.option);
        Some(match (per, job.n_nodes.split('-').next().and_then(|n| n.parse::<u32>().ok())) {
            (None, Some(nodes)) if nodes > 1 => format!("{nodes} x {asked}"),
            (Some("--gpus-per-task"), _) => format!("{asked}/task"),
            (Some("--gpus-per-socket"), _) => format!("{asked}/socket"),
            _ => asked,
        })
    })
}

/// The lists of GRES that a job asked Slurm for.
fn tres(job: &QueuedJob) -> Tres {
    let [per_job, per_node, per_socket, per_task] = job.gres.clone().map(Some);
    Tres { per_job, per_node, per_socket, per_task, tasks_per_gpu: None }
}

fn whole(gpus: u64) -> String {
    format!("{gpus} GPU{}", if gpus == 1 { "" } else { "s" })
}

/// Returns the request of a job that asked Tessera.
fn ours(job: &QueuedJob) -> Option<String> {
    let request = request(job)?;
    let size = request.mem_mib.map_or_else(String::new, |mib| format!(" {}", display_gb(mib)));
    Some(match (&request.isolation, request.gpus) {
        (Isolation::Mig(Some(profile)), _) if request.instances > 1 => {
            format!("{} x {profile}", request.instances)
        }
        (Isolation::Mig(Some(profile)), _) => profile.clone(),
        (Isolation::Whole, n) => whole(n.unwrap_or(1).into()),
        _ => format!("{}{size}", kind(job)?),
    })
}

/// Names Tessera's rule that keeps a job waiting: a planner's plan, a wait for better GPUs, a limit of the site, power, or
/// slices that are not free.
pub(crate) fn held_by(job: &QueuedJob) -> &'static str {
    match AdminComment::parse(&job.comment).says {
        CommentBody::Plan(_) => "plan",
        CommentBody::Waits(_) => "better_gpus",
        CommentBody::Limited(_) => "limit",
        CommentBody::Power(_) => "power",
        CommentBody::Slices(_) => "slices",
        CommentBody::Nodes(_) => "node",
        _ => "none",
    }
}

/// Reads a job's request of Tessera; `None`: it asked for nothing.
pub(crate) fn request(job: &QueuedJob) -> Option<Request> {
    parse_request(&AdminComment::parse(&job.comment).asks?).ok()
}

/// Kind of GPUs that a job asked Tessera for; `plain`: it asked Slurm alone for GPUs or shards; `None`: for none at all.
pub(crate) fn kind(job: &QueuedJob) -> Option<&'static str> {
    Some(match request(job).map(|request| request.isolation) {
        Some(Isolation::Auto) => "auto",
        Some(Isolation::Mig(_)) => "mig",
        Some(Isolation::Mps) => "mps",
        Some(Isolation::Tasks { .. }) => "gpu-tasks",
        Some(Isolation::Whole) => "whole",
        Some(Isolation::None) | None if tres(job).gpu_entries().is_empty() => return None,
        Some(Isolation::None) | None => "plain",
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::*;

    /// A job that asks Slurm alone, per job and per node.
    fn plain_job([per_job, per_node]: [String; 2], n_nodes: &str) -> QueuedJob {
        let gres = [per_job, per_node, String::new(), String::new()];
        QueuedJob { gres, n_nodes: n_nodes.to_owned(), ..QueuedJob::default() }
    }

    #[test]
    fn jobs_with_gpus_have_a_kind() {
        let plain = |gres: &str, comment: &str| {
            let job = plain_job([String::new(), gres.to_owned()], "1");
            kind(&QueuedJob { comment: comment.to_owned(), ..job })
        };
        assert_eq!([plain("gres:gpu:8", ""), plain("gres:shard:8", "a note")], [Some("plain"); 2]);
        assert_eq!(plain("gres:gpu:8", "tessera: n1=whole:0: the only free GPU"), Some("plain"));
        assert_eq!(plain("gres:gpu:1", "tessera: asks v1 iso=none"), Some("plain"));
        assert_eq!(plain("gres:shard:5", "tessera: asks v1 iso=mig:1g.5gb"), Some("mig"));
        assert_eq!([plain("gres:nic:1", ""), plain("", "tessera: asks v1 iso=none")], [None; 2]);
    }

    #[test]
    fn a_request_is_short_in_lists() {
        let of = |asked: &str| asks(&job(1, "alice", "PENDING", asked)).unwrap();
        let requests = [
            "iso=mig:1g.5gb inst=2",
            "iso=mig:3g.20gb",
            "iso=mig mem=9537",
            "iso=mps mem=4769",
            "iso=whole gpus=4",
        ];
        assert_eq!(requests.map(of), ["2 x 1g.5gb", "3g.20gb", "mig 10.0 GB", "mps 5.0 GB", "4 GPUs"]);
        assert_eq!(asks(&QueuedJob::default()), None);
        let plain = |lists: [&str; 2]| asks(&plain_job(lists.map(str::to_owned), "1"));
        assert_eq!(plain(["", "gres:gpu:8"]).as_deref(), Some("8 GPUs"));
        assert_eq!(plain(["gres/gpu:a100:1", ""]).as_deref(), Some("1 GPU"));
        assert_eq!(plain(["", "gres:shard:3"]).as_deref(), Some("3 shards"));
        assert_eq!(plain(["", "gres:nic:1"]), None);
        let on_two = |lists: [&str; 2]| asks(&plain_job(lists.map(str::to_owned), "2-4"));
        assert_eq!(on_two(["", "gres:gpu:8"]).as_deref(), Some("2 x 8 GPUs"));
        assert_eq!(on_two(["gres:gpu:8", ""]).as_deref(), Some("8 GPUs"));
        let per_task = ["", "", "", "gres:gpu:1"].map(str::to_owned);
        assert_eq!(
            asks(&QueuedJob { gres: per_task, ..QueuedJob::default() }).as_deref(),
            Some("1 GPU/task")
        );
        // Slurm takes such a job where it does not look at it yet.
        let half = u64::MAX / 2 + 1;
        assert!(plain(["", &format!("gres:gpu:a100:{half},gpu:h100:{half}")]).is_some());
    }
}
