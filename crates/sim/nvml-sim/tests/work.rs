//! Programs that compute: speed, clock, draw, energy, and what goes wrong with power limits.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{Node, text};
use nvidia_ml::engine::handle::Handle;
use nvidia_ml::engine::load::Load;
use nvidia_ml::engine::meter::Reading;
use nvidia_ml::engine::session::Session;
use nvidia_ml::engine::traffic::{Rates, Traffic};
use physics::{Board, Tenant};

/// The paper's GPU.
const PCIE: &str = "[[gpus]]\nmodel = \"NVIDIA A100-PCIE-40GB\"\n";
const PCIE_MIG: &str = "[[gpus]]\nmodel = \"NVIDIA A100-PCIE-40GB\"\nmig = \"on\"\n";

/// A program that computes until the value is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn work(node: &Node, app: &str, devices: &str) -> Program {
    let mut command = node.command(env!("CARGO_BIN_EXE_nvml-sim"));
    command.args(["work", "--app", app, "--every", "1ms"]).env("CUDA_VISIBLE_DEVICES", devices);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    // Its first line says that it runs.
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(&format!("{app} ")), "{line}");
    // Nobody reads on: it must not stop for that.
    let mut rest = child.stdout.take().unwrap();
    std::thread::spawn(move || std::io::copy(&mut rest, &mut std::io::sink()));
    Program(child)
}

fn session(node: &Node) -> Session {
    Session::at(&node.state()).unwrap()
}

fn load(session: &Session) -> Load {
    session.state().unwrap().load(0).unwrap()
}

fn reading(session: &Session) -> Reading {
    session.store().integrate(&session.state().unwrap()).unwrap()[0]
}

fn query(node: &Node, what: &str) -> String {
    node.smi(&format!("-i 0 --query-gpu={what} --format=csv,noheader,nounits")).trim().to_owned()
}

#[test]
fn a_capped_program_is_slower_and_nvidia_smi_says_why() {
    let node = Node::new(PCIE);
    let throttle =
        "power.draw,clocks.sm,clocks_throttle_reasons.gpu_idle,clocks_throttle_reasons.sw_power_cap";
    assert_eq!(query(&node, throttle), "36.00, 210, Active, Not Active");
    assert_eq!(query(&node, "power.min_limit,power.max_limit"), "150.00, 250.00");
    let s = session(&node);
    let program = work(&node, "hgemm", "0");
    let hgemm = physics::find("hgemm").unwrap();
    let whole = [Tenant { app: hgemm, gpcs: 8, instance: 0, modules: 8 }];
    for limit in [250, 150] {
        node.smi(&format!("-i 0 -pl {limit}"));
        let expected = physics::run(&Board::a100_pcie(), &whole, f64::from(limit));
        let now = load(&s);
        assert_eq!((now.clock_mhz, now.speeds[0].1), (expected.clock_mhz, expected.speeds[0]));
        assert!(now.power_mw <= 1000 * limit && now.is_capped);
        let watts = format!("{:.2}", expected.watts);
        assert_eq!(query(&node, throttle), format!("{watts}, {}, Not Active, Active", now.clock_mhz));
    }
    assert!(node.smi("-q -d PERFORMANCE").contains("SW Power Cap                      : Active"));
    assert!(node.smi("--query-compute-apps=pid --format=csv,noheader").contains(&program.0.id().to_string()));
    drop(program);
    assert_eq!(query(&node, throttle), "36.00, 210, Active, Not Active");
    // Memory limits stream, so nothing lowers its clock.
    let _stream = work(&node, "stream", "0");
    node.smi("-i 0 -pl 250");
    assert!(query(&node, throttle).ends_with(", 1410, Not Active, Not Active"));
}

