//! Links from the driver to a decision's input: simulated machines, what `discover` writes of them, what is read back.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use geometry::GpuIndex;
use insta::assert_snapshot;
use topology::{HardwareGraph, Link, PcieSlot, System, systems};

/// A simulated machine, and a tessera.toml that names its driver.
struct Machine {
    dir: tempfile::TempDir,
}

/// `target/debug`, with the simulator in it.
fn build_dir() -> PathBuf {
    static BUILD: Once = Once::new();
    BUILD.call_once(|| {
        // `cargo xtask test` has built it, and other tests read it meanwhile.
        if std::env::var_os("TESSERA_E2E_BUILT").is_some() {
            return;
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "nvml-sim"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success(), "the simulator does not build");
    });
    Path::new(env!("CARGO_BIN_EXE_tessera")).parent().unwrap().to_owned()
}

impl Machine {
    /// Node n1 with these lines above its `count` GPUs.
    fn new(lines: &str, model: &str, count: usize) -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let description = format!("name = \"n1\"\n{lines}\n[[gpus]]\nmodel = {model:?}\ncount = {count}\n");
        fs::write(machine.path("node.toml"), description).unwrap();
        let (file, root) = (machine.path("node.toml"), machine.path("root"));
        machine.sim(&["create", "--node", file.to_str().unwrap(), "--root", root.to_str().unwrap()]);
        machine.describe("[[nodes]]\nnames = \"n1\"\ngpu = \"a30-24gb\"\ncount = 1\n");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sim(&self, args: &[&str]) {
        let mut sim = Command::new(build_dir().join("nvml-sim"));
        let out = sim.args(args).arg("--state").arg(self.path("state")).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Writes tessera.toml with these `[[nodes]]`.
    fn describe(&self, nodes: &str) {
        let here = self.dir.path().display();
        let library = build_dir().join("libnvidia_ml.so");
        let node = format!(
            "[node]\nnvml_library = \"{}\"\nstate_dir = \"{here}/journal\"\nrun_dir = \"{here}/run\"\n\
             dev_root = \"{here}/root/dev\"\nproc_root = \"{here}/root/proc\"\n\n",
            library.display()
        );
        fs::write(self.path("tessera.toml"), node + nodes).unwrap();
    }

    fn tessera(&self, args: &[&str]) -> (String, i32) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
        command.args(args).current_dir(self.dir.path()).env_clear().env("PATH", "/nowhere");
        command.env("TESSERA_CONF", "tessera.toml").env("SLURMD_NODENAME", "n1").env("COLUMNS", "100");
        let out = command.env("NVML_SIM_STATE", self.path("state")).stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        (String::from_utf8(out.stdout).unwrap() + &stderr, out.status.code().unwrap())
    }

    fn discover(&self) -> String {
        let (text, status) = self.tessera(&["discover"]);
        assert_eq!(status, 0, "{text}");
        text
    }

    /// What `doctor` says of links.
    fn doctor(&self) -> String {
        let (text, _) = self.tessera(&["doctor"]);
        let lines: Vec<&str> = text.lines().filter(|l| l.contains("links")).collect();
        lines.join("\n")
    }
}

/// The graph of a text that `discover` wrote.
fn read_back(text: &str) -> HardwareGraph {
    let (config, errors) = site_config::parse("f", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, [], "{text}");
    let inline = HardwareGraph::clone(&config.unwrap().nodes[0].links);
    // The same as a file of its own.
    let own = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = ";
    let config = format!("{own}{}\ndiscovered = \"found.toml\"\n", inline.len());
    let (config, errors) = site_config::parse("f", &config, &|_| Ok(text.to_owned()));
    assert_eq!(errors, [], "{text}");
    assert!(*config.unwrap().nodes[0].links == inline, "{text}");
    inline
}

