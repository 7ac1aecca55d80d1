//! Virtual memory management: addresses, memory and the mapping between them, each by itself.

use super::code::{Answer, Code};
use super::driver::Driver;
use super::heap::GRANULE;
use super::mappings::Handle;
use super::memory::Kind;
use crate::host::{Memory, Region};

fn is_granular(value: u64) -> bool {
    value.is_multiple_of(GRANULE)
}

impl Driver {
    /// Reserves addresses, at `wanted` if that is free.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for a size or alignment that is not whole granules; [`Code::OutOfMemory`] without such addresses;
    /// [`Code::NotSupported`] where the environment says so.
    pub fn reserve(&self, bytes: u64, align: u64, wanted: u64) -> Answer<u64> {
        if !self.has_vmm() {
            return Err(Code::NotSupported);
        }
        if bytes == 0 || !is_granular(bytes) || !(align == 0 || align.is_power_of_two()) {
            return Err(Code::InvalidValue);
        }
        let region = Region::reserve(bytes, align.max(GRANULE), wanted).ok_or(Code::OutOfMemory)?;
        let address = region.start();
        self.lock()?.vmm.reservations.insert(address, region);
        Ok(address)
    }

    /// Gives reserved addresses back.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for what is not exactly a reservation, or has something mapped to it.
    pub fn free_reserved(&self, address: u64, bytes: u64) -> Answer<()> {
        let mut inner = self.lock()?;
        let exact = inner.vmm.reservations.get(&address).is_some_and(|r| r.bytes() == bytes);
        if !exact || inner.ranges.overlaps(address, bytes) {
            return Err(Code::InvalidValue);
        }
        inner.vmm.reservations.remove(&address);
        Ok(())
    }

    /// Takes memory of a device; returns its handle.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for a size that is not whole granules; [`Code::OutOfMemory`]; those of a first context.
    pub fn create_memory(&self, ordinal: usize, bytes: u64) -> Answer<u64> {
        if bytes == 0 || !is_granular(bytes) {
            return Err(Code::InvalidValue);
        }
        let mut inner = self.lock()?;
        let device = self.device(ordinal)?;
        let slot = self.join(&mut inner, ordinal)?;
        let made = self.accounts().take(device, slot, bytes, bytes).and_then(|()| match Memory::new(bytes) {
            Some(memory) => Ok(memory),
            None => self.accounts().give(device, slot, bytes, bytes).and(Err(Code::OutOfMemory)),
        });
        match made {
            Ok(memory) => {
                let id = inner.handle();
                let handle = Handle { device: ordinal, bytes, memory, users: 1, released: false };
                inner.vmm.handles.insert(id, handle);
                Ok(id)
            }
            Err(code) => self.leave(&mut inner, ordinal).and(Err(code)),
        }
    }

    /// Releases a handle. The memory goes when nothing is mapped to it any more.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] if the program has released it already.
    pub fn release_memory(&self, id: u64) -> Answer<()> {
        let mut inner = self.lock()?;
        let handle = inner.vmm.handles.get_mut(&id).filter(|h| !h.released).ok_or(Code::InvalidValue)?;
        handle.released = true;
        self.drop_user(&mut inner, id)
    }

    fn drop_user(&self, inner: &mut super::driver::Inner, id: u64) -> Answer<()> {
        let handle = inner.vmm.handles.get_mut(&id).ok_or(Code::InvalidValue)?;
        handle.users -= 1;
        if handle.users > 0 {
            return Ok(());
        }
        let (device, bytes) = (handle.device, handle.bytes);
        inner.vmm.handles.remove(&id);
        self.accounts().give(self.device(device)?, inner.slot(device)?, bytes, bytes)?;
        self.leave(inner, device)
    }

    /// Maps all of a handle's memory to reserved addresses. Nobody may use them before [`Driver::set_access`].
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for another size, for addresses that are not reserved, not at a granule, or mapped.
    pub fn map(&self, address: u64, bytes: u64, id: u64) -> Answer<()> {
        let mut guard = self.lock()?;
        let inner = &mut *guard;
        let handle = inner.vmm.handles.get(&id).filter(|h| h.bytes == bytes).ok_or(Code::InvalidValue)?;
        let region = inner.vmm.reservation(address, bytes)?;
        if !is_granular(address - region.start()) || inner.ranges.overlaps(address, bytes) {
            return Err(Code::InvalidValue);
        }
        region.map(address, bytes, &handle.memory).map_err(|_| Code::OutOfMemory)?;
        let device = handle.device;
        if let Some(handle) = inner.vmm.handles.get_mut(&id) {
            handle.users += 1;
        }
        inner.vmm.mappings.insert(address, id);
        inner.ranges.add(address, bytes, Kind::Mapped { device });
        Ok(())
    }

    /// Lets everybody, or nobody, use mapped addresses.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] unless all of them are mapped.
    pub fn set_access(&self, address: u64, bytes: u64, allowed: bool) -> Answer<()> {
        let inner = self.lock()?;
        if !inner.ranges.covers(address, bytes, |r| matches!(r.kind, Kind::Mapped { .. })) {
            return Err(Code::InvalidValue);
        }
        let region = inner.vmm.reservation(address, bytes)?;
        region.protect(address, bytes, allowed).map_err(|_| Code::InvalidValue)
    }

    /// Unmaps whole mappings.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] unless the range is made of whole mappings.
    pub fn unmap(&self, address: u64, bytes: u64) -> Answer<()> {
        let mut guard = self.lock()?;
        let inner = &mut *guard;
        let end = address.checked_add(bytes).ok_or(Code::InvalidValue)?;
        let inside: Vec<(u64, u64)> =
            inner.vmm.mappings.range(address..end).map(|(a, id)| (*a, *id)).collect();
        let sum: u64 = inside.iter().filter_map(|(a, _)| inner.ranges.at(*a)).map(|r| r.bytes).sum();
        if inside.is_empty() || sum != bytes || inside.first().map(|m| m.0) != Some(address) {
            return Err(Code::InvalidValue);
        }
        inner.vmm.reservation(address, bytes)?.unmap(address, bytes).map_err(|_| Code::InvalidValue)?;
        for (start, id) in inside {
            inner.vmm.mappings.remove(&start);
            inner.ranges.remove(start);
            self.drop_user(inner, id)?;
        }
        Ok(())
    }
}
