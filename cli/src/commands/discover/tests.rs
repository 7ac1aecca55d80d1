//! Configuration for made-up machines. `tests/links.rs` has simulated ones.

use gpu_survey::NvLink;
use node_driver::{GpuMinor, NvmlIndex};
use topology::PcieSlot;

use super::*;

/// `n` GPUs of a model with these NVLinks: from, to (`None`: a switch), how many. All on one NUMA node, one PCIe switch.
fn machine(key: &str, n: u16, links: &[(u16, Option<u16>, u32)], version: u32) -> Machine {
    let model = Model::find(key).unwrap();
    let info = |i: u16| GpuInfo {
        index: NvmlIndex(i),
        uuid: format!("GPU-{i}"),
        name: model.names[0].clone(),
        minor: GpuMinor(u32::from(i)),
        pci_bus_id: String::new(),
        memory_mib: model.total_memory_mib,
    };
    let of = |a: u16| {
        let mine = links.iter().filter(move |l| l.0 == a);
        let link =
            |to: Option<u16>| NvLink { link: 0, version, peer: to.map(NvmlIndex), to_switch: to.is_none() };
        mine.flat_map(move |l| (0..l.2).map(move |_| link(l.1))).collect::<Vec<NvLink>>()
    };
    let all = usize::from(n);
    Machine {
        name: "n1".to_owned(),
        driver: "1.2".to_owned(),
        gpus: (0..n).map(info).collect(),
        models: vec![model; all],
        links: LinkAnswers {
            names: vec![model.names[0].clone(); all],
            nvlinks: (0..n).map(of).collect(),
            levels: vec![vec![LinkKind::Pix; all]; all],
            numa: vec![Some(0); all],
            slots: vec![Some(PcieSlot::x16(4)); all],
            mig: vec![false; all],
        },
        fenced: false,
    }
}

fn printed(machine: &Machine) -> String {
    toml(machine) + &gres(machine) + &slurm(machine)
}

#[test]
fn links_of_their_own_are_told_to_slurm() {
    // The two ends disagree about one of four: it trains, or is broken.
    let pair = machine("a100-40gb", 3, &[(0, Some(1), 4), (1, Some(0), 3)], 4);
    insta::assert_snapshot!(printed(&pair), @r#"
    # Written by `tessera discover` on n1, driver 1.2.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 3
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    nvlink = 3 # generation
    pcie = 4 # generation
    socket = 3 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "NV3", "PIX"],
      ["NV3",   "X", "PIX"],
      ["PIX", "PIX",   "X"],
    ]
    NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia0 Links=-1,3,0
    NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia1 Links=3,-1,0
    NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia2 Links=0,0,-1
    NodeName=n1 Name=shard Count=120
    GresTypes=gpu,shard
    NodeName=n1 Gres=gpu:a100:3,shard:120 # and CPUs, RealMemory as `slurmd -C` prints them
    "#);
}

#[test]
fn a_kernel_that_holds_shares_is_told() {
    let machine = |fenced| Machine { fenced, ..machine("l4-24gb", 1, &[], 0) };
    assert!(toml(&machine(true)).contains("\nmemory_fence = true # memory of shares: kernel\n"));
    assert!(!toml(&machine(false)).contains("\nmemory_fence"));
}

#[test]
fn a_switch_links_all_alike() {
    let links: Vec<_> = (0..3).map(|a| (a, None, 18)).collect();
    insta::assert_snapshot!(printed(&machine("h100-80gb-sxm", 3, &links, 6)), @r#"
    # Written by `tessera discover` on n1, driver 1.2.
    [[nodes]]
    names = "n1"
    gpu = "h100-80gb-sxm"
    count = 3
    mig = "dynamic"
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    nvlink = 4 # generation
    nvswitch = true
    socket = 3 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [   "X", "NV18", "NV18"],
      ["NV18",    "X", "NV18"],
      ["NV18", "NV18",    "X"],
    ]
    NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia[0-2]
    NodeName=n1 Name=shard Count=240
    GresTypes=gpu,shard
    NodeName=n1 Gres=gpu:h100:3,shard:240 # and CPUs, RealMemory as `slurmd -C` prints them
    "#);
}

