//! `tessera free`, `explain` and `why` where Slurm keeps limits. Slurm's commands are stand-ins.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

use std::fs;

use insta::assert_snapshot;
use tempfile::TempDir;

const SITE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";
const NODES: &str = "NodeName=n1 A=x\n   Gres=gpu:2,shard:80\n   Extra=tessera gpu0=mig[4g.20gb@0:job11,3g.20gb@4:job12] gpu1=free\n";
/// Account bio may have 10 slices at once and has 7; carol may have 4 jobs in QOS normal and has none.
const HELD: &str = "Current Association Manager state\nAssociation Records\n\
    ClusterName=c Account=root UserName= Partition= ID=1 ParentAccount= GrpTRES=cpu=N(2),license/slice=N(7)\n\
    ClusterName=c Account=bio UserName= Partition= ID=2 ParentAccount=root(1) GrpTRES=cpu=N(2),license/slice=10(7)\n\
    ClusterName=c Account=bio UserName=carol(1003) Partition= ID=4 ParentAccount=(2) GrpTRES=cpu=N(0) MaxJobs= MaxTRESPJ=gres/gpu=1\n\
    QOS Records\nQOS=normal(1) GrpTRES=cpu=N(2) Account Limits= bio={MaxJobsPA=N(2) MaxTRESPA=} User Limits=No Users\n";

/// The squeue table of the two that run, in the columns in which uses are asked for.
fn uses() -> String {
    let of = |id: u32, user: &str, slices: &str| {
        let given = format!("cpu=1,license/slice={slices},gres/shard=20");
        format!(
            "{id:<14}{:<20}{user:<64}{:<64}{:<64}{:<128}{given:<512}\n",
            "RUNNING", "bio", "normal", "gpu"
        )
    };
    of(11, "alice", "4") + &of(12, "bob", "3")
}

/// Job 20 of carol waits for `reason` and asks Slurm for this; the site keeps limits of this kind.
fn world(enforced: &str, reason: &str, gres: &str) -> TempDir {
    asking(enforced, reason, gres, "")
}

/// A world whose job has this AdminComment.
fn asking(enforced: &str, reason: &str, gres: &str, comment: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    for (name, text) in [("tessera.toml", SITE), ("nodes", NODES), ("held", HELD), ("uses", &uses())] {
        fs::write(at(name), text).unwrap();
    }
    fs::write(at("config"), format!("AccountingStorageEnforce = {enforced}\n")).unwrap();
    let job = slurm::line(&[
        ("JobID", "20"),
        ("ArrayJobID", "20"),
        ("ArrayTaskID", "N/A"),
        ("HetJobID", "N/A"),
        ("UserName", "carol"),
        ("Account", "bio"),
        ("Partition", "gpu"),
        ("QOS", "normal"),
        ("State", "PENDING"),
        ("Reason", reason),
        ("NumNodes", "1"),
        ("StartTime", "N/A"),
        ("EndTime", "N/A"),
        ("TimeLimit", "1:00:00"),
        ("OverSubscribe", "OK"),
        ("admin_comment", comment),
    ]);
    fs::write(at("jobs"), job + "\n").unwrap();
    fs::write(at("tres"), format!("{:<14}{:<512}{gres:<512}{:<512}{:<512}\n", 20, "N/A", "N/A", "N/A"))
        .unwrap();
    let program = |name: &str, text: &str| slurm::program(dir.path(), name, text);
    program(
        "squeue",
        "case \"$*\" in *tres-alloc*) cat uses ;; *admin_comment*) cat jobs ;; *tres-per-task*) cat tres ;; esac",
    );
    program("sinfo", "case \"$*\" in *%P*) echo 'gpu*' ;; *) echo n1 mixed gpu ;; esac");
    program(
        "scontrol",
        "case \"$*\" in *reservations*) echo No reservations in the system ;; *assoc_mgr*) cat held ;; *config*) cat config ;; \
         *partition*) echo PartitionName=gpu QoS=N/A ;; *) cat nodes ;; esac",
    );
    program(
        "sacctmgr",
        "case \"$*\" in *qos*maxtrespu*) echo 'normal|||4|||||' ;; *assoc*) echo '||normal' ;; *) echo bio ;; esac",
    );
    program("id", "case \"$*\" in *-un*) echo carol ;; *) echo 1003 ;; esac");
    dir
}

