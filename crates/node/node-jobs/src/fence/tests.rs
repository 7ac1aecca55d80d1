//! A share's limits on a tree with the kernel's rules, beside what Slurm does there.

use std::cell::Cell;

use super::sim::Kernel;
use super::*;

const REGION: &str = "nvidia/0000:07:00/vidmem";
const OTHER: &str = "nvidia/0000:0b:00/vidmem";
const REGIONS: [(&str, u64); 2] = [(REGION, 80 << 30), (OTHER, 80 << 30)];
const JOB: &str = "system.slice/slurmstepd.scope/job_12";
const STEP: &str = "system.slice/slurmstepd.scope/job_12/step_0";
/// `/proc/self/cgroup` of a task.
const OWN: &str = "0::/system.slice/slurmstepd.scope/job_12/step_0/slurm\n";
/// 2862 MiB.
const SHARE: u64 = 2862 << 20;

fn share() -> Entry {
    let share = r#"{"version":2,"boot":"b","job":12,"uid":1000,"gid":1000,"restart":0,"decision":"","matched":null,
        "phase":"intent","kind":"mps","gpus":[],"instances":[],"device_nodes":[],
        "share":{"daemon":"gpu0","mem_mib":2862,"threads":25,"memory_enforced":true,"pipe_dir":"/p","log_dir":"/l"}}"#;
    serde_json::from_str(share).unwrap()
}

/// Acts as the prolog, on a GPU with one of these PCI bus ids.
fn prolog(kernel: &Kernel, entry: &mut Entry, ids: &[&str]) -> Option<String> {
    let journalled = Cell::new(false);
    let note = |entry: &Entry| {
        let written = kernel.writes.borrow().iter().any(|line| line.contains(MAX));
        assert!(!written && entry.fence.is_some(), "journalled after it was written");
        journalled.set(true);
        Ok(())
    };
    kernel.writes.borrow_mut().clear();
    let ids = || ids.iter().map(|id| (*id).to_owned()).collect();
    let why = begin_in(kernel, entry, &note, &|_| Ok(ids())).unwrap();
    assert_eq!(journalled.get(), entry.fence.as_ref().is_some_and(|fence| fence.dir.is_some()));
    why
}

const ID: &str = "00000000:07:00.0";

/// Acts as Slurm at the begin of a step: it goes on with groups that exist.
fn slurm_begins(kernel: &Kernel) {
    for dir in [JOB, STEP, &format!("{STEP}/slurm"), &format!("{STEP}/user")] {
        let made = kernel.mkdir(dir);
        assert!(made.is_ok() || made.is_err_and(|e| e.kind() == ErrorKind::AlreadyExists));
    }
    kernel.enter(&format!("{STEP}/user"));
}

/// Acts as Slurm at the end of the job's only step.
fn slurm_ends(kernel: &Kernel) {
    kernel.leave(&format!("{STEP}/user"));
    for dir in [&format!("{STEP}/slurm"), &format!("{STEP}/user"), STEP, JOB] {
        kernel.remove(Path::new(dir)).unwrap();
    }
}

/// Counts the bytes that the job's processes get, in pieces of 64 MiB.
fn takes(kernel: &Kernel, region: &str) -> u64 {
    let dir = format!("{STEP}/user");
    (0..100).filter(|_| kernel.allocate(&dir, region, 64 << 20)).count() as u64 * (64 << 20)
}

/// Lists the files in which the job's control group lets it take more than is counted for it.
fn above(kernel: &Kernel, entry: &Entry) -> Vec<(String, Option<u64>)> {
    let Some(fence) = &entry.fence else { return Vec::new() };
    let dir = fence.dir.as_ref().unwrap();
    let now = kernel.read(&dir.join(MAX)).unwrap();
    missing(fence, &now).into_iter().map(|(limit, now)| (limit.region.clone(), now)).collect()
}

fn max(kernel: &Kernel) -> String {
    kernel.read(&Path::new(JOB).join(MAX)).unwrap()
}

#[test]
fn a_share_is_held_from_its_prolog_to_its_epilog() {
    for one_line in [false, true] {
        let (kernel, mut entry) = (Kernel::new(&REGIONS, one_line), share());
        assert_eq!(prolog(&kernel, &mut entry, &[ID]), None);
        assert!(entry.fence.as_ref().unwrap().holds());
        assert_eq!(max(&kernel), format!("{REGION} {SHARE}\n{OTHER} max\n"));
        assert_eq!(above(&kernel, &entry), []);
        slurm_begins(&kernel);
        assert_eq!(renew_in(&kernel, OWN, &mut entry), None);
        assert!(entry.fence.as_ref().unwrap().holds());
        assert_eq!(takes(&kernel, REGION), (44 << 20) * 64, "2816 of 2862 MiB");
        assert_eq!(takes(&kernel, OTHER), (100 << 20) * 64, "the other GPU is held by its device node");
        assert_eq!(end_in(&kernel, &entry), None, "Slurm's last step is late");
        assert_eq!(max(&kernel), format!("{REGION} max\n{OTHER} max\n"));
        slurm_ends(&kernel);
        assert_eq!(end_in(&kernel, &entry), None, "the group is gone");
    }
}

