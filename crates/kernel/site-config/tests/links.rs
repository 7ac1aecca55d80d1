//! Links in words: what is written is read back, as the graph that was written.

#![allow(clippy::unwrap_used, reason = "tests")]

use geometry::GpuIndex;
use gpu_node::links_text;
use proptest::prelude::*;
use site_config::{links_of_file, parse};
use topology::{HardwareGraph, Link, LinkKind, PcieSlot, System, systems};

/// The graph of a `[[nodes]]` with these lines.
fn graph(gpu: &str, count: usize, lines: &str) -> HardwareGraph {
    let text = format!("[[nodes]]\nnames = \"n1\"\ngpu = {gpu:?}\ncount = {count}\n{lines}");
    let (config, errors) = parse("t", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(errors, [], "{text}");
    HardwareGraph::clone(&config.unwrap().nodes[0].links)
}

fn link(graph: &HardwareGraph, a: u16, b: u16) -> String {
    let link = graph.link(GpuIndex(a), GpuIndex(b)).unwrap();
    format!("{} {}", link.kind, link.gbps())
}

/// Compares links one by one, for a message that says which.
fn same(a: &HardwareGraph, b: &HardwareGraph, text: &str) {
    for x in a.all().iter() {
        for y in a.all().iter() {
            assert_eq!(a.link(x, y), b.link(x, y), "{x} {y}\n{text}");
        }
    }
    assert!(a == b, "{text}");
}

#[test]
fn words_have_the_rates_of_their_generations() {
    let lines = "matrix = [[\"X\", \"NV2\", \"PIX\"], [\"NV2\", \"X\", 12.5], [\"PIX\", 12.5, 0]]\n";
    // An A100's NVLink 3 and PCIe 4, an H100's 4 and 5, and what is written wins.
    let a100 = graph("a100-40gb", 3, lines);
    assert_eq!([link(&a100, 0, 1), link(&a100, 0, 2), link(&a100, 1, 2)], ["NV2 50", "PIX 24", "PHB 12.5"]);
    let old = graph("a100-40gb", 3, &format!("nvlink = 1\npcie = 3\npcie_lanes = 8\nsocket = 1\n{lines}"));
    assert_eq!([link(&old, 0, 1), link(&old, 0, 2)], ["NV2 40", "PIX 6"]);
    assert_eq!((a100.socket(), old.socket()), (2, 1));
    let h100 = graph("h100-80gb-sxm", 3, lines);
    assert_eq!([link(&h100, 0, 1), link(&h100, 0, 2)], ["NV2 50", "PIX 48"]);
}

#[test]
fn an_nvswitch_shares_a_gpus_lanes() {
    let lines = "nvswitch = true\nmatrix = [[\"X\", \"NV12\", \"NV11\"], [\"NV12\", \"X\", \"NV11\"], [\"NV11\", \"NV11\", \"X\"]]\n";
    let graph = graph("a100-40gb", 3, lines);
    let sends = |g| graph.sends_mb_s(GpuIndex(g));
    assert_eq!([sends(0), sends(1), sends(2)], [300_000, 300_000, 275_000]);
}

#[test]
fn every_system_is_written_and_read_back() {
    for system in systems() {
        let n = if system.size == 0 { 5 } else { system.size };
        let before = system.graph(n).unwrap();
        let text = links_text(&before, system.pcie());
        let (read, errors) = links_of_file("f", &format!("[[nodes]]\n{text}"));
        assert_eq!(errors, [], "{text}");
        let after = read.unwrap();
        // A flat rate of PCIe and MAPA's slow double links are numbers, and numbers have no kind.
        for a in before.all().iter() {
            for b in before.all().iter().filter(|b| *b != a) {
                let (x, y) = (before.link(a, b).unwrap(), after.link(a, b).unwrap());
                let worded = system.pcie().is_some()
                    || (matches!(x.kind, LinkKind::NvLink { .. }) && x.mb_s != 25_000);
                assert!(x.mb_s == y.mb_s && (x == y || !worded), "{}: {x:?} {y:?}\n{text}", system.name);
            }
        }
        if system.pcie().is_some() {
            same(&before, &after, &text);
        }
    }
}

#[test]
fn a_named_system_prints_as_links_of_tessera_toml() {
    let text = |name: &str| {
        let system = System::find(name).unwrap();
        links_text(&system.graph(system.size).unwrap(), Some(PcieSlot::x16(4)))
    };
    insta::assert_snapshot!(text("pcie-8-bridged"), @r#"
    nvlink = 3 # generation
    pcie = 4 # generation
    matrix = [ # as `nvidia-smi topo -m` has them
      [   "X", "NV12", "NODE", "NODE",  "SYS",  "SYS",  "SYS",  "SYS"],
      ["NV12",    "X", "NODE", "NODE",  "SYS",  "SYS",  "SYS",  "SYS"],
      ["NODE", "NODE",    "X", "NV12",  "SYS",  "SYS",  "SYS",  "SYS"],
      ["NODE", "NODE", "NV12",    "X",  "SYS",  "SYS",  "SYS",  "SYS"],
      [ "SYS",  "SYS",  "SYS",  "SYS",    "X", "NV12", "NODE", "NODE"],
      [ "SYS",  "SYS",  "SYS",  "SYS", "NV12",    "X", "NODE", "NODE"],
      [ "SYS",  "SYS",  "SYS",  "SYS", "NODE", "NODE",    "X", "NV12"],
      [ "SYS",  "SYS",  "SYS",  "SYS", "NODE", "NODE", "NV12",    "X"],
    ]
    "#);
    insta::assert_snapshot!(text("hgx-a100-4"), @r#"
    nvlink = 3 # generation
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "NV4", "NV4", "NV4"],
      ["NV4",   "X", "NV4", "NV4"],
      ["NV4", "NV4",   "X", "NV4"],
      ["NV4", "NV4", "NV4",   "X"],
    ]
    "#);
    // MAPA's flat rate of PCIe is no level's.
    insta::assert_snapshot!(text("summit"), @r#"
    nvlink = 2 # generation
    matrix = [ # as `nvidia-smi topo -m` has them
      [  "X", "NV2", "NV2",    10,    10,    10],
      ["NV2",   "X", "NV2",    10,    10,    10],
      ["NV2", "NV2",   "X",    10,    10,    10],
      [   10,    10,    10,   "X", "NV2", "NV2"],
      [   10,    10,    10, "NV2",   "X", "NV2"],
      [   10,    10,    10, "NV2", "NV2",   "X"],
    ]
    "#);
}

/// The messages for a `[[nodes]]` of two GPUs with these lines.
fn messages(lines: &str) -> String {
    let text = format!("[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n{lines}");
    let (_, errors) = parse("tessera.toml", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    errors.iter().map(|e| site_problems::shown(e) + "\n").collect()
}

#[test]
fn what_is_wrong_with_words_is_said_where() {
    insta::assert_snapshot!(messages("matrix = [[\"X\", \"NV2x\"], [\"NV2\", \"X\"]]"), @r#"
    tessera.toml:5:18: unknown link "NV2x"
    matrix = [["X", "NV2x"], ["NV2", "X"]]
                     ^~~~  hint: did you mean NV2?
    "#);
    insta::assert_snapshot!(messages("matrix = [[\"X\", \"pix\"], [\"QPI over there\", \"X\"]]"), @r#"
    tessera.toml:5:18: unknown link "pix"
    matrix = [["X", "pix"], ["QPI over there", "X"]]
                     ^~~  hint: did you mean PIX?
    tessera.toml:5:27: unknown link "QPI over there"
    matrix = [["X", "pix"], ["QPI over there", "X"]]
                              ^~~~~~~~~~~~~~  hint: use X, NV1 to NV18, PIX, PXB, PHB, NODE, SYS, or GB/s
    "#);
    insta::assert_snapshot!(messages("matrix = [[\"X\", \"NV2\"], [\"NV1\", \"X\"]]"), @r#"
    tessera.toml:5:27: matrix has NV1 from GPU 1 to GPU 0, but NV2 from GPU 0 to GPU 1
    matrix = [["X", "NV2"], ["NV1", "X"]]
                              ^~~  hint: write the same value for both directions
    "#);
    insta::assert_snapshot!(messages("matrix = [[\"X\", \"SYS\"], [10, \"X\"]]"), @r#"
    tessera.toml:5:26: matrix has 10 from GPU 1 to GPU 0, but SYS from GPU 0 to GPU 1
    matrix = [["X", "SYS"], [10, "X"]]
                             ^~  hint: write the same value for both directions
    "#);
    insta::assert_snapshot!(messages("matrix = [[\"X\", \"X\"], [\"X\", \"X\"]]"), @r#"
    tessera.toml:5:18: matrix has X between GPU 0 and GPU 1
    matrix = [["X", "X"], ["X", "X"]]
                     ^  hint: X is only for a GPU and itself
    "#);
    insta::assert_snapshot!(messages("matrix = [[\"NV1\", \"NV1\"], [\"NV1\", \"X\"]]"), @r#"
    tessera.toml:5:13: matrix has NV1 between GPU 0 and itself
    matrix = [["NV1", "NV1"], ["NV1", "X"]]
                ^~~  hint: write 0 or "X"
    "#);
    insta::assert_snapshot!(messages("matrix = [[\"X\", \"NV1\"], [\"NV1\"]]"), @r#"
    tessera.toml:5:25: this row has 1 value, but the matrix has 2 rows
    matrix = [["X", "NV1"], ["NV1"]]
                            ^~~~~~~
    "#);
    insta::assert_snapshot!(messages("matrix = [[0, true], [1, 0]]"), @r#"
    tessera.toml:5:15: this cell is not a bandwidth in GB/s
    matrix = [[0, true], [1, 0]]
                  ^~~~  hint: write a number, or a link such as "NV2" or "PIX"
    "#);
    insta::assert_snapshot!(messages("nvlink = 9\nmatrix = [[\"X\", \"NV1\"], [\"NV1\", \"X\"]]"), @r"
    tessera.toml:5:10: nvlink = 9 is out of range
    nvlink = 9
             ^  hint: use 1 to 5
    ");
    insta::assert_snapshot!(messages("interconnect = \"pcie\"\nnvlink = 2\nsocket = 1"), @r"
    tessera.toml:6:1: nvlink is only for a matrix
    nvlink = 2
    ^~~~~~  hint: a named or discovered interconnect already has it
    tessera.toml:7:1: socket is only for a matrix
    socket = 1
    ^~~~~~  hint: a named or discovered interconnect already has it
    ");
    // Without a GPU model nothing tells the generation.
    let (_, errors) = links_of_file(
        "links.toml",
        "matrix = [[\"X\", \"NV1\", \"PIX\"], [\"NV1\", \"X\", \"PIX\"], [\"PIX\", \"PIX\", \"X\"]]",
    );
    insta::assert_snapshot!(site_problems::shown(&errors[0]), @r#"
    links.toml:1:18: matrix has NV1, but its NVLink generation is not known
    matrix = [["X", "NV1", "PIX"], ["NV1", "X", "PIX"], ["PIX", "PIX", "X"]]
                     ^~~  hint: add nvlink = 3, the generation
    "#);
    let (_, errors) =
        links_of_file("links.toml", "nvlink = 2\nmatrix = [[\"X\", \"PIX\"], [\"PIX\", \"X\"]]");
    insta::assert_snapshot!(site_problems::shown(&errors[0]), @r#"
    links.toml:2:18: matrix has PIX, but its PCIe generation is not known
    matrix = [["X", "PIX"], ["PIX", "X"]]
                     ^~~  hint: add pcie = 4, the generation
    "#);
}

fn any_graph() -> impl Strategy<Value = (HardwareGraph, PcieSlot)> {
    let slot = (1..=6_u8, prop::sample::select(vec![1_u8, 4, 8, 16]));
    let kinds = prop::collection::vec((0..9_u8, 1..=18_u8), 28);
    (2..=8_usize, 1..=5_u8, slot, kinds, prop::bool::ANY, 1..=8_usize).prop_map(
        |(n, generation, (pcie, lanes), kinds, switched, socket)| {
            let slot = PcieSlot { generation: pcie, lanes };
            let one = |a: usize, b: usize| {
                let (kind, lanes) = kinds[a * 8 - a * (a + 1) / 2 + (b - a - 1)];
                let level = match kind {
                    0 => LinkKind::Pix,
                    1 => LinkKind::Pxb,
                    2 => LinkKind::Phb,
                    3 => LinkKind::Node,
                    4 => LinkKind::Sys,
                    _ => return Link::nvlink(generation, lanes).unwrap(),
                };
                Link::pcie(level, slot).unwrap()
            };
            let both = |a: usize, b: usize| one(a.min(b), a.max(b));
            let port = |g: usize| {
                let rates = (0..n).filter(|o| *o != g).map(|o| both(g, o));
                let nvlinks = rates.filter(|l| matches!(l.kind, LinkKind::NvLink { .. }));
                nvlinks.map(Link::gbps).reduce(f64::max).filter(|_| switched)
            };
            (HardwareGraph::with_ports(n, &port, socket.min(n), &both), slot)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_is_written_and_read_back((before, slot) in any_graph()) {
        let text = links_text(&before, Some(slot));
        let (read, errors) = links_of_file("f", &text);
        prop_assert!(errors.is_empty(), "{errors:?}\n{text}");
        same(&before, &read.unwrap(), &text);
    }
}
