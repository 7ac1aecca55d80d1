//! `tessera node health`, `sick` and `accept`: unhealthy GPUs get no new jobs while their node goes on.

mod look;
mod store;
mod told;
mod words;

use gpu_health::{Change, HealthRecord, Rules};
use gpu_node::NodeInSlurm;
use site_config::SiteConfig;

use crate::clock::epoch_seconds;
use crate::local_node::Local;
use crate::outcome::{Failure, Outcome};
use look::SeenNode;
use store::Store;

/// Something to do about the health of a node's GPUs.
pub(super) enum HealthTask<'a> {
    /// Look, and act by the rules.
    Look { json: bool },
    /// Leave a GPU out, for a reason.
    Sick { gpu: &'a str, reason: &'a str },
    /// Take that back.
    NotSick { gpu: &'a str },
    /// Let a GPU, or all of them, take jobs again.
    Accept { gpu: Option<&'a str> },
}

/// Does the task, tells slurmctld, and requeues jobs where a rule says so.
pub(super) fn run(local: &Local<'_>, config: &SiteConfig, task: &HealthTask<'_>) -> Result<Outcome, Failure> {
    if let Some(why) = &local.unnumbered {
        return Err(Failure::new(why.clone()).hint("nothing was judged; GPUs that are left out stay so"));
    }
    let store = Store::open(&local.settings.node.state_dir)?;
    let rules = Rules::new(&config.health);
    let health = NodeHealth { local, store: &store, rules: &rules };
    let changes = health.changes(task)?;
    let slurm =
        NodeInSlurm::new(&local.name, &local.settings.node.state_dir, std::env::var("SLURM_CONF").ok());
    let (record, done) = store.change(|record| {
        let done = told::tell(&slurm, local, record, &rules, epoch_seconds());
        (record.clone(), done)
    })?;
    answer(&health, &record, task, &changes, &done)
}

/// A node whose health is looked at.
struct NodeHealth<'a> {
    local: &'a Local<'a>,
    store: &'a Store,
    rules: &'a Rules<'a>,
}

impl NodeHealth<'_> {
    fn changes(&self, task: &HealthTask<'_>) -> Result<Vec<Change>, Failure> {
        match task {
            HealthTask::Look { .. } => self.look(|_, _| Vec::new()),
            HealthTask::Sick { gpu, reason } => {
                let (uuid, mut changes) = self.named(gpu)?;
                let told =
                    |record: &mut HealthRecord| record.tell(&uuid, reason, epoch_seconds(), self.rules);
                changes.extend(self.store.change(told)?);
                Ok(changes)
            }
            HealthTask::NotSick { gpu } => {
                let (uuid, mut changes) = self.named(gpu)?;
                changes.extend(self.store.change(|record| record.untell(&uuid))?);
                Ok(changes)
            }
            HealthTask::Accept { gpu } => {
                let uuid = gpu.map(|gpu| self.named(gpu)).transpose()?.map(|(uuid, _)| uuid);
                self.look(|record, seen| {
                    let mut changes =
                        record.accept(|known| uuid.as_ref().is_none_or(|uuid| *uuid == known.uuid));
                    // What still holds is found again.
                    changes.extend(record.look(&seen.now(self.store.boot()), self.rules));
                    changes
                })
            }
        }
    }

    /// Looks at the GPUs, and then does more with the record; all changes.
    fn look(
        &self,
        more: impl FnOnce(&mut HealthRecord, &SeenNode) -> Vec<Change>,
    ) -> Result<Vec<Change>, Failure> {
        let _alone = self.store.looking()?;
        let seen = look::seen(self.local, &self.store.read()?)?;
        self.store.change(|record| {
            let mut changes = record.look(&seen.now(self.store.boot()), self.rules);
            changes.extend(more(record, &seen));
            changes
        })
    }

    /// The UUID of the GPU that was named by Slurm's number, or by its UUID. The driver is asked only if this is the first question
    /// after a boot: a health check must be able to speak of a GPU while the driver hangs.
    fn named(&self, gpu: &str) -> Result<(String, Vec<Change>), Failure> {
        let known = |record: &HealthRecord| record.named(gpu, self.store.boot()).map(str::to_owned);
        if let Some(uuid) = known(&self.store.read()?) {
            return Ok((uuid, Vec::new()));
        }
        let changes = self.look(|_, _| Vec::new())?;
        known(&self.store.read()?).map(|uuid| (uuid, changes)).ok_or_else(|| {
            let what = format!("this node has no GPU {gpu}");
            Failure::new(what).hint("name it by Slurm's number, or by its UUID")
        })
    }
}

fn answer(
    health: &NodeHealth<'_>,
    record: &HealthRecord,
    task: &HealthTask<'_>,
    changes: &[Change],
    done: &told::Done,
) -> Result<Outcome, Failure> {
    let (node, rules) = (&health.local.name, health.rules);
    let left_out = !record.left_out(rules).is_empty();
    let looked = matches!(task, HealthTask::Look { .. } | HealthTask::Accept { .. });
    let status = u8::from(looked && left_out || !done.problems.is_empty());
    if matches!(task, HealthTask::Look { json: true }) {
        return Ok(Outcome::json(&words::json(node, record, rules), status));
    }
    let mut text = words::changes(node, record, rules, changes);
    done.lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    done.problems.iter().for_each(|line| text.push_str(&format!("problem: {line}\n")));
    text.push_str(&words::table(node, record, rules, epoch_seconds()));
    Ok(Outcome { text, status })
}
