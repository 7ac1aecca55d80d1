//! The driver's errors in the kernel's log.
//!
//! A record is `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT` and may be followed by lines that begin with a space
//! (Documentation/ABI/testing/dev-kmsg). The driver writes `NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, …`, and of an error that it finds
//! in an instance, `(PCI:0000:3b:00 GPU-I:05 GPU-CI:00)` (krcReportXid of its open kernel modules). Programs that may write to the
//! device add records, too, for themselves or for others that log through them. Their facility, the part of PRIORITY above its
//! three lowest bits, is never the kernel's, which is 0: such records are passed over.

/// Place of a GPU on the PCI bus: domain, bus, device.
pub type BusId = (u32, u32, u32);

/// An error that the driver has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelXid {
    /// Number of its record, which ascends until the next boot.
    pub sequence: u64,
    /// The GPU.
    pub at: BusId,
    /// Number of the error.
    pub xid: u16,
}

/// Reads a bus id as NVML or the driver writes it: `00000000:3b:00.0`, `0000:3b:00`.
#[must_use]
pub fn bus_id(text: &str) -> Option<BusId> {
    let number = |text: &str| {
        let hex = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|_| hex)
    };
    let mut parts = text.split('.').next()?.split(':');
    let id = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    parts.next().is_none().then_some(id)
}

/// Reads the driver's errors in a log, in their order.
#[must_use]
pub fn xids(log: &str) -> Vec<KernelXid> {
    log.lines().filter_map(record).filter_map(|(sequence, text)| xid(sequence, text)).collect()
}

/// Number and text of a record of the kernel's own.
fn record(line: &str) -> Option<(u64, &str)> {
    let (head, text) = line.split_once(';')?;
    let mut head = head.split(',');
    let (priority, sequence) = (head.next()?.parse::<u32>().ok()?, head.next()?);
    if priority >> 3 != 0 {
        return None;
    }
    Some((sequence.parse().ok()?, text))
}

fn xid(sequence: u64, text: &str) -> Option<KernelXid> {
    let (place, rest) = text.strip_prefix("NVRM: Xid (PCI:")?.split_once("): ")?;
    let number = rest.split([',', ' ']).next()?;
    // Behind the place stands the instance.
    Some(KernelXid { sequence, at: bus_id(place.split(' ').next()?)?, xid: number.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOG: &str = "6,339,5140900,-;eth0: link up\n\
        3,340,5140901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n \
        SUBSYSTEM=pci\n\
        4,341,5140902,c;NVRM: Xid (PCI:0000:5e:00): 43, pid=7\n\
        4,341,5140902,-;NVRM: Xid (PCI:0000:5e:00 GPU-I:05): 94, pid=7, name=python, Contained\n\
        4,341,5140902,-;NVRM: Xid (PCI:0000:5e:00 GPU-I:05 GPU-CI:00): 109, pid=7\n\
        3,342,5140903,-;NVRM: Xid (PCI:zz:5e:00): 43, pid=7\n\
        3,343,5140903,-;myprog: NVRM: Xid (PCI:0000:5e:00): 79, forged by a user\n\
        11,344,5140904,-;NVRM: Xid (PCI:0000:5e:00): 79, written by a program\n\
        garbage\n";

    #[test]
    fn the_drivers_own_records_are_read() {
        let first = KernelXid { sequence: 340, at: (0, 0x3b, 0), xid: 79 };
        let second = KernelXid { sequence: 341, at: (0, 0x5e, 0), xid: 43 };
        let of_an_instance = [94, 109].map(|xid| KernelXid { xid, ..second });
        assert_eq!(xids(LOG), [&[first, second], &of_an_instance[..]].concat());
        assert_eq!(xids(""), []);
    }

    #[test]
    fn both_ways_to_write_a_place_are_the_same() {
        assert_eq!(bus_id("00000000:3B:00.0"), Some((0, 0x3b, 0)));
        assert_eq!(bus_id("0000:3b:00"), Some((0, 0x3b, 0)));
        for bad in ["", "3b:00", "0000:3b:00:1", "0000:+b:00", "0000::00"] {
            assert_eq!(bus_id(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_log_can_be_read(log: String, text: String) {
            let _ = xids(&log);
            let _ = xids(&format!("3,1,1,-;NVRM: Xid ({text}"));
        }
    }
}
