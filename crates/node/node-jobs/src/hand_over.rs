//! Empties GPUs and instances of other processes before a job gets them, as the site wants it.

use std::path::Path;

use rustix::process::Signal;
use site_config::LeftoverProcesses;

use crate::access::{Devices, gpu_node};
use crate::fault::Fault;
use crate::settings::Settings;
use crate::stale_processes::{self, Found, Leftover, OpenNodes, Unread};
use node_driver::deadline::{Backoff, Deadline};
use node_driver::nvml::{GpuInstance, Nvml};
use node_driver::process::HeldProcess;
use node_driver::{GpuMinor, NvmlIndex};
use node_journal::Entry;

/// An idle instance may have this part of its memory in use, or [`LEAST_IN_USE_MIB`] if that is more: the driver's own.
const PART_IN_USE: u64 = 128;
const LEAST_IN_USE_MIB: u64 = 128;

/// Most processes that are held at a time, which takes a file each: with none left to open, nobody would be seen any more.
const MOST_HELD: usize = 256;

/// Empties devices before a job gets them.
pub(crate) struct HandOver<'a> {
    settings: &'a Settings,
    devices: &'a Devices,
    deadline: &'a Deadline,
    /// False for a job that has its devices already: the processes are its own.
    check: bool,
    /// Processes with device nodes open; `None` until they are first needed.
    open: Option<OpenNodes>,
    /// The jobs that run here and are not the one that gets the devices.
    others: &'a [Entry],
    /// Whom it met, ended or waited for.
    pub(crate) met: Vec<Leftover>,
    /// Processes of running jobs that merely have a device node open.
    pub(crate) bystanders: Vec<Leftover>,
    /// Processes that were ended because their open files could not all be looked at in time.
    pub(crate) ended_unread: Vec<String>,
    /// Processes that were left alone.
    pub(crate) left_unread: Vec<Unread>,
}

impl<'a> HandOver<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        devices: &'a Devices,
        deadline: &'a Deadline,
        check: bool,
        others: &'a [Entry],
    ) -> Self {
        let (open, met, bystanders, ended_unread, left_unread) = Default::default();
        Self { settings, devices, deadline, check, open, others, met, bystanders, ended_unread, left_unread }
    }

    /// Empties a GPU that no other job has anything of.
    pub(crate) fn gpu(&mut self, nvml: &Nvml, gpu: NvmlIndex, minor: GpuMinor) -> Result<(), Fault> {
        self.empty(nvml, gpu, None, &self.settings.node.dev_root.join(gpu_node(minor)))
    }

    /// Empties an instance that no job has. False: it has memory in use that no process accounts for, and must be made
    /// anew, as must one that was not empty.
    pub(crate) fn instance(
        &mut self,
        nvml: &Nvml,
        gpu: NvmlIndex,
        instance: &GpuInstance,
    ) -> Result<bool, Fault> {
        if !self.check {
            return Ok(true);
        }
        let ci = instance.compute.first().map_or(0, |c| c.id);
        let [node, _] = self.devices.caps(nvml.minor(gpu)?, instance.id, ci)?;
        let before = self.met.len();
        self.empty(nvml, gpu, Some(instance.id), &self.settings.node.dev_root.join(node))?;
        let clean = nvml
            .instance_memory_mib(gpu, instance)?
            .is_none_or(|(total, used)| used <= (total / PART_IN_USE).max(LEAST_IN_USE_MIB));
        Ok(clean && self.met.len() == before)
    }

    /// Empties an instance that no job has and that cannot be made anew.
    pub(crate) fn fixed_instance(
        &mut self,
        nvml: &Nvml,
        gpu: NvmlIndex,
        instance: &GpuInstance,
    ) -> Result<(), Fault> {
        // Once those that it met have ended, only memory that nobody accounts for is left to find.
        if self.instance(nvml, gpu, instance)? || self.instance(nvml, gpu, instance)? {
            return Ok(());
        }
        let what = format!("memory of the site's own instance {}", instance.id);
        Err(Fault::Busy { gpu, what, timeout: self.deadline.timeout })
    }

    fn empty(&mut self, nvml: &Nvml, gpu: NvmlIndex, gi: Option<u32>, node: &Path) -> Result<(), Fault> {
        let mut backoff = Backoff::driver();
        let mut held: Vec<HeldProcess> = Vec::new();
        while self.check {
            let open = self.open.take().unwrap_or_else(|| self.look());
            let Found { leftovers: now, bystanders } =
                stale_processes::on(nvml, (gpu, gi), node, &open, self.others)?;
            let new = bystanders.into_iter().filter(|b| !self.bystanders.contains(b)).collect::<Vec<_>>();
            self.bystanders.extend(new);
            if now.is_empty() {
                self.open = Some(open);
                break;
            }
            let may_wait = self.settings.node.leftover_processes != LeftoverProcesses::Fail;
            if self.settings.node.leftover_processes == LeftoverProcesses::End {
                // Only one that was held before it was named again: its id may have been another's the first time.
                held.retain(|h| h.alive() && now.iter().any(|l| l.pid == h.pid));
                held.iter().for_each(|h| h.signal(Signal::KILL));
                held = now.iter().filter_map(|l| HeldProcess::open(l.pid)).take(MOST_HELD).collect();
            }
            let new = now.iter().filter(|l| !self.met.contains(l)).cloned().collect::<Vec<_>>();
            self.met.extend(new);
            if !may_wait || !backoff.pause(self.deadline) {
                return Err(Fault::Leftovers { gpu, leftovers: now });
            }
        }
        Ok(())
    }

    /// Looks who has device nodes open. Processes of no running job that have too many files open for that are ended once, if the
    /// site lets leftovers be ended. What is still unread then keeps no device back: a user could otherwise keep other users' jobs
    /// from the node.
    fn look(&mut self) -> OpenNodes {
        let mut open = OpenNodes::look(self.settings, self.others);
        let ends =
            self.settings.node.leftover_processes == LeftoverProcesses::End && self.ended_unread.is_empty();
        if ends && !open.outside.is_empty() {
            self.ended_unread = open.outside.iter().map(Unread::to_string).collect();
            stale_processes::end(&open.outside);
            open = OpenNodes::look(self.settings, self.others);
        }
        self.left_unread = [&open.of_jobs[..], &open.outside].concat();
        open
    }
}
