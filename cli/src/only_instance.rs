//! The only MIG instance that a job got, as its AdminComment names it.

/// A job's only instance, with its profile's name: a comment is read where the nodes' GPU models may be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnlyInstance<'a> {
    /// The node's name.
    pub(crate) node: &'a str,
    /// Slurm's number of the GPU.
    pub(crate) gpu: u16,
    /// Name of the profile.
    pub(crate) profile: &'a str,
    /// The instance's first placement unit.
    pub(crate) start: u8,
}

impl<'a> OnlyInstance<'a> {
    /// Reads [`protocol::Started::got`]; `None` if the job got anything but one MIG instance. One with a power cap, or a compute
    /// instance, is something else: its run time says nothing about the size.
    pub(crate) fn parse(got: &'a str) -> Option<Self> {
        let (node, instance) = got.split_once("=mig:").filter(|(_, i)| !i.contains([',', ';']))?;
        let (gpu, place) = instance.split_once('/')?;
        let (profile, start) = place.rsplit_once('@')?;
        Some(Self { node, gpu: gpu.parse().ok()?, profile, start: start.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_learnt_from_plain_instances_alone() {
        let expected = OnlyInstance { node: "n1", gpu: 3, profile: "2g.10gb", start: 4 };
        assert_eq!(OnlyInstance::parse("n1=mig:3/2g.10gb@4"), Some(expected));
        for other in [
            "n1=mig:3/2g.10gb@4/cap=190",
            "n1=mig:3/7g.40gb@0/4c@0/mem=19073",
            "n1=mig:3/7g.40gb@0/4c@0/mem=19073/cap=190",
            "n1=mig:3/2g.10gb@4,3/2g.10gb@0",
            "n1=mig:0/1g.5gb@0;n2=mig:0/1g.5gb@0",
            "n1=whole:0,3;n2=whole:1",
            "n1=whole:0/cap=200",
        ] {
            assert_eq!(OnlyInstance::parse(other), None, "{other}");
        }
    }
}
