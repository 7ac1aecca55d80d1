//! What a person reads from `tessera why`. Slurm's commands are stand-ins.
#![allow(clippy::unwrap_used, reason = "tests")]

mod slurm;

use std::fs;

use insta::assert_snapshot;
use tempfile::TempDir;

const SITE: &str = "[[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n\
                    [[nodes]]\nnames = \"n4\"\ngpu = \"t4-16gb\"\ncount = 1\n";
const NODES: &str = "NodeName=n1 A=x\n   Extra=tessera gpu0=mig[3g.20gb@0:job11,3g.20gb@4:job12]\n\n\
                     NodeName=n2 A=x\n   Extra=tessera gpu0=whole[job13]\n\n\
                     NodeName=n3 A=x\n   Extra=tessera gpu0=free\n\n\
                     NodeName=n4 A=x\n   Extra=tessera gpu0=free\n";

/// A line of squeue: number, user, state, reason, seconds from now to its end, AdminComment.
fn job(id: u32, user: &str, state: &str, reason: &str, ends_in: Option<u64>, comment: &str) -> String {
    let id = id.to_string();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    // In the middle of a minute, so that a slow test prints the same.
    let end = ends_in.map_or("N/A".to_owned(), |s| (now + s - 30).to_string());
    slurm::line(&[
        ("JobID", &id),
        ("ArrayJobID", &id),
        ("ArrayTaskID", "N/A"),
        ("HetJobID", "N/A"),
        ("UserName", user),
        ("Partition", "gpu"),
        ("PriorityLong", if id == "20" { "100" } else { "50" }),
        ("State", state),
        ("Reason", reason),
        ("NumNodes", "1"),
        ("NodeList", if state == "RUNNING" { "n1" } else { "" }),
        ("StartTime", "N/A"),
        ("EndTime", &end),
        ("admin_comment", comment),
    ]) + "\n"
}

/// A cluster where job 20 waits for this with this AdminComment.
fn world(reason: &str, comment: &str, gres: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("tessera.toml"), SITE).unwrap();
    let jobs = [
        job(
            11,
            "alice",
            "RUNNING",
            "None",
            Some(5 * 3600),
            "tessera: n1=mig:0/3g.20gb@0: smallest instance with 20 GB",
        ),
        job(12, "bob", "RUNNING", "None", Some(40 * 60), ""),
        job(13, "carol", "RUNNING", "None", None, ""),
        job(20, "bob", "PENDING", reason, None, comment),
    ];
    fs::write(at("jobs"), jobs.concat()).unwrap();
    fs::write(at("nodes"), NODES).unwrap();
    let tres = format!("{:<14}{:<512}{:<512}{:<512}{:<512}\n", 20, "N/A", gres, "N/A", "N/A");
    fs::write(at("tres"), tres).unwrap();
    let owner = |job: u32| format!("{job:<14}{:<14}\n", 4_000_000_000_u32 + job);
    fs::write(at("owners"), [11, 12, 13, 20].map(owner).concat()).unwrap();
    let program = |name: &str, text: &str| slurm::program(dir.path(), name, text);
    program(
        "squeue",
        "case \"$*\" in *admin_comment*) cat jobs ;; *tres-per-task*) cat tres ;; *%14A*) cat options ;; *) cat owners ;; esac",
    );
    fs::write(at("options"), "").unwrap();
    program("sinfo", "printf 'n1 mixed gpu\\nn2 mixed gpu\\nn3 drained gpu\\nn4 idle gpu\\n'");
    program("scontrol", "case \"$*\" in *reservations*) cat reservations ;; *) cat nodes ;; esac");
    fs::write(at("reservations"), "No reservations in the system\n").unwrap();
    dir
}

fn why(reason: &str, asks: &str, gres: &str) -> String {
    let comment = if asks.is_empty() { String::new() } else { format!("tessera: {asks}") };
    let dir = world(reason, &comment, gres);
    slurm::tessera(dir.path(), &["why", "20"])
}

