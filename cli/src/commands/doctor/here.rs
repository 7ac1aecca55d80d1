//! The node this runs on: journal, driver, device nodes, MPS, and Slurm's view of it.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use error_chain::with_causes;
use geometry::{JobId, counted};
use gpu_node::{Numbering, inspect, memory_regions};
use node_driver::NvmlIndex;
use node_journal::Journal;
use node_layout::{GpuLayout, HolderLayout, Seats, Shares};
use node_layout::{Layout, parse_layout};
use node_slurm::slurm_conf;
use site_config::SiteConfig;
use site_files::last_good::LastGood;
use slurm_files::{GpuOrder, gpu_order};

use super::answers::SlurmAnswers;
use super::clients;
use super::findings::Findings;
use super::links;
use super::power;

use crate::local_node::{Local, ending, jobs_on, require_root};
use crate::slurm::scontrol;
use crate::this_machine::this_node;

/// Looks at this machine, if it is a node that is asked about.
pub(crate) fn check(
    config: &SiteConfig,
    only: Option<&str>,
    slurm: Option<&SlurmAnswers>,
    findings: &mut Findings,
) {
    let here = this_node().filter(|n| config.node(n).is_some());
    let Some(name) = here.filter(|n| only.is_none_or(|o| o == n)) else {
        let which = only.map_or_else(
            || "this machine is not a node of tessera.toml".to_owned(),
            |o| format!("{o} is not this machine"),
        );
        findings.skipped(format!("journal, driver, device nodes and MPS: {which}"));
        return;
    };
    if require_root("").is_err() {
        findings.skipped(format!("{name}: journal, driver, device nodes and MPS: only root may look"));
        return;
    }
    kept(&name, findings);
    match Local::new(config, Some(&name)) {
        Ok(local) => {
            node(&local, slurm, findings);
            power::limits(&local, findings);
            power::persistence(&local, findings);
            power::model(&local, findings);
        }
        Err(e) => findings.bad(e.to_string()),
    }
}

/// Checks that this node has a good version of `tessera.toml` to go on with if the file becomes bad.
fn kept(name: &str, findings: &mut Findings) {
    let copy = slurm_conf::spool_dir(&slurm_conf::path(&|v| std::env::var(v).ok()), name);
    match copy.map(|dir| LastGood::in_dir(&dir).path()) {
        Some(copy) if copy.is_file() => {}
        Some(copy) => findings.bad(format!(
            "{name}: {} does not exist: if tessera.toml became bad, jobs could not be placed here; run `tessera node reconcile`",
            copy.display()
        )),
        None => findings.skipped(format!("{name}: slurm.conf does not say where slurmd keeps its state")),
    }
}

/// A job that is just starting or ending is on one side and not yet on the other: a disagreement counts when it stays.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

fn node(local: &Local<'_>, slurm: Option<&SlurmAnswers>, findings: &mut Findings) {
    let mut published = slurm.and_then(|s| s.layouts.get(&local.name)).cloned();
    let gres = slurm.and_then(SlurmAnswers::gres_conf);
    let mut seen = Findings::default();
    for look in 1..=LOOKS {
        seen = Findings::default();
        look_once(local, gres.as_deref(), slurm.is_some(), published.as_deref(), &mut seen);
        if !seen.any_bad() || look == LOOKS {
            break;
        }
        thread::sleep(BETWEEN_LOOKS);
        if slurm.is_some() {
            published = scontrol::layouts().ok().and_then(|mut all| all.remove(&local.name));
        }
    }
    findings.append(seen);
}