#[test]
fn what_is_free_is_what_limits_leave() {
    let dir = world("associations,limits", "None", "gres:gpu:1");
    let free = |args: &[&str]| slurm::tessera(dir.path(), &[&["free", "--mem", "20G"], args].concat());
    assert_snapshot!(free(&[]), @r"
    SHAPE              MEMORY  SMs        NOW  WHERE  ASK FOR ONE WITH
    3g.20gb           20.9 GB  42 of 108    1  n1 2   --gpu-isolation=mig:3g.20gb
    4g.20gb           20.9 GB  56 of 108    0  n1 1   --gpu-isolation=mig:4g.20gb
    7g.40gb           42.1 GB  98 of 108    0  n1 1   --gpu-isolation=mig:7g.40gb
    share of 20.0 GB  20.0 GB  shared       0  n1 2   --gpu-isolation=mps --gpu-mem=20G
    1 GPU             42.1 GB  all 108      0  n1 1   --gpu-isolation=whole --gpus-per-node=1 --gpu-mem=20G
    2 GPUs            42.1 GB  all 108      0  -      --gpu-isolation=whole --gpus-per-node=2 --gpu-mem=20G

    --gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.

    Limits of Slurm for carol, account bio, QOS normal: NOW is what they leave, WHERE what the GPUs have room for
      carol in QOS normal may run 4 jobs at once; 0 running
      a job of carol in account bio may have at most 1 GPU
      account bio may have 10 slices at once; 7 in use (alice 4, bob 3)
    exit 0
    ");
    let json: serde_json::Value = serde_json::from_str(free(&["--json"]).trim_end_matches("exit 0")).unwrap();
    assert_eq!((&json["shapes"][0]["now"], &json["shapes"][0]["room"]), (&1.into(), &2.into()), "{json}");
    let users = serde_json::json!([{ "user": "alice", "amount": 4 }, { "user": "bob", "amount": 3 }]);
    assert_eq!(
        (&json["limits"][2]["kind"], &json["limits"][2]["users"]),
        (&"at_once".into(), &users),
        "{json}"
    );
    let unlimited = world("associations", "None", "gres:gpu:1");
    assert_snapshot!(slurm::tessera(unlimited.path(), &["free", "--mem", "20G"]), @r"
    SHAPE              MEMORY  SMs        NOW  WHERE  ASK FOR ONE WITH
    3g.20gb           20.9 GB  42 of 108    2  n1 2   --gpu-isolation=mig:3g.20gb
    4g.20gb           20.9 GB  56 of 108    1  n1 1   --gpu-isolation=mig:4g.20gb
    7g.40gb           42.1 GB  98 of 108    1  n1 1   --gpu-isolation=mig:7g.40gb
    share of 20.0 GB  20.0 GB  shared       2  n1 2   --gpu-isolation=mps --gpu-mem=20G
    1 GPU             42.1 GB  all 108      1  n1 1   --gpu-isolation=whole --gpus-per-node=1 --gpu-mem=20G
    2 GPUs            42.1 GB  all 108      0  -      --gpu-isolation=whole --gpus-per-node=2 --gpu-mem=20G

    --gpu-mem=SIZE alone takes the one with SIZE that leaves most of a GPU to other jobs.
    exit 0
    ");
}

#[test]
fn a_job_that_a_limit_keeps_is_told_which_and_who_uses_it() {
    let why = |reason, gres, args: &[&str]| {
        slurm::tessera(world("limits,safe", reason, gres).path(), &[&["why", "20"], args].concat())
    };
    assert_snapshot!(why("AssocGrpLicense", "gres:gpu:1", &[]), @r"
    job 20 of carol asks for 1 whole GPU
    Slurm's reason is AssocGrpLicense: a limit of its account or user keeps it waiting.
    A limit of Slurm keeps it: account bio may have 10 slices at once; 7 in use (alice 4, bob 3); this job needs 7 slices.
      n1: the GPUs have room now
    exit 0
    ");
    assert_snapshot!(why("AssocMaxGRESPerJob", "gres:gpu:2", &[]), @r"
    job 20 of carol asks for 2 whole GPUs
    Slurm's reason is AssocMaxGRESPerJob: a limit of its account or user keeps it waiting.
    A limit of Slurm never lets it start: a job of carol in account bio may have at most 1 GPU; this job needs 2 GPUs.
      n1: has room when jobs 11, 12 end; at least one of them has no known end
    exit 1
    ");
    assert_snapshot!(why("QOSMaxJobsPerUserLimit", "", &[]), @r"
    job 20 of carol waits; it asks for no GPUs
    Slurm's reason is QOSMaxJobsPerUserLimit: a limit of its QOS keeps it waiting.
    Limits of Slurm for carol, account bio, QOS normal:
      carol in QOS normal may run 4 jobs at once; 0 running
      a job of carol in account bio may have at most 1 GPU
      account bio may have 10 slices at once; 7 in use (alice 4, bob 3)
    exit 0
    ");
    let smaller = asking("limits", "AssocGrpLicense", "gres:shard:20", "tessera: asks v1 iso=mig:4g.20gb");
    assert_snapshot!(slurm::tessera(smaller.path(), &["why", "20"]), @r"
    job 20 of carol asks for an instance 4g.20gb
    Slurm's reason is AssocGrpLicense: a limit of its account or user keeps it waiting.
    A limit of Slurm keeps it: account bio may have 10 slices at once; 7 in use (alice 4, bob 3); this job needs 4 slices.
      n1: the GPUs have room now
    These would start now instead:
      --gpu-isolation=mig:3g.20gb on n1
    exit 0
    ");
    assert!(
        why("AssocGrpLicense", "gres:gpu:1", &["--json"])
            .contains("\"kept_by_limit\": \"A limit of Slurm keeps it: ")
    );
}

#[test]
fn a_request_that_a_limit_would_keep_is_told_before_it_is_submitted() {
    let dir = world("limits", "None", "gres:gpu:1");
    let explain = |args: &[&str]| slurm::tessera(dir.path(), &[&["explain"], args].concat());
    assert_snapshot!(explain(&["--gpu-isolation=mig:7g.40gb"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu
    n1: now: 7g.40gb at memory slice 0 of GPU 1: as named; 98 of 108 SMs
    counts in Slurm as gres/shard:40 per node
    --all shows every candidate with its score
    A limit of Slurm keeps it: account bio may have 10 slices at once; 7 in use (alice 4, bob 3); this job needs 7 slices. `tessera free` shows what your limits leave.
    exit 1
    ");
    assert_snapshot!(explain(&["--gpu-isolation=mig:3g.20gb"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu
    n1: now: 3g.20gb at memory slice 4 of GPU 1: as named; 42 of 108 SMs
    counts in Slurm as gres/shard:20 per node
    --all shows every candidate with its score
    exit 0
    ");
    assert_snapshot!(explain(&["--gpu-isolation=whole", "--gpus-per-node=2"]), @r"
    as Slurm shows the nodes now, for carol, partition gpu
    n1: has room when jobs 11, 12 end; at least one of them has no known end
    counts in Slurm as gres/gpu:2 per node
    --all shows every candidate with its score
    A limit of Slurm never lets it start: a job of carol in account bio may have at most 1 GPU; this job needs 2 GPUs. `tessera free` shows what your limits leave.
    exit 1
    ");
}
