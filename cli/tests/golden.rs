//! What a person reads from each command, exit status included.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

const SITE: &str = r#"
[defaults]
gpu_mem = "5G"

[node]
nvml_library = "/nowhere/libnvidia-ml.so.1"

[[nodes]]
names = "n1"
gpu = "a100-40gb"
count = 8
interconnect = "dgx-v"

[[nodes]]
names = "n2"
gpu = "h100-80gb-sxm"
count = 2

[[limits]]
partition = "debug"
isolation = ["mps", "whole"]
max_mem = "20G"
"#;

const LAYOUT: &str = "\
NODELIST            EXTRA
n1                  tessera gpu0=mig[2g.10gb@0:job12,1g.5gb@2:idle,1g.5gb@3:mps[job31:1000M/10%],3g.20gb@4:mps[job18:2862M/25%,job19:2862M/25%]] gpu1=mig[1g.5gb@0:job123456] gpu2=mps[job14:2862M/25%,job15:2862M/25%] gpu3-4=whole[job13] gpu5-7=free
n2                  tessera gpu0=mps[job14:2862M/25%,job15:2862M/25%,job16:2862M/25%+12] gpu1=free
";

/// A scratch directory with the site's files.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tessera.toml"), SITE).unwrap();
        fs::write(dir.path().join("layout"), LAYOUT).unwrap();
        Self { dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tessera"));
        // Nothing of the machine is seen: no Slurm on PATH, no driver, no terminal.
        command.args(args).current_dir(self.dir.path()).env_clear().env("PATH", "/nowhere");
        command.env("TESSERA_CONF", "tessera.toml").env("SLURMD_NODENAME", "n1").env("COLUMNS", "100");
        command
    }

    /// What is printed, then the exit status.
    fn run(&self, args: &[&str]) -> String {
        let out = self.command(args).stdin(Stdio::null()).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        let stderr: String = stderr.lines().map(|l| format!("stderr: {l}\n")).collect();
        format!("{stdout}{stderr}exit {}", out.status.code().unwrap())
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn run(args: &str) -> String {
    Site::new().run(&args.split(' ').filter(|a| !a.is_empty()).collect::<Vec<_>>())
}

#[test]
fn help() {
    assert_snapshot!(run("-h"), @r"
    See and explain what Tessera does with a cluster's GPUs

    Usage: tessera [OPTIONS] <COMMAND>

    Commands:
      layout       Draw each GPU as its slices
      explain      Explain what a request would get, and why
      discover     Write the configuration for this machine's GPUs
      doctor       Check that journal, driver, device nodes, MPS and Slurm agree
      plan         Plan a batch of tasks on GPUs that repartition
      score        Choose GPUs by pattern and topology, and score them
      simulate     Simulate policies on a file of jobs
      topology     Show how a node's GPUs are linked
      lint         List where Slurm's own choice of GPUs falls behind
      fit          Fit a model to measurements
      profiles     List GPU models and their MIG profiles
      check        Check tessera.toml
      node         Do by hand what Slurm's prolog and epilog do on a node
      completions  Print the completion script of a shell

    Options:
          --config <FILE>  Read this tessera.toml
      -h, --help           Print help (see more with '--help')
      -V, --version        Print version
    exit 0
    ");
    assert_snapshot!(run("--help"), @r"
    See and explain what Tessera does with a cluster's GPUs

    Tessera gives Slurm jobs MIG instances made at job start, memory-limited shares and well-linked sets
    of whole GPUs. This command shows the layout of each GPU, explains why a request gets what it gets,
    writes the configuration for new nodes and checks that everything agrees.

    Results go to stdout, messages to stderr. Exit status: 0 for success, 1 for something you or the
    site can put right, 2 for wrong usage, 70 for a bug in tessera.

    Usage: tessera [OPTIONS] <COMMAND>

    Commands:
      layout       Draw each GPU as its slices
      explain      Explain what a request would get, and why
      discover     Write the configuration for this machine's GPUs
      doctor       Check that journal, driver, device nodes, MPS and Slurm agree
      plan         Plan a batch of tasks on GPUs that repartition
      score        Choose GPUs by pattern and topology, and score them
      simulate     Simulate policies on a file of jobs
      topology     Show how a node's GPUs are linked
      lint         List where Slurm's own choice of GPUs falls behind
      fit          Fit a model to measurements
      profiles     List GPU models and their MIG profiles
      check        Check tessera.toml
      node         Do by hand what Slurm's prolog and epilog do on a node
      completions  Print the completion script of a shell

    Options:
          --config <FILE>
              Read this tessera.toml
              
              Without it: the file that TESSERA_CONF names, else tessera.toml beside the file that
              SLURM_CONF names, else /etc/slurm/tessera.toml.

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      tessera layout                   every GPU of the cluster, drawn as slices
      tessera explain --gpu-mem=10G    what such a job would get, and why
      tessera profiles a100-40gb       what an A100 can be cut into
      tessera check                    is tessera.toml good?
      tessera discover --format all    configuration for this machine's GPUs
      tessera doctor                   does everything agree?
    exit 0
    ");
    assert_snapshot!(run("layout --help"), @r#"
    Draw each GPU as its slices

    Shows what the controller publishes for the nodes of tessera.toml: which instances there are, who
    has them, and what is free. Each GPU is a row of its placement units; a GPU that is cut has its
    profiles above and their holders below. "job 12" has an instance alone, "mps 13 14" share one,
    "idle" is kept for the next job of its shape.

    Usage: tessera layout [OPTIONS]

    Options:
          --config <FILE>
              Read this tessera.toml
              
              Without it: the file that TESSERA_CONF names, else tessera.toml beside the file that
              SLURM_CONF names, else /etc/slurm/tessera.toml.

          --node <NODES>
              Only these nodes, a hostlist such as n[1-2]

          --from <FILE>
              Read layouts from FILE instead of asking Slurm, - for standard input
              
              A node's name and its layout per line, as sinfo -O nodelist,extra prints them.

          --live
              Ask this node's driver and journal instead of Slurm, as root

          --json
              Print JSON

          --svg <FILE>
              Write a picture to FILE, - for standard output

          --color <WHEN>
              Use colour

              Possible values:
              - auto:   On a terminal, unless NO_COLOR is set
              - always: Always
              - never:  Never
              
              [default: auto]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      tessera layout --node n[1-2]
      tessera layout --svg layout.svg
      sinfo -h -O nodelist:20,extra:4000 | tessera layout --from -
    exit 0
    "#);
    assert_snapshot!(run("explain -h"), @r"
    Explain what a request would get, and why

    Usage: tessera explain [OPTIONS]

    Options:
          --config <FILE>     Read this tessera.toml
          --node <NAME>       Ask this node of tessera.toml; without it the first of each set
          --model <KEY>       Ask a node with GPUs of this model instead of one of tessera.toml
          --count <N>         GPUs of that node [default: 1]
          --links <SYSTEM>    Interconnect of that node [default: pcie]
          --live              Take nodes as they are now
          --busy <LAYOUT>     Take the node as this layout says, in the words of sinfo -O extra
          --partition <NAME>  Hold the request to the limits of this partition
          --account <NAME>    Hold the request to the limits of this account
          --json              Print JSON
      -h, --help              Print help (see more with '--help')

    Request, as for sbatch:
          --gpu-isolation <KIND>   auto, mig, mig:PROFILE, mps, whole or none
          --gpu-mem <SIZE>         Memory per instance or share, such as 10G
          --gpu-instances <N>      MIG instances per node
          --gpu-threads <PERCENT>  Share of the SMs in percent: the most for mps, the least for mig
          --gpu-pattern <SHAPE>    How whole GPUs talk to each other: ring, tree, chain, star, all or
                                   none
          --gpu-bandwidth <NEED>   sensitive or insensitive to the bandwidth between whole GPUs
          --gpus <N>               Whole GPUs per node [alias: --gpus-per-node]
    exit 0
    ");
    assert_snapshot!(run("node -h"), @r"
    Do by hand what Slurm's prolog and epilog do on a node

    Usage: tessera node [OPTIONS] <COMMAND>

    Commands:
      reconcile  Give back what no live job owns
      status     Show the node as driver and journal have it
      realise    Make a placement real, as the prolog does [alias: realize]
      release    Take back what a job has, as the epilog does

    Options:
          --config <FILE>  Read this tessera.toml
      -h, --help           Print help (see more with '--help')
    exit 0
    ");
}

#[test]
fn usage_errors() {
    assert_snapshot!(run("layuot"), @r"
    stderr: error: unrecognized subcommand 'layuot'
    stderr: 
    stderr:   tip: a similar subcommand exists: 'layout'
    stderr: 
    stderr: Usage: tessera [OPTIONS] <COMMAND>
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(run("explain --gpu-mem=5X"), @r"
    stderr: error: invalid value '5X' for '--gpu-mem <SIZE>': it has an unknown suffix: use K, M, G, T or Ki, Mi, Gi, Ti
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(run("explain --gpu-threads=101"), @r"
    stderr: error: invalid value '101' for '--gpu-threads <PERCENT>': expected 1 to 100
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(run("explain --gpu-isolation=mug"), @r"
    stderr: error: invalid value 'mug' for '--gpu-isolation <KIND>': expected auto, mig, mig:PROFILE, mps, whole or none
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
}

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
      ]
    }
    exit 0
    "#);
    assert_snapshot!(run("layout --from layout --node n2 --color always").replace('\x1b', "ESC"), @r"
    ESC[1mn2: 2 x h100-80gb-sxm, links pcieESC[0m
    GPU 0 │ESC[38;5;16;48;5;78m mps 14 15 16 +12                                                      ESC[0m│
    GPU 1 │ free                                                                  │

    ESC[38;5;16;48;5;75m isolated ESC[0m ESC[38;5;16;48;5;78m shared ESC[0m ESC[38;5;16;48;5;250m idle ESC[0m ESC[38;5;16;48;5;215m whole ESC[0m  free 
    exit 0
    ");
    assert_snapshot!(run("layout --from layout --node n[1-3]"), @r"
    stderr: tessera: node n3 is not in tessera.toml
    stderr: hint: it has n1, n2
    exit 1
    ");
    assert_snapshot!(run("layout"), @r"
    stderr: tessera: cannot run `scontrol show nodes`: No such file or directory (os error 2)
    stderr: hint: is Slurm installed here?
    exit 1
    ");
}

#[test]
fn layouts_that_cannot_be() {
    let site = Site::new();
    fs::write(site.path().join("bad"), "n1 tessera gpu0=mig[9g.1gb@0:idle]\n").unwrap();
    assert_snapshot!(site.run(&["layout", "--from", "bad"]), @r"
    stderr: tessera: layout of n1: gpu0: no 9g.1gb can start at 0 of a a100-40gb
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
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 856 188" width="856" height="188" role="img" aria-label="GPU layout">
    <style>text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c2128; }
    .title { font-weight: 600; font-size: 15px; } .small { font-size: 12px; } .dim { fill: #6b7280; }
    .bg { fill: #ffffff; stroke: #d0d7de; } .free { fill: #f3f4f6; stroke: #d0d7de; } .tick { stroke: #d0d7de; }
    .isolated { fill: #8ec5ff; stroke: #4a90d9; } .shared { fill: #95dfb0; stroke: #45a56b; }
    .idle { fill: #d4d8de; stroke: #9aa3ae; } .whole { fill: #ffc78a; stroke: #d98a35; }
    .ink { fill: #14181d; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .dim { fill: #9198a1; } .bg { fill: #0d1117; stroke: #3d444d; }
      .free { fill: #161b22; stroke: #3d444d; } .tick { stroke: #3d444d; } .ink { fill: #14181d; }
    }</style>
    <rect class="bg" x="0.5" y="0.5" width="855" height="187" rx="10"/>
    <text class="title" x="16" y="32">n2: 2 x h100-80gb-sxm, links pcie</text>
    <text class="dim" x="16" y="73">GPU 0</text>
    <g><title>mps 14 15 16 +12</title><rect class="shared" x="73" y="46" width="766" height="46" rx="5"/>
    <text class="ink" x="81" y="73">mps 14 15 16 +12</text>
    </g>
    <text class="dim" x="16" y="125">GPU 1</text>
    <g><title>free</title><rect class="free" x="73" y="98" width="766" height="46" rx="5"/>
    <path class="tick" d="M168 104v34" stroke-dasharray="2 4"/>
    <path class="tick" d="M264 104v34" stroke-dasharray="2 4"/>
    <path class="tick" d="M360 104v34" stroke-dasharray="2 4"/>
    <path class="tick" d="M456 104v34" stroke-dasharray="2 4"/>
    <path class="tick" d="M552 104v34" stroke-dasharray="2 4"/>
    <path class="tick" d="M648 104v34" stroke-dasharray="2 4"/>
    <path class="tick" d="M744 104v34" stroke-dasharray="2 4"/>
    </g>
    <rect class="isolated" x="72" y="156" width="14" height="14" rx="3"/><text class="small dim" x="92" y="167">one job's instance</text>
    <rect class="shared" x="240" y="156" width="14" height="14" rx="3"/><text class="small dim" x="260" y="167">shared (MPS)</text>
    <rect class="idle" x="366" y="156" width="14" height="14" rx="3"/><text class="small dim" x="386" y="167">idle, kept for reuse</text>
    <rect class="whole" x="548" y="156" width="14" height="14" rx="3"/><text class="small dim" x="568" y="167">whole GPU</text>
    <rect class="free" x="653" y="156" width="14" height="14" rx="3"/><text class="small dim" x="673" y="167">free</text>
    </svg>
    exit 0
    "#);
    assert_eq!(site.run(&["layout", "--from", "layout", "--svg", "all.svg"]), "exit 0");
    let all = fs::read_to_string(site.path().join("all.svg")).unwrap();
    assert_eq!(all.matches("class=\"whole\"").count(), 3, "two GPUs and the legend");
}

#[test]
fn explain() {
    assert_snapshot!(run("explain --gpu-mem=10G"), @r"
    n1: 1g.10gb at slice 6 of GPU 0: smallest profile with 10.0 GB; leaves 140 placements to others, best of 32; mig takes 2 of 8 slices, mps would take 8 of 8 slices
    counts in Slurm as gres/shard:10 per node
      mig   2 of 8 slices, chosen
        GPUs 0-7, each
          1g.10gb at 0: loses 7 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 2: loses 7 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 4: loses 6 placements, opens an unused GPU, switches MIG mode on
         *1g.10gb at 6: loses 4 placements, opens an unused GPU, switches MIG mode on (on GPU 0)
      mps   8 of 8 slices
        GPUs 0-7, each
          to be opened, loses 18 placements, opens an unused GPU

    n2: 1g.10gb at slice 6 of GPU 0: smallest profile with 10.0 GB; leaves 32 placements to others, best of 14; mig takes 1 of 8 slices, mps would take 8 of 8 slices
    counts in Slurm as gres/shard:10 per node
      mig   1 of 8 slices, chosen
        GPUs 0-1, each
          1g.10gb at 0: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 1: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 2: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 3: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 4: loses 5 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 5: loses 5 placements, opens an unused GPU, switches MIG mode on
         *1g.10gb at 6: loses 4 placements, opens an unused GPU, switches MIG mode on (on GPU 0)
      mps   8 of 8 slices
        GPUs 0-1, each
          to be opened, loses 18 placements, opens an unused GPU
    exit 0
    ");
    assert_snapshot!(run("explain --node n2 --gpu-isolation=mps --gpu-mem=3G --gpu-threads=25%"), @r"
    n2: 3.0 GB and 25% of the threads of GPU 0: the first share there; loses 18 placements, opens an unused GPU
    counts in Slurm as gres/shard:3 per node
      mps   8 of 8 slices, chosen
        GPUs 0-1, each
         *to be opened, loses 18 placements, opens an unused GPU (on GPU 0)
    exit 0
    ");
    assert_snapshot!(run("explain --model a100-40gb --count 8 --links dgx-v --gpus=3"), @r"
    8 x a100-40gb: GPUs 0, 2, 3: largest sum of links, 125 GB/s, of 8 free GPUs
    counts in Slurm as gres/gpu:3 per node
      whole 24 of 24 slices, chosen
         *GPU 0,2-3: links of 125 GB/s, of 8 free GPUs
    exit 0
    ");
    assert_snapshot!(run("explain --model a30-24gb --gpu-isolation=mig:1g.6gb --gpu-instances=2 --json"), @r#"
    {
      "nodes": [
        {
          "candidates": [
            {
              "gpu": 0,
              "kind": "mig",
              "possible": true,
              "profile": "1g.6gb",
              "starts": [
                0,
                1
              ],
              "verdict": "loses 4 placements, opens an unused GPU, switches MIG mode on"
            }
          ],
          "chosen": {
            "instances": [
              {
                "gpu": 0,
                "profile_id": 14,
                "start": 0
              },
              {
                "gpu": 0,
                "profile_id": 14,
                "start": 1
              }
            ],
            "kind": "mig"
          },
          "gres": {
            "shard": 12
          },
          "kinds": [
            {
              "chosen": true,
              "fits": true,
              "kind": "mig",
              "outcome": "2 of 4 slices"
            }
          ],
          "name": "1 x a30-24gb",
          "omitted": 0,
          "why": "1g.6gb at slices 0 and 1 of GPU 0: as named; leaves 3 placements to others"
        }
      ],
      "request": "v1 iso=mig:1g.6gb typed=1 inst=2"
    }
    exit 0
    "#);
    assert_snapshot!(run("explain --node n2 --gpu-isolation=mig:2g.10gb"), @r"
    n2: nothing fits: GPUs 0-1: h100-80gb-sxm has no such profile
    refused at submission: h100-80gb-sxm has no profile for mig:2g.10gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb
      mig   nothing fits
        GPUs 0-1, each
          no: h100-80gb-sxm has no such profile
    exit 1
    ");
    assert_snapshot!(run("explain --gpu-mem=200G"), @r"
    n1: nothing fits: GPUs 0-7: 42.1 GB at most, 200.0 GB asked
    refused at submission: largest instance on a100-40gb is 7g.40gb with 42.1 GB; ask --gpu-mem=42G or less
      mig   nothing fits
        GPUs 0-7, each
          no: 42.1 GB at most, 200.0 GB asked
      mps   nothing fits
        GPUs 0-7, each
          no: 42.1 GB at most, 200.0 GB asked
      whole nothing fits
        GPUs 0-7, each
          no: 42.1 GB at most, 200.0 GB asked

    n2: nothing fits: GPUs 0-1: 85.1 GB at most, 200.0 GB asked
    refused at submission: largest instance on h100-80gb-sxm is 7g.80gb with 85.1 GB; ask --gpu-mem=85G or less
      mig   nothing fits
        GPUs 0-1, each
          no: 85.1 GB at most, 200.0 GB asked
      mps   nothing fits
        GPUs 0-1, each
          no: 85.1 GB at most, 200.0 GB asked
      whole nothing fits
        GPUs 0-1, each
          no: 85.1 GB at most, 200.0 GB asked
    exit 1
    ");
    assert_snapshot!(run("explain"), @r"
    stderr: tessera: nothing is asked for
    stderr: hint: for example: tessera explain --gpu-isolation=mig --gpu-mem=10G
    exit 1
    ");
    assert_snapshot!(run("explain --node n9 --gpu-mem=1G"), @r"
    stderr: tessera: node n9 is not in tessera.toml
    stderr: hint: it has n1, n2
    exit 1
    ");
    assert_snapshot!(run("explain --model a100 --gpu-mem=1G"), @r#"
    stderr: tessera: unknown GPU model "a100"
    stderr: hint: did you mean a100-40gb or a100-80gb?
    exit 1
    "#);
    assert_snapshot!(run("explain --model a100-40gb --links dgx-v --gpu-mem=1G"), @r"
    stderr: tessera: interconnect dgx-v links 8 GPUs, not 1
    exit 1
    ");
}

#[test]
fn explain_on_a_busy_node() {
    let site = Site::new();
    let busy = LAYOUT.lines().nth(1).unwrap().trim_start_matches("n1").trim();
    assert_snapshot!(site.run(&["explain", "--node", "n1", "--busy", busy, "--gpu-isolation=mig", "--gpu-mem=10G"]), @r"
    n1: 1g.10gb at slice 6 of GPU 1: smallest profile with 10.0 GB; leaves 64 placements to others, best of 15
    counts in Slurm as gres/shard:10 per node
      mig   2 of 8 slices, chosen
        GPU 0
          1g.10gb at 0: no: taken by job 12
          1g.10gb at 2: no: taken by job 31
          1g.10gb at 4: no: taken by job 18
          1g.10gb at 6: no: taken by job 18
        GPU 1
          1g.10gb at 0: no: taken by job 123456
          1g.10gb at 2: loses 4 placements
          1g.10gb at 4: loses 5 placements
         *1g.10gb at 6: loses 3 placements
        GPU 2
          no: shared through MPS by job 14
        GPUs 3-4, each
          no: taken by job 13
        GPUs 5-7, each
          1g.10gb at 0: loses 7 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 2: loses 7 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 4: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 6: loses 4 placements, opens an unused GPU, switches MIG mode on
    exit 0
    ");
    assert_snapshot!(site.run(&["explain", "--node", "n1", "--busy", busy, "--gpu-isolation=whole", "--gpus=4"]), @r"
    n1: nothing fits: GPUs 5-7: only 3 to be had; GPUs 3-4: taken by job 13; GPU 2: shared through MPS by job 14; GPU 0: taken by job 12; 1 more reasons
    counts in Slurm as gres/gpu:4 per node
    the job would wait: an empty node could give it
      whole nothing fits
        GPU 0
          no: taken by job 12
        GPU 1
          no: taken by job 123456
        GPU 2
          no: shared through MPS by job 14
        GPUs 3-4, each
          no: taken by job 13
        GPUs 5-7, each
          no: only 3 to be had
    exit 1
    ");
    assert_snapshot!(site.run(&["explain", "--node", "n2", "--busy", "gpu0=free", "--gpu-mem=10G"]), @r"
    stderr: tessera: --busy on n2: something unexpected at byte 0 of the layout
    stderr: hint: as sinfo -O extra prints it
    exit 1
    ");
}

#[test]
fn explain_within_limits() {
    assert_snapshot!(run("explain --node n2 --partition debug --gpu-mem=5G"), @r"
    n2: 5.0 GB and 6% of the threads of GPU 0: the first share there; loses 18 placements, opens an unused GPU
    counts in Slurm as gres/shard:5 per node
      mps   8 of 8 slices, chosen
        GPUs 0-1, each
         *to be opened, loses 18 placements, opens an unused GPU (on GPU 0)
    exit 0
    ");
    assert_snapshot!(run("explain --node n2 --partition debug --gpu-isolation=mig"), @r"
    stderr: tessera: refused at submission: --gpu-isolation=mig is not allowed in partition debug: use mps, whole
    exit 1
    ");
    assert_snapshot!(run("explain --node n2 --partition debug --gpu-mem=30G"), @r"
    stderr: tessera: refused at submission: --gpu-mem=30.0 GB is too much in partition debug: at most 20.0 GB
    exit 1
    ");
}

#[test]
fn profiles() {
    assert_snapshot!(run("profiles"), @r"
    MODEL                MEMORY  SMs  SHARDS  PROFILES
    a30-24gb            25.8 GB   56      24  1g.6gb 2g.12gb 4g.24gb
    a100-40gb           42.9 GB  108      40  1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb
    a100-80gb           85.9 GB  108      80  1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb
    h100-80gb-sxm       85.5 GB  132      80  1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb
    h100-80gb-pcie      85.5 GB  114      80  1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb
    h100-94gb-nvl      100.5 GB  132      96  1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb
    gh200-96gb         102.6 GB  132      96  1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb
    h200-141gb         150.8 GB  132     144  1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb
    gh200-144gb        154.0 GB  132     144  1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb
    h20-96gb           102.6 GB   78      96  1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb
    h20-141gb          150.8 GB   78     144  1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb
    b200-180gb         192.3 GB  148     184  1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb
    gb200-186gb        198.7 GB  152     184  1g.23gb 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb
    b300-269gb         288.4 GB   98     272  1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb
    gb300-278gb        298.0 GB   98     280  1g.35gb 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb
    rtx-pro-6000-96gb  102.6 GB  188      96  1g.24gb 2g.48gb 4g.96gb

    `tessera profiles MODEL` shows memory, SMs and placements of each profile.
    exit 0
    ");
    assert_snapshot!(run("profiles a100-40gb"), @r"
    a100-40gb: NVIDIA A100-SXM4-40GB, NVIDIA A100-PCIE-40GB, A100-SXM4-40GB, A100-PCIE-40GB, NVIDIA A800-SXM4-40GB, NVIDIA A800 40GB Active
    42.9 GB (40.0 GiB), 108 SMs, 7 compute slices, 8 placement units, 40 shards

    PROFILE    ID   MEMORY            SMs  SHARDS  MOST  STARTS (UNITS TAKEN)
    1g.5gb     19   5.1 GB   4.8 GiB   14       5     7  0 1 2 3 4 5 6 (1)
    1g.5gb+me  20   5.1 GB   4.8 GiB   14       5     1  0 1 2 3 4 5 6 (1)
    1g.10gb    15  10.3 GB   9.6 GiB   14      10     4  0 2 4 6 (2)
    2g.10gb    14  10.3 GB   9.6 GiB   28      10     3  0 2 4 (2)
    3g.20gb     9  20.9 GB  19.5 GiB   42      20     2  0 4 (4)
    4g.20gb     5  20.9 GB  19.5 GiB   56      20     1  0 (4)
    7g.40gb     0  42.1 GB  39.2 GiB   98      40     1  0 (8)
    exit 0
    ");
    assert_snapshot!(run("profiles b300-269gb"), @r"
    b300-269gb: NVIDIA B300 SXM6 AC
    288.4 GB (268.6 GiB), 98 SMs, 7 compute slices, 8 placement units, 272 shards

    PROFILE     ID     MEMORY             SMs  SHARDS  MOST  STARTS (UNITS TAKEN)
    1g.34gb     19   ~32.4 GB   30.2 GiB   12      34     7  0 1 2 3 4 5 6 (1)
    1g.34gb+me  20   ~32.4 GB   30.2 GiB   12      34     1  0 1 2 3 4 5 6 (1)
    1g.67gb     15   ~64.8 GB   60.4 GiB   12      68     4  0 2 4 6 (2)
    2g.67gb     14   ~64.8 GB   60.4 GiB   24      68     3  0 2 4 (2)
    3g.135gb     9  ~129.7 GB  120.8 GiB   36     136     2  0 4 (4)
    4g.135gb     5  ~129.7 GB  120.8 GiB   49     136     1  0 (4)
    7g.269gb     0  ~259.5 GB  241.7 GiB   85     272     1  0 (8)
    ~ no capture gives this memory: a cautious estimate
    exit 0
    ");
    assert_snapshot!(run("profiles voodoo"), @r#"
    stderr: tessera: unknown GPU model "voodoo"
    stderr: hint: one of a30-24gb, a100-40gb, a100-80gb, h100-80gb-sxm, h100-80gb-pcie, h100-94gb-nvl, gh200-96gb, h200-141gb, gh200-144gb, h20-96gb, h20-141gb, b200-180gb, gb200-186gb, b300-269gb, gb300-278gb, rtx-pro-6000-96gb
    exit 1
    "#);
}

#[test]
fn check() {
    let site = Site::new();
    assert_snapshot!(site.run(&["check"]), @r"
    tessera.toml: good
      n1: 8 x a100-40gb, links dgx-v, MIG dynamic
      n2: 2 x h100-80gb-sxm, links pcie, MIG dynamic
    exit 0
    ");
    fs::write(site.path().join("bad.toml"), SITE.replace("dgx-v", "dgx-w").replace("gpu_mem", "gpu_men"))
        .unwrap();
    assert_snapshot!(site.run(&["check", "bad.toml"]), @r#"
    bad.toml:3:1: unknown key gpu_men in [defaults]
    gpu_men = "5G"
    ^~~~~~~  hint: did you mean gpu_mem?
    bad.toml:12:17: unknown interconnect "dgx-w"
    interconnect = "dgx-w"
                    ^~~~~  hint: did you mean dgx-v?
    bad.toml: 2 errors
    exit 1
    "#);
    assert_snapshot!(site.run(&["--config", "bad.toml", "layout", "--from", "layout"]), @r#"
    stderr: tessera: bad.toml has 2 errors
    stderr: bad.toml:3:1: unknown key gpu_men in [defaults]
    stderr: gpu_men = "5G"
    stderr: ^~~~~~~  hint: did you mean gpu_mem?
    stderr: bad.toml:12:17: unknown interconnect "dgx-w"
    stderr: interconnect = "dgx-w"
    stderr:                 ^~~~~  hint: did you mean dgx-v?
    exit 1
    "#);
    assert_snapshot!(site.run(&["check", "none.toml"]), @r"
    stderr: tessera: cannot read none.toml: No such file or directory (os error 2)
    stderr: hint: name another with --config FILE or TESSERA_CONF; `tessera discover` writes a first one
    exit 1
    ");
}

#[test]
fn on_a_machine_without_slurm_or_driver() {
    assert_snapshot!(run("discover"), @r"
    stderr: tessera: cannot load /nowhere/libnvidia-ml.so.1: /nowhere/libnvidia-ml.so.1: cannot open shared object file: No such file or directory
    stderr: hint: run this on a node with GPUs, where the NVIDIA driver is loaded
    exit 1
    ");
    let doctor = run("doctor --node n2");
    assert_snapshot!(doctor, @r"
    ok   tessera.toml: 2 nodes in 2 sets
    bad  Slurm: cannot run `scontrol show config`: No such file or directory (os error 2)
    skip journal, driver, device nodes and MPS: n2 is not this machine
    exit 1
    ");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let site = Site::new();
    let mut child =
        site.command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stderr), (Some(0), Vec::new()));
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&format!("completions {shell}"));
        for command in ["layout", "explain", "discover", "doctor", "profiles", "check", "reconcile"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

/// `cargo run -p tessera-cli -- completions SHELL > contrib/completions/FILE` brings one up to date.
#[test]
fn the_shipped_completions_are_the_printed_ones() {
    for (shell, file) in [("bash", "tessera.bash"), ("zsh", "_tessera"), ("fish", "tessera.fish")] {
        let out = Site::new().command(&["completions", shell]).output().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/completions").join(file);
        assert!(fs::read(&path).unwrap() == out.stdout, "{} is out of date", path.display());
    }
}

#[test]
fn the_man_page_has_every_command_and_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man/tessera.1.md");
    let page = fs::read_to_string(path).unwrap();
    for command in [
        "layout",
        "explain",
        "profiles",
        "check",
        "discover",
        "doctor",
        "node status",
        "node reconcile",
        "node realise",
        "node release",
    ] {
        assert!(page.contains(&format!("**{command}**")), "{command}");
        let help = run(&format!("{command} -h"));
        for option in help
            .lines()
            .filter_map(|l| l.trim_start().split([' ', '[']).next().filter(|w| w.starts_with("--")))
        {
            assert!(option == "--help" || page.contains(&format!("**{option}**")), "{command} {option}");
        }
    }
}

/// `tessera --config contrib/example/tessera.toml layout --from cli/tests/data/layout.txt --svg docs/layout.svg`
#[test]
fn the_picture_in_the_documents_is_the_drawn_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let at = |path: &str| root.join(path).display().to_string();
    let (config, from) = (at("contrib/example/tessera.toml"), at("cli/tests/data/layout.txt"));
    let drawn = Site::new()
        .command(&["--config", &config, "layout", "--from", &from, "--svg", "-"])
        .output()
        .unwrap();
    assert!(
        fs::read(root.join("docs/layout.svg")).unwrap() == drawn.stdout,
        "docs/layout.svg is out of date"
    );
}
