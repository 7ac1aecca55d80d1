//! Programs that know nothing of the simulator: Debian's nvidia-smi, Slurm's gpu_nvml.so, nvidia-ml-py, nvml-wrapper.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::Command;

use common::{DGX_V, Node, TWO_MIG, ok, text};

#[test]
fn nvidia_smi_lists_gpus_and_mig_devices() {
    let node = Node::new(TWO_MIG);
    node.smi("mig -i 0 -cgi 9,14 -C");
    let list = node.smi("-L");
    assert_eq!(list.matches("NVIDIA A100-SXM4-40GB (UUID: GPU-").count(), 2);
    assert!(list.contains("MIG 3g.20gb     Device  0: (UUID: MIG-"), "{list}");
    assert!(list.contains("MIG 2g.10gb     Device  1: (UUID: MIG-"), "{list}");
    let plain = node.smi("");
    assert!(plain.contains("Driver Version: 570.133.20") && plain.contains("19968MiB"), "{plain}");
}

#[test]
fn nvidia_smi_mig_life_cycle() {
    let node = Node::new(TWO_MIG);
    let profiles = node.smi("mig -lgip -i 0");
    assert!(profiles.contains("MIG 1g.5gb+me     20     1/1        4.75"), "{profiles}");
    assert!(node.smi("mig -lgipp -i 0").contains("Profile ID 14 Placements: {0,2,4}:2"));
    let made = node.smi("mig -i 0 -cgi 9 -C");
    assert!(made.contains("Successfully created GPU instance ID  1"), "{made}");
    assert!(node.smi("mig -lgi -i 0").contains("MIG 3g.20gb          9        1          4:4"));
    assert!(node.smi("mig -lci -i 0").contains("0:3"));
    assert!(node.smi("mig -lcip -i 0 -gi 1").contains("MIG 1c.3g.20gb"));
    assert!(node.smi("mig -dci -i 0").contains("Successfully destroyed compute instance ID  0"));
    assert!(node.smi("mig -i 0 -gi 1 -cci 0,0").contains("MIG 1c.3g.20gb"));
    let busy = common::run(node.command(common::nvidia_smi()).args(["mig", "-dgi", "-i", "0"]));
    assert_eq!(busy.status.code(), Some(19), "IN_USE while compute instances exist");
    node.smi("mig -dci -i 0");
    node.smi("mig -dgi -i 0");
    let none = common::run(node.command(common::nvidia_smi()).args(["mig", "-lgi"]));
    assert!(text(&none).contains("No GPU instances found"));
}

#[test]
fn nvidia_smi_mig_mode_waits_for_a_reset() {
    let node = Node::new("[[gpus]]\nmodel = \"a100-40gb\"\n[[gpus]]\nmodel = \"h100-80gb-sxm\"\n");
    assert!(node.smi("-i 0 -mig 1").contains("pending enable state"));
    let query = "--query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader";
    assert_eq!(node.smi(query), "Disabled, Enabled\nDisabled, Disabled\n");
    let mut user = Command::new("sleep").arg("60").spawn().unwrap();
    node.sim(&["proc", "add", "--gpu", "0", "--pid", &user.id().to_string()]);
    let busy = common::run(node.command(common::nvidia_smi()).args(["--gpu-reset", "-i", "0"]));
    assert!(text(&busy).contains("In use by another client") && !busy.status.success());
    user.kill().unwrap();
    user.wait().unwrap();
    assert!(node.smi("--gpu-reset -i 0").contains("GPU 00000000:07:00.0 was successfully reset."));
    assert!(node.smi("-i 1 -mig 1").contains("Enabled MIG Mode"));
    assert_eq!(node.smi(query), "Enabled, Enabled\nEnabled, Enabled\n");
}

/// The table of `nvidia-smi topo -m`: the GPUs' cells, then the NUMA column.
fn topology(node: &Node) -> Vec<String> {
    let text = node.smi("topo -m");
    let rows = text.lines().filter(|l| l.starts_with("GPU"));
    let cells = rows.map(|row| {
        let cells: Vec<&str> = row.split('\t').map(str::trim).filter(|c| !c.is_empty()).collect();
        [&cells[1..cells.len() - 3], &[cells[cells.len() - 2]]].concat().join(" ")
    });
    cells.collect()
}

