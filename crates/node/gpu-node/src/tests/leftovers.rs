//! Processes that ended jobs have left on GPUs and instances.

use std::os::unix::process::CommandExt;
use std::process::Child;

use lab::threads::Running;
use protocol::ShareOn;

use super::*;
use crate::Fault;

/// A process on a GPU; killed when dropped.
struct Process(Child);

impl Process {
    fn on(node: &TestNode, uid: u32, place: &[&str]) -> Self {
        let child = Command::new("sleep").arg("600").uid(uid).gid(uid).spawn().unwrap();
        let pid = child.id().to_string();
        node.sim(&[&["proc", "add", "--pid", &pid, "--memory-mib", "4000"], place].concat());
        Self(child)
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn with_policy(node: &TestNode, policy: LeftoverProcesses) -> Settings {
    let mut settings = node.settings.clone();
    settings.node.leftover_processes = policy;
    settings.node.operation_timeout_ms = 400;
    settings
}

#[test]
fn a_gpu_is_emptied_before_another_user_gets_it() {
    on_node("tests::leftovers::a_gpu_is_emptied_before_another_user_gets_it", |node| {
        node.reconcile(&[]);
        let mut left = Process::on(node, ALICE, &["--gpu", "2"]);
        let mut client = Process::on(node, ALICE, &["--gpu", "2", "--mps"]);
        let mut elsewhere = Process::on(node, ALICE, &["--gpu", "1"]);
        let told = node.disagreements(&[]);
        let pid = left.0.id();
        let line =
            format!("GPU 2: process {pid} (sleep) of uid {ALICE} is on it, but no job of that user has it");
        assert!(told.len() == 3 && told.contains(&line), "{told:?}");
        let done = node.realise(2, BOB, whole(&[2])).unwrap();
        assert!(!left.lives() && !client.lives() && elsewhere.lives());
        assert_eq!(done.leftovers.iter().map(|l| l.pid).collect::<Vec<_>>(), [pid, client.0.id()]);
        elsewhere.end();
        node.assert_clean(&[2]);
        node.release(2);
        node.assert_clean(&[]);
    });
}

/// `/proc/PID` of such a process says that it is a zombie, and shows no files.
#[test]
fn a_process_whose_first_thread_has_ended_is_ended_too() {
    on_node("tests::leftovers::a_process_whose_first_thread_has_ended_is_ended_too", |node| {
        node.reconcile(&[]);
        let dir = tempfile::tempdir().unwrap();
        let program = lab::threads::build(dir.path()).unwrap();
        let start = |open: std::process::Stdio| {
            let mut linger = Command::new(&program);
            linger.arg("linger").stdin(open).uid(ALICE).gid(ALICE).env_remove("SLURM_JOB_ID");
            Running::start(&mut linger).unwrap().without_first_thread().unwrap()
        };
        let lives = |process: &mut Running| process.0.try_wait().unwrap().is_none();
        let mut left = start(std::process::Stdio::null());
        let pid = left.0.id().to_string();
        node.sim(&["proc", "add", "--pid", &pid, "--memory-mib", "4000", "--gpu", "2"]);
        let mut opener = start(device(node, "nvidia2").into());
        let done = node.realise(1, BOB, whole(&[2])).unwrap();
        assert!(!lives(&mut left) && !lives(&mut opener));
        assert_eq!(done.leftovers.iter().map(|l| l.pid).collect::<Vec<_>>(), [left.0.id(), opener.0.id()]);
        node.release(1);
        node.assert_clean(&[]);
    });
}

/// A user chooses the name, and the kernel puts it into `/proc` as it is.
#[test]
fn a_process_whose_name_is_no_text_is_ended_too() {
    use std::os::unix::ffi::OsStringExt as _;
    on_node("tests::leftovers::a_process_whose_name_is_no_text_is_ended_too", |node| {
        node.reconcile(&[]);
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(std::ffi::OsString::from_vec(b"a\xff".to_vec()));
        std::fs::copy("/bin/sleep", &program).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let start = |open: std::process::Stdio| {
            let mut sleep = Command::new(&program);
            Process(sleep.arg("600").stdin(open).uid(ALICE).gid(ALICE).spawn().unwrap())
        };
        let mut left = start(std::process::Stdio::null());
        let pid = left.0.id().to_string();
        node.sim(&["proc", "add", "--pid", &pid, "--memory-mib", "4000", "--gpu", "2"]);
        let mut opener = start(device(node, "nvidia2").into());
        let done = node.realise(1, BOB, whole(&[2])).unwrap();
        assert!(!left.lives() && !opener.lives());
        assert_eq!(done.leftovers.iter().map(|l| l.pid).collect::<Vec<_>>(), [left.0.id(), opener.0.id()]);
        node.release(1);
        node.assert_clean(&[]);
    });
}

/// The site's own instance cannot be made anew: it is emptied as it is, and memory that stays in use stops the job.
#[test]
fn the_sites_own_instance_is_emptied_as_it_is() {
    on_node("tests::leftovers::the_sites_own_instance_is_emptied_as_it_is", |node| {
        node.reconcile(&[]);
        let mine = mig(&[(0, "3g.20gb", 0)]);
        let before = node.realise(1, ALICE, mine.clone()).unwrap().entry.instances[0].live.clone().unwrap();
        node.release(1);
        let fixed = vec![(spec(0, "3g.20gb", 0).profile, Slice(0))];
        let model = node.settings.gpus[0].model;
        let mut settings = node.settings.clone();
        settings.gpus[0] = GpuSettings::of(model, &GpuUse::Static(fixed), MigPolicy::Dynamic);
        let node = &TestNode { dir: node.dir.clone(), settings };
        let gi = before.gi.to_string();
        let mut left = Process::on(node, ALICE, &["--gpu", "0", "--gi", &gi]);
        let done = node.realise(2, BOB, mine).unwrap();
        assert!(!left.lives());
        assert_eq!(done.leftovers.iter().map(|l| l.pid).collect::<Vec<_>>(), [left.0.id()]);
        assert_eq!(done.entry.instances[0].live.clone().unwrap().uuid, before.uuid);
        node.release(2);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_site_may_wait_for_leftovers_or_refuse_the_place() {
    on_node("tests::leftovers::a_site_may_wait_for_leftovers_or_refuse_the_place", |node| {
        let mut left = Process::on(node, ALICE, &["--gpu", "2"]);
        for policy in [LeftoverProcesses::Wait, LeftoverProcesses::Fail] {
            let settings = with_policy(node, policy);
            let error = crate::realise(&settings, &node.job(2, BOB, whole(&[2]))).unwrap_err();
            let RealiseError::JobFailed(fault @ Fault::Leftovers { .. }) = &error else { panic!("{error}") };
            let pid = left.0.id();
            assert_eq!(
                fault.to_string(),
                format!(
                    "GPU 2: still used by process {pid} (sleep) of uid {ALICE}, which no job here accounts for"
                )
            );
            assert_eq!(node.access("nvidia2"), (0, 0o600), "{policy:?}");
            node.release(2);
        }
        assert!(left.lives());
        left.end();
        crate::realise(&with_policy(node, LeftoverProcesses::Fail), &node.job(2, BOB, whole(&[2]))).unwrap();
    });
}

#[test]
fn an_instance_that_somebody_was_on_is_made_anew() {
    on_node("tests::leftovers::an_instance_that_somebody_was_on_is_made_anew", |node| {
        let of = |job, uid, start| node.realise(job, uid, mig(&[(0, "1g.5gb", start)])).unwrap().entry;
        let live = |entry: &node_journal::Entry| entry.instances[0].live.clone().unwrap();
        // An instance made anew has the UUID of the one before.
        let serial = |gi: u32| {
            let state: serde_json::Value = serde_json::from_str(&node.sim(&["show", "--json"])).unwrap();
            let all = state["gpus"][0]["instances"].as_array().unwrap().clone();
            all.iter().find(|i| i["id"] == gi).unwrap()["serial"].as_u64().unwrap()
        };
        let (first, beside) = (live(&of(1, ALICE, 1)), live(&of(3, ALICE, 3)));
        node.release(1);
        let (gi, before) = (first.gi.to_string(), serial(first.gi));
        let mut left = Process::on(node, ALICE, &["--gpu", "0", "--gi", &gi]);
        let mut own = Process::on(node, ALICE, &["--gpu", "0", "--gi", &beside.gi.to_string()]);
        assert_eq!(node.disagreements(&[3]).iter().filter(|d| d.contains("is on it")).count(), 1);
        let again = live(&of(2, BOB, 1));
        assert!(!left.lives() && own.lives(), "job 3 still runs");
        let anew = serial(again.gi);
        assert_ne!(anew, before);
        node.release(2);
        assert_eq!(live(&of(4, BOB, 1)), again);
        assert_eq!(serial(again.gi), anew, "nobody was on it: it is used again");
        node.release(4);
        // Memory that no process which could be ended accounts for: the driver does not let the instance go.
        let mut roots = Process::on(node, 0, &["--gpu", "0", "--gi", &again.gi.to_string()]);
        let settings = with_policy(node, LeftoverProcesses::End);
        let error = crate::realise(&settings, &node.job(5, BOB, mig(&[(0, "1g.5gb", 1)]))).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Busy { .. })), "{error}");
        roots.end();
        node.release(5);
        node.realise(6, BOB, mig(&[(0, "1g.5gb", 1)])).unwrap();
        own.end();
        for job in [3, 6] {
            node.release(job);
        }
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn the_processes_of_those_who_share_are_left_alone() {
    on_node("tests::leftovers::the_processes_of_those_who_share_are_left_alone", |node| {
        let share = || Grant::Mps { on: ShareOn::Gpu(GpuIndex(1)), mem_mib: 1000, threads: 25 };
        node.realise(1, ALICE, share()).unwrap();
        let mut client = Process::on(node, ALICE, &["--gpu", "1", "--mps"]);
        node.realise(2, ALICE, share()).unwrap();
        // A prolog that runs once more.
        node.realise(3, BOB, whole(&[2])).unwrap();
        let mut own = Process::on(node, BOB, &["--gpu", "2"]);
        node.realise(3, BOB, whole(&[2])).unwrap();
        assert!(client.lives() && own.lives());
        node.release(1);
        node.release(2);
        node.release(3);
    });
}

/// A device node, open: the simulated ones have no driver behind them, so only their path can be.
fn device(node: &TestNode, gpu: &str) -> std::os::fd::OwnedFd {
    let flags = rustix::fs::OFlags::PATH;
    let path = node.settings.node.dev_root.join(gpu);
    rustix::fs::openat(rustix::fs::CWD, &path, flags, rustix::fs::Mode::empty()).unwrap()
}

/// Has a GPU's device node open, and nothing on the GPU.
fn has_open(node: &TestNode, uid: u32, gpu: &str, job: Option<&str>) -> Process {
    let mut sleep = Command::new("sleep");
    sleep.arg("600").stdin(device(node, gpu)).uid(uid).gid(uid).env_remove("SLURM_JOB_ID");
    sleep.envs(job.map(|job| ("SLURM_JOB_ID", job)));
    Process(sleep.spawn().unwrap())
}

/// CUDA and NVML open every device node that they may: also that of the GPU that the user's other job has.
#[test]
fn a_running_jobs_process_that_merely_has_a_node_open_is_left_alone() {
    on_node("tests::leftovers::a_running_jobs_process_that_merely_has_a_node_open_is_left_alone", |node| {
        node.reconcile(&[]);
        node.realise(1, ALICE, whole(&[0])).unwrap();
        node.realise(2, ALICE, whole(&[1])).unwrap();
        let mut other = has_open(node, ALICE, "nvidia1", Some("1"));
        let mut left = has_open(node, ALICE, "nvidia1", Some("2"));
        let mut nameless = has_open(node, ALICE, "nvidia1", None);
        let mut forged = has_open(node, BOB, "nvidia1", Some("1"));
        // A step's own process: no environment is asked.
        let step = Step::begin(node, ALICE, "nvidia1");
        node.release(2);
        let done = node.realise(3, BOB, whole(&[1])).unwrap();
        assert!(other.lives() && step.child_lives());
        assert!(!left.lives() && !nameless.lives() && !forged.lives());
        let ended: Vec<u32> = done.leftovers.iter().map(|l| l.pid).collect();
        assert_eq!(ended.len(), 3, "{:?}", done.leftovers);
        let pid = other.0.id();
        let note = format!(
            "GPU 1: process {pid} (sleep) of uid {ALICE}, of a running job, has its device node open and is left alone"
        );
        assert!(done.notes.contains(&note) && done.notes.len() == 2, "{:?}", done.notes);
        node.assert_clean(&[1, 3]);
        // With a context it is on the GPU, whichever job it is of.
        let mut on = Process::on(node, ALICE, &["--gpu", "1"]);
        node.release(3);
        node.realise(4, BOB, whole(&[1])).unwrap();
        assert!(!on.lives() && other.lives());
        node.release(4);
        node.release(1);
        other.end();
        drop(step);
        node.assert_clean(&[]);
    });
}

/// A site that leaves device nodes open to everybody: every CUDA program has all of them open.
#[test]
fn where_nodes_are_open_to_all_nobody_is_ended_for_having_one_open() {
    on_node("tests::leftovers::where_nodes_are_open_to_all_nobody_is_ended_for_having_one_open", |node| {
        let mut settings = node.settings.clone();
        settings.node.manage_device_nodes = false;
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(node.settings.node.dev_root.join("nvidia1"), open).unwrap();
        crate::realise(&settings, &node.job(1, ALICE, whole(&[0]))).unwrap();
        let mut inspecting = has_open(node, 1000, "nvidia1", None);
        let mut left = Process::on(node, ALICE, &["--gpu", "1"]);
        crate::realise(&settings, &node.job(2, BOB, whole(&[1]))).unwrap();
        assert!(inspecting.lives() && !left.lives());
        for job in [1, 2] {
            crate::release(&settings, JobId(job)).unwrap();
        }
    });
}

/// A GPU that the site leaves to Slurm, and the site's own instances beside the one that a job gets, are nobody's business.
#[test]
fn nobody_is_ended_on_gpus_left_to_slurm_or_on_the_sites_other_instances() {
    on_node(
        "tests::leftovers::nobody_is_ended_on_gpus_left_to_slurm_or_on_the_sites_other_instances",
        |node| {
            node.reconcile(&[]);
            let mine = mig(&[(0, "3g.20gb", 0), (0, "3g.20gb", 4)]);
            let made = node.realise(1, ALICE, mine).unwrap().entry;
            let beside = made.instances[1].live.clone().unwrap().gi.to_string();
            node.release(1);
            let model = node.settings.gpus[0].model;
            let fixed = [0, 4].map(|start| (spec(0, "3g.20gb", start).profile, Slice(start))).to_vec();
            let mut settings = node.settings.clone();
            settings.gpus[0] = GpuSettings::of(model, &GpuUse::Static(fixed), MigPolicy::Dynamic);
            settings.gpus[1] = GpuSettings::of(model, &GpuUse::Slurm, MigPolicy::Dynamic);
            let node = &TestNode { dir: node.dir.clone(), settings };
            let mut slurms = Process::on(node, ALICE, &["--gpu", "1"]);
            let mut slurms_open = has_open(node, ALICE, "nvidia1", None);
            let mut sites = Process::on(node, ALICE, &["--gpu", "0", "--gi", &beside]);
            // A job that Slurm gave a GPU of each kind.
            node.realise(2, BOB, mig(&[(0, "3g.20gb", 0)])).unwrap();
            node.realise(3, BOB, whole(&[1])).unwrap();
            assert!(slurms.lives() && slurms_open.lives() && sites.lives());
            node.release(2);
            node.release(3);
        },
    );
}

/// A program named slurmstepd, as root, with a user's process below it.
struct Step(Child, u32);

impl Step {
    fn begin(node: &TestNode, uid: u32, gpu: &str) -> Self {
        let program = node.dir.join("slurmstepd");
        assert!(Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap().success());
        let script =
            format!("setpriv --reuid={uid} --regid={uid} --clear-groups sleep 600 <&0 & echo $!; wait");
        let mut shell = Command::new(&program);
        shell
            .args(["-c", &script])
            .env_remove("SLURM_JOB_ID")
            .stdin(device(node, gpu))
            .stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
            .unwrap();
        let step = Self(shell, line.trim().parse().unwrap());
        while node_driver::process::name(step.1).as_deref() != Some("sleep") {
            std::thread::sleep(Duration::from_millis(5));
        }
        step
    }

    fn child_lives(&self) -> bool {
        node_driver::process::start_time_of(self.1).is_some()
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        kill(self.1);
        let _ = self.0.wait();
    }
}
