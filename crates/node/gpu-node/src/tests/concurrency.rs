//! Several prologs and epilogs at once.

use std::process::Child;

use protocol::ShareOn;

use super::*;
use crate::Fault;
use node_driver::deadline::Deadline;
use node_journal::lock::Locks;

const ACT: &str = "tests::concurrency::act";

/// Not a test of its own: one prolog or epilog, in a process of its own.
#[test]
#[ignore = "run by other tests"]
fn act() {
    let Some(dir) = std::env::var_os(NODE_DIR) else { return };
    let node = TestNode::open(Path::new(&dir));
    let number = |name: &str| std::env::var(name).unwrap().parse::<u32>().unwrap();
    let job = number("ACT_JOB");
    if std::env::var("ACT").unwrap() == "release" {
        node.release(job);
    } else {
        let (gpu, start) = (u16::try_from(number("ACT_GPU")).unwrap(), number("ACT_START"));
        let grant = mig(&[(gpu, "1g.5gb", u8::try_from(start).unwrap())]);
        node.realise(job, ALICE, grant).unwrap();
    }
}

fn start(node: &TestNode, what: &str, job: u32) -> Child {
    let (gpu, start) = (job / 7, job % 7);
    let mut child = command(ACT, &node.dir);
    child.env("ACT", what).env("ACT_JOB", job.to_string());
    child.env("ACT_GPU", gpu.to_string()).env("ACT_START", start.to_string());
    child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
}

fn finish(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        assert_ran(ACT, &output);
    }
}

#[test]
fn fourteen_prologs_and_epilogs_at_once() {
    on_node("tests::concurrency::fourteen_prologs_and_epilogs_at_once", |node| {
        let jobs: Vec<u32> = (0..14).collect();
        finish(jobs.iter().map(|j| start(node, "realise", *j)).collect());
        node.reconcile(&jobs);
        node.assert_clean(&jobs);
        let seen = node.inspect();
        assert_eq!(seen.gpus.iter().map(|g| g.instances.len()).collect::<Vec<_>>(), [7, 7, 0]);
        assert_eq!(seen.entries.len(), 14);
        // Epilogs of some beside new prologs on the other GPU's freed slices.
        finish(jobs.iter().map(|j| start(node, "release", *j)).collect());
        node.assert_clean(&[]);
        let mixed = jobs.iter().filter(|j| **j % 2 == 0).map(|j| start(node, "realise", *j));
        finish(mixed.collect());
        let swap = jobs.iter().map(|j| start(node, if j % 2 == 0 { "release" } else { "realise" }, *j));
        finish(swap.collect());
        let odd: Vec<u32> = jobs.iter().copied().filter(|j| j % 2 == 1).collect();
        node.assert_clean(&odd);
    });
}

#[test]
fn an_epilog_does_not_wait_for_a_busy_gpu() {
    on_node("tests::concurrency::an_epilog_does_not_wait_for_a_busy_gpu", |node| {
        let share = Grant::Mps { on: ShareOn::Instance(spec(0, "3g.20gb", 4)), mem_mib: 1000, threads: 25 };
        node.realise(1, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.realise(2, ALICE, share).unwrap();
        let deadline = Deadline::after(Duration::from_secs(1));
        // As a prolog that waits for the driver on this GPU.
        let gpu =
            Locks::for_job(&node.settings.node.state_dir, JobId(3), &[NvmlIndex(0)], &[], &deadline).unwrap();
        let mut settings = node.settings.clone();
        settings.node.operation_timeout_ms = 200;
        let error = crate::realise(&settings, &node.job(4, BOB, mig(&[(0, "1g.5gb", 1)]))).unwrap_err();
        assert!(matches!(error, RealiseError::JobFailed(Fault::Lock(_))), "{error}");
        let waiting = crate::release(&settings, JobId(2)).unwrap();
        assert_eq!(waiting.problems, Vec::<String>::new());
        node.release(1);
        drop(gpu);
        // Somebody works on the whole node for too long: the epilog succeeds all the same.
        node.realise(5, ALICE, mig(&[(0, "1g.5gb", 0)])).unwrap();
        let all =
            Locks::for_node(&settings.node.state_dir, &deadline.at_most(Duration::from_secs(1))).unwrap();
        assert_eq!(crate::release(&settings, JobId(5)).unwrap().problems.len(), 1);
        drop(all);
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn the_time_of_a_neighbours_prolog_is_not_taken_from_a_jobs_own() {
    on_node("tests::concurrency::the_time_of_a_neighbours_prolog_is_not_taken_from_a_jobs_own", |node| {
        node.reconcile(&[]);
        let mut settings = node.settings.clone();
        settings.node.operation_timeout_ms = 4_000;
        let deadline = Deadline::after(Duration::from_secs(1));
        let gpu =
            Locks::for_job(&settings.node.state_dir, JobId(3), &[NvmlIndex(0)], &[], &deadline).unwrap();
        // It needs a reset, which takes its time.
        let reset = settings.node.gpu_reset_command.join(" ");
        settings.node.gpu_reset_command =
            ["/bin/sh", "-c", &format!("sleep 1; exec {reset}")].map(str::to_owned).to_vec();
        let works = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(4500));
            drop(gpu);
        });
        crate::realise(&settings, &node.job(4, BOB, mig(&[(0, "1g.5gb", 1)]))).unwrap();
        works.join().unwrap();
        node.release(4);
        node.assert_clean(&[]);
    });
}