#[test]
fn a_group_that_slurm_makes_again_is_held_again() {
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    prolog(&kernel, &mut entry, &[ID]);
    slurm_begins(&kernel);
    slurm_ends(&kernel);
    slurm_begins(&kernel);
    assert_eq!(max(&kernel), format!("{REGION} max\n{OTHER} max\n"));
    assert_eq!(above(&kernel, &entry), [(REGION.to_owned(), None)]);
    assert_eq!(renew_in(&kernel, OWN, &mut entry), None);
    assert_eq!(max(&kernel), format!("{REGION} {SHARE}\n{OTHER} max\n"));
    assert!(takes(&kernel, REGION) <= SHARE);
}

#[test]
fn slurms_own_limit_stays_if_it_is_lower() {
    for (slurms, want) in [(1_u64 << 30, 1_u64 << 30), (4 << 30, SHARE)] {
        let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
        prolog(&kernel, &mut entry, &[ID]);
        slurm_begins(&kernel);
        // 26.11 with ConstrainDeviceMemory, before it forks the tasks.
        kernel.write(&Path::new(JOB).join(MAX), &format!("{REGION} {slurms}\n")).unwrap();
        assert_eq!(renew_in(&kernel, OWN, &mut entry), None);
        assert!(entry.fence.as_ref().unwrap().holds());
        assert_eq!(max(&kernel), format!("{REGION} {want}\n{OTHER} max\n"));
        assert_eq!(above(&kernel, &entry), []);
    }
    // One that stood before the prolog comes back.
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    enable(&kernel, Path::new(JOB)).unwrap();
    kernel.mkdir(JOB).unwrap();
    kernel.write(&Path::new(JOB).join(MAX), &format!("{REGION} {}\n", 4_u64 << 30)).unwrap();
    kernel.mkdir(STEP).unwrap();
    prolog(&kernel, &mut entry, &[ID]);
    // It was killed, and runs again.
    prolog(&kernel, &mut entry, &[ID]);
    assert_eq!(max(&kernel), format!("{REGION} {SHARE}\n{OTHER} max\n"));
    assert_eq!(end_in(&kernel, &entry), None);
    assert_eq!(max(&kernel), format!("{REGION} {}\n{OTHER} max\n", 4_u64 << 30));
}

#[test]
fn a_prolog_that_no_step_follows_leaves_no_group() {
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    prolog(&kernel, &mut entry, &[ID]);
    assert_eq!(end_in(&kernel, &entry), None);
    assert_eq!(kernel.groups(Path::new("system.slice/slurmstepd.scope")).unwrap(), ["system"]);
}

#[test]
fn nothing_changes_where_the_kernel_has_no_fence() {
    let told = |kernel: &Kernel, entry: &mut Entry, ids: &[&str]| {
        assert_eq!(prolog(kernel, entry, ids), None);
        assert_eq!((&entry.fence, kernel.writes.borrow().len()), (&None, 0));
        assert_eq!(renew_in(kernel, OWN, entry), None);
        assert_eq!(end_in(kernel, entry), None);
        assert_eq!(above(kernel, entry), []);
    };
    told(&Kernel::new(&[], true), &mut share(), &[ID]);
    told(&Kernel::new(&[(OTHER, 80 << 30)], true), &mut share(), &[ID]);
    let mut advised = share();
    advised.share.as_mut().unwrap().memory_enforced = false;
    told(&Kernel::new(&REGIONS, true), &mut advised, &[ID]);
}

#[test]
fn a_fence_that_cannot_be_had_is_told_and_the_job_starts() {
    // Somebody has put processes where there must be none.
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    kernel.enter("system.slice");
    let why = prolog(&kernel, &mut entry, &[ID]).unwrap();
    assert!(
        why.starts_with("the kernel does not hold job 12 to its GPU memory: ") && why.contains("busy"),
        "{why}"
    );
    assert!(!entry.fence.as_ref().unwrap().holds());
    assert_eq!(end_in(&kernel, &entry), None);

    // The limit is below what is in use already: the kernel keeps quiet.
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    enable(&kernel, Path::new(JOB)).unwrap();
    slurm_begins(&kernel);
    takes(&kernel, REGION);
    let why = prolog(&kernel, &mut entry, &[ID]).unwrap();
    assert!(
        why.ends_with("the kernel accepts 3001024512 for nvidia/0000:07:00/vidmem, and keeps a higher limit"),
        "{why}"
    );
    assert!(!entry.fence.as_ref().unwrap().holds());
    assert_eq!(above(&kernel, &entry).len(), 1);

    // A site whose Slurm has no control group for the task.
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    prolog(&kernel, &mut entry, &[ID]);
    assert_eq!(renew_in(&kernel, "0::/user.slice\n", &mut entry), None);
    assert!(!entry.fence.as_ref().unwrap().holds());
}

#[test]
fn a_scope_that_only_steps_can_tell_is_left_to_them() {
    let (kernel, mut entry) = (Kernel::new(&REGIONS, true), share());
    kernel.mkdir("system.slice/n2_slurmstepd.scope").unwrap();
    assert_eq!(prolog(&kernel, &mut entry, &[ID]), None);
    assert!(kernel.writes.borrow().is_empty() && !entry.fence.as_ref().unwrap().holds());
    slurm_begins(&kernel);
    assert_eq!(renew_in(&kernel, OWN, &mut entry), None);
    assert!(entry.fence.as_ref().unwrap().holds() && takes(&kernel, REGION) <= SHARE);
}

#[test]
fn regions_are_counted_for_each_gpu() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(memory_regions(dir.path(), &[ID]), [0]);
    std::fs::write(dir.path().join(CAPACITY), format!("{REGION} 1\n")).unwrap();
    assert_eq!(memory_regions(dir.path(), &[ID, "00000000:0b:00.0"]), [1, 0]);
}
