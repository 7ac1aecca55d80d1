//! Events as JSON lines: the form in which simulator and broker write them.

use serde_json::{Value, json};

use crate::device::Device;
use crate::event::Event;
use crate::units::Bytes;

/// A device of a `node` line.
#[must_use]
pub fn device(dev: usize, device: &Device) -> Value {
    json!({
        "dev": dev, "mem": device.mem.0, "sms": device.sms, "warps_per_sm": device.warps_per_sm,
        "blocks_per_sm": device.blocks_per_sm, "max_workers": device.max_workers,
    })
}

/// A begin as it was asked for: one that is refused need not be a legal launch.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// Time, seconds.
    pub t: f64,
    /// Number of the task.
    pub task: u64,
    /// Number of the job that it belongs to.
    pub job: u64,
    /// Bytes, without managed memory.
    pub mem: u64,
    /// Managed memory.
    pub managed: Bytes,
    /// Blocks of the largest grid.
    pub blocks: u64,
    /// Threads per block.
    pub threads: u64,
}

impl Begin {
    /// The event `begin`.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut value = json!({
            "ev": "begin", "t": self.t, "task": self.task, "job": self.job, "mem": self.mem, "blocks": self.blocks,
            "threads": self.threads,
        });
        if self.managed > Bytes(0) {
            value["managed"] = json!(self.managed.0);
        }
        value
    }
}

/// An event as an object.
#[must_use]
pub fn value(event: &Event) -> Value {
    match event {
        Event::Job { t, job, arrival, isolated, dev } => json!({
            "ev": "job", "t": t, "job": job.0, "arrival": arrival, "isolated": isolated, "dev": dev.map(|d| d.0),
        }),
        Event::Grant { t, task, dev } => json!({ "ev": "grant", "t": t, "task": task.0, "dev": dev.0 }),
        Event::Wait { t, task } => json!({ "ev": "wait", "t": t, "task": task.0 }),
        Event::Refuse { t, task, why } => json!({ "ev": "refuse", "t": t, "task": task.0, "why": why }),
        Event::Free { t, task } => json!({ "ev": "free", "t": t, "task": task.0 }),
        Event::End { t, job } => json!({ "ev": "end", "t": t, "job": job.0 }),
    }
}
