//! `tessera explain`.

use insta::assert_snapshot;

use super::{LAYOUT, Site, run};

#[test]
fn explain() {
    assert_snapshot!(run("explain --gpu-mem=10G"), @r"
    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n2: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 16 of 132 SMs
    n1: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    n2 before n1: takes a smaller part of a GPU than on n1
    counts in Slurm as gres/shard:10 per node
    --all shows every candidate with its score
    exit 0
    ");
    let all = run("explain --all --gpu-mem=10G");
    let nodes: Vec<&str> = all.lines().filter(|line| line.starts_with('n')).skip(1).collect();
    assert_snapshot!(nodes.join("\n"), @r"
    n2: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 16 of 132 SMs
    n1: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    n2 before n1: takes a smaller part of a GPU than on n1
    n2: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 16 of 132 SMs
    n1: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    ");
    assert_snapshot!(run("explain --node n2 --gpu-isolation=mps --gpu-mem=3G --gpu-sms=25%"), @r"
    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n2: a share of 3.0 GB and 25 % of the SMs of GPU 0: the first share there
      weighed: loses 18 placements, opens an unused GPU
    counts in Slurm as gres/shard:3 per node
    memory: equal parts for the job's tasks on a node (MPS, cooperative)
      mps   8 of 8 memory slices, chosen
        GPUs 0-1, each
         *to be opened, loses 18 placements, opens an unused GPU (on GPU 0)
    exit 0
    ");
    assert_snapshot!(run("explain --gpu a100-40gb,8 --links dgx-v --gpus=3"), @r"
    8 x a100-40gb: GPUs 0, 2, 3: ring at 43 GB/s (bottleneck), the best of 8 free GPUs (preserve)
    counts in Slurm as gres/gpu:3 per node
      whole 24 of 24 memory slices, chosen
         *GPU 0,2-3: ring at 43 GB/s (bottleneck), AggBW 125 GB/s, leaves 275 GB/s of links, 4 sets as good, of 8 free GPUs
      other choices
          greedy           GPU 0,2-3    43.0 GB/s, leaves 275 GB/s of links
          topo-aware       GPU 0-2      34.0 GB/s, leaves 250 GB/s of links
          baseline         GPU 0-2      34.0 GB/s, leaves 250 GB/s of links
          Slurm to 23.11   GPU 0,3-4    28.0 GB/s, leaves 250 GB/s of links
          Slurm from 24.05 GPU 0,5,7    10.0 GB/s, leaves 175 GB/s of links
    exit 0
    ");
    assert_snapshot!(run("explain --gpu a30-24gb --gpu-isolation=mig:1g.6gb --gpu-instances=2 --json"), @r#"
    {
      "left_to_slurm": [],
      "nodes": [
        {
          "candidates": [
            {
              "gpu": 0,
              "kind": "mig",
              "possible": true,
              "profile": "1g.6gb",
              "starts": [
                0
              ],
              "verdict": "loses 3 placements, opens an unused GPU, switches MIG mode on"
            },
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
              "outcome": "2 of 4 memory slices"
            }
          ],
          "memory_level": "hardware",
          "name": "1 x a30-24gb",
          "names": [
            "1 x a30-24gb"
          ],
          "omitted": 0,
          "rivals": [],
          "room": "now",
          "why": "1g.6gb at memory slices 0 and 1 of GPU 0: as named; 14 of 56 SMs each"
        }
      ],
      "not_taking_jobs": [],
      "order": {
        "nodes": [
          [
            "1 x a30-24gb"
          ]
        ],
        "why": null
      },
      "request": "v1 iso=mig:1g.6gb typed=1 inst=2",
      "reserved": [],
      "state": "as the options say"
    }
    exit 0
    "#);
    assert_snapshot!(run("explain --node n2 --gpu-isolation=mig:2g.10gb"), @r"
    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n2: nothing fits: GPUs 0-1: h100-80gb-sxm has no such profile
    never on this node: h100-80gb-sxm has no profile for mig:2g.10gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb
      mig   nothing fits
        GPUs 0-1, each
          no: h100-80gb-sxm has no such profile
    exit 1
    ");
    assert_snapshot!(run("explain --gpu-mem=200G"), @r"
    refused at submission: --gpu-mem=200.0GB (taken as --gpu-isolation=auto): no node could ever satisfy this: largest instance on h100-80gb-sxm is 7g.80gb with 85.1 GB; use --gpu-mem=85G or less

    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n1: never: largest instance on a100-40gb is 7g.40gb with 42.1 GB; use --gpu-mem=42G or less
    n2: never: largest instance on h100-80gb-sxm is 7g.80gb with 85.1 GB; use --gpu-mem=85G or less
    --all shows every candidate with its score
    exit 1
    ");
    assert_snapshot!(run("explain"), @r"
    stderr: tessera: no request given
    stderr: hint: for example: tessera explain --gpu-isolation=mig --gpu-mem=10G
    exit 1
    ");
    assert_snapshot!(run("explain --node n9 --gpu-mem=1G"), @r"
    stderr: tessera: node n9 is not in tessera.toml
    stderr: hint: there are n1, n2
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
fn explain_on_gpus_without_mig() {
    let ask = |options: &str| run(&format!("explain --gpu v100-16gb,8 --links dgx-v {options}"));
    assert_snapshot!(ask("--gpu-isolation=mig --gpu-mem=10G"), @r#"
    refused at submission: --gpu-isolation=mig --gpu-mem=10.0GB: no node could ever satisfy this: v100-16gb has no MIG; use --gpu-isolation=mps or whole

    8 x v100-16gb: nothing fits: GPUs 0-7: cannot be cut into MIG instances
    never on this node: v100-16gb has no MIG; use --gpu-isolation=mps or whole
      mig   nothing fits
        GPUs 0-7, each
          no: cannot be cut into MIG instances
    exit 1
    "#);
    assert_snapshot!(ask("--gpu-mem=10G"), @r"
    8 x v100-16gb: a share of 10.0 GB and 62 % of the SMs of GPU 0: the first share there
      weighed: opens an unused GPU; mps takes 1 of 1 memory slices, mig does not fit
    counts in Slurm as gres/shard:10 per node
    memory: equal parts for the job's tasks on a node (MPS, cooperative)
      mig   nothing fits
        GPUs 0-7, each
          no: cannot be cut into MIG instances
      mps   1 of 1 memory slices, chosen
        GPUs 0-7, each
         *to be opened, opens an unused GPU (on GPU 0)
    exit 0
    ");
    assert_snapshot!(ask("--gpus=3"), @r"
    8 x v100-16gb: GPUs 0, 2, 3: ring at 43 GB/s (bottleneck), the best of 8 free GPUs (preserve)
    counts in Slurm as gres/gpu:3 per node
      whole 3 of 3 memory slices, chosen
         *GPU 0,2-3: ring at 43 GB/s (bottleneck), AggBW 125 GB/s, leaves 275 GB/s of links, 4 sets as good, of 8 free GPUs
      other choices
          greedy           GPU 0,2-3    43.0 GB/s, leaves 275 GB/s of links
          topo-aware       GPU 0-2      34.0 GB/s, leaves 250 GB/s of links
          baseline         GPU 0-2      34.0 GB/s, leaves 250 GB/s of links
          Slurm to 23.11   GPU 0,3-4    28.0 GB/s, leaves 250 GB/s of links
          Slurm from 24.05 GPU 0,5,7    10.0 GB/s, leaves 175 GB/s of links
    exit 0
    ");
    assert_snapshot!(ask("--gpu-isolation=whole --gpu-mem=20G"), @r"
    refused at submission: --gpu-isolation=whole --gpu-mem=20.0GB: no node could ever satisfy this: v100-16gb has 16.4 GB for jobs; use --gpu-mem=16G or less

    8 x v100-16gb: nothing fits: GPUs 0-7: 16.4 GB at most, 20.0 GB asked
    never on this node: v100-16gb has 16.4 GB for jobs; use --gpu-mem=16G or less
      whole nothing fits
        GPUs 0-7, each
          no: 16.4 GB at most, 20.0 GB asked
    exit 1
    ");
}

#[test]
fn explain_on_a_busy_node() {
    let site = Site::new();
    let busy = LAYOUT.lines().nth(1).unwrap().trim_start_matches("n1").trim();
    assert_snapshot!(site.run(&["explain", "--node", "n1", "--busy", busy, "--gpu-isolation=mig", "--gpu-mem=10G"]), @r"
    n1: 1g.10gb at memory slice 6 of GPU 1: smallest instance with 10 GB; 14 of 108 SMs
      weighed: leaves 64 placements to others, best of 15
    counts in Slurm as gres/shard:10 per node
      mig   2 of 8 memory slices, chosen
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
    let apart = "tessera gpu0=free gpu1-5=whole[job1] gpu6=free gpu7=whole[job1]";
    let wait = ["explain", "--node", "n1", "--busy", apart, "--gpus=2", "--gpu-wait=25GB/s,20:00"];
    assert_snapshot!(site.run(&wait), @r"
    n1: GPUs 0, 6: ring at 10 GB/s (bottleneck), the only free GPUs
    counts in Slurm as gres/gpu:2 per node
    the job would first wait for more than 25 GB/s, at most 1200 s
      whole 16 of 16 memory slices, chosen
        GPUs 1-5,7, each
          no: taken by job 1
         *GPU 0,6: ring at 10 GB/s (bottleneck), AggBW 20 GB/s, leaves 0 GB/s of links, of 2 free GPUs
    exit 0
    ");
    assert_snapshot!(site.run(&["explain", "--node", "n1", "--busy", busy, "--gpu-isolation=whole", "--gpus=4"]), @r"
    n1: has room when job 13 ends, which has no known end
    n1: nothing fits: GPUs 5-7: only 3 available; GPUs 3-4: taken by job 13; GPU 2: shared through MPS by job 14; GPU 0: taken by job 12; 1 more reason
    counts in Slurm as gres/gpu:4 per node
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
          no: only 3 available
    exit 1
    ");
    assert_snapshot!(site.run(&["explain", "--node", "n2", "--busy", "gpu0=free", "--gpu-mem=10G"]), @r"
    stderr: tessera: --busy on n2: something unexpected at byte 0 of the layout
    stderr: hint: as sinfo -O extra prints it
    exit 1
    ");
}

#[test]
fn more_gpus_than_any_number_are_more_than_there_are() {
    let half = u64::MAX / 2 + 1;
    for asked in [format!("gpu:{}", u64::MAX), format!("gpu:h100:{half},gpu:a100:{half}")] {
        let said = run(&format!("explain --node n2 --gres={asked}"));
        assert!(
            said.contains("never on this node: 4294967295 GPUs do not fit") && said.ends_with("exit 1"),
            "{said}"
        );
    }
}

#[test]
fn explain_within_limits() {
    assert_snapshot!(run("explain --node n2 --partition debug --gpu-mem=5G"), @r"
    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n2: a share of 5.0 GB and 6 % of the SMs of GPU 0: the first share there
      weighed: loses 18 placements, opens an unused GPU
    counts in Slurm as gres/shard:5 per node
    memory: equal parts for the job's tasks on a node (MPS, cooperative)
      mps   8 of 8 memory slices, chosen
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
fn explain_moldable_jobs() {
    assert_snapshot!(run("explain --node n1 --gpu-times=1g:60s,2g:35s,3g:0:20 --gpu-place=1@4"), @r"
    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n1: 1g.5gb at memory slice 4 of GPU 1: fewest slice-seconds of 1g, 2g, 3g, at the planned place; 14 of 108 SMs
      weighed: leaves 139 placements to others
    counts in Slurm as gres/shard:5 per node
    a planner may choose 1g.5gb (60 s), 2g.10gb (35 s), 3g.20gb (20 s)
      mig   1 of 8 memory slices, chosen
        GPUs 0-7, each
          1g.5gb at 0: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.5gb at 1: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.5gb at 2: loses 6 placements, opens an unused GPU, switches MIG mode on
          1g.5gb at 3: loses 6 placements, opens an unused GPU, switches MIG mode on
         *1g.5gb at 4: loses 5 placements, opens an unused GPU, switches MIG mode on (on GPU 1)
          1g.5gb at 5: loses 5 placements, opens an unused GPU, switches MIG mode on
          1g.5gb at 6: loses 4 placements, opens an unused GPU, switches MIG mode on
    exit 0
    ");
    assert_snapshot!(run("explain --node n1 --gpu-app=bert --gpu-mem=8G"), @r"
    no Slurm answers here, so all nodes are taken as empty (cannot run `scontrol -a show nodes`: No such file or directory (os error 2))
    n1: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 8 GB; 14 of 108 SMs
      weighed: leaves 140 placements to others, best of 32
    counts in Slurm as gres/shard:10 per node
    a planner may choose 2g.10gb (as learnt), 3g.20gb (as learnt), 4g.20gb (as learnt), 7g.40gb (as learnt)
      mig   2 of 8 memory slices, chosen
        GPUs 0-7, each
          1g.10gb at 0: loses 7 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 2: loses 7 placements, opens an unused GPU, switches MIG mode on
          1g.10gb at 4: loses 6 placements, opens an unused GPU, switches MIG mode on
         *1g.10gb at 6: loses 4 placements, opens an unused GPU, switches MIG mode on (on GPU 0)
    exit 0
    ");
    assert_snapshot!(run("explain --node n1 --gpu-times=1g:60 --gpu-isolation=whole"), @r"
    stderr: tessera: refused at submission: --gpu-times cannot be combined with --gpu-isolation=whole: it is about a MIG instance; leave one of them out
    exit 1
    ");
    assert_snapshot!(run("explain --node n1 --gpu-place=1@4 --gpu-isolation=mig:2g.10gb --gpu-instances=2"), @r"
    stderr: tessera: refused at submission: --gpu-place cannot be combined with --gpu-instances=2: it is about one instance; take an array of jobs
    exit 1
    ");
    assert_snapshot!(run("explain --node n1 --gpu-times=1g:0 --gpu-place=99@4"), @r#"
    stderr: tessera: refused at submission: --gpu-times=1g:0: "1g:0" is not a size with a run time: expected sizes with their run time, such as 1g:60s,2g:35s or 1g:20:00 (MM:SS); a time without a unit is minutes
    stderr: --gpu-place=99@4: is not a place: expected a GPU's index and a first memory slice, such as 3@4
    exit 1
    "#);
    let json: serde_json::Value = serde_json::from_str(
        run("explain --node n1 --gpu-times=1g:60s,2g:35s --json").strip_suffix("exit 0").unwrap(),
    )
    .unwrap();
    assert_eq!(
        json["nodes"][0]["sizes"][1],
        serde_json::json!({ "profile": "2g.10gb", "milliseconds": 35000 })
    );
}

/// The memory of a share is the job's on each node, and its tasks there have equal parts.
#[test]
fn explain_says_what_holds_a_share() {
    let memory = |options: &str| {
        let said = run(&format!("explain --node n2 {options}"));
        said.lines().find(|line| line.starts_with("memory: ")).map(str::to_owned)
    };
    let mps = "--gpu-isolation=mps --gpu-mem=3G";
    let four = memory(&format!("{mps} --ntasks-per-node=4"));
    assert_eq!(
        four.as_deref(),
        Some("memory: 749 MB for each of 4 tasks on a node, and 4 % of the SMs for each (MPS, cooperative)")
    );
    assert_eq!(memory("--gpu-isolation=mig --gpu-mem=3G"), None, "an instance ends by itself");
    let level = |options: &str| {
        let said = run(&format!("explain --node n2 {options} --json"));
        let json: serde_json::Value = serde_json::from_str(said.strip_suffix("exit 0").unwrap()).unwrap();
        json["nodes"][0]["memory_level"].as_str().map(str::to_owned)
    };
    assert_eq!(level(mps).as_deref(), Some("MPS, cooperative"));
    assert_eq!(level("--gpu-isolation=mig --gpu-mem=3G").as_deref(), Some("hardware"));
}
