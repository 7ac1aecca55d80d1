//! Reads the grant of slurmctld to a job on this node, and checks that it can be meant.

use geometry::{GpuIndex, JobId, Model};
use protocol::wire::{JobPlacement, parse_placement};
use protocol::{Grant, NodeGrant, Started};

use crate::shards::SlurmsChoice;
use crate::this_node::ThisNode;

/// Grant of a job here, by Slurm's numbers.
#[derive(Debug)]
pub(crate) struct CheckedGrant {
    pub(crate) given: NodeGrant,
    /// Names of the job's nodes; none for a job without a placement.
    pub(crate) nodes: Vec<String>,
    /// Has shards of these GPUs, by Slurm's own choice: as many jobs are on them as Slurm lets there.
    pub(crate) shards: bool,
}

impl CheckedGrant {
    /// The job's grant on a node that its placement names.
    fn on(node: &ThisNode, placement: JobPlacement) -> Result<Self, String> {
        let given = placement.on(&node.name).cloned();
        let given = given.ok_or_else(|| format!("slurmctld's allocation does not name {}", node.name))?;
        let nodes = placement.nodes.into_iter().map(|(name, _)| name).collect();
        Ok(Self { given, nodes, shards: false })
    }

    /// Whole GPUs, or shards of them, that Slurm alone has chosen.
    fn of_slurm(gpus: Vec<GpuIndex>, shards: bool) -> Self {
        Self { given: Grant::Whole(gpus).into(), nodes: Vec::new(), shards }
    }
}

/// Reads slurmctld's grant for this node, by Slurm's numbers. A job without a placement has what Slurm gave it: whole GPUs,
/// or shards.
///
/// The placement comes from the job's SPANK environment, which a client may fill. slurmctld strips what clients send;
/// for a site whose slurmctld lacks our plugins, the placement must also lie on GPUs that Slurm itself allocated.
pub(crate) fn check_placement(
    node: &ThisNode,
    job: u32,
    placement: Option<&str>,
    devices: Option<&str>,
    slurms_choice: &dyn Fn() -> SlurmsChoice,
) -> Result<CheckedGrant, String> {
    let mut allocated = devices.map(device_list).transpose()?.unwrap_or_default();
    let Some(text) = placement else {
        match slurms_choice() {
            SlurmsChoice::Shards => return Ok(CheckedGrant::of_slurm(allocated, true)),
            SlurmsChoice::Types(gpus) if allocated.iter().all(|gpu| gpus.contains(gpu)) => allocated = gpus,
            SlurmsChoice::Types(_) | SlurmsChoice::Gpus => {}
        }
        // An exclusive job from before these GPUs were kept for something else gets the others.
        let kept = node.kept_from_whole_jobs();
        let ours: Vec<GpuIndex> = allocated.iter().copied().filter(|gpu| !kept.contains(gpu)).collect();
        return Ok(CheckedGrant::of_slurm(if ours.is_empty() { allocated } else { ours }, false));
    };
    let placement = parse_placement(text, &models(node))
        .map_err(|e| format!("slurmctld's allocation cannot be read: {e}"))?;
    if placement.job.0 != job {
        return Err(format!("slurmctld's allocation is for job {}, not for this one", placement.job));
    }
    let granted = CheckedGrant::on(node, placement)?;
    let grant = &granted.given.grant;
    let model_of = |gpu: GpuIndex| models(node)(&node.name, gpu);
    match grant.gpus().iter().find(|gpu| !allocated.contains(gpu)) {
        Some(_) if is_one_type_of(grant, &allocated, &model_of) => Ok(granted),
        Some(gpu) => {
            Err(format!("slurmctld's allocation is on GPU {gpu}, which Slurm has not allocated to this job"))
        }
        None => Ok(granted),
    }
}

/// Reads what a job was granted from slurmctld's AdminComment, which only slurmctld and administrators write.
pub(crate) fn check_started(node: &ThisNode, job: u32, started: &Started) -> Result<CheckedGrant, String> {
    let placement = started
        .placement(JobId(job), &models(node))
        .map_err(|e| format!("slurmctld's allocation cannot be read: {e}"))?;
    CheckedGrant::on(node, placement)
}

/// The GPU models of the site's nodes.
fn models(node: &ThisNode) -> impl Fn(&str, GpuIndex) -> Option<&'static Model> {
    move |name, gpu| node.site.node(name).and_then(|spec| spec.gpus.get(usize::from(gpu.0)).copied())
}

/// `SLURM_JOB_GPUS`: places in gres.conf separated by commas.
fn device_list(text: &str) -> Result<Vec<GpuIndex>, String> {
    let one = |n: &str| n.trim().parse().map(GpuIndex);
    text.split(',')
        .map(one)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("SLURM_JOB_GPUS={text} is not a list"))
}

