//! `cuDeviceGetAttribute`: numbers by the enum of `cuda.h`.

use super::device::Device;

/// Largest attribute of CUDA 12.8 and the number behind it.
const MAX: i32 = 144;

/// The value of an attribute: of what the device lacks, 0; `None` for a number that is no attribute.
#[must_use]
pub fn attribute(d: &Device, number: i32) -> Option<i32> {
    let int = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let recent = d.cc >= [8, 0];
    let shared_per_sm = match d.cc {
        [major, _] if major >= 9 => 233_472,
        [8, 0] => 167_936,
        [7, _] => 98_304,
        _ => 102_400,
    };
    let threads_per_sm = if d.cc == [8, 6] || d.cc == [8, 9] || d.cc == [7, 5] { 1536 } else { 2048 };
    Some(match number {
        1..=3 => 1024,                                   // threads per block, block x, y
        4 => 64,                                         // block z
        5 => i32::MAX,                                   // grid x
        6 | 7 => 65_535,                                 // grid y, z
        8 => 49_152,                                     // shared memory per block
        9 => 65_536,                                     // constant memory
        10 => 32,                                        // warp size
        11 => i32::MAX,                                  // pitch
        12 | 82 => 65_536,                               // registers per block, per SM
        13 => int(d.sm_mhz * 1000),                      // clock, kHz
        14 | 30 => 512,                                  // texture and surface alignment
        15 | 19 | 31 | 41 | 78..=80 | 83 | 89 | 90 => 1, // overlap, map host, concurrent, unified addressing, managed, …
        16 => int(d.sms),                                // SMs
        32 => 1,                                         // ECC
        33 => int(d.pci[1]),                             // PCI bus
        34 => int(d.pci[2]),                             // PCI device
        50 => int(d.pci[0]),                             // PCI domain
        36 => int(d.mem_mhz * 1000),                     // memory clock, kHz
        37 => 5120,                                      // memory bus width
        38 => 40 << 20,                                  // L2
        39 => threads_per_sm,                            // threads per SM
        40 => 3,                                         // copy engines
        51 => 32,                                        // texture pitch alignment
        75 => d.cc[0],                                   // compute capability
        76 => d.cc[1],
        81 => shared_per_sm,         // shared memory per SM
        87 => 2,                     // single to double precision
        97 => shared_per_sm - 1024,  // shared memory per block, opted in
        99 | 115 => 1,               // host register, memory pools
        102 => i32::from(d.has_vmm), // virtual memory management
        106 => {
            if recent {
                32
            } else {
                16
            }
        } // blocks per SM
        133 => i32::from(d.limit.is_some()), // MPS
        _ if (1..MAX).contains(&number) => 0,
        _ => return None,
    })
}
