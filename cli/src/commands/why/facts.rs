//! Slurm's state of all jobs and nodes at one moment: answers for any number of jobs, and Slurm is asked once.

use std::collections::HashMap;

use site_config::SiteConfig;
use site_limits::tres::Tres;

use super::args::Number;
use super::{OfSlurm, Published, answer, find, text};
use crate::outcome::Failure;
use crate::slurm::squeue::{self, NodeOptions, QueuedJob};

/// Slurm's state of all jobs and nodes.
pub(crate) struct Facts {
    config: SiteConfig,
    jobs: Vec<QueuedJob>,
    tres: HashMap<u32, Tres>,
    options: HashMap<u32, NodeOptions>,
    published: Published,
}

impl Facts {
    /// Asks Slurm for everything but its `jobs`, which somebody has asked for already. With `names` false nobody is named.
    pub(crate) fn ask(config: SiteConfig, mut jobs: Vec<QueuedJob>, names: bool) -> Result<Self, Failure> {
        if !names {
            jobs.iter_mut().for_each(|job| "a user".clone_into(&mut job.user));
        }
        let (tres, options) = (squeue::every_tres(None)?, squeue::node_options(None)?);
        Ok(Self { config, jobs, tres, options, published: Published::by_slurm()? })
    }

    /// Returns the text on a job: its GPUs, or the reason why it waits. Asks nobody.
    pub(crate) fn told(&self, id: u32) -> Result<String, Failure> {
        let job = find(&self.jobs, Number::of(id))?;
        if !job.waits() {
            return Ok(text::not_pending(job));
        }
        let asks = OfSlurm {
            tres: self.tres.get(&id).cloned().unwrap_or_default(),
            options: self.options.get(&id).cloned().unwrap_or_default(),
        };
        let answer = answer((job, &self.jobs), &self.config, asks, None, || Ok(&self.published))?;
        Ok(text::answer(&answer))
    }
}
