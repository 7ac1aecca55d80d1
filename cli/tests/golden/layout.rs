//! `tessera layout`.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use super::{Site, run};

#[test]
fn layout() {
    assert_snapshot!(run("layout --from layout"), @r"
    n1: 8 x a100-40gb, links dgx-v
    GPU 0 │ 2g.10gb         │ 1g.5gb │ 1g.5gb │ 3g.20gb                           │
          │ job 12          │ idle   │ mps 31 │ mps 18 19                         │
    GPU 1 │ 1g.5gb │                                                              │
          │ 123456 │ free                                                         │
    GPU 2 │ mps 14 (3.0 GB, 25 %), 15 (3.0 GB, 25 %)                              │
    GPU 3 │ whole, job 13                                                         │
    GPU 4 │ whole, job 13                                                         │
    GPU 5 │ free                                                                  │
    GPU 6 │ free                                                                  │
    GPU 7 │ free                                                                  │

    n2: 2 x h100-80gb-sxm, links pcie
    GPU 0 │ mps 14 15 16 +12                                                      │
    GPU 1 │ free                                                                  │

    without jobs: 4 of 10 GPUs, 0 of 2 nodes
    lost to fragmentation: 1 of 1 places for 4 GPUs (a100-40gb), 1 of 2 for 2 GPUs (a100-40gb), 1 of 4 for 4g.20gb (a100-40gb), and 5 more shapes
    exit 0
    ");
    assert_snapshot!(run("layout --from layout --node n2 --json"), @r#"
    {
      "nodes": [
        {
          "gpus": [
            {
              "index": 0,
              "model": "h100-80gb-sxm",
              "pieces": [
                {
                  "jobs": [
                    {
                      "id": 14,
                      "mem_mib": 2862,
                      "threads": 25
                    },
                    {
                      "id": 15,
                      "mem_mib": 2862,
                      "threads": 25
                    },
                    {
                      "id": 16,
                      "mem_mib": 2862,
                      "threads": 25
                    }
                  ],
                  "more_jobs": 12,
                  "owner": "shared",
                  "profile": null,
                  "size": 8,
                  "start": 0
                }
              ],
              "units": 8
            },
            {
              "index": 1,
              "model": "h100-80gb-sxm",
              "pieces": [
                {
                  "jobs": [],
                  "more_jobs": 0,
                  "owner": "free",
                  "profile": null,
                  "size": 8,
                  "start": 0
                }
              ],
              "units": 8
            }
          ],
          "links": "pcie",
          "name": "n2",
          "note": null
        }
      ],
      "places": [
        {
          "model": "h100-80gb-sxm",
          "now": 7,
          "packed": 7,
          "shape": "1g.10gb"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 4,
          "packed": 4,
          "shape": "1g.20gb"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 3,
          "packed": 3,
          "shape": "2g.20gb"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 2,
          "packed": 2,
          "shape": "3g.40gb"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 1,
          "packed": 1,
          "shape": "4g.40gb"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 1,
          "packed": 1,
          "shape": "7g.80gb"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 1,
          "packed": 1,
          "shape": "1 GPU"
        },
        {
          "model": "h100-80gb-sxm",
          "now": 0,
          "packed": 0,
          "shape": "2 GPUs"
        }
      ],
      "without_jobs": {
        "gpus": 1,
        "nodes": 0,
        "of_gpus": 2,
        "of_nodes": 1
      }
    }
    exit 0
    "#);
    assert_snapshot!(run("layout --from layout --node n2 --color always").replace('\x1b', "ESC"), @r"
    ESC[1mn2: 2 x h100-80gb-sxm, links pcieESC[0m
    GPU 0 │ESC[38;5;16;48;5;221m mps 14 15 16 +12                                                      ESC[0m│
    GPU 1 │ free                                                                  │

    ESC[38;5;16;48;5;75m isolated ESC[0m ESC[38;5;16;48;5;221m shared ESC[0m ESC[38;5;16;48;5;250m idle ESC[0m ESC[38;5;16;48;5;215m whole ESC[0m  free 

    without jobs: 1 of 2 GPUs, 0 of 1 nodes
    lost to fragmentation: nothing
    exit 0
    ");
    assert_snapshot!(run("layout --from layout --node n[1-3]"), @r"
    stderr: tessera: node n3 is not in tessera.toml
    stderr: hint: there are n1, n2
    exit 1
    ");
    assert_snapshot!(run("layout"), @r"
    stderr: tessera: cannot run `scontrol -a show nodes`: No such file or directory (os error 2)
    stderr: hint: is Slurm installed here?
    exit 1
    ");
}

#[test]
fn layouts_that_cannot_be() {
    let site = Site::new();
    fs::write(site.path().join("bad"), "n1 tessera gpu0=mig[9g.1gb@0:idle]\n").unwrap();
    assert_snapshot!(site.run(&["layout", "--from", "bad"]), @r"
    stderr: tessera: layout of n1: gpu0: a 9g.1gb cannot start at memory slice 0 (a100-40gb)
    exit 1
    ");
    fs::write(site.path().join("bad"), "n1 tessera gpu0=fee\n").unwrap();
    assert_snapshot!(site.run(&["layout", "--from", "bad"]), @r"
    stderr: tessera: layout of n1: something unexpected at byte 13 of the layout
    exit 1
    ");
    assert_snapshot!(site.run(&["layout", "--from", "none"]), @r"
    stderr: tessera: cannot read none: No such file or directory (os error 2)
    exit 1
    ");
}

#[test]
fn pictures() {
    let site = Site::new();
    let picture = site.run(&["layout", "--from", "layout", "--node", "n2", "--svg", "-"]);
    assert_snapshot!(picture, @r#"
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 856 216" width="856" height="216" role="img" aria-label="GPUs of n2">
    <style>text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c2128; }
    .title { font-weight: 600; font-size: 15px; } .small { font-size: 12px; } .dim { fill: #6b7280; } .ink { fill: #14181d; }
    .bg { fill: #ffffff; stroke: #d0d7de; } .grid { stroke: #d0d7de; fill: none; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .dim { fill: #9198a1; } .bg { fill: #0d1117; stroke: #3d444d; } .grid { stroke: #3d444d; }
      .ink { fill: #14181d; }
    }
    .isolated { fill: #9bcbff; stroke: #3b7fc4; }
    .shared { fill: #f8e47e; stroke: #a98600; }
    .tasks { fill: #b07acc; stroke: #7a3f9a; }
    .idle { fill: #bcc4cd; stroke: #7c8793; }
    .whole { fill: #ee9548; stroke: #a8590b; }
    .free, .slurm { fill: #f3f4f6; stroke: #d0d7de; } .slurm { stroke-dasharray: 4 3; } .sick { fill: none; stroke: #b3261e; }
    .fits { fill: none; stroke: #1d7a4f; stroke-width: 1.5; } .taken { fill: none; stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 5 3; }
    .hit { fill: #b3261e; opacity: 0.25; } .yes { fill: #1d7a4f; } .no { fill: #b3261e; }
    @media (prefers-color-scheme: dark) {
      .free, .slurm { fill: #161b22; stroke: #3d444d; } .fits { stroke: #4cc38a; } .taken { stroke: #ff8a80; }
      .hit { fill: #ff8a80; } .yes { fill: #4cc38a; } .no { fill: #ff8a80; }
    }
    </style>
    <rect class="bg" x="0.5" y="0.5" width="855" height="215" rx="10"/>
    <text class="title" x="16" y="32">n2: 2 x h100-80gb-sxm, links pcie</text>
    <text class="small dim" x="81" y="66">0</text><text class="small dim" x="177" y="66">1</text><text class="small dim" x="273" y="66">2</text><text class="small dim" x="369" y="66">3</text><text class="small dim" x="465" y="66">4</text><text class="small dim" x="561" y="66">5</text><text class="small dim" x="657" y="66">6</text><text class="small dim" x="753" y="66">7</text><text class="small dim" x="16" y="54">memory</text><text class="small dim" x="16" y="66">slice</text>
    <text class="dim" x="16" y="101">GPU 0</text>
    <g><title>mps 14 15 16 +12</title><rect class="shared" x="73" y="74" width="766" height="46" rx="5"/>
    <text class="ink" x="81" y="101">mps 14 15 16 +12</text>
    </g>
    <text class="dim" x="16" y="153">GPU 1</text>
    <g><title>free</title><rect class="free" x="73" y="126" width="766" height="46" rx="5"/>
    <path class="grid" d="M168 132v34" stroke-dasharray="2 4"/>
    <path class="grid" d="M264 132v34" stroke-dasharray="2 4"/>
    <path class="grid" d="M360 132v34" stroke-dasharray="2 4"/>
    <path class="grid" d="M456 132v34" stroke-dasharray="2 4"/>
    <path class="grid" d="M552 132v34" stroke-dasharray="2 4"/>
    <path class="grid" d="M648 132v34" stroke-dasharray="2 4"/>
    <path class="grid" d="M744 132v34" stroke-dasharray="2 4"/>
    </g>
    <rect class="shared" x="72" y="184" width="14" height="14" rx="3"/><text class="small dim" x="92" y="195">shared (MPS)</text>
    <rect class="free" x="188" y="184" width="14" height="14" rx="3"/><text class="small dim" x="208" y="195">free</text>
    </svg>
    exit 0
    "#);
    assert_eq!(site.run(&["layout", "--from", "layout", "--svg", "all.svg"]), "exit 0");
    let all = fs::read_to_string(site.path().join("all.svg")).unwrap();
    assert_eq!(all.matches("class=\"whole\"").count(), 3, "two GPUs and the legend");
}

/// The commands below, with `> docs/NAME`.
#[test]
fn the_pictures_in_the_documents_are_the_drawn_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, line) in [
        (
            "layout.svg",
            "--config cli/tests/data/machines.toml layout --from cli/tests/data/machines.txt --svg -",
        ),
        (
            "placements.svg",
            "--config cli/tests/data/placements.toml layout --from cli/tests/data/placements.txt --svg - --fits 3g.20gb",
        ),
        (
            "before-after.svg",
            "--config cli/tests/data/before-after.toml layout --from cli/tests/data/before-after.txt --svg -",
        ),
        ("nodes.svg", "--config cli/tests/data/nodes.toml layout --from cli/tests/data/nodes.txt --svg -"),
        ("dgx-v.svg", "topology svg dgx-v --gpus 2 --slurm"),
        ("pcie-bridged.svg", "topology svg pcie-8-bridged --gpus 2 --busy 0 --slurm"),
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let drawn = Site::new().command(&args).current_dir(&root).output().unwrap();
        assert!(
            fs::read(root.join("docs").join(name)).unwrap() == drawn.stdout,
            "docs/{name} is out of date: tessera {line} > docs/{name}"
        );
    }
}