#[test]
fn programs_run_as_physics_says_of_their_instances() {
    let node = Node::new(PCIE_MIG);
    node.smi("mig -i 0 -cgi 5,9 -C");
    let s = session(&node);
    let uuids: Vec<String> = node
        .smi("-L")
        .lines()
        .filter_map(|l| Some(l.split_once("UUID: MIG-")?.1.trim_end_matches(')').to_owned()))
        .map(|rest| format!("MIG-{rest}"))
        .collect();
    let sizes = |at: usize| if node.smi("-L").lines().nth(at + 1).unwrap().contains("4g") { 4 } else { 3 };
    let (a, b) = (physics::find("hgemm").unwrap(), physics::find("dgemm").unwrap());
    let tenant = |app, gpcs, instance| Tenant { app, gpcs, instance, modules: 4 };
    let first = work(&node, "hgemm", &uuids[0]);
    // CUDA enumerates one instance, whatever else the list names.
    let second = work(&node, "dgemm", &format!("{},{}", uuids[1], uuids[0]));
    node.smi("-i 0 -pl 150");
    let expected =
        physics::run(&Board::a100_pcie(), &[tenant(a, sizes(0), 0), tenant(b, sizes(1), 1)], 150.0);
    let speed = |of: &Program| load(&s).speeds.iter().find(|(pid, _)| *pid == of.0.id()).unwrap().1;
    assert_eq!([speed(&first), speed(&second)], expected.speeds[..]);
    assert!(expected.clock_mhz < 1410);
    // Who computes in an instance keeps it.
    let refused = common::run(node.command(common::nvidia_smi()).args(["mig", "-i", "0", "-dci"]));
    assert!(!refused.status.success());
    drop(first);
    let alone = physics::run(&Board::a100_pcie(), &[tenant(b, sizes(1), 1)], 150.0);
    assert_eq!(speed(&second), alone.speeds[0]);
}

#[test]
fn compute_instances_share_memory() {
    let node = Node::new(PCIE_MIG);
    node.smi("mig -i 0 -cgi 0");
    node.smi("mig -i 0 -gi 0 -cci 3,2");
    let devices = node.smi("-L");
    let uuid = |kind: &str| {
        let line = devices.lines().find(|l| l.contains(kind)).unwrap();
        line.split_once("UUID: ").unwrap().1.trim_end_matches(')').to_owned()
    };
    let s = session(&node);
    let stream = work(&node, "stream", &uuid("4c.7g"));
    let random = work(&node, "randomaccess", &uuid("3c.7g"));
    let of = |name| physics::find(name).unwrap();
    let tenant = |app, gpcs| Tenant { app, gpcs, instance: 0, modules: 8 };
    let tenants = [tenant(of("stream"), 4), tenant(of("randomaccess"), 3)];
    let expected = physics::run(&Board::a100_pcie(), &tenants, 250.0);
    let speed = |of: &Program| load(&s).speeds.iter().find(|(pid, _)| *pid == of.0.id()).unwrap().1;
    assert_eq!([speed(&stream), speed(&random)], expected.speeds[..]);
}

#[test]
fn iterations_and_time_end_a_program() {
    let node = Node::new(PCIE);
    let run = |args: &[&str]| {
        let mut command = node.command(env!("CARGO_BIN_EXE_nvml-sim"));
        text(&common::ok(command.args(["work", "--app", "hgemm"]).args(args)))
    };
    let done = run(&["--iterations", "0.2"]);
    let number = |after: &str| {
        let rest = done.split_once(after).unwrap().1;
        rest.split([' ', ',']).next().unwrap().parse::<f64>().unwrap()
    };
    // A machine that is busy may oversleep, never undersleep.
    assert!(number("done: ") >= 0.2 && number(" in ") > 0.15, "{done}");
    assert!((number(" s, ") - number("done: ") / number(" in ")).abs() < 0.01, "{done}");
    assert!((0.1..1.01).contains(&number("iterations/s, ")), "{done}");
    assert!(run(&["--for", "50ms"]).starts_with("hgemm done: "));
    let refused = |args: &[&str], devices: &str| {
        let mut command = node.command(env!("CARGO_BIN_EXE_nvml-sim"));
        let output = common::run(command.arg("work").args(args).env("CUDA_VISIBLE_DEVICES", devices));
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--app", "hgem"], "0").contains("known: tdgemm, tf32gemm"));
    assert!(refused(&["--app", "hgemm"], "").contains("no CUDA-capable device"));
    assert!(refused(&["--app", "hgemm"], "3").contains("\"3\" is no device"));
}

#[test]
fn energy_is_integrated_and_never_runs_backwards() {
    let node = Node::new(PCIE);
    let s = session(&node);
    let joules = |from: Reading, to: Reading| {
        let nj = u32::try_from((to.energy_nj - from.energy_nj) / 1000).unwrap();
        f64::from(nj) / 1e6
    };
    let seconds = |from: Reading, to: Reading| Duration::from_nanos(to.at_ns - from.at_ns).as_secs_f64();
    let idle = reading(&s);
    std::thread::sleep(Duration::from_millis(30));
    let begin = reading(&s);
    assert!((joules(idle, begin) - 36.0 * seconds(idle, begin)).abs() < 1e-3);
    assert_eq!(begin.capped_ns, 0);

    let program = work(&node, "hgemm", "0");
    let running = reading(&s);
    let mut last = running;
    let watts = f64::from(load(&s).power_mw) / 1000.0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        let now = reading(&s);
        assert!(now.energy_nj > last.energy_nj && now.capped_ns > last.capped_ns);
        last = now;
    }
    assert!((joules(running, last) / seconds(running, last) - watts).abs() < 0.01, "nothing else ran");
    // A higher draw is followed by a lower one: what was drawn stays drawn.
    node.smi("-i 0 -pl 150");
    let capped = reading(&s);
    drop(program);
    let after = reading(&s);
    std::thread::sleep(Duration::from_millis(10));
    let later = reading(&s);
    assert!(capped.energy_nj >= last.energy_nj && after.energy_nj >= capped.energy_nj);
    assert!((joules(after, later) - 36.0 * seconds(after, later)).abs() < 1e-3);
    assert_eq!(after.capped_ns, later.capped_ns);
}

