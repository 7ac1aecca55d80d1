//! The request that a job is served with when it is to start: Slurm accounts by what it has counted, whatever the request says.

use geometry::SHARD_MIB;
use protocol::{Isolation, MAX_SEATS, Request};

/// GPUs or shards that Slurm has counted for a job, per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Whole GPUs; 0 if they were counted per job on several nodes, per socket or per task.
    Gpus(u64),
    /// Shards, nominal gigabytes of one GPU.
    Shards(u64),
}

/// A request as Slurm has counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRequest {
    /// The request to decide on; its isolation is never `none`.
    pub request: Request,
    /// True if it came from Tessera's options, so that only nodes that Tessera manages can serve it.
    pub managed: bool,
}

/// Derives the request to serve for a job with the request `asked` if Slurm has counted `counted` for it; `None`: Slurm's
/// own choice.
///
/// Once a submission was admitted, the two agree. They may differ for a job that was submitted without
/// `job_submit_tessera`. Then the count is right, because Slurm accounts by it: shards alone are an MPS share of as many
/// GB, GPUs alone are whole GPUs.
#[must_use]
pub fn as_counted(asked: Option<Request>, counted: Counted) -> Option<CountedRequest> {
    match (counted, asked) {
        (Counted::Gpus(_), Some(Request { isolation: Isolation::None, .. })) => None,
        (Counted::Gpus(count), Some(request @ Request { isolation: Isolation::Tasks { .. }, .. })) => {
            Some(CountedRequest { request: Request { gpus: some(count), ..request }, managed: true })
        }
        (Counted::Gpus(count), asked) => {
            let managed =
                matches!(&asked, Some(r) if matches!(r.isolation, Isolation::Whole | Isolation::Auto));
            let asked = asked.unwrap_or_else(|| Request::new(Isolation::Whole));
            let request = Request { isolation: Isolation::Whole, instances: 1, gpus: some(count), ..asked };
            Some(CountedRequest { request, managed })
        }
        (Counted::Shards(count), Some(request @ Request { isolation: Isolation::Tasks { .. }, .. })) => {
            let seats = u32::try_from(count).unwrap_or(MAX_SEATS).clamp(1, MAX_SEATS);
            Some(CountedRequest { request: Request { seats, gpus: None, ..request }, managed: true })
        }
        (Counted::Shards(_), Some(request))
            if matches!(request.isolation, Isolation::Mig(_) | Isolation::Mps | Isolation::Auto) =>
        {
            Some(CountedRequest { request, managed: true })
        }
        (Counted::Shards(count), _) => {
            let mem_mib = Some(count.max(1).saturating_mul(SHARD_MIB));
            Some(CountedRequest {
                request: Request { mem_mib, ..Request::new(Isolation::Mps) },
                managed: false,
            })
        }
    }
}

/// Tells whether what a request gets is chosen for it: its kind, or its instance.
#[must_use]
pub fn chooses(request: &Request) -> bool {
    matches!(request.isolation, Isolation::Auto | Isolation::Mig(None))
}

/// A number of GPUs as a request has it; more than anybody has stays more than anybody has.
fn some(count: u64) -> Option<u32> {
    (count > 0).then(|| u32::try_from(count).unwrap_or(u32::MAX))
}