fn system(lines: &str, model: &str, count: u32) -> Node {
    Node::new(&format!("{lines}\n[[gpus]]\nmodel = \"{model}\"\ncount = {count}\n"))
}

#[test]
fn nvidia_smi_topology_of_systems() {
    let dgx_v = [
        "X NV1 NV1 NV2 NV2 SYS SYS SYS 0",
        "NV1 X NV2 NV1 SYS NV2 SYS SYS 0",
        "NV1 NV2 X NV2 SYS SYS NV1 SYS 0",
        "NV2 NV1 NV2 X SYS SYS SYS NV1 0",
        "NV2 SYS SYS SYS X NV1 NV1 NV2 1",
        "SYS NV2 SYS SYS NV1 X NV2 NV1 1",
        "SYS SYS NV1 SYS NV1 NV2 X NV2 1",
        "SYS SYS SYS NV1 NV2 NV1 NV2 X 1",
    ];
    assert_eq!(topology(&Node::new(DGX_V)), dgx_v);
    let bridged = topology(&system("interconnect = \"pcie-8-bridged\"", "a100-40gb", 8));
    assert_eq!(bridged[0], "X NV12 NODE NODE SYS SYS SYS SYS 0");
    let plain = topology(&system("interconnect = \"pcie-8\"", "a100-40gb", 8));
    assert_eq!(plain[5], "SYS SYS SYS SYS PIX X NODE NODE 1");
    let hgx = topology(&system("interconnect = \"hgx-a100-4\"", "a100-40gb", 4));
    assert_eq!(hgx[2], "NV4 NV4 X NV4 1");
    let torus = topology(&system("interconnect = \"torus-2d\"", "a100-40gb", 16));
    assert_eq!(torus[12], "NV2 SYS SYS SYS SYS SYS SYS SYS NV1 SYS SYS SYS X NV2 NODE NV1 3");
    for (interconnect, model, lanes) in [("dgx-a100", "a100-40gb", 12), ("dgx-h100", "h100-80gb-sxm", 18)] {
        let rows = topology(&system(&format!("interconnect = {interconnect:?}"), model, 8));
        assert_eq!(rows[7], format!("{}X 1", format!("NV{lanes} ").repeat(7)));
    }
    let levels = "levels = [[\"internal\", \"multiple\", \"hostbridge\"], [\"multiple\", \"internal\", \"system\"], \
                  [\"hostbridge\", \"system\", \"internal\"]]";
    assert_eq!(topology(&system(levels, "a30-24gb", 3)), ["X PXB PHB 0", "PXB X SYS 0", "PHB SYS X 0"]);
}

#[test]
fn nvidia_smi_sees_links_that_are_down() {
    let node = system("interconnect = \"dgx-v\"\nlinks_down = [[0, 2]]", "a100-40gb", 8);
    assert_eq!(
        topology(&node)[..4].iter().map(|r| &r[..15]).collect::<Vec<_>>(),
        ["X NV1 NV1 NV1 N", "NV1 X NV2 NV1 S", "NV1 NV2 X NV2 S", "NV1 NV1 NV2 X S"]
    );
    let status = |gpu: u32| node.smi(&format!("nvlink -s -i {gpu}"));
    assert!(status(0).contains("Link 2: <inactive>") && status(0).contains("Link 3: 25.781 GB/s"));
    // GPU 3's first link is that to GPU 0.
    assert!(status(3).contains("Link 0: <inactive>") && status(3).contains("Link 1: 25.781 GB/s"));
    assert_eq!(status(1).matches("25.781 GB/s").count(), 6);
    let far = node.smi("nvlink -R -i 0");
    // It counts only those that are up.
    assert!(far.contains("Link 2: Remote Device 00000000:4E:00.0: Link 1"), "{far}");
    node.sim(&["link", "--gpu", "3", "--link", "0", "up"]);
    assert!(topology(&node)[0].starts_with("X NV1 NV1 NV2"));
    node.sim(&["link", "--gpu", "4", "--link", "0", "down"]);
    node.sim(&["link", "--gpu", "4", "--link", "1", "down"]);
    assert!(topology(&node)[0].starts_with("X NV1 NV1 NV2 SYS"));
    let switched = system("interconnect = \"dgx-h100\"\nlinks_down = [[2, 17]]", "h100-80gb-sxm", 8);
    assert!(switched.smi("nvlink -s -i 2").contains("Link 17: <inactive>"));
    assert_eq!(switched.smi("nvlink -s -i 3").matches("26.562 GB/s").count(), 18);
}

