//! Which devices a process sees, and in which order.
//!
//! Sources: CUDA C++ Programming Guide, "CUDA Environment Variables" (`CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`); NVIDIA MIG User
//! Guide, "CUDA Device Enumeration": CUDA enumerates one compute instance at most, and with it no other GPU.

use super::code::{Answer, Code};

/// A GPU as enumeration sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Index among all GPUs of the node.
    pub gpu: u32,
    /// `GPU-…`.
    pub uuid: String,
    /// PCI domain, bus, device.
    pub pci: [u32; 3],
    /// Peak rate in any unit: the larger, the earlier under `FASTEST_FIRST`.
    pub speed: u64,
    /// Whether it is in MIG mode.
    pub mig: bool,
    /// MIG devices that the process may use, in the order of their ids.
    pub instances: Vec<Instance>,
}

/// A MIG device as enumeration sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id.
    pub ci: u32,
    /// `MIG-…`.
    pub uuid: String,
}

/// A device that the process sees: a GPU's index, and the instance (GPU instance, compute instance) where it is one.
pub type Seen = (u32, Option<(u32, u32)>);

/// The devices, by the process's ordinals. `visible` and `order` are the two variables.
///
/// # Errors
///
/// [`Code::InvalidDevice`] for a list that names a whole GPU twice, as on an H200 with driver 580 (docs/real-gpu.md). A MIG device may
/// be there twice: that was not tried on hardware.
pub fn devices(mut all: Vec<Candidate>, visible: Option<&str>, order: Option<&str>) -> Answer<Vec<Seen>> {
    all.sort_by_key(|c| c.pci);
    if order != Some("PCI_BUS_ID") {
        // The sort is stable: equally fast GPUs stay in the order of their bus ids.
        all.sort_by_key(|c| std::cmp::Reverse(c.speed));
    }
    let found: Vec<Seen> = match visible {
        None => all.iter().filter_map(whole).collect(),
        Some(list) => {
            let mut found: Vec<Seen> = Vec::new();
            // An entry that names nothing ends the list.
            for seen in list.split(',').map_while(|entry| named(&all, entry.trim())) {
                if seen.1.is_none() && found.contains(&seen) {
                    return Err(Code::InvalidDevice);
                }
                found.push(seen);
            }
            found
        }
    };
    Ok(match found.iter().find(|seen| seen.1.is_some()) {
        Some(instance) => vec![*instance],
        None => found,
    })
}

/// A GPU by itself: in MIG mode it stands for its first instance, and without one for nothing.
fn whole(c: &Candidate) -> Option<Seen> {
    match (c.mig, c.instances.first()) {
        (false, _) => Some((c.gpu, None)),
        (true, Some(i)) => Some((c.gpu, Some((i.gi, i.ci)))),
        (true, None) => None,
    }
}

fn named(all: &[Candidate], entry: &str) -> Option<Seen> {
    if let Ok(ordinal) = entry.parse::<usize>() {
        return whole(all.get(ordinal)?);
    }
    if entry.starts_with("GPU-") {
        let mut matching = all.iter().filter(|c| c.uuid.starts_with(entry));
        let first = matching.next()?;
        return if matching.next().is_some() { None } else { whole(first) };
    }
    let instances = all.iter().flat_map(|c| c.instances.iter().map(move |i| (c, i)));
    let mut matching = instances.filter(|(c, i)| {
        let older = format!("MIG-{}/{}/{}", c.uuid, i.gi, i.ci);
        entry.starts_with("MIG-") && (i.uuid.starts_with(entry) || older == entry)
    });
    let (c, i) = matching.next()?;
    if matching.next().is_some() { None } else { Some((c.gpu, Some((i.gi, i.ci)))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(gpu: u32, speed: u64, mig: &[(u32, u32)], in_mig: bool) -> Candidate {
        let instance =
            |(gi, ci): &(u32, u32)| Instance { gi: *gi, ci: *ci, uuid: format!("MIG-{gpu}{gi}{ci}-x") };
        Candidate {
            gpu,
            uuid: format!("GPU-{gpu}abc"),
            pci: [0, gpu, 0],
            speed,
            mig: in_mig,
            instances: mig.iter().map(instance).collect(),
        }
    }

    fn check(all: &[Candidate], visible: Option<&str>, expect: &[Seen]) {
        assert_eq!(devices(all.to_vec(), visible, None).as_deref(), Ok(expect), "{visible:?}");
    }

    #[test]
    fn visible_devices_end_at_the_first_unknown_gpu() {
        let all = [gpu(0, 1, &[], false), gpu(1, 1, &[], false), gpu(2, 1, &[], false)];
        check(&all, None, &[(0, None), (1, None), (2, None)]);
        check(&all, Some(""), &[]);
        check(&all, Some("2,1"), &[(2, None), (1, None)]);
        check(&all, Some("0, 2,-1,1"), &[(0, None), (2, None)]);
        check(&all, Some("0,9,1"), &[(0, None)]);
        check(&all, Some("NoDevFiles"), &[]);
        check(&all, Some("GPU-1,GPU-0abc"), &[(1, None), (0, None)]);
        check(&all, Some("GPU-,0"), &[]);
        for twice in ["1,1,0", "0,GPU-0abc", "GPU-1,GPU-0abc,GPU-1abc"] {
            assert_eq!(devices(all.to_vec(), Some(twice), None), Err(Code::InvalidDevice), "{twice}");
        }
        check(&all, Some("1,9,1"), &[(1, None)]);
        check(&all, Some("MIG-000"), &[]);
    }

    #[test]
    fn one_instance_and_then_nothing_else() {
        let all = [gpu(0, 1, &[], false), gpu(1, 1, &[(3, 0), (4, 0)], true), gpu(2, 1, &[], true)];
        check(&all, None, &[(1, Some((3, 0)))]);
        check(&all, Some("0"), &[(0, None)]);
        check(&all, Some("1"), &[(1, Some((3, 0)))]);
        check(&all, Some("2"), &[]);
        check(&all, Some("MIG-140-x,MIG-130-x"), &[(1, Some((4, 0)))]);
        check(&all, Some("MIG-140-x,MIG-140-x"), &[(1, Some((4, 0)))]);
        check(&all, Some("MIG-GPU-1abc/4/0"), &[(1, Some((4, 0)))]);
        check(&all, Some("0,MIG-140-x"), &[(1, Some((4, 0)))]);
        check(&all, Some("MIG-1"), &[]);
    }

    #[test]
    fn fastest_first_unless_told_otherwise() {
        let all = vec![gpu(0, 5, &[], false), gpu(1, 9, &[], false), gpu(2, 5, &[], false)];
        let order =
            |order| devices(all.clone(), None, order).unwrap().iter().map(|d| d.0).collect::<Vec<_>>();
        assert_eq!(order(None), [1, 0, 2]);
        assert_eq!(order(Some("FASTEST_FIRST")), [1, 0, 2]);
        assert_eq!(order(Some("PCI_BUS_ID")), [0, 1, 2]);
    }
}
