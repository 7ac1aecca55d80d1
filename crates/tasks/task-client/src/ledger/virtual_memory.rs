//! Physical memory of `cuMemCreate`: it is the device's until its handle is released and nothing maps it any more.

use std::collections::BTreeMap;

use super::Charge;

#[derive(Debug)]
struct Physical {
    charge: Option<Charge>,
    /// Number of handles to it that were given out and not released.
    handles: u64,
    mappings: u64,
}

/// The process's physical memory and where it is mapped.
#[derive(Debug, Default)]
pub struct VirtualMemory {
    next: u64,
    physical: BTreeMap<u64, Physical>,
    /// By the driver's handle. One that was released may be given out again while the memory is still mapped.
    by_handle: BTreeMap<u64, u64>,
    /// By address: bytes, and which memory.
    mappings: BTreeMap<u64, (u64, u64)>,
}

impl VirtualMemory {
    /// The driver made memory.
    pub fn created(&mut self, handle: u64, charge: Charge) {
        let id = self.next;
        self.next += 1;
        self.physical.insert(id, Physical { charge: Some(charge), handles: 1, mappings: 0 });
        if let Some(former) = self.by_handle.insert(handle, id) {
            // The driver gives a handle out again: it was released where we could not see it.
            self.physical.entry(former).and_modify(|physical| physical.handles = 0);
        }
    }

    /// The driver gave out one more handle to memory that is mapped at `address`. Memory that we do not know, such as
    /// another process's, stays unknown.
    pub fn retained(&mut self, handle: u64, address: u64) {
        let id = self.by_handle.get(&handle).copied().or_else(|| self.at(address));
        if let Some((id, physical)) = id.and_then(|id| Some((id, self.physical.get_mut(&id)?))) {
            physical.handles += 1;
            self.by_handle.insert(handle, id);
        }
    }

    /// The program released a handle.
    pub fn released(&mut self, handle: u64) {
        let Some(id) = self.by_handle.get(&handle).copied() else { return };
        let Some(physical) = self.physical.get_mut(&id) else { return };
        physical.handles = physical.handles.saturating_sub(1);
        if physical.handles == 0 {
            self.by_handle.remove(&handle);
        }
    }

    /// The program mapped memory.
    pub fn mapped(&mut self, address: u64, bytes: u64, handle: u64) {
        let Some(id) = self.by_handle.get(&handle).copied() else { return };
        if let Some(physical) = self.physical.get_mut(&id) {
            physical.mappings += 1;
            self.mappings.insert(address, (bytes, id));
        }
    }

    /// The program unmapped whole mappings.
    pub fn unmapped(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let inside: Vec<u64> = self.mappings.range(address..end).map(|(at, _)| *at).collect();
        for at in inside {
            let gone = self.mappings.remove(&at).and_then(|(_, id)| self.physical.get_mut(&id));
            if let Some(physical) = gone {
                physical.mappings = physical.mappings.saturating_sub(1);
            }
        }
    }

    /// Collects memory that no handle or mapping uses any more.
    pub(super) fn collect(&mut self) -> Vec<Charge> {
        let is_gone = |p: &Physical| p.handles == 0 && p.mappings == 0;
        let gone: Vec<u64> = self.physical.iter().filter(|(_, p)| is_gone(p)).map(|(id, _)| *id).collect();
        gone.iter().filter_map(|id| self.physical.remove(id)?.charge).collect()
    }

    fn at(&self, address: u64) -> Option<u64> {
        let (start, (bytes, id)) = self.mappings.range(..=address).next_back()?;
        (address - start < *bytes).then_some(*id)
    }
}