fn look_once(
    local: &Local<'_>,
    gres: Option<&str>,
    ask_slurm: bool,
    published: Option<&str>,
    findings: &mut Findings,
) {
    let name = &local.name;
    let ending = if ask_slurm { ending_here(local) } else { HashSet::new() };
    let live = if ask_slurm { jobs_on(name).ok() } else { None };
    let live = live.map(|jobs| &jobs | &ending);
    let inspection = match inspect(&local.settings, live.as_ref()) {
        Ok(inspection) => inspection,
        Err(e) => {
            findings.bad(format!("{name}: {}", with_causes(&e)));
            return;
        }
    };
    let jobs = inspection.entries.len();
    let s = if jobs == 1 { "" } else { "s" };
    findings.group(format!("{name}: journal ({jobs} job{s}), driver, device nodes and MPS agree"), |f| {
        for disagreement in &inspection.disagreements {
            f.bad(format!("{name}: {disagreement}"));
        }
    });
    for job in &ending {
        findings.skipped(format!(
            "{name}: job {job} has ended for Slurm, but still lives here: it keeps what it has until its last step ends"
        ));
    }
    let ids: Vec<&str> = inspection.gpus.iter().map(|view| view.info.pci_bus_id.as_str()).collect();
    let regions = memory_regions(&local.settings.node.cgroup_root, &ids);
    fence(name, local.spec.memory_fence, &regions, findings);
    let listed = gres.and_then(|gres| order(local, gres, inspection.gpus.len(), findings));
    if shares_file_system(&local.settings.node.run_dir, Path::new("/run")) {
        findings.skipped(format!(
            "{name}: run_dir {} is on the file system of /run: users of MPS shares can fill it; mount a tmpfs there \
             (contrib/systemd/run-tessera.mount)",
            local.settings.node.run_dir.display()
        ));
    }
    links::check(local, findings);
    clients::check(local, &inspection, findings);
    let Some(line) = published else { return };
    findings.group(
        format!("{name}: the controller and the node have the same jobs in the same places"),
        |f| match parse_layout(line) {
            Err(e) => f.bad(format!("{name}: published layout: {e}")),
            Ok(published) => {
                let here = as_slurm_counts(node_layout::layout_of(&inspection.node), listed.as_deref());
                compare(name, &published, &here, &ending, f);
            }
        },
    );
}

/// Compares the order of the GPUs in gres.conf with the driver's. The answer is what gres.conf lists, by NVML's numbers.
fn order(local: &Local<'_>, gres: &str, count: usize, findings: &mut Findings) -> Option<Vec<NvmlIndex>> {
    let name = &local.name;
    let mut listed: Option<Vec<NvmlIndex>> = None;
    match gpu_order(gres, name) {
        Err(why) => findings.bad(format!("{name}: gres.conf: {why}: cannot tell which GPUs Slurm means")),
        Ok(order @ (GpuOrder::Drivers | GpuOrder::Minors | GpuOrder::DriversOrMinors)) => {
            match Numbering::of(&local.settings, &order) {
                Err(e) => findings.bad(format!("{name}: {}", with_causes(&e))),
                Ok(numbering) => {
                    listed = numbering.listed().map(|all| all.into_iter().flatten().collect());
                    findings.skipped(format!("{name}: gres.conf does not name the GPUs' device files"));
                }
            }
        }
        Ok(order) => {
            findings.group(format!("{name}: gres.conf lists the GPUs in the driver's order"), |f| {
                match Numbering::of(&local.settings, &order) {
                    Err(e) => f.bad(format!("{name}: {}", with_causes(&e))),
                    Ok(numbering) => {
                        listed = numbering.listed().map(|all| all.into_iter().flatten().collect());
                        in_order(name, listed.as_deref().unwrap_or_default(), count, f);
                    }
                }
            });
        }
    }
    listed
}

/// Compares what tessera.toml `says` of the kernel's fence with the kernel. `regions` has the number of regions of each GPU.
fn fence(name: &str, says: bool, regions: &[usize], findings: &mut Findings) {
    let without = regions.iter().position(|n| *n != 1);
    match (says, without) {
        (true, None) => {
            findings.group(format!("{name}: the kernel has a region for the memory of each GPU"), |_| {})
        }
        (true, Some(gpu)) => findings.bad(format!(
            "{name}: tessera.toml says memory_fence = true, but the kernel has {} for the memory of GPU {gpu}: it does not hold \
             shares to their memory. Remove memory_fence, or use Linux 6.14 or later with a driver that registers its memory",
            counted(regions[gpu], "dmem region")
        )),
        (false, None) if !regions.is_empty() => findings.skipped(format!(
            "{name}: the kernel can hold shares to their memory: write memory_fence = true in the node's [[nodes]], so that \
             `tessera explain` says so"
        )),
        (false, _) => {}
    }
}

/// True if a directory within `parent` is on the same file system, or will be when it is made there.
fn shares_file_system(dir: &Path, parent: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    dir.starts_with(parent) && device(dir).is_none_or(|own| Some(own) == device(parent))
}