#[test]
fn nvidia_smi_queries_and_power() {
    let node = Node::new(DGX_V);
    let one =
        node.smi("-i 3 --query-gpu=index,name,memory.total,pci.bus_id,power.limit --format=csv,noheader");
    assert_eq!(one, "3, NVIDIA A100-SXM4-40GB, 40960 MiB, 00000000:4E:00.0, 400.00 W\n");
    node.smi("-i 3 -pl 250");
    assert_eq!(node.smi("-i 3 --query-gpu=power.limit --format=csv,noheader"), "250.00 W\n");
    let refused = common::run(node.command(common::nvidia_smi()).args(["-i", "3", "-pl", "50"]));
    assert!(!refused.status.success(), "below the lowest limit");
    assert!(node.smi("-q -i 3").contains("Product Architecture                  : Ampere"));
}

#[test]
fn nvidia_smi_shows_processes() {
    let node = Node::new(DGX_V);
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    node.sim(&["proc", "add", "--gpu", "2", "--pid", &pid, "--memory-mib", "1234"]);
    let query = node.smi("--query-compute-apps=pid,name,used_memory --format=csv,noheader");
    let plain = node.smi("");
    let monitors = [node.smi("dmon -c 1 -i 2"), node.smi("pmon -c 1 -i 2")];
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(query, format!("{pid}, sleep, 1234 MiB\n"));
    assert!(
        plain.lines().any(|l| l.contains(&pid) && l.contains("sleep") && l.contains("1234MiB")),
        "{plain}"
    );
    assert!(monitors[0].contains("  100 ") && monitors[1].contains("sleep"), "{monitors:?}");
    assert!(node.smi("").contains("No running processes found"), "dead ones do not count");
}