#[test]
fn what_the_driver_does_not_say_is_the_models() {
    let mut pair = machine("a100-40gb", 2, &[(0, Some(1), 2), (1, Some(0), 2)], 0);
    pair.links.numa = vec![None; 2];
    insta::assert_snapshot!(links(&pair), @r#"
    nvlink = 3 # generation
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "NV2"],
      ["NV2",   "X"],
    ]
    "#);
    let mut apart = machine("a30-24gb", 3, &[], 0);
    apart.links.slots[1] = None;
    insta::assert_snapshot!(links(&apart), @r#"
    socket = 3 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      ["X",  10,  10],
      [ 10, "X",  10],
      [ 10,  10, "X"],
    ]
    "#);
    apart.links.slots[1] = Some(PcieSlot { generation: 4, lanes: 8 });
    insta::assert_snapshot!(links(&apart), @r#"
    pcie = 4 # generation
    pcie_lanes = 8
    socket = 3 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "PIX", "PIX"],
      ["PIX",   "X", "PIX"],
      ["PIX", "PIX",   "X"],
    ]
    "#);
    assert_eq!(links(&machine("a30-24gb", 1, &[], 0)), "interconnect = \"pcie\"\n");
}

#[test]
fn links_that_mig_turned_off_are_told() {
    let links = [(0, None, 12), (1, None, 12)];
    let mut machine = machine("a100-40gb", 3, &links, 4);
    machine.links.mig[2] = true;
    insta::assert_snapshot!(super::links(&machine), @r#"
    # In MIG mode, which turns an A100's NVLinks off: GPU 2.
    nvlink = 3 # generation
    nvswitch = true
    pcie = 4 # generation
    socket = 3 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [   "X", "NV12",  "PIX"],
      ["NV12",    "X",  "PIX"],
      [ "PIX",  "PIX",    "X"],
    ]
    "#);
}

#[test]
fn a_known_system_has_its_name() {
    let links: Vec<_> = (0..8).map(|a| (a, None, 12)).collect();
    let mut dgx = machine("a100-40gb", 8, &links, 4);
    dgx.links.numa = [0, 0, 0, 0, 1, 1, 1, 1].map(Some).to_vec();
    assert!(toml(&dgx).contains("interconnect = \"dgx-a100\""));
    // As DGX A100 boots: a NUMA node for each two GPUs.
    dgx.links.numa = [3, 3, 1, 1, 7, 7, 5, 5].map(Some).to_vec();
    assert!(
        toml(&dgx).contains(
            "# NVLinks are those of dgx-a100.\nnvlink = 3 # generation\nnvswitch = true\nsocket = 2"
        )
    );
}

#[test]
fn gpus_without_mig_and_unknown_ones() {
    insta::assert_snapshot!(printed(&machine("l4-24gb", 2, &[], 0)), @r#"
    # Written by `tessera discover` on n1, driver 1.2.
    [[nodes]]
    names = "n1"
    gpu = "l4-24gb"
    count = 2
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    pcie = 4 # generation
    socket = 2 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "PIX"],
      ["PIX",   "X"],
    ]
    NodeName=n1 Name=gpu Type=l4 File=/dev/nvidia[0-1]
    NodeName=n1 Name=shard Count=48
    GresTypes=gpu,shard
    NodeName=n1 Gres=gpu:l4:2,shard:48 # and CPUs, RealMemory as `slurmd -C` prints them
    "#);
    let mut unknown = machine("l4-24gb", 2, &[], 0);
    for gpu in &mut unknown.gpus {
        (gpu.name, gpu.memory_mib) = ("NVIDIA X1 Ultra".to_owned(), 97_887);
    }
    unknown.models.clear();
    insta::assert_snapshot!(printed(&unknown), @r#"
    # Written by `tessera discover` on n1, driver 1.2.
    # Tessera does not know GPU 0. Complete this; it then serves whole GPUs and MPS shares.
    [[models]]
    key = "x1ultra-96gb"
    names = ["NVIDIA X1 Ultra"]
    memory_mib = 97887
    # sms =        the number of multiprocessors, as deviceQuery prints it

    [[nodes]]
    names = "n1"
    gpu = "x1ultra-96gb"
    count = 2
    # Memory of shares: MPS, cooperative. The kernel has no dmem region for each GPU.
    pcie = 4 # generation
    socket = 2 # GPUs
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "PIX"],
      ["PIX",   "X"],
    ]
    NodeName=n1 Name=gpu Type=x1ultra File=/dev/nvidia[0-1]
    NodeName=n1 Name=shard Count=192
    GresTypes=gpu,shard
    NodeName=n1 Gres=gpu:x1ultra:2,shard:192 # and CPUs, RealMemory as `slurmd -C` prints them
    "#);
}