/// A GPU's number in Slurm is its place in gres.conf, in Tessera its place in NVML's list. Prologs translate, but sets of
/// GPUs are chosen for the links of those that tessera.toml describes.
fn in_order(name: &str, listed: &[NvmlIndex], present: usize, findings: &mut Findings) {
    let list = |gpus: &mut dyn Iterator<Item = String>| gpus.collect::<Vec<_>>().join(",");
    let slurms = list(&mut listed.iter().map(ToString::to_string));
    let drivers = list(&mut (0..present).map(|i| i.to_string()));
    if slurms != drivers {
        findings.bad(format!("{name}: gres.conf lists GPUs {slurms} of the driver's {drivers}"));
    }
}

/// The GPUs of the node in Slurm's order, which the controller publishes.
fn as_slurm_counts(here: Layout, listed: Option<&[NvmlIndex]>) -> Layout {
    let Some(listed) = listed else { return here };
    let gpu = |g: &NvmlIndex| here.gpus.get(usize::from(g.0)).cloned();
    Layout { gpus: listed.iter().filter_map(gpu).collect(), ..here }
}

/// The jobs that Slurm has ended and that still live here; none where the journal cannot be read, which is told elsewhere.
fn ending_here(local: &Local<'_>) -> HashSet<JobId> {
    let journal = Journal::open(&local.settings.node.state_dir).and_then(|journal| journal.jobs());
    journal.map(|jobs| ending(&local.name, &jobs.into_parts().0)).unwrap_or_default()
}

/// Idle instances may differ: the controller learns of them late, and they bind nobody. So may GPUs of jobs that are
/// `ending`: the controller takes a job's GPUs for free as soon as it has told the node to end the job.
fn compare(name: &str, published: &Layout, here: &Layout, ending: &HashSet<JobId>, findings: &mut Findings) {
    if !published.cut && published.gpus.len() != here.gpus.len() {
        let (theirs, ours) = (published.gpus.len(), here.gpus.len());
        let theirs = counted(theirs, "GPU");
        findings.bad(format!("{name}: the controller has {theirs}, the driver shows {ours}"));
    }
    for (i, (theirs, ours)) in published.gpus.iter().zip(&here.gpus).enumerate() {
        if ours.jobs().any(|job| ending.contains(&job)) {
            continue;
        }
        let (theirs, ours) = (held(theirs), held(ours));
        if theirs != ours {
            findings.bad(format!("{name}: GPU {i}: the controller has {theirs}, the node {ours}"));
        }
    }
}

