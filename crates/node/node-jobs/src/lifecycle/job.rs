//! A job as its prolog knows it, and its first journal entry.

use std::collections::HashSet;

use geometry::JobId;
use protocol::set_summary::SetSummary;

use super::waiting_slurmd::WaitingSlurmd;
use crate::fault::Fault;
use crate::numbering::NvmlGrant;
use node_journal::{Entry, Phase, VERSION};

/// Facts that the prolog knows of a job.
#[derive(Clone, Debug)]
pub struct JobContext {
    /// The job's id, for locks, journal and messages.
    pub job: JobId,
    /// The job's user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// Number of times that the job was requeued.
    pub restart: u32,
    /// GPUs and parts of GPUs that the job was granted on this node.
    pub grant: NvmlGrant,
    /// Power cap of each of its GPUs, W, if it has one.
    pub cap_w: Option<u16>,
    /// Why, in one line, for the job's log.
    pub decision: String,
    /// Used none of Tessera's options.
    pub plain: bool,
    /// For whole GPUs: how the set was chosen and what it promises, as the controller says.
    pub matched: Option<SetSummary>,
    /// Jobs known to be on this node now. A journalled job that is not among them is dead: its epilog was killed. What a
    /// dead job holds is taken from it if it is in the way. `None`: not known; nothing is taken from anybody.
    pub live: Option<HashSet<JobId>>,
    /// Name of its control group, if that is not `job_` and its number: see [`Entry::group`].
    pub group: Option<String>,
    /// The slurmd that waits for the outcome. If it is gone at the end, everything is given back. `None`: nothing waits.
    pub slurmd: Option<WaitingSlurmd>,
}

impl JobContext {
    /// True where nobody will begin the job, nor end it.
    pub(super) fn abandoned(&self) -> bool {
        self.slurmd.is_some_and(WaitingSlurmd::is_gone)
    }

    /// The job's entry before anything is planned for it.
    pub(super) fn first_entry(&self, boot: &str) -> Entry {
        Entry {
            version: VERSION,
            boot: boot.to_owned(),
            job: self.job.0,
            uid: self.uid,
            gid: self.gid,
            restart: self.restart,
            decision: self.decision.clone(),
            matched: self.matched.as_ref().map(ToString::to_string),
            phase: Phase::Intent,
            kind: self.grant.kind(),
            gpus: Vec::new(),
            instances: Vec::new(),
            share: None,
            tasks: None,
            device_nodes: Vec::new(),
            begun: false,
            plain: self.plain,
            cap_w: self.cap_w,
            cap_problem: None,
            group: self.group.clone(),
            fence: None,
        }
    }
}

/// Only root may change anything on the node.
pub fn require_root() -> Result<(), Fault> {
    let uid = rustix::process::geteuid();
    if uid.is_root() { Ok(()) } else { Err(Fault::NotRoot(uid.as_raw())) }
}