#[test]
fn who_must_end_and_what_would_start_instead() {
    assert_snapshot!(why("Resources", "asks v1 iso=mig:4g.20gb", "gres:shard:20"), @r"
    job 20 of bob asks for an instance 4g.20gb
    Slurm's reason is Resources: no node has room for it now.
      n1: has room when job 11 (alice) ends, expected in 5 h
      n2: has room when job 13 (carol) ends, which has no known end
      n4: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
      n3: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
    assert_snapshot!(why("Resources", "asks v1 iso=mig mem=9537", "gres:shard:10"), @r"
    job 20 of bob asks for an instance with 10.0 GB
    Slurm's reason is Resources: no node has room for it now.
      n1: has room when job 12 (bob) ends, expected in 40 min
      n2: has room when job 13 (carol) ends, which has no known end
      n4: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
      n3: takes no jobs now; `sinfo -R` says why
    These would start now instead:
      --gpu-isolation=mps --gpu-mem=10G on n4
      --gpu-isolation=whole --gpus-per-node=1 --gpu-mem=10G on n4
    exit 0
    ");
    assert_snapshot!(why("Priority", "", "gres:gpu:1"), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Priority: jobs of higher priority come first.
      n4: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n1: has room when jobs 11 (alice), 12 (bob) end, expected in 5 h
      n2: has room when job 13 (carol) ends, which has no known end
      n3: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
    // What holds it is not the turn.
    let later = why("BeginTime", "", "gres:gpu:1");
    assert!(later.contains("  n4: the GPUs have room now\n"), "{later}");
    assert_snapshot!(why("Nodes required for job are DOWN, DRAINED", "", "gres:gpu:2"), @r"
    job 20 of bob asks for 2 whole GPUs
    Slurm's reason is Nodes required for job are DOWN, DRAINED: the nodes it may use are taken, drained, reserved or kept for other jobs.
      n[1-2,4]: never: 2 GPUs do not fit on an empty node, 1 does; use --gpus-per-node=1 or less
      n3: takes no jobs now; `sinfo -R` says why
    These would start now instead:
      --gpu-isolation=whole --gpus-per-node=1 on n4
    exit 1
    ");
    assert_snapshot!(why("Resources", "asks v1 iso=mig:2g.20gb", "gres:shard:20"), @r"
    job 20 of bob asks for an instance 2g.20gb
    Slurm's reason is Resources: no node has room for it now.
      n[1-2]: never: a100-40gb has no profile for mig:2g.20gb; it has 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb
      n4: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
      n3: takes no jobs now; `sinfo -R` says why
    exit 1
    ");
}

#[test]
fn the_node_that_comes_first_and_why() {
    let dir = world("Resources", "tessera: asks v1 iso=mig:1g.5gb", "gres:shard:5");
    let nodes = NODES.replace("whole[job13]", "free").replace("3g.20gb@4:job12", "1g.5gb@4:job12");
    fs::write(dir.path().join("nodes"), nodes).unwrap();
    let why = |job: &str| slurm::tessera(dir.path(), &["why", job]);
    assert_snapshot!(why("20"), @r"
    job 20 of bob asks for an instance 1g.5gb
    Slurm's reason is Resources: no node has room for it now.
      n1: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n2: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n4: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
      n3: takes no jobs now; `sinfo -R` says why
      n1 before n2: fills a GPU that is in use already; keeps n2 whole
    exit 0
    ");
    let started = "tessera: n1=mig:0/3g.20gb@0: as named; 42 of 108 SMs; node: 300 GB/s, 52 GB/s on n2";
    fs::write(dir.path().join("jobs"), job(11, "alice", "RUNNING", "None", Some(600), started)).unwrap();
    assert_snapshot!(why("11"), @r"
    job 11 does not wait: it is RUNNING on n1: as named; 42 of 108 SMs
      n1: 300 GB/s, 52 GB/s on n2
    exit 0
    ");
}

#[test]
fn what_else_keeps_it() {
    assert_snapshot!(why("QOSMaxGRESPerUser", "cannot start: mig is not for partition gpu; asks v1 iso=mig:1g.5gb", "gres:shard:5"), @r"
    job 20 of bob asks for an instance 1g.5gb
    Slurm's reason is QOSMaxGRESPerUser: a limit of its QOS keeps it waiting.
    A limit of the site keeps it from starting: mig is not for partition gpu
      n1: has room when job 12 (bob) ends, expected in 40 min
      n2: has room when job 13 (carol) ends, which has no known end
      n4: never: t4-16gb has no MIG; use --gpu-isolation=mps or whole
      n3: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
    assert_snapshot!(why("JobHeldUser", "", ""), @r"
    job 20 of bob waits; it asks for no GPUs
    Slurm's reason is JobHeldUser: its user holds it: scontrol release ID.
    exit 0
    ");
}

#[test]
fn a_job_that_wants_its_node_to_itself_waits_for_everybody_there() {
    let dir = world("Resources", "", "gres:gpu:1");
    let why = |oversubscribe: &str| {
        let of_20 = [("JobID", "20"), ("UserName", "bob"), ("Partition", "gpu"), ("State", "PENDING")];
        let rest = [("Reason", "Resources"), ("NumNodes", "1"), ("ReqNodes", "n4")];
        let shares = [("OverSubscribe", oversubscribe)];
        // It has no GPU.
        let beside = [("JobID", "14"), ("UserName", "dave"), ("State", "RUNNING"), ("NodeList", "n4")];
        let jobs = [slurm::line(&[&of_20[..], &rest, &shares].concat()), slurm::line(&beside)];
        fs::write(dir.path().join("jobs"), jobs.map(|job| job + "\n").concat()).unwrap();
        slurm::program(dir.path(), "sinfo", "printf 'n4 mixed gpu\\n'");
        slurm::tessera(dir.path(), &["why", "20"])
    };
    assert_snapshot!(why("OK"), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
      n4: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
    exit 0
    ");
    assert_snapshot!(why("NO"), @r"
    job 20 of bob asks for 1 whole GPU, and for whole nodes
    Slurm's reason is Resources: no node has room for it now.
      n4: has room when job 14 (dave) ends, which has no known end
    exit 0
    ");
}

#[test]
fn a_task_of_an_array_has_slurms_name() {
    let dir = world("Resources", "", "gres:gpu:1");
    let task = |id: &'static str, tasks: &'static str| {
        let ids = [("JobID", id), ("ArrayJobID", "20"), ("ArrayTaskID", tasks), ("UserName", "bob")];
        let rest =
            [("Partition", "gpu"), ("State", "PENDING"), ("Reason", "JobArrayTaskLimit"), ("NumNodes", "1")];
        slurm::line(&[&ids[..], &rest].concat()) + "\n"
    };
    fs::write(dir.path().join("jobs"), task("22", "2") + &task("20", "3-5")).unwrap();
    let first =
        |job: &str| slurm::tessera(dir.path(), &["why", job]).lines().next().unwrap_or_default().to_owned();
    let said = ["20_2", "22", "20", "20_4", "20_7"].map(first).join("\n");
    assert_snapshot!(said, @r"
    job 20_2 of bob waits; it asks for no GPUs
    job 20_2 of bob waits; it asks for no GPUs
    job 20_[3-5] of bob asks for 1 whole GPU
    job 20_[3-5] of bob asks for 1 whole GPU
    stderr: tessera: Slurm knows no job 20_7
    ");
}

#[test]
fn what_a_reservation_keeps() {
    let dir = world("Reservation", "", "gres:gpu:1");
    slurm::program(
        dir.path(),
        "sinfo",
        "printf 'n1 mixed gpu\\nn2 maint gpu\\nn3 reserved gpu\\nn4 reserved gpu\\n'",
    );
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let reservation = |name: &str, start: u64, end: u64, nodes: &str, flags: &str| {
        let (start, end) = (now + start - 600, now + end);
        format!("ReservationName={name} StartTime={start} EndTime={end} Nodes={nodes} Flags={flags}\n")
    };
    let all = [
        reservation("class", 0, 1770, "n[1,3-4]", "SPEC_NODES"),
        reservation("maint", 0, 1770, "n2", "MAINT"),
        reservation("soon", 1770, 9000, "n1", "SPEC_NODES"),
    ];
    fs::write(dir.path().join("reservations"), all.concat()).unwrap();
    let why = |job: &[(&str, &str)]| {
        let of_20 = [("JobID", "20"), ("UserName", "bob"), ("State", "PENDING"), ("NumNodes", "1")];
        let text = [&of_20[..], &[("Partition", "gpu"), ("Reason", "Resources")], job].concat();
        fs::write(dir.path().join("jobs"), slurm::line(&text) + "\n").unwrap();
        slurm::tessera(dir.path(), &["why", "20"])
    };
    assert_snapshot!(why(&[("TimeLimit", "10:00")]), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
      n[1,3-4]: reserved by class for another 30 min
      n2: reserved by maint for another 30 min
    exit 0
    ");
    assert_snapshot!(why(&[("TimeLimit", "10:00"), ("Reservation", "class")]), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
      n[3-4]: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n1: has room when jobs 11, 12 end; at least one of them has no known end
    exit 0
    ");
    assert_snapshot!(why(&[("TimeLimit", "1:00:00"), ("Reservation", "class")]), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
      n[3-4]: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n1: reserved by soon in 20 min, before the job's time limit
    exit 0
    ");
    let several = why(&[("TimeLimit", "10:00"), ("Reservation", "class,soon")]);
    assert_eq!(several, why(&[("TimeLimit", "10:00"), ("Reservation", "class")]), "it may start in either");
    assert_snapshot!(why(&[("TimeLimit", "1:00:00"), ("Reservation", "soon")]), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
      n1: reserved by class for another 30 min
    exit 0
    ");
}

#[test]
fn jobs_that_do_not_wait() {
    let dir = world("Resources", "", "");
    assert_snapshot!(slurm::tessera(dir.path(), &["why", "11"]), @r"
    job 11 does not wait: it is RUNNING on n1: smallest instance with 20 GB
    exit 0
    ");
    assert_snapshot!(slurm::tessera(dir.path(), &["why", "99"]), @r"
    stderr: tessera: Slurm knows no job 99
    stderr: hint: sacct -j ID shows jobs that ended long ago
    exit 1
    ");
    assert_snapshot!(slurm::tessera(dir.path(), &["why", "x"]), @r"
    stderr: error: invalid value 'x' for '<JOBID>': expected a number such as 4711, 4711_2 or 4711+1
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
}

#[test]
fn why_json_keeps_its_keys() {
    let dir = world("Resources", "tessera: asks v1 iso=mig:4g.20gb", "gres:shard:20");
    let said = slurm::tessera(dir.path(), &["why", "20", "--json"]);
    // The clock runs on between the stand-in's answer and ours.
    let said = (17_960..=17_970).fold(said, |said, s| said.replace(&s.to_string(), "17970"));
    assert_snapshot!(said, @r#"
    {
      "ahead": 0,
      "asks": "an instance 4g.20gb",
      "instead": [],
      "job": 20,
      "needs_nodes": 1,
      "nodes": [
        {
          "jobs": [
            11
          ],
          "names": [
            "n1"
          ],
          "room": "later",
          "within_s": 17970
        },
        {
          "jobs": [
            13
          ],
          "names": [
            "n2"
          ],
          "room": "later",
          "within_s": null
        },
        {
          "names": [
            "n4"
          ],
          "room": "never",
          "why": "t4-16gb has no MIG; use --gpu-isolation=mps or whole"
        }
      ],
      "not_taking_jobs": [
        "n3"
      ],
      "order": {
        "nodes": [],
        "why": null
      },
      "reason": "Resources",
      "reserved": [],
      "slurm_start": null,
      "user": "bob"
    }
    exit 0
    "#);
}

/// Each verdict is about a node; a job on two nodes needs two of them.
#[test]
fn a_job_on_several_nodes_is_told_when_so_many_have_room() {
    let dir = world("Resources", "", "gres:gpu:1");
    let jobs = dir.path().join("jobs");
    let text = fs::read_to_string(&jobs).unwrap();
    let on = |n: &str| {
        let (others, own) = text.strip_suffix('\n').unwrap().rsplit_once('\n').unwrap();
        let at = own.find("Resources").unwrap();
        let n_nodes = own[at..].replacen(&format!("{:<10}", "1"), &format!("{n:<10}"), 1);
        fs::write(&jobs, format!("{others}\n{}{n_nodes}\n", &own[..at])).unwrap();
        slurm::tessera(dir.path(), &["why", "20"])
    };
    assert_snapshot!(on("2"), @r"
    job 20 of bob asks for 1 whole GPU on each of 2 nodes
    Slurm's reason is Resources: no node has room for it now.
    It needs 2 nodes at once: 1 has room now; the job has room when jobs 11 (alice), 12 (bob) end, expected in 5 h.
      n4: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n1: has room when jobs 11 (alice), 12 (bob) end, expected in 5 h
      n2: has room when job 13 (carol) ends, which has no known end
      n3: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
    let four = on("4");
    assert!(
        four.contains("\nIt needs 4 nodes at once, and 3 nodes can have room for it: others must take jobs again first.\n"),
        "{four}"
    );
    assert!(four.ends_with("exit 0"), "a drained node may come back: {four}");
}

#[test]
fn as_many_as_are_free_are_offered() {
    let offered = |asks: &str, gres: &str, gpus: &str| {
        let comment = if asks.is_empty() { String::new() } else { format!("tessera: asks v1 {asks}") };
        let dir = world("Resources", &comment, gres);
        let site = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\n";
        fs::write(dir.path().join("tessera.toml"), site).unwrap();
        let nodes = format!("NodeName=n1 A=x\n   Extra=tessera {gpus}\n");
        fs::write(dir.path().join("nodes"), nodes).unwrap();
        let said = slurm::tessera(dir.path(), &["why", "20"]);
        let (_, offers) = said.split_once("These would start now instead:\n").unwrap_or(("", &said));
        offers.to_owned()
    };
    let busy = |n: u32| {
        let of = |gpu| format!("gpu{gpu}={} ", if gpu < n { "whole[job11]" } else { "free" });
        (0..8).map(of).collect::<String>()
    };
    assert_eq!(
        offered("", "gres:gpu:8", &busy(3)),
        "  --gpu-isolation=whole --gpus-per-node=5 on n1\nexit 0\n".trim_end()
    );
    // Four instances of 20 GB need two GPUs; with one free there are two.
    let four = "iso=mig:3g.20gb inst=4";
    assert_eq!(
        offered(four, "gres:shard:80", &busy(7)),
        "  --gpu-isolation=mig:3g.20gb --gpu-instances=2 on n1\nexit 0"
    );
}

/// A user's variables for squeue, sinfo and scontrol change what these print.
#[test]
fn variables_for_slurms_commands_change_no_answer() {
    let dir = world("Resources", "", "gres:gpu:1");
    let plain = slurm::tessera(dir.path(), &["why", "20"]);
    let set = ["SQUEUE_ARRAY", "SQUEUE_USERS", "SINFO_PARTITION", "SCONTROL_FUTURE", "SLURM_CLUSTERS"];
    for name in ["squeue", "sinfo", "scontrol"] {
        let before = fs::read_to_string(dir.path().join("bin").join(name)).unwrap();
        let text = before.lines().skip(2).collect::<Vec<_>>().join("\n");
        let changed = set.map(|name| format!("${name}")).concat();
        slurm::program(dir.path(), name, &format!("[ -z \"{changed}\" ] || exit 1\n{text}"));
    }
    let mut command = slurm::command(dir.path(), &["why", "20"]);
    assert_eq!(slurm::said(command.envs(set.map(|name| (name, "1")))), plain);
}

/// Job 20 waits for its constraint, its excluded nodes or its GPU type: nodes that these rule out have no room for it.
#[test]
fn nodes_that_the_job_rules_out_have_no_room_for_it() {
    let said = |features: &str, excluded: &str, gres: &str| {
        let dir = world("Resources", "", gres);
        let options = format!("{:<14}{features:<512}{excluded:<512}\n", 20);
        fs::write(dir.path().join("options"), options).unwrap();
        let mut nodes = NODES.to_owned();
        for (node, model) in [("n1", "a100"), ("n2", "a100"), ("n3", "a100"), ("n4", "t4")] {
            let of_node =
                format!("NodeName={node} A=x\n   ActiveFeatures={model},all\n   Gres=gpu:{model}:1(S:0)");
            nodes = nodes.replace(&format!("NodeName={node} A=x"), &of_node);
        }
        fs::write(dir.path().join("nodes"), nodes).unwrap();
        slurm::tessera(dir.path(), &["why", "20"])
    };
    let plain = said("(null)", "", "gres:gpu:1");
    assert!(plain.contains("\n  n4: the GPUs have room now;"), "{plain}");
    assert_snapshot!(said("a100", "", "gres:gpu:1"), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
      n1: has room when jobs 11 (alice), 12 (bob) end, expected in 5 h
      n2: has room when job 13 (carol) ends, which has no known end
      n3: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
    for narrowed in [said("(null)", "n4", "gres:gpu:1"), said("(null)", "", "gres/gpu:a100:1")] {
        assert_eq!(narrowed, said("a100", "", "gres:gpu:1"));
    }
    assert_snapshot!(said("[t4*1&a100*1]", "", "gres:gpu:1"), @r"
    job 20 of bob asks for 1 whole GPU
    Slurm's reason is Resources: no node has room for it now.
    Not looked at: --constraint=[t4*1&a100*1]. Slurm may rule out nodes that are listed here.
      n4: the GPUs have room now; Slurm still waits for cores, memory, or the job's turn
      n1: has room when jobs 11 (alice), 12 (bob) end, expected in 5 h
      n2: has room when job 13 (carol) ends, which has no known end
      n3: takes no jobs now; `sinfo -R` says why
    exit 0
    ");
}

/// A share joins those of the job's own user, whoever asks. The caller takes n4 and n5 for alike: both are somebody else's.
#[test]
fn other_requests_are_offered_as_to_the_jobs_user() {
    let of_user = |owner_of_12: u32| {
        let dir = world("Resources", "tessera: asks v1 iso=mig mem=4769", "gres:shard:5");
        fs::write(dir.path().join("tessera.toml"), SITE.replace("\"n4\"", "\"n[4-5]\"")).unwrap();
        let (of_14, of_12) = ("gpu0=mps[job14:4769M/25%]", "gpu0=mps[job12:4769M/25%]");
        let nodes = NODES.replace("4:job12]", "4:job11]").replace("gpu0=free", of_14);
        let n5 = format!("\nNodeName=n5 A=x\n   Extra=tessera {of_12}\n");
        fs::write(dir.path().join("nodes"), nodes + &n5).unwrap();
        slurm::program(dir.path(), "sinfo", "for n in 1 2 4 5; do echo n$n mixed gpu; done");
        let owners = [(11, 7), (12, owner_of_12), (13, 8), (14, 9), (20, 4_000_000_020)];
        let owner = |(job, user): (u32, u32)| format!("{job:<14}{user:<14}\n");
        fs::write(dir.path().join("owners"), owners.map(owner).concat()).unwrap();
        slurm::tessera(dir.path(), &["why", "20"])
    };
    let own = of_user(4_000_000_020);
    assert!(own.contains("would start now instead:\n  --gpu-isolation=mps --gpu-mem=5G on n5\n"), "{own}");
    let of_another = of_user(rustix::process::getuid().as_raw());
    assert!(!of_another.contains("instead"), "{of_another}");
}
