//! Mappings of host memory, and memory to be mapped.
//!
//! A device address is the address of host memory, so kernels and copies use it as it is. Nothing is resident before it is touched.

use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

/// Addresses that belong to the driver; unmapped when dropped.
#[derive(Debug)]
pub struct Region {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: a region is a range of addresses; whatever thread unmaps it, the kernel serialises that.
unsafe impl Send for Region {}

/// Memory without addresses, to be mapped at some.
#[derive(Debug)]
pub struct Memory(OwnedFd);

impl Memory {
    /// Memory of a size; `None` if the host lacks it.
    #[must_use]
    pub fn new(bytes: u64) -> Option<Memory> {
        let fd = rustix::fs::memfd_create("cuda-sim", MemfdFlags::CLOEXEC).ok()?;
        rustix::fs::ftruncate(&fd, bytes).ok()?;
        Some(Memory(fd))
    }
}

impl Region {
    /// Zeroed memory, readable and writable, at a multiple of `align`, a power of two.
    #[must_use]
    pub fn anonymous(bytes: u64, align: u64) -> Option<Region> {
        Region::aligned(bytes, align, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Addresses that nobody may use, at `wanted` if that is free and not 0.
    #[must_use]
    pub fn reserve(bytes: u64, align: u64, wanted: u64) -> Option<Region> {
        let (length, at) = (usize::try_from(bytes).ok()?, usize::try_from(wanted).ok()?);
        if at != 0 && wanted.is_multiple_of(align) {
            let place = std::ptr::without_provenance_mut::<c_void>(at);
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: FIXED_NOREPLACE replaces no mapping of anybody's.
            let mapped = unsafe { rustix::mm::mmap_anonymous(place, length, ProtFlags::empty(), flags) };
            if let Ok(start) = mapped {
                return Some(Region { start, bytes: length });
            }
        }
        Region::aligned(bytes, align, ProtFlags::empty())
    }

    /// Maps more than is needed and gives back what lies before and behind.
    fn aligned(bytes: u64, align: u64, protection: ProtFlags) -> Option<Region> {
        let wide = usize::try_from(bytes.checked_add(align)?).ok()?;
        let (bytes, align) = (usize::try_from(bytes).ok()?, usize::try_from(align).ok()?);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without a fixed address the kernel chooses a free one.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), wide, protection, flags) }.ok()?;
        let before = start.addr().next_multiple_of(align) - start.addr();
        let kept = start.wrapping_byte_add(before);
        drop(Region { start, bytes: before });
        drop(Region { start: kept.wrapping_byte_add(bytes), bytes: wide - before - bytes });
        Some(Region { start: kept, bytes })
    }

    /// First address.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// A part of the region, by address; nothing outside it.
    fn part(&self, address: u64, bytes: u64) -> io::Result<(*mut c_void, usize)> {
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        let offset = address.checked_sub(self.start()).ok_or_else(outside)?;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes());
        let offset = usize::try_from(offset).ok().filter(|_| fits).ok_or_else(outside)?;
        Ok((self.start.wrapping_byte_add(offset), usize::try_from(bytes).map_err(|_| outside())?))
    }

    /// Maps memory to a part of the region, for nobody's use yet.
    ///
    /// # Errors
    ///
    /// The kernel's; [`io::ErrorKind::InvalidInput`] outside the region.
    pub fn map(&self, address: u64, bytes: u64, memory: &Memory) -> io::Result<()> {
        let (at, length) = self.part(address, bytes)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the part lies in this region, which the driver reserved and gave to nobody else.
        unsafe { rustix::mm::mmap(at, length, ProtFlags::empty(), flags, &memory.0, 0) }?;
        Ok(())
    }

    /// Lets everybody, or nobody, use a part of the region.
    ///
    /// # Errors
    ///
    /// The same as of [`Region::map`].
    pub fn protect(&self, address: u64, bytes: u64, allowed: bool) -> io::Result<()> {
        let (at, length) = self.part(address, bytes)?;
        let flags = if allowed { MprotectFlags::READ | MprotectFlags::WRITE } else { MprotectFlags::empty() };
        // SAFETY: the part lies in this region; a program that uses what it may not use faults, as on a GPU.
        unsafe { rustix::mm::mprotect(at, length, flags) }?;
        Ok(())
    }

    /// Makes a part of the region a mere reservation again.
    ///
    /// # Errors
    ///
    /// The same as of [`Region::map`].
    pub fn unmap(&self, address: u64, bytes: u64) -> io::Result<()> {
        let (at, length) = self.part(address, bytes)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the part lies in this region, which is the driver's.
        unsafe { rustix::mm::mmap_anonymous(at, length, ProtFlags::empty(), flags) }?;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the region is the driver's own; the program said that it uses it no more.
            let _ = unsafe { rustix::mm::munmap(self.start, self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_aligned_and_larger_than_the_machine() {
        let region = Region::anonymous(1 << 40, 2 << 20).unwrap();
        assert!(region.start().is_multiple_of(2 << 20));
        assert_eq!(region.bytes(), 1 << 40);
        assert!(Region::anonymous(u64::MAX - 5, 4096).is_none());
    }

    #[test]
    fn a_reservation_comes_back_at_the_same_place() {
        let first = Region::reserve(4 << 20, 2 << 20, 0).unwrap();
        let place = first.start();
        let other = Region::reserve(4 << 20, 2 << 20, place).unwrap();
        assert_ne!(other.start(), place, "taken");
        drop(first);
        assert_eq!(Region::reserve(4 << 20, 2 << 20, place).unwrap().start(), place);
    }

    #[test]
    fn nothing_outside_a_region_is_touched() {
        let region = Region::reserve(4 << 20, 2 << 20, 0).unwrap();
        let memory = Memory::new(2 << 20).unwrap();
        assert!(region.map(region.start() - 4096, 2 << 20, &memory).is_err());
        assert!(region.map(region.start() + (3 << 20), 2 << 20, &memory).is_err());
        region.map(region.start() + (2 << 20), 2 << 20, &memory).unwrap();
        region.protect(region.start() + (2 << 20), 2 << 20, true).unwrap();
        region.unmap(region.start(), 4 << 20).unwrap();
    }
}
