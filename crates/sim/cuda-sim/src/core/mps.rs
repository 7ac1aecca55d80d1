//! MPS as its client sees it.
//!
//! Sources: nvidia-cuda-mps-control(1): the driver tries to reach the control daemon when CUDA is initialised; if it cannot, the program
//! runs without MPS. NVIDIA MPS documentation, "Limitations" (48 clients per device from Volta to CUDA 12) and "Environment
//! Variables" (`CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`).

use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// Where the daemon listens without `CUDA_MPS_PIPE_DIRECTORY`.
pub const DEFAULT_PIPE_DIRECTORY: &str = "/tmp/nvidia-mps";
/// Clients of one daemon on one whole GPU.
const MAX_CLIENTS: u32 = 48;

/// The process id of the daemon that listens in the directory; `None` if nobody answers there.
#[must_use]
pub fn daemon(pipe_directory: &Path) -> Option<u32> {
    let address = SocketAddrUnix::new(pipe_directory.join("control")).ok()?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    rustix::net::connect(&socket, &address).ok()?;
    let peer = sockopt::socket_peercred(&socket).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Number of SMs of `all` that a client may use with this percentage.
///
/// On an H200 (132 SMs, driver 580, docs/real-gpu.md), 1, 4 and 7 % gave 8 SMs, 14 % gave 18, 25 % gave 32 and 50 % gave 66: whole pairs,
/// and at least 8. That other architectures have the least number of SMs that `cuDevSmResourceSplitByCount` of cuda.h names for
/// them is assumed.
#[must_use]
pub fn sms(percent: f64, all: u32, cc: [i32; 2]) -> u32 {
    let least = match cc[0] {
        ..8 => 2,
        8 => 4,
        _ => 8,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a number of SMs")]
    let part = (f64::from(all) * percent.clamp(0.0, 100.0) / 100.0) as u32;
    if part >= all { all } else { (part / 2 * 2).max(least).min(all) }
}

/// A context takes more the more SMs it may use: room for the kernels' local memory. This much for 100 SMs: see [`context_mib`].
pub(super) const MIB_PER_100_SMS: u64 = 367;

/// Memory that the context of a client with so many SMs takes, MiB.
///
/// An H200 (driver 580, docs/real-gpu.md) showed 58 MiB with 8 SMs, 94 with 18 and 513 with 132: 28.65 MiB and 3.67 per SM. Other GPUs are
/// assumed to be the same.
#[must_use]
pub fn context_mib(sms: u32) -> u64 {
    (2865 + MIB_PER_100_SMS * u64::from(sms)) / 100
}

/// Most clients on a device: of an instance, in proportion to its compute slices.
#[must_use]
pub fn max_clients(slices: u32, of: u32) -> usize {
    (MAX_CLIENTS * slices / of.max(1)).max(1) as usize
}

/// The limit in bytes that `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` sets for the device with this ordinal or UUID, such as `0=1G,1=512MB`.
/// What cannot be read sets no limit.
#[must_use]
pub fn pinned_limit(variable: &str, ordinal: usize, uuid: &str) -> Option<u64> {
    let entries = variable.split(',').filter_map(|entry| entry.trim().split_once('='));
    let mine = |device: &str| {
        device.parse() == Ok(ordinal)
            || ((device.starts_with("GPU-") || device.starts_with("MIG-")) && uuid.starts_with(device))
    };
    entries.filter(|(device, _)| mine(device.trim())).find_map(|(_, size)| bytes(size.trim()))
}

/// A size such as `3G`, bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_limit_is_that_of_the_named_device() {
        let check = |text, expect| assert_eq!(pinned_limit(text, 1, "GPU-1abc"), expect, "{text}");
        check("0=1G,1=512MB", Some(512 << 20));
        check("1=11445M", Some(11445 << 20));
        check("GPU-1=2G", Some(2 << 30));
        check("GPU-2=2G", None);
        check("0=1G", None);
        check("1=1000", Some(1000));
        check("1=lots", None);
        check("", None);
        check("1=99999999999G", None);
    }

    #[test]
    fn sms_and_contexts_are_those_of_a_physical_h200() {
        let of = |percent| sms(percent, 132, [9, 0]);
        assert_eq!([1.0, 4.0, 7.0, 14.0, 25.0, 50.0, 100.0].map(of), [8, 8, 8, 18, 32, 66, 132]);
        assert_eq!([8, 18, 132].map(context_mib), [58, 94, 513]);
        assert_eq!((sms(0.0, 80, [7, 0]), sms(99.9, 80, [7, 0]), sms(1.0, 108, [8, 0])), (2, 78, 4));
        assert_eq!((sms(1.0, 6, [9, 0]), sms(300.0, 14, [8, 0]), sms(f64::NAN, 14, [8, 0])), (6, 14, 4));
    }

    #[test]
    fn clients_follow_the_slices() {
        assert_eq!((max_clients(7, 7), max_clients(1, 7), max_clients(3, 7)), (48, 6, 20));
        assert_eq!(max_clients(1, 0), 48);
    }

    #[test]
    fn nobody_listens_in_an_empty_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(daemon(dir.path()), None);
        std::fs::write(dir.path().join("control"), b"").unwrap();
        assert_eq!(daemon(dir.path()), None);
    }

    #[test]
    fn a_listener_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let address = SocketAddrUnix::new(dir.path().join("control")).unwrap();
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        rustix::net::listen(&socket, 5).unwrap();
        assert_eq!(daemon(dir.path()), Some(std::process::id()));
    }
}
