//! Seats in the pool of GPU tasks, with the real `nvidia-cuda-mps-control` and a broker that only knows its jobs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;

use node_state::{GpuState, Holder};
use protocol::{PoolSeats, ShareOn, TaskDevices, TaskGrant};
use site_config::{Overuse, TaskPolicy, Tasks};
use slurm_files::GpuOrder;
use task_control::message::{Answer, Ended, Line, Request};
use task_control::status::JobStatus;
use task_control::{Broker, ControlError, Job, Status, control_socket, folder};

use super::*;
use crate::{Fault, task_environment};

/// Variable that names the socket on which [`serves`] is to listen.
const RUN_DIR: &str = "GPU_NODE_TEST_BROKER";

/// The site has a pool, and the broker is this test binary.
fn with_pool(node: &TestNode) -> TestNode {
    let script = node.dir.join("broker.sh");
    let exe = std::env::current_exe().unwrap();
    let text = format!(
        "#!/bin/sh\nrm -f \"$2/tasks/control.sock\"\n{RUN_DIR}=\"$2\" setsid {} tests::tasks::serves --exact --ignored >/dev/null 2>&1 </dev/null &\n\
         while [ ! -S \"$2/tasks/control.sock\" ]; do sleep 0.01; done\n",
        exe.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(&node.settings.node.task_library, "").unwrap();
    let pool = node_state::PoolPolicy::default();
    let tasks = Tasks { policy: TaskPolicy::Tessera, pool, overuse: Overuse::Charge, log: None };
    let mut settings = Settings { tasks: Some(tasks), ..node.settings.clone() };
    settings.node.task_broker = script;
    TestNode { dir: node.dir.clone(), settings }
}

#[test]
#[ignore = "it is the broker of the other tests"]
#[expect(clippy::exit, reason = "the listener never wakes by itself")]
fn serves() {
    let run_dir = PathBuf::from(std::env::var_os(RUN_DIR).unwrap());
    std::fs::create_dir_all(folder(&run_dir)).unwrap();
    let socket = control_socket(&run_dir);
    // Whoever sees the socket may connect: between bind and listen it would be refused.
    let unheard = socket.with_extension("new");
    let _ = std::fs::remove_file(&unheard);
    let listener = UnixListener::bind(&unheard).unwrap();
    std::fs::rename(&unheard, &socket).unwrap();
    // Like the broker's files, this outlives it.
    let file = folder(&run_dir).join("jobs.json");
    let mut jobs: Vec<Job> =
        std::fs::read(&file).map(|text| serde_json::from_slice(&text).unwrap()).unwrap_or_default();
    // A test that fails leaves it behind, and removes its directory.
    std::thread::spawn(move || {
        while run_dir.exists() {
            std::thread::sleep(Duration::from_secs(1));
        }
        std::process::exit(0);
    });
    for peer in listener.incoming() {
        let mut peer = peer.unwrap();
        let mut line = String::new();
        BufReader::new(peer.try_clone().unwrap()).read_line(&mut line).unwrap();
        let request = serde_json::from_str::<Line>(&line).unwrap().request;
        let stops = request == Request::Stop && jobs.is_empty();
        let answer = match request {
            Request::Add(job) => {
                jobs.retain(|known| known.job != job.job);
                jobs.push(job);
                Answer::Done
            }
            Request::End { job } => {
                jobs.retain(|known| known.job != job);
                Answer::Ended(Ended { left: 0, jobs: u32::try_from(jobs.len()).unwrap() })
            }
            Request::Status => {
                let seen = |j: &Job| JobStatus { job: j.job, uid: j.uid, seats: j.seats, tasks: Vec::new() };
                let (parent, child) = (std::process::id(), std::process::id());
                let jobs = jobs.iter().map(seen).collect();
                Answer::Status(Status { parent, child, policy: String::new(), devices: Vec::new(), jobs })
            }
            Request::Stop if !stops => Answer::Refused { why: "it has jobs".to_owned() },
            Request::Stop | Request::Hold { .. } => Answer::Done,
        };
        std::fs::write(&file, serde_json::to_string(&jobs).unwrap()).unwrap();
        if stops {
            std::fs::remove_file(&socket).unwrap();
        }
        writeln!(peer, "{}", serde_json::to_string(&answer).unwrap()).unwrap();
        if stops {
            return;
        }
    }
}

/// Lists the jobs that the broker knows, with their seats; `None`: it does not run.
fn known(node: &TestNode) -> Option<Vec<(u32, u32)>> {
    let status = Broker::at(&node.settings.node.run_dir, Duration::from_secs(10)).status().ok()?;
    Some(status.jobs.iter().map(|job| (job.job, job.seats)).collect())
}

/// Seats on `1g.5gb` instances of GPU 0, by their starts.
fn seats(places: &[(u8, u32)]) -> Grant {
    let place = |(start, seats): &(u8, u32)| PoolSeats {
        on: ShareOn::Instance(spec(0, "1g.5gb", *start)),
        seats: *seats,
    };
    let on = TaskDevices::Pool(places.iter().map(place).collect());
    Grant::Tasks(TaskGrant { on, mem_mib: Some(1000), probes: false })
}

#[test]
fn a_job_may_use_several_gpus_whatever_their_order_in_gres_conf() {
    on_node("tests::tasks::a_job_may_use_several_gpus_whatever_their_order_in_gres_conf", |node| {
        let node = &with_pool(node);
        let file =
            |minor: u16| node.settings.node.dev_root.join(format!("nvidia{minor}")).display().to_string();
        let numbering =
            Numbering::of(&node.settings, &GpuOrder::Files([1, 0, 2].map(file).to_vec())).unwrap();
        // Slurm's GPU 0, which has the seats, is NVML's 1.
        let seat = |(gpu, seats)| PoolSeats { on: ShareOn::Gpu(GpuIndex(gpu)), seats };
        let on = TaskDevices::Pool([(0, 2), (1, 0)].map(seat).to_vec());
        let grant = Grant::Tasks(TaskGrant { on, mem_mib: None, probes: true });
        let grant = numbering.translate(&node.settings, &grant).unwrap();
        let entry = crate::realise(&node.settings, &node.job_with(1, ALICE, grant)).unwrap().entry;
        assert_eq!(entry.gpus.iter().map(|g| (g.index.0, g.number.0)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        let devices = &entry.tasks.as_ref().unwrap().devices;
        let of = |d: &node_journal::TaskDevice| (d.daemon.clone(), d.seats);
        assert_eq!(
            devices.iter().map(of).collect::<Vec<_>>(),
            [("gpu0".to_owned(), 0), ("gpu1".to_owned(), 2)]
        );
        // A program that asks nobody is where its job has seats.
        let env = task_environment(&entry, 0, 1);
        let uuid = |i: usize| entry.gpus[i].uuid.clone();
        assert_eq!(var(&env, "CUDA_VISIBLE_DEVICES"), uuid(1));
        assert!(var(&env, "CUDA_MPS_PIPE_DIRECTORY").ends_with("/mps/gpu1/pipe"), "{env:?}");
        assert_eq!(var(&env, "NVIDIA_VISIBLE_DEVICES"), format!("{},{}", uuid(0), uuid(1)));
        assert_eq!(node.daemons().len(), 2, "one for each GPU");
        for gpu in ["nvidia0", "nvidia1"] {
            assert_eq!(node.access(gpu), (ALICE, 0o600));
        }
        let seats = |gpu: usize| match &node.inspect().node.gpus[gpu].state {
            GpuState::Tasks(jobs) => jobs.iter().map(|s| s.seats).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!([seats(0), seats(1)], [[0], [2]]);
        node.reconcile(&[1]);
        node.assert_clean(&[1]);
        node.release(1);
        assert_eq!((node.daemons().len(), node.access("nvidia1")), (0, (0, 0o600)));
        node.assert_clean(&[]);
    });
}

#[test]
fn the_pool_and_its_broker_live_from_the_first_job_to_the_last() {
    on_node("tests::tasks::the_pool_and_its_broker_live_from_the_first_job_to_the_last", |node| {
        let node = &with_pool(node);
        let first = node.realise(1, ALICE, seats(&[(0, 2)])).unwrap().entry;
        let second = node.realise(2, ALICE, seats(&[(0, 0), (1, 1)])).unwrap().entry;
        assert_eq!(node.daemons().len(), 2, "one for each device");
        assert_eq!(known(node), Some(vec![(1, 2), (2, 1)]));
        let env = task_environment(&second, 0, 1);
        let uuid = |i: usize| second.instances[i].live.clone().unwrap().uuid;
        assert_eq!(first.instances[0], second.instances[0]);
        assert_eq!(var(&env, "CUDA_VISIBLE_DEVICES"), uuid(0));
        assert_eq!(var(&env, "NVIDIA_VISIBLE_DEVICES"), format!("{},{}", uuid(0), uuid(1)));
        assert!(var(&env, "TESSERA_TASK_SOCKET").ends_with("/tasks/2.sock"));
        assert!(var(&env, "CUDA_MPS_PIPE_DIRECTORY").contains("/mps/gpu0-"), "{env:?}");
        let GpuState::Mig(instances) = &node.inspect().node.gpus[0].state else { panic!("cut") };
        let pools = instances.iter().map(|i| match &i.holder {
            Holder::Pool(jobs) => jobs.iter().map(|s| (s.job.0, s.seats)).collect(),
            other => panic!("{other:?}"),
        });
        assert_eq!(pools.collect::<Vec<Vec<_>>>(), [vec![(1, 2), (2, 0)], vec![(2, 1)]]);
        node.reconcile(&[1, 2]);
        node.assert_clean(&[1, 2]);
        // The first job's end leaves what the second uses.
        node.release(1);
        assert_eq!((node.daemons().len(), known(node)), (2, Some(vec![(2, 1)])));
        assert_eq!(node.access(&second.device_nodes[0]), (ALICE, 0o400));
        node.release(2);
        assert_eq!((node.daemons(), known(node)), (Vec::new(), None));
        assert_eq!(node.access(&second.device_nodes[0]), (0, 0o400));
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_part_of_the_pool_comes_free_while_other_jobs_stay() {
    on_node("tests::tasks::a_part_of_the_pool_comes_free_while_other_jobs_stay", |node| {
        let node = &with_pool(node);
        let both = node.realise(1, ALICE, seats(&[(0, 1), (1, 1)])).unwrap().entry;
        node.realise(2, ALICE, seats(&[(1, 1)])).unwrap();
        node.release(1);
        assert_eq!(node.daemons().len(), 1);
        let access: Vec<_> =
            both.device_nodes.iter().filter(|n| n.contains('/')).map(|n| node.access(n).0).collect();
        assert_eq!(access, [0, 0, ALICE, ALICE], "{:?}", both.device_nodes);
        // Another user's isolated job may have it now.
        node.realise(3, BOB, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.release(2);
        node.release(3);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn the_pool_excludes_other_users_and_other_kinds() {
    on_node("tests::tasks::the_pool_excludes_other_users_and_other_kinds", |node| {
        let mut node = with_pool(node);
        node.realise(1, ALICE, seats(&[(0, 1)])).unwrap();
        let on = ShareOn::Instance(spec(0, "1g.5gb", 0));
        for (job, uid, grant) in [
            (2, BOB, seats(&[(0, 1)])),
            (3, ALICE, Grant::Mps { on, mem_mib: 100, threads: 10 }),
            (4, ALICE, mig(&[(0, "1g.5gb", 0)])),
        ] {
            let error = node.realise(job, uid, grant).unwrap_err();
            assert!(matches!(error, RealiseError::JobFailed(Fault::Held { .. })), "{error}");
            node.release(job);
        }
        node.release(1);
        node.settings.share_between_users = true;
        let shared = node.realise(5, ALICE, seats(&[(0, 1)])).unwrap().entry;
        node.realise(6, BOB, seats(&[(0, 1)])).unwrap();
        let cap = shared.device_nodes.iter().find(|n| n.contains('/')).unwrap();
        assert_eq!((node.daemons().len(), node.access(cap).1), (1, 0o444));
        node.release(5);
        node.release(6);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_jobs_own_gpus_have_one_daemon_together() {
    on_node("tests::tasks::a_jobs_own_gpus_have_one_daemon_together", |node| {
        let node = &with_pool(node);
        let on = TaskDevices::Own { gpus: vec![GpuIndex(1), GpuIndex(0)], seats: 8 };
        let entry = node.realise(1, ALICE, Grant::Tasks(TaskGrant { on, mem_mib: None, probes: true }));
        let entry = entry.unwrap().entry;
        let daemons = node.daemons();
        assert_eq!((daemons.len(), known(node)), (1, Some(vec![(1, 8)])));
        let both = format!("{},{}", entry.gpus[0].uuid, entry.gpus[1].uuid);
        let environ = std::fs::read_to_string(format!("/proc/{}/environ", daemons[0])).unwrap();
        assert!(environ.contains(&format!("CUDA_VISIBLE_DEVICES={both}")), "{environ}");
        assert_eq!(var(&task_environment(&entry, 0, 1), "CUDA_VISIBLE_DEVICES"), both);
        assert!(matches!(node.inspect().node.gpus[1].state, GpuState::Whole(JobId(1))));
        let error = node.realise(2, ALICE, seats(&[(0, 1)])).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Held { .. })), "{error}");
        node.release(2);
        node.release(1);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn reconciliation_starts_the_broker_again_and_ends_what_nobody_knows() {
    on_node("tests::tasks::reconciliation_starts_the_broker_again_and_ends_what_nobody_knows", |node| {
        let node = &with_pool(node);
        node.realise(1, ALICE, seats(&[(0, 1)])).unwrap();
        let broker = Broker::at(&node.settings.node.run_dir, Duration::from_secs(10));
        kill_broker(node);
        let what = |node: &TestNode| -> Vec<String> {
            node.inspect()
                .disagreements
                .iter()
                .map(|d| d.what.clone())
                .filter(|w| w.contains("broker"))
                .collect()
        };
        assert!(what(node)[0].contains("no task broker answers"), "{:?}", what(node));
        assert!(crate::lacks_broker(&node.settings));
        let live = HashSet::from([JobId(1)]);
        let report = crate::reconcile(&node.settings, crate::LiveJobs::Exactly(&live)).unwrap();
        assert!(report.broker_started && report.problems.is_empty(), "{report:?}");
        assert_eq!((known(node), what(node)), (Some(vec![(1, 1)]), Vec::new()));
        assert!(!crate::lacks_broker(&node.settings));
        // A job that only the broker knows.
        broker.add(&Job { job: 7, uid: BOB, seats: 1, gpu_mem_mib: None, devices: Vec::new() }).unwrap();
        assert_eq!(what(node), ["the task broker still has job 7, which is not journalled"]);
        let report = crate::reconcile(&node.settings, crate::LiveJobs::Exactly(&live)).unwrap();
        assert_eq!((report.broker_jobs, known(node)), (vec![JobId(7)], Some(vec![(1, 1)])));
        // The next job's prolog starts it too, and tells it of both.
        kill_broker(node);
        node.realise(2, ALICE, seats(&[(0, 1)])).unwrap();
        assert_eq!(known(node).unwrap().len(), 2);
        // What a dead job had is given back, and with the last one the broker ends.
        let report = crate::reconcile(&node.settings, crate::LiveJobs::Exactly(&HashSet::new())).unwrap();
        assert_eq!((report.finished.len(), known(node)), (2, None));
        node.assert_clean(&[]);
    });
}

#[test]
fn a_broker_that_starts_again_does_not_keep_what_ended_meanwhile() {
    on_node("tests::tasks::a_broker_that_starts_again_does_not_keep_what_ended_meanwhile", |node| {
        let node = &with_pool(node);
        node.realise(1, ALICE, seats(&[(0, 1)])).unwrap();
        kill_broker(node);
        node.release(1);
        assert_eq!(known(node), None);
        node.realise(2, ALICE, seats(&[(0, 1)])).unwrap();
        assert_eq!(known(node), Some(vec![(2, 1)]));
        node.release(2);
        assert_eq!(known(node), None, "it ends with its last job");
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

fn kill_broker(node: &TestNode) {
    let broker = Broker::at(&node.settings.node.run_dir, Duration::from_secs(10));
    kill(broker.status().unwrap().child);
    // While it dies it may still take connections, which are then reset.
    while !matches!(broker.status(), Err(ControlError::NotRunning { .. })) {}
}

/// Ends an MPS daemon as a crash would.
fn kill_daemon(node: &TestNode) {
    kill(node.daemons()[0]);
    while !node.daemons().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process of the user's with the name of MPS's own: every process chooses its name.
fn named_as_mps() -> std::process::Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo nvidia-cuda-mps > /proc/$$/comm && echo named && read line"]);
    shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = shell.uid(ALICE).gid(ALICE).spawn().unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(child.stdout.as_mut().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(
        (said.as_str(), node_driver::process::name(child.id()).as_deref()),
        ("named\n", Some("nvidia-cuda-mps"))
    );
    child
}

#[test]
fn a_dead_mps_daemon_is_started_again_when_its_clients_are_gone() {
    on_node("tests::tasks::a_dead_mps_daemon_is_started_again_when_its_clients_are_gone", |node| {
        let node = &with_pool(node);
        let entry = node.realise(1, ALICE, seats(&[(0, 1)])).unwrap().entry;
        assert!(!crate::lacks_daemon(&node.settings));
        let gi = entry.instances[0].live.clone().unwrap().gi.to_string();
        let client = named_as_mps();
        let place = ["--gpu", "0", "--gi", &gi, "--ci", "0", "--memory-mib", "1000", "--mps"];
        node.sim(&[&["proc", "add", "--pid", &client.id().to_string()], &place[..]].concat());
        kill_daemon(node);
        // Nobody takes the client's device from under it.
        assert!(!crate::lacks_daemon(&node.settings));
        let serve = || {
            let journal = node_journal::Journal::open(&node.settings.node.state_dir).unwrap();
            crate::serve_tasks(&node.settings, &journal, &entry).unwrap()
        };
        assert_eq!((serve(), node.daemons()), (Vec::<String>::new(), Vec::new()));
        let report = node.reconcile(&[1]);
        assert_eq!((report.daemons_started, node.daemons()), (Vec::<String>::new(), Vec::new()));
        assert!(node.disagreements(&[1])[0].contains("does not run"), "{:?}", node.disagreements(&[1]));
        let mut client = client;
        client.kill().unwrap();
        client.wait().unwrap();
        // The next step starts it, and so does the health check.
        assert!(crate::lacks_daemon(&node.settings));
        assert_eq!((serve(), node.daemons().len()), (Vec::<String>::new(), 1));
        assert_eq!(node_driver::process::owner(node.daemons()[0]), Some(ALICE));
        assert!(!crate::lacks_daemon(&node.settings));
        kill_daemon(node);
        let report = node.reconcile(&[1]);
        assert_eq!(report.daemons_started, [entry.tasks.clone().unwrap().devices[0].daemon.clone()]);
        assert_eq!((report.problems, node.daemons().len()), (Vec::<String>::new(), 1));
        node.assert_clean(&[1]);
        node.release(1);
        assert_eq!(node.daemons(), Vec::<u32>::new());
        node.assert_clean(&[]);
    });
}

/// Slurm 26.05 with `CLONE_NEWPID` in namespace.yaml: each step took the daemon, which it does not see, for dead, and put one of
/// its own into its place, which ended with the job.
#[test]
fn a_step_in_a_pid_namespace_leaves_a_daemon_that_it_does_not_see() {
    const NAME: &str = "tests::tasks::a_step_in_a_pid_namespace_leaves_a_daemon_that_it_does_not_see";
    on_node(NAME, |node| {
        let node = &with_pool(node);
        let journal = || node_journal::Journal::open(&node.settings.node.state_dir).unwrap();
        if let Some(entry) = journal().job(JobId(1)).unwrap() {
            return assert_eq!(
                crate::serve_tasks(&node.settings, &journal(), &entry).unwrap(),
                Vec::<String>::new()
            );
        }
        node.realise(1, ALICE, seats(&[(0, 1)])).unwrap();
        let before = (node.daemons(), journal().daemons().unwrap().into_parts().0);
        let this = command(NAME, &node.dir);
        let mut inside = Command::new("unshare");
        inside.args(["--pid", "--fork", "--mount-proc"]).arg(this.get_program()).args(this.get_args());
        inside.envs(this.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert_ran(NAME, &inside.output().unwrap());
        assert_eq!((node.daemons(), journal().daemons().unwrap().into_parts().0), before);
        node.release(1);
        assert_eq!(node.daemons(), Vec::<u32>::new());
    });
}

#[test]
fn the_library_cannot_be_swapped() {
    on_node("tests::tasks::the_library_cannot_be_swapped", |node| {
        let mut node = with_pool(node);
        let folder = node.dir.join("lib");
        std::fs::create_dir(&folder).unwrap();
        let library = folder.join("libtessera_task.so");
        node.settings.node.task_library.clone_from(&library);
        let mode =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let refused = |node: &TestNode, job: u32| {
            let why = error_chain::with_causes(&node.realise(job, ALICE, seats(&[(0, 1)])).unwrap_err());
            node.release(job);
            why
        };
        assert!(refused(&node, 1).contains("cannot be preloaded to the job's programs"), "missing");
        // It would be loaded and do nothing.
        node.settings.node.task_library = folder.join("ours.so");
        assert!(refused(&node, 1).contains("ours.so: must be named libtessera_task.so"));
        node.settings.node.task_library.clone_from(&library);
        // Written to, replaced in its directory, or behind a link.
        std::fs::write(&library, "").unwrap();
        mode(&library, 0o666);
        assert!(refused(&node, 2).contains("libtessera_task.so: users other than root can change it"));
        mode(&library, 0o644);
        mode(&folder, 0o777);
        assert!(refused(&node, 3).contains("lib: users other than root can change it"));
        let links = node.dir.join("links");
        std::fs::create_dir(&links).unwrap();
        let link = links.join("libtessera_task.so");
        std::os::unix::fs::symlink(&library, &link).unwrap();
        node.settings.node.task_library.clone_from(&link);
        assert!(refused(&node, 4).contains("lib: users other than root can change it"));
        mode(&folder, 0o755);
        std::os::unix::fs::chown(&library, Some(BOB), None).unwrap();
        assert!(refused(&node, 5).contains("links/libtessera_task.so: users other than root can change it"));
        std::os::unix::fs::chown(&library, Some(0), None).unwrap();
        node.realise(6, ALICE, seats(&[(0, 1)])).unwrap();
        // No user does what the checks would refuse.
        let may = |uid: u32, words: &[&str]| {
            Command::new(words[0]).args(&words[1..]).uid(uid).gid(uid).output().unwrap().status.success()
        };
        let path = library.to_str().unwrap();
        for uid in [ALICE, BOB] {
            assert!(!may(uid, &["rm", "-f", path]) && !may(uid, &["mv", path, "/tmp/tessera-stolen"]));
            assert!(!may(uid, &["cp", "/bin/true", path]) && !may(uid, &["ln", "-sf", "/bin/true", path]));
        }
        node.release(6);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn a_site_without_a_pool_gives_no_seats() {
    on_node("tests::tasks::a_site_without_a_pool_gives_no_seats", |node| {
        let error = node.realise(1, ALICE, seats(&[(0, 1)])).unwrap_err();
        assert!(error_chain::with_causes(&error).contains("has no [tasks]"), "{error}");
        node.release(1);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}