#[test]
fn limits_can_be_refused_ignored_changed_and_undercut() {
    let node = Node::new(PCIE);
    let s = session(&node);
    let fault = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        node.sim(&[&["fault", "add", "--gpu", "0", "--kind"], &args[..]].concat());
    };
    let limits = || {
        let shown = node.smi("-i 0 -q -d POWER");
        let of = |what: &str| {
            let line = shown.lines().find(|l| l.trim_start().starts_with(what)).unwrap();
            line.split_once(": ").unwrap().1.to_owned()
        };
        (of("Requested Power Limit"), of("Current Power Limit"))
    };
    let limit = |watts: &str| (format!("{watts}.00 W"), format!("{watts}.00 W"));
    fault("limit-refused --count 1");
    let refused = common::run(node.command(common::nvidia_smi()).args(["-i", "0", "-pl", "200"]));
    assert!(text(&refused).contains("Changing power management limit is not supported"), "{refused:?}");
    fault("limit-ignored --count 1");
    s.set_power_limit(Handle::Gpu(0), 200_000).unwrap();
    assert_eq!(limits(), limit("250"));
    fault("limit-changed --watts 170 --count 1");
    s.set_power_limit(Handle::Gpu(0), 200_000).unwrap();
    assert_eq!(limits(), limit("170"));
    s.set_power_limit(Handle::Gpu(0), 200_000).unwrap();
    let _program = work(&node, "hgemm", "0");
    let before = load(&s);
    fault("limit-enforced-lower --watts 160");
    assert_eq!(limits(), (limit("200").0, limit("160").1));
    let after = load(&s);
    assert!(after.power_mw <= 160_000 && after.clock_mhz < before.clock_mhz, "{before:?} {after:?}");
    node.sim(&["fault", "clear"]);
    assert_eq!(limits(), limit("200"));
    assert_eq!(load(&s).clock_mhz, before.clock_mhz);
}

/// A job's user may open its own instance, and no other.
#[test]
fn a_user_computes_on_what_the_device_nodes_allow() {
    let node = Node::new(PCIE_MIG);
    node.smi("mig -i 0 -cgi 14,14 -C");
    let caps = node.path("root/dev/nvidia-caps");
    for entry in std::fs::read_dir(&caps).unwrap() {
        std::fs::set_permissions(entry.unwrap().path(), std::os::unix::fs::PermissionsExt::from_mode(0o400))
            .unwrap();
    }
    for cap in ["nvidia-cap30", "nvidia-cap31"] {
        std::os::unix::fs::chown(caps.join(cap), Some(65534), None).unwrap();
    }
    let all = node.smi("-L");
    let uuids: Vec<&str> =
        all.lines().filter_map(|l| Some(l.split_once("UUID: MIG-")?.1.trim_end_matches(')'))).collect();
    let mine = text(&node.smi_as_nobody("-L"));
    let run = |uuid: &str| {
        let mut command = node.command("/usr/bin/setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_nvml-sim")).args(["work", "--app", "stream", "--for", "100ms"]);
        common::run(command.env("CUDA_VISIBLE_DEVICES", format!("MIG-{uuid}")))
    };
    for uuid in uuids {
        let output = run(uuid);
        assert_eq!(output.status.success(), mine.contains(uuid), "{output:?}");
    }
}