#[test]
fn a_dgx_1v_as_it_is_written() {
    let machine = Machine::new("interconnect = \"dgx-v\"", "a100-40gb", 8);
    assert_snapshot!(machine.discover(), @r#"
    # Written by `tessera discover` on n1, driver 570.133.20.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 8
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    # NVLinks are those of dgx-v.
    nvlink = 2 # generation
    pcie = 4 # generation
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"],
      ["NV1",   "X", "NV2", "NV1", "SYS", "NV2", "SYS", "SYS"],
      ["NV1", "NV2",   "X", "NV2", "SYS", "SYS", "NV1", "SYS"],
      ["NV2", "NV1", "NV2",   "X", "SYS", "SYS", "SYS", "NV1"],
      ["NV2", "SYS", "SYS", "SYS",   "X", "NV1", "NV1", "NV2"],
      ["SYS", "NV2", "SYS", "SYS", "NV1",   "X", "NV2", "NV1"],
      ["SYS", "SYS", "NV1", "SYS", "NV1", "NV2",   "X", "NV2"],
      ["SYS", "SYS", "SYS", "NV1", "NV2", "NV1", "NV2",   "X"],
    ]
    "#);
}

#[test]
fn gpus_behind_nvswitches_as_they_are_written() {
    let machine = Machine::new("interconnect = \"dgx-a100\"", "a100-40gb", 8);
    assert_snapshot!(machine.discover(), @r#"
    # Written by `tessera discover` on n1, driver 570.133.20.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 8
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    interconnect = "dgx-a100"
    "#);
    machine.sim(&["link", "--gpu", "2", "--link", "11", "down"]);
    assert_snapshot!(machine.discover(), @r#"
    # Written by `tessera discover` on n1, driver 570.133.20.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 8
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    nvlink = 3 # generation
    nvswitch = true
    matrix = [ # as `nvidia-smi topo -m` has them
      [   "X", "NV12", "NV11", "NV12", "NV12", "NV12", "NV12", "NV12"],
      ["NV12",    "X", "NV11", "NV12", "NV12", "NV12", "NV12", "NV12"],
      ["NV11", "NV11",    "X", "NV11", "NV11", "NV11", "NV11", "NV11"],
      ["NV12", "NV12", "NV11",    "X", "NV12", "NV12", "NV12", "NV12"],
      ["NV12", "NV12", "NV11", "NV12",    "X", "NV12", "NV12", "NV12"],
      ["NV12", "NV12", "NV11", "NV12", "NV12",    "X", "NV12", "NV12"],
      ["NV12", "NV12", "NV11", "NV12", "NV12", "NV12",    "X", "NV12"],
      ["NV12", "NV12", "NV11", "NV12", "NV12", "NV12", "NV12",    "X"],
    ]
    "#);
}

#[test]
fn bridged_cards_as_they_are_written() {
    let machine = Machine::new("interconnect = \"pcie-8-bridged\"", "a100-40gb", 8);
    assert_snapshot!(machine.discover(), @r#"
    # Written by `tessera discover` on n1, driver 570.133.20.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 8
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    interconnect = "pcie-8-bridged"
    "#);
}

#[test]
fn links_that_are_down_lower_the_edge() {
    let machine = Machine::new("interconnect = \"dgx-v\"\nlinks_down = [[0, 2]]", "a100-40gb", 8);
    let text = machine.discover();
    assert_snapshot!(text, @r#"
    # Written by `tessera discover` on n1, driver 570.133.20.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 8
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    nvlink = 2 # generation
    pcie = 4 # generation
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "NV1", "NV1", "NV1", "NV2", "SYS", "SYS", "SYS"],
      ["NV1",   "X", "NV2", "NV1", "SYS", "NV2", "SYS", "SYS"],
      ["NV1", "NV2",   "X", "NV2", "SYS", "SYS", "NV1", "SYS"],
      ["NV1", "NV1", "NV2",   "X", "SYS", "SYS", "SYS", "NV1"],
      ["NV2", "SYS", "SYS", "SYS",   "X", "NV1", "NV1", "NV2"],
      ["SYS", "NV2", "SYS", "SYS", "NV1",   "X", "NV2", "NV1"],
      ["SYS", "SYS", "NV1", "SYS", "NV1", "NV2",   "X", "NV2"],
      ["SYS", "SYS", "SYS", "NV1", "NV2", "NV1", "NV2",   "X"],
    ]
    "#);
    let graph = read_back(&text);
    let told =
        |a, b| graph.link(GpuIndex(a), GpuIndex(b)).map(|l| format!("{} {}", l.kind, l.gbps())).unwrap();
    assert_eq!([told(0, 3), told(0, 4), told(0, 5)], ["NV1 25", "NV2 50", "SYS 12"]);
    machine.sim(&["link", "--gpu", "0", "--link", "3", "down"]);
    let both = read_back(&machine.discover());
    assert_eq!(
        both.link(GpuIndex(0), GpuIndex(3)).map(Link::gbps),
        Some(18.0),
        "no NVLink left: the way over PCIe within the socket"
    );
}

/// What the driver of a machine described by a system must be read as: lanes of its generation, levels of the board's
/// PCIe, and not the flat 10 GB/s and slow double links of MAPA's program.
fn physical(system: &System, pcie: u8) -> HardwareGraph {
    let n = system.size;
    let generation = system.generation().unwrap_or(0);
    let link = |a, b| {
        let lanes = system.lanes(a, b).max(system.switch_lanes());
        let over_pcie = || Link::pcie(system.level(a, b, n), PcieSlot::x16(pcie)).unwrap();
        Link::nvlink(generation, lanes).unwrap_or_else(over_pcie)
    };
    let port = Link::nvlink(generation, system.switch_lanes()).map(Link::gbps);
    HardwareGraph::new(n, port, system.socket(n), &link)
}

#[test]
fn every_system_comes_back_from_the_driver() {
    let mut seen = 0;
    for system in systems().iter().filter(|s| s.size > 0) {
        let (model, pcie) = if system.name == "dgx-h100" { ("h100-80gb-sxm", 5) } else { ("a100-40gb", 4) };
        let machine = Machine::new(&format!("interconnect = {:?}", system.name), model, system.size);
        let text = machine.discover();
        let expect = physical(system, pcie);
        assert!(read_back(&text) == expect, "{}\n{text}", system.name);
        if system.pcie().is_some() {
            assert!(expect == system.graph(system.size).unwrap(), "{}", system.name);
            assert!(text.contains(&format!("interconnect = {:?}", system.name)), "{text}");
        } else {
            assert!(text.contains(&format!("# NVLinks are those of {}.\n", system.name)), "{text}");
        }
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn a_gpu_without_nvlink_is_no_error() {
    let machine = Machine::new("interconnect = \"none\"", "rtx-pro-6000-96gb", 2);
    assert_snapshot!(machine.discover(), @r#"
    # Written by `tessera discover` on n1, driver 570.133.20.
    [[nodes]]
    names = "n1"
    gpu = "rtx-pro-6000-96gb"
    count = 2
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    pcie = 5 # generation
    socket = 2 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "PIX"],
      ["PIX",   "X"],
    ]
    "#);
}

#[test]
fn what_was_discovered_is_a_topology() {
    let machine = Machine::new("interconnect = \"dgx-v\"\nlinks_down = [[0, 2]]", "a100-40gb", 8);
    fs::write(machine.path("found.toml"), machine.discover()).unwrap();
    let run = |args: &[&str]| {
        let (text, status) = machine.tessera(args);
        assert_eq!(status, 0, "{text}");
        let timeless = text.lines().filter(|l| !l.starts_with("time ")).collect::<Vec<_>>();
        timeless.join("\n")
    };
    assert_snapshot!(run(&["topology", "show", "found.toml", "--gpus", "3"]), @r"
            GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7
    GPU0       X  NV1 25  NV1 25  NV1 25  NV2 50  SYS 12  SYS 12  SYS 12
    GPU1  NV1 25       X  NV2 50  NV1 25  SYS 12  NV2 50  SYS 12  SYS 12  chosen
    GPU2  NV1 25  NV2 50       X  NV2 50  SYS 12  SYS 12  NV1 25  SYS 12  chosen
    GPU3  NV1 25  NV1 25  NV2 50       X  SYS 12  SYS 12  SYS 12  NV1 25  chosen
    GPU4  NV2 50  SYS 12  SYS 12  SYS 12       X  NV1 25  NV1 25  NV2 50
    GPU5  SYS 12  NV2 50  SYS 12  SYS 12  NV1 25       X  NV2 50  NV1 25
    GPU6  SYS 12  SYS 12  NV1 25  SYS 12  NV1 25  NV2 50       X  NV2 50
    GPU7  SYS 12  SYS 12  SYS 12  NV1 25  NV2 50  NV1 25  NV2 50       X

    chosen, in order of ranks: 1 2 3
    ");
    let svg = run(&["topology", "svg", "found.toml", "--gpus", "2"]);
    assert!(
        svg.contains("<title>0-3 NV1 25 GB/s</title>") && svg.contains("<title>0-4 NV2 50 GB/s</title>"),
        "{svg}"
    );
    for part in
        ["prefers-color-scheme: dark", ">50</text>", ">thick: 50 GB/s; thin: 25 GB/s; orange: the job</text>"]
    {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    assert_snapshot!(run(&["score", "--topology", "found.toml", "--gpus", "2"]), @r"
    GPUs          0 4
    order         0 4
    links         2 double, 0 single, 0 without NVLink
    AggBW         100.000 GB/s
    EffBW         50.000 GB/s (bottleneck)
    preserved     350.000 GB/s
    policy        preserve, 7 sets as good
    ");
    assert_snapshot!(run(&["lint", "--topology", "found.toml", "--busy", "5-7"]), @r"
    GPUS  BEST  GB/s  SLURM TO 23.11  GB/s  BEHIND  SLURM FROM 24.05  GB/s  BEHIND
       2  0,4   50.0  0,4             50.0       -  0-1               25.0    25.0
       3  1-3   43.0  0-1,4           21.0    22.0  0-1,3             34.0     9.0
       4  0-3   43.0  0-2,4           30.0    13.0  0-1,3-4           30.0    13.0
       5  0-4   30.0  0-4             30.0       -  0-4               30.0       -
    ");
}

#[test]
fn doctor_tells_links_that_are_not_as_described() {
    let machine = Machine::new("interconnect = \"dgx-v\"", "a100-40gb", 8);
    let named = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\ninterconnect = ";
    machine.describe(&format!("{named}\"dgx-v\"\n"));
    assert_snapshot!(machine.doctor(), @"ok   n1: links are up as tessera.toml describes them");
    let found = machine.discover();
    machine.sim(&["link", "--gpu", "0", "--link", "2", "down"]);
    machine.sim(&["link", "--gpu", "6", "--link", "1", "down"]);
    assert_snapshot!(machine.doctor(), @r"
    bad  n1: links of GPU 0 to 3: NV1 (25 GB/s) by the driver, NV2 (50 GB/s) by tessera.toml
    bad  n1: links of GPU 4 to 6: NODE (18 GB/s) by the driver, NV1 (25 GB/s) by tessera.toml
    ");
    machine.describe(&found);
    assert_snapshot!(machine.doctor(), @r"
    bad  n1: links of GPU 0 to 3: NV1 (25 GB/s) by the driver, NV2 (50 GB/s) by tessera.toml
    bad  n1: links of GPU 4 to 6: NODE (18 GB/s) by the driver, NV1 (25 GB/s) by tessera.toml
    ");
    machine.describe(&format!("{named}\"dgx-p\"\n"));
    assert_snapshot!(machine.doctor(), @r"
    bad  n1: links of GPU 1 to 2,5: NV2 (50 GB/s) by the driver, NV1 (20 GB/s) by tessera.toml
    bad  n1: links of GPU 4 to 0,7: NV2 (50 GB/s) by the driver, NV1 (20 GB/s) by tessera.toml
    bad  n1: links of GPU 6 to 5,7: NV2 (50 GB/s) by the driver, NV1 (20 GB/s) by tessera.toml
    bad  n1: links of GPU 2 to 3: NV2 (50 GB/s) by the driver, NV1 (20 GB/s) by tessera.toml
    bad  n1: links of GPU 4 to 6: NODE (18 GB/s) by the driver, NV1 (20 GB/s) by tessera.toml
    ");
    machine.describe(&format!("{named}\"pcie\"\n"));
    assert_snapshot!(machine.doctor(), @"skip n1: links: tessera.toml does not describe them; `tessera discover` writes them");
}
