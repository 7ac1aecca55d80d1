//! What a person reads from `tessera explain` where Slurm answers. Slurm's commands are stand-ins.
#![allow(clippy::unwrap_used, reason = "tests")]

mod slurm;

use std::fs;

use insta::assert_snapshot;
use tempfile::TempDir;

const SITE: &str = "[[nodes]]\nnames = \"n[1-6]\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n\
                    [[nodes]]\nnames = \"n7\"\ngpu = \"t4-16gb\"\ncount = 1\n\
                    [[limits]]\naccount = \"lab\"\nmax_mem = \"20G\"\n";
const NODES: &str = "NodeName=n1 A=x\n   Extra=tessera gpu0=mig[7g.40gb@0:job11]\n\n\
                     NodeName=n2 A=x\n   Extra=tessera gpu0=mig[7g.40gb@0:job12]\n\n\
                     NodeName=n3 A=x\n   Extra=tessera gpu0=free\n\nNodeName=n4 A=x\n   Extra=tessera gpu0=free\n\n\
                     NodeName=n5 A=x\n   Extra=tessera gpu0=free\n\nNodeName=n6 A=x\n\n\
                     NodeName=n7 A=x\n   Extra=tessera gpu0=free\n";

fn running(id: &str, user: &str, minutes: u64) -> String {
    // In the middle of a minute, so that a slow test prints the same.
    let end = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + minutes * 60 - 30;
    let end = end.to_string();
    let cells =
        [("JobID", id), ("ArrayJobID", id), ("ArrayTaskID", "N/A"), ("HetJobID", "N/A"), ("UserName", user)];
    let rest = [("Partition", "gpu"), ("State", "RUNNING"), ("NodeList", "n1"), ("EndTime", &end)];
    slurm::line(&[&cells[..], &rest[..]].concat()) + "\n"
}

fn world() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("tessera.toml"), SITE).unwrap();
    fs::write(at("nodes"), NODES).unwrap();
    fs::write(at("jobs"), running("11", "alice", 40) + &running("12", "bob", 50)).unwrap();
    let program = |name: &str, text: &str| slurm::program(dir.path(), name, text);
    program("squeue", "case \"$*\" in *UserID*) ;; *) cat jobs ;; esac");
    program(
        "sinfo",
        "case \"$*\" in *%P*) printf 'debug\\ngpu*\\n' ;; *) for n in 1 2 3 4 6 7; do echo n$n mixed gpu; done; \
         echo n5 drained gpu ;; esac",
    );
    program("scontrol", "case \"$*\" in *reservations*) cat reservations ;; *) cat nodes ;; esac");
    fs::write(at("reservations"), "No reservations in the system\n").unwrap();
    program("sacctmgr", "echo lab");
    program("id", "echo carol");
    dir
}

fn explain(dir: &TempDir, args: &[&str]) -> String {
    slurm::tessera(dir.path(), &[&["explain"], args].concat())
}