/// An H100 in MIG mode, one without, and an A100.
const HOPPERS: &str = "[[gpus]]\nmodel = \"h100-80gb-sxm\"\nmig = \"on\"\n[[gpus]]\nmodel = \"h100-80gb-sxm\"\n\
                       [[gpus]]\nmodel = \"a100-40gb\"\n";

/// NVIDIA's own Python bindings ask. What they are told is compared with physics.
#[test]
fn gpm_tells_of_each_instance_what_physics_says() {
    let node = Node::new(HOPPERS);
    node.smi("mig -i 0 -cgi 9,19 -C");
    let devices = node.smi("-L");
    let uuid = |profile: &str| {
        let line = devices.lines().find(|line| line.contains(profile)).unwrap();
        line.split_once("UUID: ").unwrap().1.trim_end_matches(')').to_owned()
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gpm.py");
    let ask = || {
        let mut python = node.command("python3");
        let said = text(&common::ok(python.arg(script).env("PYTHONPATH", common::python_packages())));
        serde_json::from_str::<serde_json::Value>(&said).unwrap()
    };
    let near = |seen: &serde_json::Value, expected: [f64; 2]| {
        let seen: Vec<f64> = serde_json::from_value(seen.clone()).unwrap();
        assert!(seen.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01), "{seen:?}, not {expected:?}");
    };

    // SMs are idle during launches and latencies, and where an application is narrower than the instance.
    let app = physics::find("gaussian").unwrap();
    let programs = [work(&node, app.name, &uuid("3g.40gb")), work(&node, app.name, "1")];
    let board = Board { clocks_mhz: (210, 1980), limit_w: 700, ..Board::a100_pcie() };
    let busy = |gpcs: u8, modules: u8| {
        let tenant = Tenant { app, gpcs, instance: 0, modules };
        let active = physics::run(&board, &[tenant], f64::from(board.limit_w)).active[0];
        100.0 * f64::from(gpcs).min(app.width) * active / f64::from(gpcs)
    };
    let (instance, whole) = (busy(3, 4), busy(8, 8));
    assert!(whole < instance && instance < 99.0, "{whole} {instance}");
    let seen = ask();
    near(&seen["0"]["gi 1"], [100.0, instance]);
    near(&seen["0"]["gi 11"], [0.0, 0.0]);
    // Three of seven slices are busy.
    near(&seen["0"]["gpu"], [300.0 / 7.0, instance * 3.0 / 7.0]);
    near(&seen["1"]["gpu"], [100.0, whole]);
    assert_eq!(seen["2"], serde_json::json!({ "supported": false }));
    drop(programs);
    let after = ask();
    for device in [&after["0"]["gi 1"], &after["0"]["gpu"], &after["1"]["gpu"]] {
        near(device, [0.0, 0.0]);
    }
}

/// GPUs 0 and 3 of a DGX-1V have two NVLinks between them; 0 and 5 have none.
#[test]
fn a_programs_gpus_send_to_each_other() {
    let node = Node::new("interconnect = \"dgx-v\"\n[[gpus]]\nmodel = \"Tesla V100-SXM2-32GB\"\ncount = 8\n");
    let s = session(&node);
    let traffic = |gpu| s.state().unwrap().load(gpu).unwrap().traffic;
    let talks = |devices| {
        let mut command = node.command(env!("CARGO_BIN_EXE_nvml-sim"));
        command.args(["work", "--app", "hgemm", "--every", "1ms", "--link-mbps", "3000"]);
        let mut child = command.env("CUDA_VISIBLE_DEVICES", devices).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let mut rest = child.stdout.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut rest, &mut std::io::sink()));
        Program(child)
    };
    let rate = Rates { sent: 3_000_000_000, received: 3_000_000_000 };
    let near = talks("0,3");
    assert_eq!(traffic(0), Traffic { nvlink: rate, pcie: Rates::default() });
    assert_eq!(traffic(1), Traffic::default());
    std::thread::sleep(Duration::from_millis(100));
    let sent = reading(&s).nvlink[0];
    assert!((300_000_000..60_000_000_000).contains(&sent), "{sent}");
    drop(near);
    let far = talks("0,5");
    assert_eq!(traffic(5), Traffic { nvlink: Rates::default(), pcie: rate });
    drop(far);
    let alone = talks("0");
    assert_eq!(traffic(0), Traffic::default(), "there is no other GPU to send to");
    drop(alone);
    let end = reading(&s).nvlink;
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(reading(&s).nvlink, end);
}
