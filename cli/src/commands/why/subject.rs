//! Finds what a pending job asks for.

use geometry::Model;
use geometry::size::gigabytes_as_mib;
use protocol::wire::parse_request;
use protocol::{AdminComment, Isolation, Request};
use site_limits::Submission;
use site_limits::counted::{Counted, as_counted};
use site_limits::tres::Tres;

use crate::slurm::gres_type;
use crate::slurm::squeue::QueuedJob;

/// A pending job's request, as the engine will read it.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) request: Request,
    /// It used none of our options.
    pub(super) plain: bool,
    /// Slurm counts it in shards.
    pub(super) shards: bool,
    /// The submission that admission judges.
    pub(super) submission: Submission,
}

impl Subject {
    /// The first of its partitions.
    pub(super) fn partition(&self) -> Option<&str> {
        self.submission.partitions.first().map(String::as_str)
    }

    /// Tells whether Slurm counts its GPUs per node, and others may be on its nodes.
    pub(super) fn is_per_node(&self) -> bool {
        let per_node = self.submission.tres.gpu_entries().iter().all(|entry| entry.per_node);
        per_node && !self.submission.exclusive
    }
}

/// Reads the request of `job`; the error says why it cannot be known, or that Tessera has no part in the job.
pub(super) fn subject(job: &QueuedJob, comment: &AdminComment, tres: Tres) -> Result<Subject, String> {
    let asks = comment.asks.as_deref();
    let request =
        asks.map(|text| parse_request(text).map_err(|e| format!("its request cannot be read: {e}")));
    let request = request.transpose()?;
    let entries = tres.gpu_entries();
    if entries.is_empty() && request.is_none() {
        return Err("it asks for no GPUs".to_owned());
    }
    let several = job.n_nodes.split('-').next() != Some("1");
    if several && entries.iter().any(|entry| !entry.per_node) {
        return Err(
            "it counts GPUs for all its nodes together: each node's part is not known before it starts"
                .to_owned(),
        );
    }
    let (shards, gpus) = (gres_type::count_of(&tres, "shard"), gres_type::count_of(&tres, "gpu"));
    let counted = if shards > 0 { Counted::Shards(shards) } else { Counted::Gpus(gpus) };
    let plain = request.is_none();
    let Some(read) = as_counted(request, counted) else {
        return Err("it asked for what Slurm gives: Tessera has no part in it".to_owned());
    };
    let submission = Submission {
        request: asks.map(str::to_owned),
        tres,
        partitions: admission::distinct(&job.partition),
        account: Some(job.account.clone()).filter(|name| !name.is_empty()),
        qos: Some(job.qos.clone()).filter(|name| !name.is_empty()),
        ..Submission::default()
    };
    Ok(Subject { request: read.request, plain, shards: shards > 0, submission })
}

/// Memory that the job needs of whatever it gets, MiB, where it says so by a size or by a profile's name. A profile counts
/// as the whole GB that it has.
pub(super) fn memory(request: &Request, models: &[&'static Model]) -> Option<u64> {
    let of_profile = |model: &&'static Model| match &request.isolation {
        Isolation::Mig(Some(name)) => model.profile(name).map(|profile| profile.memory_mib),
        _ => None,
    };
    let whole_gb = |mib: u64| u32::try_from(mib * 1_048_576 / 1_000_000_000).map(gigabytes_as_mib).ok();
    request.mem_mib.or_else(|| models.iter().filter_map(of_profile).min().and_then(whole_gb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(comment: &str, per_node: &str, n_nodes: &str) -> Result<String, String> {
        let job =
            QueuedJob { n_nodes: n_nodes.to_owned(), partition: "gpu".to_owned(), ..QueuedJob::default() };
        let tres = Tres { per_node: Some(per_node.to_owned()), ..Tres::default() };
        subject(&job, &AdminComment::parse(comment), tres).map(|s| s.request.in_words())
    }

    #[test]
    fn requests_are_told_in_words() {
        let told = |asks: &str, gres: &str| of(&format!("tessera: asks v1 {asks}"), gres, "1").unwrap();
        assert_eq!(told("iso=mig:2g.10gb inst=2", "gres:shard:20"), "2 instances 2g.10gb");
        assert_eq!(told("iso=mig mem=9537", "gres:shard:10"), "an instance with 10.0 GB");
        assert_eq!(told("iso=mps mem=4769", "gres:shard:5"), "a share of 5.0 GB");
        assert_eq!(told("iso=whole gpus=4", "gres:gpu:4"), "4 whole GPUs");
        assert_eq!(of("", "gres:gpu:a100:1", "1").unwrap(), "1 whole GPU");
        assert_eq!(of("", "gres:shard:3", "1-1").unwrap(), "a share of 3.0 GB");
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        assert_eq!(of("", "", "1").unwrap_err(), "it asks for no GPUs");
        assert!(
            of("tessera: asks v9", "gres:gpu:1", "1").unwrap_err().starts_with("its request cannot be read")
        );
        let tres = Tres { per_job: Some("gres:gpu:4".to_owned()), ..Tres::default() };
        let job = QueuedJob { n_nodes: "2".to_owned(), ..QueuedJob::default() };
        assert!(subject(&job, &AdminComment::default(), tres).unwrap_err().contains("together"));
    }
}
