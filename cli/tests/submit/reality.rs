//! `tessera plan --reality`: plans beside what Slurm did.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use insta::assert_snapshot;

use super::{SUBMIT, run, slurm, squeue, world};

/// A plan is found by its jobs and by its name, without its file: what is planned stands in the jobs.
#[test]
fn a_plan_is_found_in_slurm() {
    let dir = world("tessera gpu0-1=free", &[]);
    run(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    fs::remove_file(dir.path().join("tessera-plan-101.json")).unwrap();
    let notes: Vec<String> = fs::read_to_string(dir.path().join("log"))
        .unwrap()
        .lines()
        .map(|l| l.split("<--comment=").nth(1).unwrap().split('>').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        notes[3].split_once(" policy").unwrap().1,
        "=tessera overhead=0.3 task=infer on=n1:1/2g.10gb@4 begin=31.47 end=42.77"
    );
    let got = ["1/2g.10gb@4", "1/4g.20gb@0", "1/1g.5gb@6", "1/2g.10gb@4"];
    let done = |k: usize| format!("COMPLETED 1000 {} tessera: n1=mig:{}: as named", 1031 + k, got[k]);
    let states: Vec<String> = (0..4).map(done).collect();
    let ids = ["101", "102", "103", "104"];
    squeue(dir.path(), &ids.iter().zip(&states).map(|(id, s)| (*id, s.as_str())).collect::<Vec<_>>());
    let comments: String =
        ids.iter().zip(&notes).map(|(id, note)| format!("{id:<14}{note:<1024}\n")).collect();
    fs::write(dir.path().join("comments"), comments).unwrap();
    let by_jobs = run(dir.path(), &["plan", "--reality", "100-110"]);
    assert_snapshot!(by_jobs, @r"
    name     job  state      instance        begin  actual    end  actual  deviation
    lavamd   101  COMPLETED  n1:1 2g.10gb@4   0.17       0  31.47      31    -1.49 %
    hotspot  103  COMPLETED  n1:1 1g.5gb@6    0.54       0  33.84      33    -2.48 %
    train    102  COMPLETED  n1:1 4g.20gb@0   0.38       0  40.68      32   -21.34 %
    infer    104  COMPLETED  n1:1 2g.10gb@4  31.47       0  42.77      34   -20.51 %

    batch.csv: planned 42.77 s, actual 34 s: -20.51 %
    exit 0
    ");
    // The tasks' file is here, and is no record; the name is the plan's all the same.
    assert_eq!(run(dir.path(), &["plan", "--reality", "batch.csv"]), by_jobs);
    let some = run(dir.path(), &["plan", "--reality", "101,103"]);
    assert!(some.contains("batch.csv: planned 33.84 s, actual 33 s"), "{some}");

    // The planner's: times since 1970 in AdminComment.
    let planner = [
        (
            "201",
            "COMPLETED 1002 1035 tessera: n1=mig:1/2g.10gb@4 planned=1000-1031: 2g.10gb chosen by the planner, at the planned place, x",
        ),
        (
            "202",
            "RUNNING 1036 N/A tessera: n1=mig:0/1g.5gb@6 planned=1031-1050: 1g.5gb chosen by the planner, x",
        ),
        (
            "203",
            "PENDING N/A N/A tessera: plan v1 size=7g.40gb place=n1:0@0 begin=1050 end=1060 until=1900; asks v1 iso=mig times=7g:10",
        ),
        ("204", "RUNNING 1036 N/A tessera: n1=mig:0/1g.5gb@5: smallest"),
    ];
    squeue(dir.path(), &planner);
    fs::write(dir.path().join("comments"), "").unwrap();
    assert_snapshot!(run(dir.path(), &["plan", "--reality", "201-204"]), @r"
    name  job  state      instance               begin  actual    end  actual  deviation
    201   201  COMPLETED  n1:1 2g.10gb@4          0.00       0  31.00      33    +6.45 %
    202   202  RUNNING    n1:0 1g.5gb@6 (moved)  31.00      34  50.00       -          -
    203   203  PENDING    n1:0 7g.40gb@0         50.00       -  60.00       -          -

    planner: planned 60.00 s; 1 of 3 jobs have ended
    1 ran on another instance, because the planned one was taken
    exit 1
    ");
}

#[test]
fn plan_against_reality() {
    let dir = world("tessera gpu0-1=free", &[]);
    run(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    let reality = |jobs: &[(&str, &str)], args: &[&str]| {
        squeue(dir.path(), jobs);
        run(dir.path(), &[&["plan", "--reality", "tessera-plan-101.json"], args].concat())
    };
    let placed = |job: usize| {
        let text = fs::read_to_string(dir.path().join("tessera-plan-101.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let entry = &record["jobs"][job];
        let text = |key: &str| entry[key].as_str().unwrap().to_owned();
        format!("{}=mig:{}/{}@{}", text("node"), entry["gpu"], text("profile"), entry["start"])
    };
    let done =
        |k, begin: u32, end: u32| format!("COMPLETED {begin} {end} tessera: {}: as planned", placed(k));
    let first = [done(0, 1000, 1011), done(1, 1000, 1032)];
    let running = format!("RUNNING 1011 N/A tessera: {}: as planned", placed(2));
    let partly = reality(
        &[("101", &first[0]), ("102", &first[1]), ("103", &running), ("104", "PENDING N/A N/A (null)")],
        &[],
    );
    // slurmctld has forgotten the first two by now: the record knows them.
    let rest = ["COMPLETED 1012 1045 tessera: n1=mig:0/1g.5gb@6: elsewhere", "FAILED 1045 1050 tessera: x"];
    let at_the_end = reality(&[("103", rest[0]), ("104", rest[1])], &[]);
    assert_snapshot!(partly + "\n" + &at_the_end, @r"
    name     job  state      instance        begin  actual    end  actual  deviation
    lavamd   101  COMPLETED  n1:1 2g.10gb@4   0.17       0  31.47      11   -65.05 %
    hotspot  103  RUNNING    n1:1 1g.5gb@6    0.54      11  33.84       -          -
    train    102  COMPLETED  n1:1 4g.20gb@0   0.38       0  40.68      32   -21.34 %
    infer    104  PENDING    n1:1 2g.10gb@4  31.47       -  42.77       -          -

    batch.csv: planned 42.77 s; 2 of 4 jobs have ended
    exit 1
    name     job  state      instance               begin  actual    end  actual  deviation
    lavamd   101  COMPLETED  n1:1 2g.10gb@4          0.17       0  31.47      11   -65.05 %
    hotspot  103  COMPLETED  n1:1 1g.5gb@6 (moved)   0.54      12  33.84      45   +32.98 %
    train    102  COMPLETED  n1:1 4g.20gb@0          0.38       0  40.68      32   -21.34 %
    infer    104  FAILED     n1:1 2g.10gb@4         31.47      45  42.77      50   +16.90 %

    batch.csv: planned 42.77 s, actual 50 s: +16.90 %
    1 ran on another instance, because the planned one was taken
    exit 1
    ");
    assert_snapshot!(reality(&[], &["--json"]), @r#"
    {
      "deviation_percent": 16.90437222352115,
      "id": "batch.csv",
      "makespan": 42.77,
      "overhead": 0.3,
      "policy": "tessera",
      "real_makespan": 50.0,
      "real_overhead": null,
      "tasks": [
        {
          "begin": 0.17,
          "deviation_percent": -65.04607562758183,
          "end": 31.47,
          "gpu": 1,
          "job": 101,
          "moved": false,
          "node": "n1",
          "profile": "2g.10gb",
          "real_begin": 0.0,
          "real_end": 11.0,
          "start": 4,
          "state": "COMPLETED",
          "task": "lavamd"
        },
        {
          "begin": 0.38,
          "deviation_percent": -21.337266470009833,
          "end": 40.68,
          "gpu": 1,
          "job": 102,
          "moved": false,
          "node": "n1",
          "profile": "4g.20gb",
          "real_begin": 0.0,
          "real_end": 32.0,
          "start": 0,
          "state": "COMPLETED",
          "task": "train"
        },
        {
          "begin": 0.54,
          "deviation_percent": 32.978723404255305,
          "end": 33.84,
          "gpu": 1,
          "job": 103,
          "moved": true,
          "node": "n1",
          "profile": "1g.5gb",
          "real_begin": 12.0,
          "real_end": 45.0,
          "start": 6,
          "state": "COMPLETED",
          "task": "hotspot"
        },
        {
          "begin": 31.47,
          "deviation_percent": 16.90437222352115,
          "end": 42.77,
          "gpu": 1,
          "job": 104,
          "moved": null,
          "node": "n1",
          "profile": "2g.10gb",
          "real_begin": 45.0,
          "real_end": 50.0,
          "start": 4,
          "state": "FAILED",
          "task": "infer"
        }
      ]
    }
    exit 1
    "#);
}

#[test]
fn jobs_that_nobody_knows_any_more_are_named() {
    let dir = world("tessera gpu0-1=free", &[]);
    run(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    let said = run(dir.path(), &["plan", "--reality", "tessera-plan-101.json"]);
    assert!(said.ends_with("any more: 101 102 103 104\nexit 1"), "{said}");
}

#[test]
fn a_full_disk_takes_no_record() {
    let dir = world("tessera gpu0-1=free", &[]);
    run(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    let record = dir.path().join("tessera-plan-101.json");
    let before = fs::read_to_string(&record).unwrap();
    // No file may grow; without the signal the write fails as on a full disk.
    let full = |args: &[&str]| {
        let command = slurm::command(dir.path(), &[]);
        let program = command.get_program().to_owned();
        let limit = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
        let mut limited = std::process::Command::new("/bin/sh");
        limited.args(["-c", limit, "sh"]).arg(program).args(args).current_dir(dir.path()).env_clear();
        limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        slurm::said(&mut limited)
    };
    let said = full(&["plan", "--reality", "tessera-plan-101.json"]);
    assert!(said.ends_with("any more: 101 102 103 104\nexit 1"), "{said}");
    assert_eq!(fs::read_to_string(&record).unwrap(), before);
    assert!(!dir.path().join("tessera-plan-101.json.new").exists());
}

#[test]
fn a_record_stays_its_users() {
    let dir = world("tessera gpu0-1=free", &[]);
    run(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    let record = dir.path().join("tessera-plan-101.json");
    fs::set_permissions(&record, fs::Permissions::from_mode(0o640)).unwrap();
    // Only root can give it to somebody; others keep it.
    let _ = chown(&record, Some(12_345), None);
    let whose = || fs::metadata(&record).map(|m| (m.uid(), m.gid(), m.mode())).unwrap();
    let (before, old) = (whose(), fs::metadata(&record).unwrap().ino());
    run(dir.path(), &["plan", "--reality", "tessera-plan-101.json"]);
    assert_eq!(whose(), before);
    assert_ne!(fs::metadata(&record).unwrap().ino(), old, "it was written");
}
