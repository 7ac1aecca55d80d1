//! Shapes run with the library that speaks to the broker, on simulated GPUs: they print what they print without the pass, the
//! driver never runs out of memory, what they allocate on a device is what they were granted, and nothing is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::case_node::{CaseNode, TaskLibrary};
use serde_json::Value;
use task_control::{Broker, Device, Job};

use crate::compiled::Compiled;
use crate::node;
use crate::tools::succeeds;

const JOB: u32 = 12;
/// Memory of a V100, without the driver's own part.
const DEVICE_MIB: u64 = 15 << 10;

/// A node with its broker.
struct Leased {
    node: CaseNode,
    broker: Child,
}

impl Leased {
    fn create() -> Leased {
        let node = node::create(TaskLibrary::Real);
        let at = |name: &str| node.dir().join(name);
        let mut command = Command::new(lab::paths::target_dir().join("debug/tessera-broker"));
        // The parent would start a server again that the tests have ended.
        command.arg("--serve").arg("--run-dir").arg(at("run")).arg("--nvml").arg(at("lib/libnvidia-ml.so.1"));
        command.arg("--log").arg(at("events")).env("NVML_SIM_STATE", at("state"));
        let broker = command.stderr(Stdio::null()).spawn().unwrap();
        let leased = Leased { node, broker };
        leased.wait("an answer", || leased.control().status().ok().map(drop));
        let devices = leased.uuids().into_iter().map(|uuid| Device {
            uuid,
            group: "g0".to_owned(),
            mps_pipe: None,
            memory_mib: DEVICE_MIB,
            sms: 80,
            workers: 8,
        });
        let job = Job { job: JOB, uid: 0, seats: 8, gpu_mem_mib: None, devices: devices.collect() };
        leased.control().add(&job).unwrap();
        leased
    }

    fn path(&self, name: &str) -> PathBuf {
        self.node.dir().join(name)
    }

    fn control(&self) -> Broker {
        Broker::at(&self.path("run"), Duration::from_secs(60))
    }

    /// The GPUs of the node.
    fn uuids(&self) -> Vec<String> {
        let mut show = Command::new(lab::paths::target_dir().join("debug/nvml-sim"));
        let shown = succeeds(show.args(["show", "--json", "--state"]).arg(self.path("state")));
        let text = String::from_utf8(shown.stdout).unwrap();
        let mut uuids: Vec<String> =
            text.match_indices("GPU-").map(|(at, _)| text[at..at + 40].to_owned()).collect();
        uuids.sort();
        uuids.dedup();
        uuids
    }

    fn wait<T>(&self, what: &str, mut get: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(it) = get() {
                return it;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until nobody holds or waits for anything.
    fn assert_clean(&self) {
        self.wait("an empty pool", || {
            let status = self.control().status().ok()?;
            let idle = status.devices.iter().all(|d| d.leased_mib == 0 && d.workers == 0);
            (idle && status.jobs.iter().all(|job| job.tasks.is_empty())).then_some(())
        });
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let _ = self.broker.kill();
        let _ = self.broker.wait();
    }
}

/// Logs of broker and driver after a run.
#[derive(Debug, Default)]
struct Seen {
    grants: usize,
    frees: usize,
    refused: usize,
    /// The most that was leased at a time, bytes.
    leased: u64,
    /// The most that was allocated on a device at a time, without contexts, bytes.
    allocated: u64,
    /// Allocations that the driver refused.
    denied: usize,
}

impl Seen {
    fn read(leased: &Leased) -> Seen {
        let lines = |name: &str| -> Vec<Value> {
            let text = fs::read_to_string(leased.path(name)).unwrap_or_default();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let mut seen = Seen::default();
        let (mut asked, mut held) = (BTreeMap::new(), BTreeMap::new());
        for event in lines("events") {
            let task = event["task"].as_u64();
            match event["ev"].as_str().unwrap() {
                "begin" => {
                    asked.insert(
                        task,
                        event["mem"].as_u64().unwrap() + event["managed"].as_u64().unwrap_or(0),
                    );
                }
                "grant" => {
                    seen.grants += 1;
                    held.insert(task, asked[&task]);
                    seen.leased = seen.leased.max(held.values().sum());
                }
                "free" => {
                    seen.frees += 1;
                    held.remove(&task);
                }
                "refuse" => seen.refused += 1,
                _ => {}
            }
        }
        let mut contexts: BTreeMap<String, u64> = BTreeMap::new();
        for line in lines("driver") {
            let number = |key: &str| line[key].as_u64().unwrap_or(0);
            let context = contexts.entry(line["device"].to_string()).or_default();
            match line["op"].as_str().unwrap() {
                "context" if number("result") == 0 => *context += number("bytes"),
                "alloc" if number("result") != 0 => seen.denied += 1,
                "alloc" => seen.allocated = seen.allocated.max(number("used") - *context),
                _ => {}
            }
        }
        seen
    }
}

/// Shapes whose last tasks end with the process: they keep memory, launch without waiting, or need a device for something
/// else first.
const HELD: [&str; 6] = ["heap_helper", "no_free", "stream_ordered", "streams", "symbols", "unwaited"];

/// Runs a shape in the job, and compares what it prints with what it prints without the pass.
fn run(leased: &Leased, shape: &Compiled, more: &[(&str, &str)]) -> Seen {
    let socket = task_control::socket(&leased.path("run"), JOB);
    let log = leased.path("driver");
    let environment =
        [("TESSERA_TASK_SOCKET", socket.to_str().unwrap()), ("CUDA_SIM_LOG", log.to_str().unwrap())];
    let done = node::run(&leased.node, &shape.with_pass("-O2"), &[&environment[..], more].concat());
    assert_eq!(String::from_utf8(done.stdout).unwrap(), shape.plain, "{}", shape.name);
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "", "{}", shape.name);
    Seen::read(leased)
}

/// Shapes whose allocations come with the launch, or are refused.
const REPLACED: [&str; 5] = ["behind_calls", "growth", "heap_late", "later", "too_large"];

pub(crate) fn check(shape: &Compiled) {
    with_mapped_memory(shape);
    if REPLACED.contains(&shape.name) {
        with_replaced_arguments(shape);
    }
}

/// The paper's way, where the driver cannot map memory at an object's address: arguments of launches are replaced.
fn with_replaced_arguments(shape: &Compiled) {
    let leased = Leased::create();
    let seen = run(&leased, shape, &[("CUDA_SIM_NO_VMM", "1")]);
    assert!(seen.grants > 0 && seen.allocated <= seen.leased, "{}: {seen:?}", shape.name);
    leased.assert_clean();
}

fn with_mapped_memory(shape: &Compiled) {
    let name = shape.name;
    let leased = Leased::create();
    let mut seen = run(&leased, shape, &[]);
    assert!(seen.grants > 0, "{name}: {seen:?}");
    assert!(seen.allocated <= seen.leased, "{name}: {seen:?}");
    // It asks for more than there is: the broker says how much there is, and the driver refuses as it would anyway.
    let too_much = usize::from(name == "too_large");
    assert_eq!((seen.denied, seen.refused), (too_much, too_much), "{name}: {seen:?}");
    if !HELD.contains(&name) && too_much == 0 {
        // The broker writes its log after it has answered.
        let until = Instant::now() + Duration::from_secs(10);
        while seen.frees < seen.grants && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            seen = Seen::read(&leased);
        }
        assert_eq!(seen.frees, seen.grants, "{name}: {seen:?}");
    }
    leased.assert_clean();
}