/// The device nodes decide, as with the driver: the job of user 65534 has one of two instances on GPU 0 and nothing on GPU 1.
#[test]
fn another_user_sees_what_its_device_nodes_allow() {
    let node = Node::new(TWO_MIG);
    node.smi("mig -i 0 -cgi 14,14 -C");
    let caps = node.path("root/dev/nvidia-caps");
    let set = |path: &std::path::Path, uid: u32, mode: u32| {
        std::os::unix::fs::chown(path, Some(uid), Some(0)).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    for entry in std::fs::read_dir(&caps).unwrap() {
        set(&entry.unwrap().path(), 0, 0o400);
    }
    set(&node.path("root/dev/nvidia1"), 0, 0o600);
    // GPU instance 3 (start 4) and its compute instance: 3 + 9 * 3 and one more.
    set(&caps.join("nvidia-cap30"), 65534, 0o400);
    set(&caps.join("nvidia-cap31"), 65534, 0o400);
    let all = node.smi("-L");
    let mine = text(&node.smi_as_nobody("-L"));
    assert_eq!((all.matches("GPU ").count(), all.matches("MIG-").count()), (2, 2));
    assert_eq!((mine.matches("GPU ").count(), mine.matches("MIG-").count()), (1, 1), "{mine}");
    assert!(all.contains(mine.lines().nth(1).unwrap().split("UUID: ").nth(1).unwrap()));
    let refused = node.smi_as_nobody("mig -cgi 19");
    assert!(text(&refused).contains("Insufficient Permissions") && !refused.status.success());
}

#[test]
fn slurm_finds_gpus_links_and_mig_devices() {
    let plugin = common::slurm_nvml();
    let slurmd = std::path::Path::new("/usr/sbin/slurmd");
    assert!(slurmd.exists(), "{} is missing: run cargo xtask setup", slurmd.display());
    let node = Node::new(
        "interconnect = \"dgx-v\"\n[[gpus]]\nmodel = \"a100-40gb\"\ncount = 7\n[[gpus]]\nmodel = \"a100-40gb\"\nmig = \"on\"\n",
    );
    node.smi("mig -i 7 -cgi 9,14 -C");
    let dir = node.path("slurm");
    std::fs::create_dir(&dir).unwrap();
    let plugins = plugin.parent().unwrap().canonicalize().unwrap();
    let conf = format!(
        "ClusterName=t\nSlurmctldHost=localhost\nPluginDir={}:/usr/lib/x86_64-linux-gnu/slurm-wlm\nGresTypes=gpu\n\
         SlurmdSpoolDir={}\nSlurmdParameters=config_overrides\nSelectType=select/cons_tres\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nNodeName=n1 CPUs=2 RealMemory=100 Gres=gpu:9 NodeHostname=localhost\nPartitionName=p Nodes=n1\n",
        plugins.display(),
        dir.display()
    );
    std::fs::write(dir.join("slurm.conf"), conf).unwrap();
    std::fs::write(dir.join("gres.conf"), "AutoDetect=nvml\n").unwrap();
    // Where no cgroup tree is mounted, as in a container, slurmd ends with any other plugin.
    std::fs::write(dir.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
    // Slurm reads /proc/driver and /dev as they are: in a mount namespace of its own it finds the node's.
    let script = format!(
        "mount --bind {root}/proc/driver /proc/driver && mount -t overlay overlay -o lowerdir={root}/dev:/dev /dev && \
         exec {slurmd} -G -N n1 -f {conf}",
        root = node.path("root").display(),
        slurmd = slurmd.display(),
        conf = dir.join("slurm.conf").display()
    );
    let output = ok(node.command("/usr/bin/unshare").args(["-m", "bash", "-c", &script]));
    let seen = text(&output) + &String::from_utf8_lossy(&output.stderr);
    assert!(seen.contains("File=/dev/nvidia0 ") && seen.contains("Links=-1,1,1,2,2,0,0,0"), "{seen}");
    assert_eq!(seen.matches("File=/dev/nvidia7,/dev/nvidia-caps/nvidia-cap").count(), 2, "{seen}");
}

#[test]
fn nvidia_ml_py() {
    let node = Node::new(TWO_MIG);
    node.smi("mig -i 0 -cgi 14 -C");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.py");
    ok(node.command("python3").arg(script).env("PYTHONPATH", common::python_packages()));
}

#[test]
fn answers_with_mig_off_are_those_of_an_h200() {
    let node = Node::new("driver_version = \"580.159.04\"\n[[gpus]]\nmodel = \"h200-141gb\"\n");
    let sleep = || Command::new("sleep").arg("60").spawn().unwrap();
    let (mut server, mut client) = (sleep(), sleep());
    let (first, second) = (server.id().to_string(), client.id().to_string());
    node.sim(&["proc", "add", "--gpu", "0", "--pid", &first]);
    node.sim(&["proc", "add", "--gpu", "0", "--pid", &second, "--mps"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/as_hardware.py");
    let mut python = node.command("python3");
    ok(python.arg(script).args([&first, &second]).env("PYTHONPATH", common::python_packages()));
    let table = node.smi("");
    for process in [&mut server, &mut client] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let row = |pid: &str| -> Vec<&str> { table.lines().filter(|line| line.contains(pid)).collect() };
    assert!(matches!(row(&first)[..], [line] if line.contains(" C ")), "{table}");
    assert!(matches!(row(&second)[..], [line] if line.contains(" M+C ")), "one row for both lists: {table}");
}

const CHILD: &str = "NVML_SIM_TEST_CHILD";

/// The environment of a running process is not to be changed, so the test runs itself with the one it needs.
#[test]
fn nvml_wrapper_reads_the_node() {
    if std::env::var_os(CHILD).is_none() {
        let node = Node::new(TWO_MIG);
        node.smi("mig -i 0 -cgi 14 -C");
        let mut child = node.command(std::env::current_exe().unwrap());
        ok(child.args(["--exact", "nvml_wrapper_reads_the_node", "--nocapture"]).env(CHILD, "1"));
        return;
    }
    let nvml = nvml_wrapper::Nvml::init().unwrap();
    assert_eq!(nvml.device_count().unwrap(), 2);
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 12080);
    let gpu = nvml.device_by_index(0).unwrap();
    assert_eq!(gpu.name().unwrap(), "NVIDIA A100-SXM4-40GB");
    assert_eq!(gpu.memory_info().unwrap().total, 40960 << 20);
    assert_eq!(gpu.minor_number().unwrap(), 0);
    assert_eq!(gpu.power_management_limit_constraints().unwrap().min_limit, 100_000);
    assert!(gpu.uuid().unwrap().starts_with("GPU-"));
    assert!(gpu.running_compute_processes().unwrap().is_empty());
    let mode = gpu.mig_mode().unwrap();
    assert_eq!((mode.current, mode.pending), (1, 1));
    let mig = gpu.mig_device_by_index(0).unwrap();
    assert!(mig.uuid().unwrap().starts_with("MIG-"));
    assert_eq!(mig.memory_info().unwrap().total, 9856 << 20);
    let again = nvml.device_by_uuid(mig.uuid().unwrap()).unwrap();
    assert_eq!(again.name().unwrap(), "NVIDIA A100-SXM4-40GB MIG 2g.10gb");
}

#[test]
fn nvml_wrapper_reads_links_load_and_limits() {
    if std::env::var_os(CHILD).is_none() {
        let node = Node::new(DGX_V);
        let mut child = node.command(std::env::current_exe().unwrap());
        ok(child
            .args(["--exact", "nvml_wrapper_reads_links_load_and_limits", "--nocapture"])
            .env(CHILD, "1"));
        return;
    }
    use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor, TopologyLevel};
    use nvml_wrapper::error::NvmlError;
    let nvml = nvml_wrapper::Nvml::init().unwrap();
    let (first, second) = (nvml.device_by_index(0).unwrap(), nvml.device_by_index(1).unwrap());
    let links: Vec<bool> = (0..12).map(|i| first.link_wrapper_for(i).is_active().unwrap()).collect();
    assert_eq!(links.iter().filter(|l| **l).count(), 6, "1 + 1 + 2 + 2");
    assert!(matches!(first.link_wrapper_for(12).is_active(), Err(NvmlError::NotSupported)));
    let remote = first.link_wrapper_for(0).remote_pci_info().unwrap();
    assert_eq!(remote.bus_id, second.pci_info().unwrap().bus_id);
    assert_eq!(first.topology_common_ancestor(second).unwrap(), TopologyLevel::Single);
    assert_eq!(first.utilization_rates().unwrap().gpu, 0);
    assert!(first.temperature(TemperatureSensor::Gpu).unwrap() > 0);
    assert_eq!(first.max_clock_info(Clock::SM).unwrap(), 1410);
    assert_eq!(first.power_usage().unwrap(), 36_000);
    assert_eq!(first.serial().unwrap().len(), 13);
    assert!(matches!(first.fan_speed(0), Err(NvmlError::NotSupported)));
    assert!(matches!(nvml.device_by_index(8), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid("GPU-0"), Err(NvmlError::NotFound)));
}

#[test]
fn nvidia_smi_settings_and_links() {
    let node = Node::new(DGX_V);
    assert!(node.smi("-i 0 -pm 0").contains("Disabled persistence mode"));
    assert!(node.smi("-i 0 -c 3").contains("EXCLUSIVE_PROCESS"));
    assert!(node.smi("-i 0 -ac 1215,1200").contains("(MEM 1215, SM 1200)"));
    let set = node.smi(
        "-i 0 --query-gpu=persistence_mode,compute_mode,clocks.applications.graphics --format=csv,noheader",
    );
    assert_eq!(set, "Disabled, Exclusive_Process, 1200 MHz\n");
    assert_eq!(node.smi("nvlink -s -i 0").matches("25.781 GB/s").count(), 6);
    let p2p = node.smi("topo -p2p n");
    let row: Vec<&str> =
        p2p.lines().find(|l| l.trim().starts_with("GPU0\tX")).unwrap().split_whitespace().collect();
    assert_eq!(row[1..9], ["X", "OK", "OK", "OK", "OK", "NS", "NS", "NS"]);
    assert!(node.smi("topo -c 0").contains("0, 1, 2, 3, 4, 5, 6, 7"));
    let mig = Node::new(TWO_MIG);
    mig.smi("mig -i 0 -cgi 9");
    assert!(mig.smi("mig -lcipp -i 0").contains("Profile ID  0 Placements: {0,1,2}:1"));
}
