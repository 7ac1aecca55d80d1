//! Allocating and freeing.

use super::code::{Answer, Code};
use super::driver::{Driver, Inner};
use super::heap::{GRANULE, SHARED_BELOW, whole_granules};
use super::log::Op;
use super::memory::{Kind, Range};
use crate::host::Region;

impl Driver {
    /// Allocates device memory in a context; returns its address.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for 0 bytes; [`Code::OutOfMemory`] if the device lacks the memory, or the host the addresses for it.
    pub fn allocate(&self, context: u64, bytes: u64) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::InvalidValue);
        }
        let mut inner = self.lock()?;
        let ordinal = inner.context(context)?.device;
        if bytes < SHARED_BELOW {
            return self.allocate_small(&mut inner, context, bytes);
        }
        let Some(granules) = whole_granules(bytes) else {
            self.accounts().note(self.device(ordinal)?, Op::Alloc, bytes, Code::OutOfMemory as u32);
            return Err(Code::OutOfMemory);
        };
        let region = self.take_region(&inner, ordinal, granules, bytes)?;
        let address = region.start();
        inner.regions.insert(address, region);
        inner.ranges.add(address, bytes, Kind::Device { context, granules });
        Ok(address)
    }

    /// Charges the device and gets addresses.
    fn take_region(&self, inner: &Inner, ordinal: usize, granules: u64, asked: u64) -> Answer<Region> {
        let (device, slot) = (self.device(ordinal)?, inner.slot(ordinal)?);
        self.accounts().take(device, slot, granules, asked)?;
        match Region::anonymous(granules, GRANULE) {
            Some(region) => Ok(region),
            None => {
                self.accounts().give(device, slot, granules, asked)?;
                Err(Code::OutOfMemory)
            }
        }
    }

    fn allocate_small(&self, inner: &mut Inner, context: u64, bytes: u64) -> Answer<u64> {
        let ordinal = inner.context(context)?.device;
        let shared = |inner: &mut Inner| inner.contexts.get_mut(&context).and_then(|c| c.shared.place(bytes));
        let address = match shared(inner) {
            Some(address) => {
                self.accounts().note(self.device(ordinal)?, Op::Alloc, bytes, 0);
                address
            }
            None => {
                let region = self.take_region(inner, ordinal, GRANULE, bytes)?;
                let start = region.start();
                inner.regions.insert(start, region);
                inner.contexts.get_mut(&context).ok_or(Code::InvalidContext)?.shared.add(start);
                shared(inner).ok_or(Code::Unknown)?
            }
        };
        inner.ranges.add(address, bytes, Kind::Device { context, granules: 0 });
        Ok(address)
    }

    /// Allocates managed memory. It lives on the host until it is used and can always be moved back there: it takes nothing of the device.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for 0 bytes; [`Code::OutOfMemory`] if the host lacks addresses.
    pub fn allocate_managed(&self, context: u64, bytes: u64) -> Answer<u64> {
        self.allocate_on_host(bytes, Kind::Managed { context })
    }

    /// Allocates pinned host memory.
    ///
    /// # Errors
    ///
    /// The same as of [`Driver::allocate_managed`].
    pub fn allocate_host(&self, context: u64, bytes: u64) -> Answer<u64> {
        self.allocate_on_host(bytes, Kind::Host { context })
    }

    fn allocate_on_host(&self, bytes: u64, kind: Kind) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::InvalidValue);
        }
        let mut inner = self.lock()?;
        let size = bytes.checked_next_multiple_of(4096).ok_or(Code::OutOfMemory)?;
        let region = Region::anonymous(size, 4096).ok_or(Code::OutOfMemory)?;
        let address = region.start();
        inner.regions.insert(address, region);
        inner.ranges.add(address, bytes, kind);
        Ok(address)
    }

    /// Registers memory of the program's.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for 0 bytes; [`Code::HostMemoryAlreadyRegistered`].
    pub fn register(&self, context: u64, address: u64, bytes: u64) -> Answer<()> {
        if bytes == 0 || address == 0 {
            return Err(Code::InvalidValue);
        }
        let mut inner = self.lock()?;
        if inner.ranges.overlaps(address, bytes) {
            return Err(Code::HostMemoryAlreadyRegistered);
        }
        inner.ranges.add(address, bytes, Kind::Registered { context });
        Ok(())
    }

    /// Takes a registration back.
    ///
    /// # Errors
    ///
    /// [`Code::HostMemoryNotRegistered`].
    pub fn unregister(&self, address: u64) -> Answer<()> {
        let mut inner = self.lock()?;
        match inner.ranges.at(address).map(|r| r.kind) {
            Some(Kind::Registered { .. }) => inner.ranges.remove(address).map(drop).ok_or(Code::Unknown),
            _ => Err(Code::HostMemoryNotRegistered),
        }
    }

    /// Frees device or managed memory by its first address; null is freed always.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for another address.
    pub fn free(&self, address: u64) -> Answer<()> {
        self.free_if(address, |kind| matches!(kind, Kind::Device { .. } | Kind::Managed { .. }))
    }

    /// Frees pinned host memory by its first address; null is freed always.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] for another address.
    pub fn free_host(&self, address: u64) -> Answer<()> {
        self.free_if(address, |kind| matches!(kind, Kind::Host { .. }))
    }

    fn free_if(&self, address: u64, wanted: impl Fn(Kind) -> bool) -> Answer<()> {
        if address == 0 {
            return Ok(());
        }
        let mut inner = self.lock()?;
        let range = inner.ranges.at(address).filter(|r| wanted(r.kind)).ok_or(Code::InvalidValue)?;
        self.free_range(&mut inner, range)
    }

    pub(super) fn free_range(&self, inner: &mut Inner, range: Range) -> Answer<()> {
        inner.ranges.remove(range.start);
        let Kind::Device { context, granules } = range.kind else {
            inner.regions.remove(&range.start);
            return Ok(());
        };
        let owner = inner.contexts.get_mut(&context).ok_or(Code::InvalidContext)?;
        let ordinal = owner.device;
        let (region, bytes) = if granules > 0 {
            (Some(range.start), granules)
        } else {
            (owner.shared.remove(range.start, range.bytes), GRANULE)
        };
        let device = self.device(ordinal)?;
        match region {
            Some(start) => {
                inner.regions.remove(&start);
                self.accounts().give(device, inner.slot(ordinal)?, bytes, range.bytes)
            }
            None => {
                self.accounts().note(device, Op::Free, range.bytes, 0);
                Ok(())
            }
        }
    }

    /// What lies at an address.
    ///
    /// # Errors
    ///
    /// [`Code::Deinitialized`] at the process's end.
    pub fn range(&self, address: u64) -> Answer<Option<Range>> {
        Ok(self.lock()?.ranges.holding(address))
    }

    /// Makes sure that a copy's side is device memory; pinned and registered host memory has a device address too.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidValue`] if any byte of it is not.
    pub fn check_device(&self, address: u64, bytes: u64) -> Answer<()> {
        if self.lock()?.ranges.covers(address, bytes, |_| true) { Ok(()) } else { Err(Code::InvalidValue) }
    }
}