#[test]
fn the_verdict_of_each_node_comes_first() {
    let dir = world();
    assert_snapshot!(explain(&dir, &["--gpu-isolation=mig", "--gpu-mem=10G"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n[3-4]: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    n1: has room when job 11 (alice) ends, expected in 40 min
    n2: has room when job 12 (bob) ends, expected in 50 min
    n7: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
    n6: never: the node is left to Slurm: it publishes no layout; use --gres alone, without Tessera's options
    n5: takes no jobs now; `sinfo -R` says why
    counts in Slurm as gres/shard:10 per node
    --all shows every candidate with its score
    exit 0
    ");
    assert_snapshot!(explain(&dir, &["--gpu-isolation=mig:4g.20gb", "--node=n[1-2,5]"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n1: has room when job 11 (alice) ends, expected in 40 min
    n2: has room when job 12 (bob) ends, expected in 50 min
    n5: takes no jobs now; `sinfo -R` says why

    n1: nothing fits: GPU 0: taken by job 11
    counts in Slurm as gres/shard:20 per node
      mig   nothing fits
        GPU 0
          4g.20gb at 0: no: taken by job 11

    n2: nothing fits: GPU 0: taken by job 12
    counts in Slurm as gres/shard:20 per node
      mig   nothing fits
        GPU 0
          4g.20gb at 0: no: taken by job 12
    exit 1
    ");
    assert_snapshot!(explain(&dir, &["--gpu-isolation=mig:4g.20gb", "--node=n1"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n1: has room when job 11 (alice) ends, expected in 40 min
    n1: nothing fits: GPU 0: taken by job 11
    counts in Slurm as gres/shard:20 per node
      mig   nothing fits
        GPU 0
          4g.20gb at 0: no: taken by job 11
    exit 1
    ");
}

#[test]
fn all_shows_the_verdict_of_every_node() {
    let dir = world();
    let numbers = || 1..=15;
    let site = "[[nodes]]\nnames = \"n[1-15]\"\ngpu = \"a100-40gb\"\ncount = 5\nmig = \"dynamic\"\n";
    fs::write(dir.path().join("tessera.toml"), site).unwrap();
    // Each node's GPUs are held by jobs of its own.
    let node = |n: u32| {
        let gpus: String = (0..5).map(|gpu| format!(" gpu{gpu}=whole[job{}]", n * 10 + gpu)).collect();
        format!("NodeName=n{n} A=x\n   Extra=tessera{gpus}\n\n")
    };
    fs::write(dir.path().join("nodes"), numbers().map(node).collect::<String>()).unwrap();
    slurm::program(dir.path(), "sinfo", "for n in $(seq 15); do echo n$n mixed gpu; done");
    let asked = ["--gpu-isolation=whole", "--gpus-per-node=5"];
    let brief = explain(&dir, &asked);
    assert!(brief.contains("3 more nodes later or never: --all names them\n"), "{brief}");
    assert!(brief.contains("n1: has room when jobs 10, 11 (alice), 12 (bob), 13 and 1 more end"), "{brief}");
    let all = explain(&dir, &[&asked[..], &["--all"]].concat());
    for n in numbers() {
        let said = all.lines().find(|line| line.starts_with(&format!("n{n}: has room when jobs ")));
        let said = said.unwrap_or_else(|| panic!("n{n}: {all}"));
        assert!((0..5).all(|gpu| said.contains(&format!("{}", n * 10 + gpu))), "{said}");
    }
    assert!(!all.contains("more node"), "{all}");
}

/// What scontrol prints of a reservation from `from` to `to` seconds from now.
fn reservation(name: &str, from: i64, to: i64, nodes: &str, flags: &str) -> String {
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let (start, end) = (now + from, now + to);
    format!(
        "ReservationName={name} StartTime={start} EndTime={end} Duration=01:00:00 Nodes={nodes} NodeCnt=1 CoreCnt=1 \
         Features=(null) PartitionName=(null) Flags={flags} TRES=cpu=1 Users=root\n"
    )
}

#[test]
fn reserved_nodes_are_said_to_be() {
    let dir = world();
    let all = [
        reservation("class", -60, 30 * 60 - 30, "n[1,3]", "SPEC_NODES"),
        reservation("maint", -60, 400 * 86_400, "n2", "MAINT,SPEC_NODES"),
        // It has some cores of the node.
        reservation("cores", -60, 90, "n4", "SPEC_NODES   NodeName=n4 CoreIDs=0"),
        reservation("later", 3600, 7200, "n[4,7]", "SPEC_NODES"),
    ];
    fs::write(dir.path().join("reservations"), all.concat()).unwrap();
    let states = "n1 mixed gpu\nn2 maint gpu\nn3 reserved gpu\nn4 mixed gpu\nn5 reserved gpu\nn6 drained$ gpu\nn7 idle gpu";
    slurm::program(dir.path(), "sinfo", &format!("printf '{}\\n'", states.replace('\n', "\\n")));
    assert_snapshot!(explain(&dir, &["--gpu-isolation=mig", "--gpu-mem=10G"]), @r"
    as Slurm shows the nodes now, for carol, account lab
    n4: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    n7: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
    n[1,3]: reserved by class for another 30 min
    n2: reserved by maint, which has no known end
    n5: reserved; Slurm does not show you by which reservation
    n6: takes no jobs now; `sinfo -R` says why
    counts in Slurm as gres/shard:10 per node
    --all shows every candidate with its score
    exit 0
    ");
    assert_snapshot!(slurm::tessera(dir.path(), &["free", "--mem=20G"]), @r"
    SHAPE              MEMORY  SMs        NOW  WHERE  ASK FOR ONE WITH
    3g.20gb           20.9 GB  42 of 108    2  n4 2   --gpu-isolation=mig:3g.20gb
    4g.20gb           20.9 GB  56 of 108    1  n4 1   --gpu-isolation=mig:4g.20gb
    share of 20.0 GB  20.0 GB  shared       2  n4 2   --gpu-isolation=mps --gpu-mem=20G

    --gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.

    Refused:
      7g.40gb: --gpu-isolation=mig:7g.40gb is too much for account lab: at most 20.0 GB
      1 GPU: a whole GPU (a100-40gb, 40.0 GB) is too much for account lab: at most 20.0 GB

    Not counted:
      n[1,3]: reserved by class for another 30 min
      n2: reserved by maint, which has no known end
      n5: reserved; Slurm does not show you by which reservation
      n6: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
    let json = explain(&dir, &["--gpu-isolation=mig", "--gpu-mem=10G", "--json"]);
    assert!(json.contains("\"reservation\": \"class\""), "{json}");
}

#[test]
fn nodes_are_narrowed_as_by_sbatch() {
    let dir = world();
    let with_features = NODES.replace("A=x\n", "A=x\n   ActiveFeatures=gpu,FEATURE\n");
    let numbered = (1..8)
        .fold(with_features, |text, n| text.replacen("FEATURE", if n < 3 { "nvlink" } else { "pcie" }, 1));
    fs::write(dir.path().join("nodes"), numbered).unwrap();
    let class = reservation("class", -60, 30 * 60 - 30, "n[1,3]", "SPEC_NODES");
    let next = reservation("next", 30 * 60 - 30, 3600, "n4", "SPEC_NODES");
    fs::write(dir.path().join("reservations"), class + &next).unwrap();
    let of = |wish: &str| explain(&dir, &["--gpu-isolation=mig", "--gpu-mem=10G", wish]);
    assert_snapshot!(of("--constraint=gpu&nvlink"), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n2: has room when job 12 (bob) ends, expected in 50 min
    n1: reserved by class for another 30 min
    counts in Slurm as gres/shard:10 per node
    --all shows every candidate with its score
    exit 1
    ");
    assert_snapshot!(of("--reservation=class,next"), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n3: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    n1: has room when job 11 (alice) ends, expected in 40 min
    n4: the reservation next begins in 30 min
    counts in Slurm as gres/shard:10 per node
    --all shows every candidate with its score
    exit 0
    ");
    assert!(of("--reservation=class,other").contains("--reservation=other: Slurm shows you no such"));
    assert_snapshot!(of("--constraint=[nvlink|pcie]"), @r"
    stderr: error: invalid value '[nvlink|pcie]' for '--constraint <LIST>': explain reads features with & and | and parentheses, one node at a time, but no counts (*) and no sets ([…]): leave these out
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
    assert_snapshot!(of("--constraint=nvswitch"), @r"
    stderr: tessera: refused at submission: --constraint: no node has the feature nvswitch
    stderr: hint: sinfo -o '%N %f'
    exit 1
    ");
    assert_snapshot!(of("--exclude=n[1-6]"), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n7: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
    --all shows every candidate with its score
    exit 1
    ");
    assert_snapshot!(of("--exclude=n[1-7]"), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    no node that the job may use is in tessera.toml
    exit 1
    ");
    assert_snapshot!(of("--reservation=class"), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n3: now: 1g.10gb at memory slice 6 of GPU 0: smallest instance with 10 GB; 14 of 108 SMs
    n1: has room when job 11 (alice) ends, expected in 40 min
    counts in Slurm as gres/shard:10 per node
    --all shows every candidate with its score
    exit 0
    ");
    assert_snapshot!(of("--reservation=next"), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    n4: the reservation next begins in 30 min
    --all shows every candidate with its score
    exit 1
    ");
    assert_snapshot!(of("--reservation=none"), @r"
    stderr: tessera: refused at submission: --reservation=none: Slurm shows you no such reservation, or it has ended
    stderr: hint: scontrol show reservations
    exit 1
    ");
}

#[test]
fn gpus_are_counted_by_tasks() {
    let dir = world();
    fs::write(dir.path().join("tessera.toml"), SITE.replace("count = 1\nmig", "count = 4\nmig")).unwrap();
    let asked = ["--gpu-isolation=whole", "--empty", "--node=n1", "--gpus-per-task=2", "--ntasks-per-node=2"];
    assert_snapshot!(explain(&dir, &asked[..4]), @r"
    n1: GPUs 0, 1: ring at 10 GB/s (bottleneck), as good as any of 4 free GPUs (preserve)
    counts in Slurm as gres/gpu:2 per node
      whole 16 of 16 memory slices, chosen
         *GPU 0-1: ring at 10 GB/s (bottleneck), AggBW 20 GB/s, leaves 0 GB/s of links, 6 sets as good, of 4 free GPUs
      other choices
          greedy           GPU 0-1      10.0 GB/s, leaves 0 GB/s of links
          topo-aware       GPU 0-1      10.0 GB/s, leaves 0 GB/s of links
          baseline         GPU 0-1      10.0 GB/s, leaves 0 GB/s of links
          Slurm to 23.11   GPU 0-1      10.0 GB/s, leaves 0 GB/s of links
          Slurm from 24.05 GPU 0-1      10.0 GB/s, leaves 0 GB/s of links
    exit 0
    ");
    assert_snapshot!(explain(&dir, &asked), @r"
    n1: GPUs 0, 1, 2, 3: ring at 10 GB/s (bottleneck), the only free GPUs
    counts in Slurm as gres/gpu:4 per node
      whole 32 of 32 memory slices, chosen
         *GPU 0-3: ring at 10 GB/s (bottleneck), AggBW 40 GB/s, leaves 0 GB/s of links, of 4 free GPUs
    exit 0
    ");
}

#[test]
fn limits_are_the_callers_own() {
    let dir = world();
    assert_snapshot!(explain(&dir, &["--gpu-mem=30G"]), @r"
    stderr: tessera: refused at submission: --gpu-mem=30.0 GB is too much for account lab: at most 20.0 GB
    exit 1
    ");
    assert!(explain(&dir, &["--gpu-mem=30G", "--account=other"]).contains("n[3-4]: now: "));
}

#[test]
fn without_slurm_the_answer_says_so() {
    let dir = world();
    slurm::program(
        dir.path(),
        "scontrol",
        "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1",
    );
    let said = explain(&dir, &["--gpu-isolation=whole"]);
    assert!(
        said.starts_with(
            "no Slurm answers here, so all nodes are taken as empty (`scontrol -a show nodes` failed"
        ),
        "{said}"
    );
    assert_snapshot!(explain(&dir, &["--gpu-isolation=whole", "--live"]), @r"
    stderr: tessera: `scontrol -a show nodes` failed: slurm_load_node error: Unable to contact slurm controller
    exit 1
    ");
    assert!(explain(&dir, &["--gpu-isolation=whole", "--empty"]).starts_with("n[1-7]: now: "));
}

#[test]
fn a_memory_without_a_unit_is_refused() {
    let said = explain(&world(), &["--gpu-mem=10"]);
    assert!(said.contains("stderr: tessera: refused at submission: --gpu-mem=10: has no unit: "), "{said}");
}

#[test]
fn a_command_line_of_sbatchs_is_understood() {
    let dir = world();
    let everyday = ["-p", "gpu", "-A", "lab", "-t", "30", "-c", "4", "--mem", "8G", "-J", "x", "-o", "out"];
    let with = |args: &[&str]| explain(&dir, &[&everyday[..], args].concat());
    assert_snapshot!(with(&["-N2", "-n2", "--gpu-isolation=mig:4g.20gb"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    It needs 2 nodes at once, and 2 have room now.
    n[3-4]: now: 4g.20gb at memory slice 0 of GPU 0: as named; 56 of 108 SMs
    n1: has room when job 11 (alice) ends, expected in 40 min
    n2: has room when job 12 (bob) ends, expected in 50 min
    n7: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
    n6: never: the node is left to Slurm: it publishes no layout; use --gres alone, without Tessera's options
    n5: takes no jobs now; `sinfo -R` says why
    counts in Slurm as gres/shard:20 per node
    --all shows every candidate with its score
    exit 0
    ");
    assert_snapshot!(with(&["-N3", "-x", "n7", "--gpu-isolation=mig:4g.20gb"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu, account lab
    It needs 3 nodes at once: 2 have room now; the job has room when job 11 (alice) ends, expected in 40 min.
    n[3-4]: now: 4g.20gb at memory slice 0 of GPU 0: as named; 56 of 108 SMs
    n1: has room when job 11 (alice) ends, expected in 40 min
    n2: has room when job 12 (bob) ends, expected in 50 min
    n6: never: the node is left to Slurm: it publishes no layout; use --gres alone, without Tessera's options
    n5: takes no jobs now; `sinfo -R` says why
    counts in Slurm as gres/shard:20 per node
    --all shows every candidate with its score
    exit 1
    ");
    // The account's limit is below a whole GPU.
    let (nodes, _) = SITE.split_once("[[limits]]").unwrap();
    let site = nodes.replace("count = 1\nmig", "count = 2\nmig");
    fs::write(dir.path().join("tessera.toml"), site).unwrap();
    let (a100s, t4) = NODES.split_once("NodeName=n7").unwrap();
    let nodes = format!("{}NodeName=n7{t4}", a100s.replace("gpu0=free", "gpu0=free gpu1=free"));
    fs::write(
        dir.path().join("nodes"),
        nodes.replace(":job11]", ":job11] gpu1=free").replace(":job12]", ":job12] gpu1=free"),
    )
    .unwrap();
    let said = with(&["-G", "2"]);
    let hint = "With --gpus=2 the job may get several nodes, so Slurm alone picks them, without regard to links. Add -N1 to get the best-linked node.\n";
    assert!(said.contains(hint), "{said}");
    assert!(!with(&["-G", "2", "-N1"]).contains("-N1"));
}

/// A node's `Weight` comes before what Tessera compares, and a node that is left to Slurm before one that serves other jobs, too.
#[test]
fn nodes_come_in_slurmctlds_order() {
    let dir = world();
    slurm::program(dir.path(), "sacctmgr", "echo free");
    let weigh = |weight_of_n3: u32| {
        let line =
            |weight| format!("A=x\n   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight={weight} Owner=N/A\n");
        let nodes = NODES
            .replace("A=x\n", &line(1))
            .replace(&("n3 ".to_owned() + &line(1)), &("n3 ".to_owned() + &line(weight_of_n3)));
        fs::write(dir.path().join("nodes"), nodes).unwrap();
    };
    let order = |weight_of_n3, asked: &[&str]| {
        weigh(weight_of_n3);
        let said = explain(&dir, asked);
        let of_order =
            |line: &&str| [": now: ", " before ", "Slurm alone"].iter().any(|part| line.contains(part));
        said.lines().filter(of_order).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_snapshot!(order(1, &["--gpu-isolation=mig:1g.5gb", "--all"]), @"n[3-4]: now: 1g.5gb at memory slice 6 of GPU 0: as named; 14 of 108 SMs");
    assert_snapshot!(order(9, &["--gpu-isolation=mig:1g.5gb", "--all"]), @r"
    n4: now: 1g.5gb at memory slice 6 of GPU 0: as named; 14 of 108 SMs
    n3: now: 1g.5gb at memory slice 6 of GPU 0: as named; 14 of 108 SMs
    n4 before n3: Weight=1 in Slurm, Weight=9 on n3
    ");
    assert_snapshot!(order(1, &["--gres=gpu:1"]), @r"
    n6: Slurm alone decides: the node is left to it: it publishes no layout
    n[3-4,7]: now: GPU 0: the only free GPU
    n6 before n[3-4,7]: left to Slurm, where no job with Tessera's options can run
    ");
    let of_free = |weight_of_n3| {
        weigh(weight_of_n3);
        let said = slurm::tessera(dir.path(), &["free", "--gpu-mem=40G", "--json"]);
        said.find("\"n4\"") < said.find("\"n3\"")
    };
    assert_eq!([of_free(1), of_free(9)], [false, true]);
}

/// Each node has GPUs of one type.
#[test]
fn a_gpu_type_leaves_out_the_nodes_without_it() {
    let dir = world();
    slurm::program(dir.path(), "sacctmgr", "echo free");
    let mut nodes = NODES.to_owned();
    for (node, gres) in [("n3", "gpu:a100:1"), ("n4", "gpu:a100:1"), ("n7", "gpu:t4:1(S:0)")] {
        nodes =
            nodes.replace(&format!("NodeName={node} A=x"), &format!("NodeName={node} A=x\n   Gres={gres}"));
    }
    fs::write(dir.path().join("nodes"), nodes).unwrap();
    let said = explain(&dir, &["--gres=gpu:t4:1", "--node=n[3-4,7]"]);
    assert!(said.contains("\nn7: GPU 0: the only free GPU\n") && !said.contains("n3"), "{said}");
    assert_snapshot!(explain(&dir, &["--gres=gpu:h100:1"]), @r"
    stderr: tessera: refused at submission: --gres: no node has GPUs of type h100
    stderr: hint: sinfo -o '%N %G'
    exit 1
    ");
    assert_snapshot!(explain(&dir, &["--gres=gpu:h100:1", "--empty", "--node=n7"]), @r"
    Not looked at: the GPU type h100. Slurm may rule out nodes that are listed here.
    n7: GPU 0: the only free GPU
    counts in Slurm as gres/gpu:1 per node
      whole 1 of 1 memory slices, chosen
         *GPU 0: leaves 0 GB/s of links, of 1 free GPUs
    exit 0
    ");
}