/// Sorts what jobs have of a GPU, so that two layouts compare.
fn held(gpu: &GpuLayout) -> GpuLayout {
    let sorted = |shares: &Shares| {
        let mut shares = shares.clone();
        shares.listed.sort_by_key(|s| s.job);
        shares
    };
    // The node does not know who waits for what.
    let seated = |pool: &Seats| {
        let mut pool = Seats { claimed: None, ..pool.clone() };
        pool.listed.sort_unstable();
        pool
    };
    match gpu {
        GpuLayout::Mps(shares) => GpuLayout::Mps(sorted(shares)),
        GpuLayout::Tasks(pool) => GpuLayout::Tasks(seated(pool)),
        GpuLayout::Mig(instances) => {
            let mut held: Vec<_> =
                instances.iter().filter(|i| i.holder != HolderLayout::Idle).cloned().collect();
            for instance in &mut held {
                match &instance.holder {
                    HolderLayout::Mps(shares) => instance.holder = HolderLayout::Mps(sorted(shares)),
                    HolderLayout::Tasks(pool) => instance.holder = HolderLayout::Tasks(seated(pool)),
                    HolderLayout::Job(_) | HolderLayout::Compute(_) | HolderLayout::Idle => {}
                }
            }
            held.sort_by_key(|i| i.start);
            if held.is_empty() { GpuLayout::Free } else { GpuLayout::Mig(held) }
        }
        GpuLayout::Slurm => GpuLayout::Free,
        GpuLayout::Free | GpuLayout::Whole(_) => gpu.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(published: &str, here: &str) -> String {
        differences_while(&[], published, here)
    }

    /// Lists differences while these jobs end.
    fn differences_while(ending: &[u32], published: &str, here: &str) -> String {
        let mut findings = Findings::default();
        let ending = ending.iter().map(|job| JobId(*job)).collect();
        let (published, here) = (parse_layout(published).unwrap(), parse_layout(here).unwrap());
        compare("n1", &published, &here, &ending, &mut findings);
        findings.list.into_iter().map(|(_, what)| what).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn idle_instances_and_order_do_not_matter() {
        let same = |a, b| assert_eq!(differences(a, b), "");
        same("tessera gpu0=free", "tessera gpu0=mig[1g.5gb@2:idle]");
        same("tessera gpu0=slurm", "tessera gpu0=mig[1g.5gb@2:idle]");
        same("tessera gpu0=mps[job1:5M/5%,job2:6M/6%]", "tessera gpu0=mps[job2:6M/6%,job1:5M/5%]");
        same(
            "tessera gpu0=mig[1g.5gb@2:job4,1g.5gb@0:job3]",
            "tessera gpu0=mig[1g.5gb@0:job3,1g.5gb@2:job4]",
        );
    }

    #[test]
    fn a_directory_with_a_file_system_of_its_own_is_told_from_one_without() {
        let shares = |dir: &str, parent: &str| shares_file_system(Path::new(dir), Path::new(parent));
        assert!(shares("/usr/bin", "/usr") && shares("/usr/no-such-dir", "/usr"));
        assert!(!shares("/proc/self", "/") && !shares("/usr/bin", "/run"));
    }

    #[test]
    fn the_file_says_what_the_kernel_can() {
        let said = |says, regions: &[usize]| {
            let mut findings = Findings::default();
            fence("n1", says, regions, &mut findings);
            (findings.any_bad(), findings.list.into_iter().map(|(_, what)| what).collect::<String>())
        };
        assert_eq!(said(false, &[0, 0]), (false, String::new()));
        assert_eq!(said(false, &[]), (false, String::new()));
        assert!(said(false, &[1, 1]).1.contains("write memory_fence = true"));
        assert_eq!(
            said(true, &[1, 1]),
            (false, "n1: the kernel has a region for the memory of each GPU".to_owned())
        );
        let (bad, what) = said(true, &[1, 0]);
        assert!(bad && what.contains("0 dmem regions for the memory of GPU 1"), "{what}");
        assert!(said(true, &[2]).0);
    }

    #[test]
    fn the_file_system_that_is_shipped_for_run_dir_has_a_size() {
        let unit = include_str!("../../../../contrib/systemd/run-tessera.mount");
        let says = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n";
        let (site, _) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(Path::new(says("Where=")), site.unwrap().node.run_dir);
        for bound in ["size=", "nr_inodes="] {
            assert!(says("Options=").split(',').any(|option| option.starts_with(bound)), "{bound}");
        }
    }

    #[test]
    fn a_job_that_ends_is_on_the_node_alone() {
        let told = |here| differences_while(&[4, 7], "tessera gpu0=mig[1g.5gb@2:idle] gpu1=free", here);
        assert_eq!(told("tessera gpu0=mig[1g.5gb@2:job4] gpu1=whole[job7]"), "");
        assert_eq!(told("tessera gpu0=mps[job7:5M/5%] gpu1=mig[1g.5gb@0:mps[job4:5M/5%]]"), "");
        assert!(told("tessera gpu0=free gpu1=whole[job5]").contains("GPU 1: the controller has free"));
    }

    #[test]
    fn gpus_that_slurm_counts_otherwise_are_told_and_compared_by_its_numbers() {
        let listed = [NvmlIndex(1), NvmlIndex(0)];
        let mut findings = Findings::default();
        in_order("n1", &listed, 3, &mut findings);
        in_order("n1", &[NvmlIndex(0), NvmlIndex(1)], 2, &mut findings);
        let said: Vec<String> = findings.list.into_iter().map(|(_, what)| what).collect();
        assert_eq!(said, ["n1: gres.conf lists GPUs 1,0 of the driver's 0,1,2"]);
        let here = || parse_layout("tessera gpu0=free gpu1=whole[job5] gpu2=free").unwrap();
        let wanted = parse_layout("tessera gpu0=whole[job5] gpu1=free").unwrap();
        assert_eq!(as_slurm_counts(here(), Some(&listed)), wanted);
        assert_eq!(as_slurm_counts(here(), None), here());
    }

    #[test]
    fn jobs_in_other_places_are_told() {
        insta::assert_snapshot!(
            differences("tessera gpu0=mig[1g.5gb@2:job4] gpu1=whole[job5]", "tessera gpu0=mig[1g.5gb@3:job4] gpu1=free"),
            @r"
        n1: GPU 0: the controller has mig[1g.5gb@2:job4], the node mig[1g.5gb@3:job4]
        n1: GPU 1: the controller has whole[job5], the node free
        "
        );
    }
}
