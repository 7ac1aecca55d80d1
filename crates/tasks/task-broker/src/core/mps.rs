//! MPS daemons come and go.

use std::collections::BTreeSet;

use task_sched::{DeviceId, WorkerId};
use task_wire::Code;

use super::begin::Placed;
use super::{Core, Effect, Process, Sample, Worker};

impl Core {
    /// Pipe directories of the pool's MPS daemons.
    #[must_use]
    pub fn pipes(&self) -> Vec<String> {
        let pipes: BTreeSet<&String> =
            self.devices.values().filter_map(|dev| dev.mps_pipe.as_ref()).collect();
        pipes.into_iter().cloned().collect()
    }

    /// The daemon at `pipe` runs. With `is_new`, another one ran at the last look. Its devices grant again once nobody is
    /// there from before it ended.
    pub fn mps_runs(&mut self, pipe: &str, is_new: bool, t: f64) -> Vec<Effect> {
        if is_new {
            self.set_without_mps(pipe, true, t);
        }
        let devices = self.devices_of(pipe);
        let is_there = |id: &DeviceId| self.workers.values().any(|worker| worker.present.contains(id));
        if !devices.iter().any(is_there) {
            self.set_without_mps(pipe, false, t);
            self.settle(t);
        }
        self.take()
    }

    /// Nobody listens at `pipe`: its devices grant nothing. What processes had there is lost with it, and what they wait for
    /// is refused, or they would wait for their own end.
    pub fn mps_ended(&mut self, pipe: &str, t: f64) -> Vec<Effect> {
        self.set_without_mps(pipe, true, t);
        self.take()
    }

    /// An MPS server ended under a process that NVML showed beside it: a fatal fault of one client ends the server of all, while
    /// the daemon goes on. To the processes that were there it is the same as the daemon's end. A server that ends by itself does
    /// so only after its last client.
    pub(super) fn look_for_servers(&mut self, device: DeviceId, sample: &Sample, t: f64) {
        let of = |is_server: bool| -> BTreeSet<Process> {
            let shown = sample.processes.iter().filter(|seen| seen.is_server == is_server);
            shown.map(|seen| seen.process).collect()
        };
        let Some(dev) = self.devices.get_mut(&device) else { return };
        let servers = std::mem::replace(&mut dev.servers, of(true));
        let clients = std::mem::replace(&mut dev.clients, of(false));
        let is_ended = servers.iter().any(|server| !dev.servers.contains(server));
        let pipe = dev.mps_pipe.clone().filter(|_| is_ended);
        let had_one = |worker: &Worker| {
            worker.is_alive && worker.present.contains(&device) && clients.contains(&worker.image.process)
        };
        if let Some(pipe) = pipe.filter(|_| self.workers.values().any(had_one)) {
            self.set_without_mps(&pipe, true, t);
        }
    }

    fn devices_of(&self, pipe: &str) -> Vec<DeviceId> {
        let devices = self.devices.iter().filter(|(_, dev)| dev.mps_pipe.as_deref() == Some(pipe));
        devices.map(|(id, _)| *id).collect()
    }

    fn set_without_mps(&mut self, pipe: &str, is_without: bool, t: f64) {
        for id in self.devices_of(pipe) {
            let Some(dev) = self.devices.get_mut(&id).filter(|dev| dev.is_without_mps != is_without) else {
                continue;
            };
            dev.is_without_mps = is_without;
            self.apply_closed(id);
            if is_without {
                self.refuse_guests(id, t);
            }
        }
    }

    /// Refuses what processes on a device wait for.
    fn refuse_guests(&mut self, id: DeviceId, t: f64) {
        let guests = self.workers.iter().filter(|(_, worker)| worker.present.contains(&id));
        let guests: Vec<WorkerId> = guests.map(|(worker, _)| *worker).collect();
        for worker in guests {
            for task in self.tasks.of(worker) {
                if !self.is_waiting(task) {
                    continue;
                }
                self.unqueue(task);
                self.refuse(task, (Code::DeviceLost, 0, 0, LOST), t);
            }
            self.stops_growing(worker);
        }
    }

    /// Why a worker gets nothing more: it is on a device whose daemon ended.
    pub(super) fn lost_its_device(&self, worker: WorkerId) -> Option<Placed> {
        let mut present = self.workers.get(&worker)?.present.iter();
        let is_lost = present.any(|id| self.devices.get(id).is_some_and(|dev| dev.is_without_mps));
        let refused = Placed::Refused { code: Code::DeviceLost, need: 0, most: 0, why: LOST.to_owned() };
        is_lost.then_some(refused)
    }
}

const LOST: &str = "the MPS daemon or server of the process's device ended, and with it all that the process had there: start \
                    the program again";