/// Tells whether these are all of the grant's whole GPUs of one model: to a job with several types of GPU on a node,
/// Slurm's prolog names only those of the last type [22.05 and 24.11 `gres_common.c`, `env_array_overwrite`].
fn is_one_type_of(
    grant: &Grant,
    allocated: &[GpuIndex],
    model_of: &dyn Fn(GpuIndex) -> Option<&'static Model>,
) -> bool {
    let (Grant::Whole(gpus), Some(first)) = (grant, allocated.first()) else { return false };
    let key = |gpu: &GpuIndex| model_of(*gpu).map(|m| m.key.as_str());
    let of_type: Vec<&GpuIndex> = gpus.iter().filter(|gpu| key(gpu) == key(first)).collect();
    of_type.len() == allocated.len() && of_type.iter().all(|gpu| allocated.contains(gpu))
}

#[cfg(test)]
mod tests {
    use node_jobs::Settings;

    use super::*;

    const SITE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 4\n";

    /// Gives the grant on n1 of a job with these two variables.
    fn grant_of(placement: Option<&str>, devices: Option<&str>) -> Result<Grant, String> {
        chosen(placement, devices, &|| SlurmsChoice::Gpus)
    }

    fn chosen(
        placement: Option<&str>,
        devices: Option<&str>,
        choice: &dyn Fn() -> SlurmsChoice,
    ) -> Result<Grant, String> {
        let (site, errors) = site_config::parse("t", SITE, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let site = site.ok_or(format!("{errors:?}"))?;
        let settings = Settings::of(&site, "n1");
        let node = ThisNode { name: "n1".to_owned(), site, settings };
        check_placement(&node, 12, placement, devices, choice).map(|g| g.given.grant)
    }

    #[test]
    fn without_a_placement_slurms_gpus_are_whole() {
        assert_eq!(grant_of(None, Some("0,3")), Ok(Grant::Whole(vec![GpuIndex(0), GpuIndex(3)])));
    }

    #[test]
    fn without_a_placement_a_job_has_the_gpus_of_all_its_types() {
        let of = |gpus: &[u16]| {
            chosen(None, Some("2,3"), &|| SlurmsChoice::Types(gpus.iter().map(|g| GpuIndex(*g)).collect()))
        };
        let whole = |gpus: &[u16]| Ok(Grant::Whole(gpus.iter().map(|g| GpuIndex(*g)).collect()));
        assert_eq!(of(&[0, 2, 3]), whole(&[0, 2, 3]));
        assert_eq!(of(&[0, 1, 2]), whole(&[2, 3]), "another run of the job");
    }

    #[test]
    fn slurm_may_name_one_of_several_types() {
        let models = ["a100-40gb", "a100-40gb", "a30-24gb", "a30-24gb"].map(Model::find);
        let model_of = |gpu: GpuIndex| models.get(usize::from(gpu.0)).copied().flatten();
        let of = |gpus: &[u16], slurms: &[u16]| {
            let list = |gpus: &[u16]| gpus.iter().map(|g| GpuIndex(*g)).collect::<Vec<_>>();
            is_one_type_of(&Grant::Whole(list(gpus)), &list(slurms), &model_of)
        };
        assert!(of(&[0, 3], &[3]) && of(&[2, 1, 3], &[2, 3]));
        // A crafted placement does not get more of the type that Slurm names, nor any without one.
        assert!(!of(&[0, 2, 3], &[3]) && !of(&[0, 2], &[3]) && !of(&[0, 1], &[]));
    }

    #[test]
    fn a_placement_holds_on_gpus_that_slurm_allocated() {
        let grant = grant_of(Some("v1 job=12;n2=whole:1;n1=mig:3/2g.10gb@4"), Some("3")).unwrap();
        assert_eq!(grant.gpus(), [GpuIndex(3)]);
    }

    #[test]
    fn a_placement_that_slurmctld_cannot_have_meant_is_refused() {
        for (placement, devices, want) in [
            (Some("v1 job=12;n1=whole:0,1"), Some("0"), "on GPU 1, which Slurm has not allocated"),
            (Some("v1 job=12;n1=whole:0"), None, "on GPU 0, which Slurm has not allocated"),
            (Some("v1 job=11;n1=whole:0"), Some("0"), "is for job 11"),
            (Some("v1 job=12;n2=whole:0"), Some("0"), "does not name n1"),
            (Some("v1 job=12;n1=mig:0/9g.90gb@0"), Some("0"), "cannot be read"),
            (Some("v1 job=12;n1=whole:7"), Some("7"), "cannot be read"),
            (Some("../../etc/passwd"), Some("0"), "cannot be read"),
            (None, Some("0,x"), "not a list"),
        ] {
            let why = grant_of(placement, devices).unwrap_err();
            assert!(why.contains(want), "{placement:?} {devices:?}: {why}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_environment_panics_the_prolog(placement in ".*", devices in ".*") {
            let _ = grant_of(Some(&placement), Some(&devices));
        }
    }
}
