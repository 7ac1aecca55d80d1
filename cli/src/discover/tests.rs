//! Made-up machines and what is written for them.

use super::*;

/// `n` GPUs of a model with these NVLinks: from, to (`None`: a switch), how many.
fn found(key: &str, n: u16, links: &[(u16, Option<u16>, u32)], version: u32) -> Found {
    let model = Model::find(key).unwrap();
    let info = |i: u16| GpuInfo {
        index: GpuIndex(i),
        uuid: format!("GPU-{i}"),
        name: model.names[0].clone(),
        minor: u32::from(i),
        pci_bus_id: String::new(),
        memory_mib: model.total_memory_mib,
    };
    let of = |a: u16| {
        let mine = links.iter().filter(move |l| l.0 == a);
        let link =
            |to: Option<u16>| NvLink { link: 0, version, peer: to.map(GpuIndex), to_switch: to.is_none() };
        mine.flat_map(move |l| (0..l.2).map(move |_| link(l.1))).collect::<Vec<NvLink>>()
    };
    let nvlinks: Vec<Vec<NvLink>> = (0..n).map(of).collect();
    let square = |a| (0..n).map(move |b| (GpuIndex(a), GpuIndex(b)));
    let rows: Vec<Vec<f64>> =
        (0..n).map(|a| square(a).map(|(a, b)| bandwidth(&nvlinks, a, b)).collect()).collect();
    Found {
        name: "n1".to_owned(),
        driver: "1.2".to_owned(),
        gpus: (0..n).map(info).collect(),
        models: vec![model; usize::from(n)],
        links: (0..n).map(|a| square(a).map(|(a, b)| direct(&nvlinks, a, b)).collect()).collect(),
        matrix: LinkMatrix::from_rows(&rows).unwrap(),
    }
}

fn all(found: &Found) -> String {
    toml(found) + &gres(found) + &slurm(found)
}

#[test]
fn links_of_their_own_are_told_to_slurm() {
    let pair = found("a100-40gb", 2, &[(0, Some(1), 4), (1, Some(0), 4)], 4);
    insta::assert_snapshot!(all(&pair), @r#"
    # Written by `tessera discover` on n1, driver 1.2.
    [[nodes]]
    names = "n1"
    gpu = "a100-40gb"
    count = 2
    mig = "dynamic"
    matrix = [ # GB/s in one direction
      [0, 100],
      [100, 0],
    ]
    NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia0 Links=-1,4
    NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia1 Links=4,-1
    NodeName=n1 Name=shard Count=80
    GresTypes=gpu,shard
    NodeName=n1 Gres=gpu:a100:2,shard:80 # and CPUs, RealMemory as `slurmd -C` prints them
    "#);
}

#[test]
fn a_switch_links_all_alike() {
    let links: Vec<_> = (0..3).map(|a| (a, None, 18)).collect();
    insta::assert_snapshot!(all(&found("h100-80gb-sxm", 3, &links, 6)), @r#"
    # Written by `tessera discover` on n1, driver 1.2.
    [[nodes]]
    names = "n1"
    gpu = "h100-80gb-sxm"
    count = 3
    mig = "dynamic"
    matrix = [ # GB/s in one direction
      [0, 450, 450],
      [450, 0, 450],
      [450, 450, 0],
    ]
    NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia[0-2]
    NodeName=n1 Name=shard Count=240
    GresTypes=gpu,shard
    NodeName=n1 Gres=gpu:h100:3,shard:240 # and CPUs, RealMemory as `slurmd -C` prints them
    "#);
}

#[test]
fn a_known_system_has_its_name() {
    let links: Vec<_> = (0..8).map(|a| (a, None, 12)).collect();
    assert!(toml(&found("a100-40gb", 8, &links, 4)).contains("interconnect = \"dgx-a100\""));
    assert!(toml(&found("a30-24gb", 4, &[], 0)).contains("interconnect = \"pcie\""));
}

#[test]
fn what_is_written_is_read_back() {
    for found in [found("a30-24gb", 4, &[], 0), found("a100-40gb", 2, &[(0, Some(1), 4), (1, Some(0), 4)], 4)]
    {
        let text = toml(&found);
        let (config, errors) = site_config::parse("f", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        assert_eq!(config.unwrap().nodes[0].links, found.matrix, "{text}");
    }
}
