//! What a person reads from `tessera plan --submit` and `--reality`, and what sbatch is given. Slurm's commands are stand-ins
//! that keep what they are asked; the end-to-end tests run the real ones.
#![allow(clippy::unwrap_used, reason = "tests")]

mod reality;
#[path = "../slurm/mod.rs"]
mod slurm;

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use tempfile::TempDir;

const TASKS: &str = "\
name,1g,2g,3g,4g,7g,command
lavamd,60.5s,31s,22s,17s,11s,./lavamd -n 4,5
train,,80s,55s,40s,24s,train.py --size {task}
hotspot,33s,20s,14s,12s,9s,hotspot 'a b'
infer,12s,11s,10s,10s,10s,infer
";

const SITE: &str = "\
[[nodes]]
names = \"n1\"
gpu = \"a100-40gb\"
count = 2
mig = \"dynamic\"

[[nodes]]
names = \"n2\"
gpu = \"h100-80gb-sxm\"
count = 1
mig = \"dynamic\"
";

/// A directory with the stand-ins; sbatch counts jobs from 101 and refuses what its file `refuse` names.
fn world(extra: &str, jobs: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("tessera.toml"), SITE).unwrap();
    fs::write(at("batch.csv"), TASKS).unwrap();
    fs::write(at("nodes"), format!("NodeName=n1 Arch=x\n   Extra={extra}\n\n")).unwrap();
    squeue(dir.path(), jobs);
    let program = |name: &str, text: &str| slurm::program(dir.path(), name, text);
    program("scontrol", "cat nodes");
    program("sinfo", "cat sinfo 2>/dev/null || { echo 'n1 idle gpu'; echo 'n2 idle gpu'; }");
    program("squeue", "case \"$*\" in *Comment:*) cat comments 2>/dev/null; true ;; *) cat squeue ;; esac");
    program("scancel", "echo scancel \"$@\" >> log");
    program("sacct", "echo 'You are not running a supported accounting_storage plugin' >&2; exit 1");
    program(
        "sbatch",
        "env | grep ^TESSERA_GPU_ >> log; for a; do printf '<%s> ' \"$a\"; done >> log; echo >> log\n\
         case \" $* \" in *--wrap=*) ;; *) sed 's/^/  stdin: /' >> log ;; esac\n\
         n=$(cat count 2>/dev/null || echo 101); echo $((n+1)) > count\n\
         if [ \"$n\" = \"$(cat refuse 2>/dev/null)\" ]; then echo 'sbatch: error: no' >&2; exit 1; fi\n\
         echo \"$n;cluster\"",
    );
    dir
}

/// Lines of squeue: (id, "state start end comment").
fn squeue(dir: &Path, jobs: &[(&str, &str)]) {
    let line = |(id, rest): &(&str, &str)| {
        let mut rest = rest.splitn(4, ' ');
        let mut next = || rest.next().unwrap();
        slurm::line(&[
            ("JobID", id),
            ("ArrayJobID", id),
            ("ArrayTaskID", "N/A"),
            ("HetJobID", "N/A"),
            ("UserName", "alice"),
            ("Partition", "gpu"),
            ("PriorityLong", "1"),
            ("Nice", "0"),
            ("State", next()),
            ("Reason", "None"),
            ("NumNodes", "1"),
            ("NodeList", "n1"),
            ("StartTime", next()),
            ("EndTime", next()),
            ("TimeLimit", "UNLIMITED"),
            ("admin_comment", next()),
        ]) + "\n"
    };
    fs::write(dir.join("squeue"), jobs.iter().map(line).collect::<String>()).unwrap();
}

fn run(dir: &Path, args: &[&str]) -> String {
    blot(&slurm::tessera(dir, args))
}

/// Without the time of day that a plan's note has.
fn blot(text: &str) -> String {
    let word = |word: &str| if word.starts_with("at=1") { "at=SECONDS".to_owned() } else { word.to_owned() };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn log(dir: &Path) -> String {
    blot(&fs::read_to_string(dir.join("log")).unwrap_or_default())
}

const SUBMIT: [&str; 5] = ["plan", "--tasks", "batch.csv", "--on", "n1:1"];

#[test]
fn a_plan_becomes_jobs_that_follow_one_another() {
    let dir = world("tessera gpu0-1=free", &[]);
    let said =
        run(dir.path(), &[&SUBMIT[..], &["--submit", "--", "--partition=gpu", "--comment={task}"]].concat());
    assert_snapshot!(said + "\n" + &log(dir.path()), @r"
    batch.csv: 4 jobs on 1 x a100-40gb, policy tessera
    42.770 s with 0.3 s per job for Slurm; at most 0.00 % longer than the best

    name     job  instance        after   begin     end
    lavamd   101  n1:1 2g.10gb@4          0.170  31.470
    train    102  n1:1 4g.20gb@0          0.380  40.680
    hotspot  103  n1:1 1g.5gb@6           0.540  33.840
    infer    104  n1:1 2g.10gb@4  101    31.470  42.770

    submitted 4 jobs; `tessera plan reality tessera-plan-101.json` compares them with the plan
    exit 0
    <--parsable> <--job-name=lavamd> <--nodelist=n1> <--gpu-isolation=mig:2g.10gb> <--gpu-place=1@4> <--partition=gpu> <--comment=lavamd> <--wrap=./lavamd -n 4,5> 
    <--parsable> <--job-name=train> <--nodelist=n1> <--gpu-isolation=mig:4g.20gb> <--gpu-place=1@0> <--partition=gpu> <--comment=train> <--wrap=train.py --size {task}> 
    <--parsable> <--job-name=hotspot> <--nodelist=n1> <--gpu-isolation=mig:1g.5gb> <--gpu-place=1@6> <--partition=gpu> <--comment=hotspot> <--wrap=hotspot 'a b'> 
    <--parsable> <--job-name=infer> <--nodelist=n1> <--gpu-isolation=mig:2g.10gb> <--gpu-place=1@4> <--dependency=afterany:101> <--partition=gpu> <--comment=infer> <--wrap=infer>
    ");
    let record = fs::read_to_string(dir.path().join("tessera-plan-101.json")).unwrap();
    assert!(record.contains("\"job\": 104") && record.contains("\"version\": 1"), "{record}");
}

#[test]
fn what_runs_now_is_waited_for() {
    // Job 7 ends in 600 s by its limit, job 8 has none: its half of the GPU stays out of the plan.
    let end = (std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 600)
        .to_string();
    let seven = format!("RUNNING 1 {end} tessera: n1=mig:1/3g.20gb@0: why");
    let jobs = [("7", seven.as_str()), ("8", "RUNNING 1 N/A tessera: n1=mig:1/3g.20gb@4: why")];
    let dir = world("tessera gpu0=free gpu1=mig[3g.20gb@0:job7,3g.20gb@4:job8]", &jobs);
    let said = run(dir.path(), &[&SUBMIT[..], &["--submit", "--dry-run"]].concat());
    let commands: Vec<&str> = said.lines().filter(|l| l.starts_with("JOB")).collect();
    assert_eq!(commands.len(), 4, "{said}");
    for command in &commands {
        assert!(command.contains("--dependency=afterany:"), "{command}");
        assert!(!command.contains("@4") && !command.contains("@5") && !command.contains("@6"), "{command}");
    }
    assert!(commands[0].contains("--dependency=afterany:7 "), "{}", commands[0]);
    assert_eq!(log(dir.path()), "", "a dry run submits nothing");
}

#[test]
fn a_refused_job_takes_the_others_back() {
    let dir = world("tessera gpu0-1=free", &[]);
    fs::write(dir.path().join("refuse"), "103").unwrap();
    let said = run(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    let last = log(dir.path()).lines().last().unwrap().to_owned();
    assert_snapshot!(said + "\n" + &last, @r"
    stderr: tessera: job hotspot: sbatch: error: no
    stderr: hint: the jobs submitted before it were cancelled: 101 102
    exit 1
    scancel 101 102
    ");
    assert!(!dir.path().join("tessera-plan-101.json").exists());
}

#[test]
fn an_earlier_record_outlives_a_submission_that_submits_nothing() {
    let dir = world("tessera gpu0-1=free", &[]);
    let record = dir.path().join("plan.json");
    fs::write(&record, "an earlier plan's").unwrap();
    fs::write(dir.path().join("refuse"), "101").unwrap();
    let said = run(dir.path(), &[&SUBMIT[..], &["--submit", "--record", "plan.json"]].concat());
    assert!(said.contains("hint: nothing was submitted"), "{said}");
    assert_eq!(fs::read_to_string(&record).unwrap(), "an earlier plan's");
}

#[test]
fn what_the_user_sets_for_all_jobs_does_not_undo_the_plan() {
    let dir = world("tessera gpu0-1=free", &[]);
    let mut command = slurm::command(dir.path(), &[&SUBMIT[..], &["--submit"]].concat());
    command
        .env("TESSERA_GPU_INSTANCES", "2")
        .env("TESSERA_GPU_TIMES", "1g:5")
        .env("TESSERA_GPU_WAIT", "none");
    let said = slurm::said(&mut command);
    assert!(said.ends_with("exit 0"), "{said}");
    let given = log(dir.path());
    let set: Vec<&str> = given.lines().filter(|line| line.starts_with("TESSERA_")).collect();
    assert_eq!(set, ["TESSERA_GPU_WAIT=none"; 4], "{given}");
}

#[test]
fn a_script_is_run_for_every_task() {
    let dir = world("tessera gpu0-1=free", &[]);
    fs::write(dir.path().join("batch.csv"), "name,1g,7g\na.1,60s,20s\nb,30s,10s\n").unwrap();
    fs::write(dir.path().join("run.sh"), "#!/bin/sh\n./model {task}\n").unwrap();
    let args = ["--submit", "--script", "run.sh", "--time-limit", "2", "--policy", "fixpart-best"];
    run(dir.path(), &[&SUBMIT[..], &args].concat());
    assert_snapshot!(log(dir.path()), @r"
    <--parsable> <--job-name=a.1> <--nodelist=n1> <--gpu-isolation=mig:7g.40gb> <--gpu-place=1@0> <--comment=tessera-plan v1 plan=batch.csv at=SECONDS policy=fixpart-best overhead=0.3 task=a.1 on=n1:1/7g.40gb@0 begin=0 end=20.3> <--time=1> 
      stdin: #!/bin/sh
      stdin: ./model a.1
    <--parsable> <--job-name=b> <--nodelist=n1> <--gpu-isolation=mig:7g.40gb> <--gpu-place=1@0> <--comment=tessera-plan v1 plan=batch.csv at=SECONDS policy=fixpart-best overhead=0.3 task=b on=n1:1/7g.40gb@0 begin=20.3 end=30.6> <--dependency=afterany:101> <--time=1> 
      stdin: #!/bin/sh
      stdin: ./model b
    ");
}

#[test]
fn bad_submissions_are_refused_before_anything_is_submitted() {
    let dir = world("tessera gpu0=free gpu1=mig[7g.40gb@0:job8]", &[("8", "RUNNING 1 N/A tessera: x")]);
    let try_with = |tasks: &str, args: &[&str]| {
        fs::write(dir.path().join("batch.csv"), tasks).unwrap();
        run(dir.path(), &[&["plan", "--tasks", "batch.csv", "--submit"], args].concat())
            .replace("\nexit 1", "")
    };
    let plain = "name,1g,7g\na b,60s,20s\n";
    fs::write(dir.path().join("run.sh"), "#!/bin/sh\n./model {task}\n").unwrap();
    let all = [
        try_with(plain, &["--on", "n1:0"]),
        try_with(plain, &["--on", "n1:0", "--script", "run.sh"]),
        try_with("name,1g,7g,command\na,60s,20s,x\n", &["--on", "n1:0", "--script", "run.sh"]),
        try_with("name,1g,command,7g\na,60,x,20\n", &["--on", "n1:0"]),
        try_with(plain, &["--on", "n1:2"]),
        try_with(plain, &["--on", "n1:a"]),
        try_with(plain, &["--on", "n3"]),
        try_with(plain, &["--on", "n1:0", "--on", "n2"]),
        try_with(plain, &["--on", "n1:0,0"]),
        try_with("name,1g,7g,command\na,60s,20s,x\n", &["--on", "n1:1"]),
        try_with("name,1g,7g,command\na,60s,20s,x\n", &["--on", "n1:1", "--policy", "fixpart:7"]),
        try_with("name,1g,7g,command\n", &["--on", "n1:0"]),
        try_with("name,1g,7g,command\na,60s,20s,x\n", &["--on", "n1:0", "--", "--mem=1G", "--array=1-3"]),
        try_with("name,1g,7g,command\na\u{7},60s,20s,x\n", &["--on", "n1:0"]),
        try_with("name,1g,7g,command\na,60s,20s,x\n", &["--on", "n1:0", "--record", "nowhere/plan.json"]),
        run(dir.path(), &["plan", "--tasks", "batch.csv", "--submit"]),
        run(dir.path(), &["plan", "--reality", "batch.csv"]),
        run(dir.path(), &["plan", "--reality", "nothing"]),
        run(dir.path(), &["plan", "--reality", "8,900-905"]),
    ];
    assert_snapshot!(all.join("\n"), @r#"
    stderr: tessera: job a b: it has no command
    stderr: hint: add a last column command to the file of jobs, or give --script FILE
    stderr: tessera: job "a b": this name cannot replace {task}
    stderr: hint: use letters, digits, dots, underscores and hyphens
    stderr: tessera: job a: it has a command, and --script is given
    stderr: tessera: batch.csv:1: field command: not the last column
    stderr: hint: a command may contain commas, so it goes to the end of its line
    stderr: tessera: --on n1:2: not a list of n1's GPUs such as 0-3,5
    stderr: hint: n1 has GPUs 0 to 1
    stderr: tessera: --on n1:a: not a list of n1's GPUs such as 0-3,5
    stderr: hint: n1 has GPUs 0 to 1
    stderr: tessera: node n3 is not in tessera.toml
    stderr: hint: there are n1, n2
    stderr: tessera: --on: a100-40gb and h100-80gb-sxm in one plan
    stderr: hint: a plan is for GPUs of one model: make a plan for each
    stderr: tessera: --on: GPU 0 of n1 is named twice
    stderr: tessera: batch.csv: job a fits nowhere
    stderr: hint: jobs without a time limit have the GPUs: name others, or wait
    stderr: tessera: batch.csv: policy fixpart:7 plans on empty GPUs only
    stderr: hint: jobs have GPUs of --on: name others, or wait
    stderr: tessera: batch.csv:1: no job after the header
    stderr: tessera: --array=1-3 after --: the plan decides this
    stderr: hint: the plan sets each job's place and order; other options of sbatch may follow --
    stderr: tessera: batch.csv:2: field name: "a\u{7}" has control characters
    stderr: tessera: cannot write nowhere/plan.json: No such file or directory (os error 2)
    stderr: hint: the jobs submitted before it were cancelled: 101
    stderr: error: the following required arguments were not provided:
    stderr:   --on <NODE[:GPUS]>
    stderr: 
    stderr: Usage: tessera plan <COMMAND>
    stderr:        tessera plan [OPTIONS] --tasks <FILE>
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    stderr: tessera: batch.csv: not a submitted plan: expected ident at line 1 column 2
    stderr: hint: `tessera plan reality` reads what `tessera plan submit` wrote
    exit 1
    stderr: tessera: nothing: no such file, and no plan of that name
    stderr: hint: give the file that `tessera plan submit` wrote, or jobs such as 12,15-20
    exit 1
    stderr: tessera: Slurm knows no plan for these jobs
    stderr: hint: Slurm forgets ended jobs; give the file that `tessera plan submit` wrote
    exit 1
    "#);
    let log = log(dir.path());
    assert!(
        log.lines().count() == 2 && log.ends_with("scancel 101\n"),
        "only where the record cannot be written: {log}"
    );
    fs::write(dir.path().join("sinfo"), "n1 drained gpu\n").unwrap();
    let drained = try_with("name,1g,7g,command\na,60s,20s,x\n", &["--on", "n1:0"]);
    assert_snapshot!(drained, @r"
    stderr: tessera: --on: n1 takes no jobs now
    stderr: hint: `sinfo` says why; a plan starts at once, so its nodes must take jobs
    ");
}

#[test]
fn gpus_that_get_no_jobs_are_refused_by_name() {
    let on = |extra: &str| run(world(extra, &[]).path(), &[&SUBMIT[..], &["--submit"]].concat());
    let all = [on("tessera gpu0-1=free sick=1:7:xid_79"), on("tessera gpu0-1=free node=silent")].join("\n");
    assert_snapshot!(all, @r"
    stderr: tessera: --on: GPU 1 of n1 is unhealthy: xid 79
    stderr: hint: it gets no new jobs until the node's health check passes: name other GPUs
    exit 1
    stderr: tessera: --on: Tessera places no jobs on n1
    stderr: hint: `tessera doctor` on that node says where Slurm and tessera.toml differ
    exit 1
    ");
    let other = on("tessera gpu0-1=free sick=0:7:xid_79");
    assert!(other.ends_with("exit 0"), "{other}");
}

#[test]
fn names_that_would_change_the_terminal_are_refused() {
    let dir = world("tessera gpu0-1=free", &[]);
    let batch = "{\"id\":\"a\\u001b[31m\",\"gpu\":\"a100-40gb\",\"t\":[[60,35,30,28,20]]}\n";
    fs::write(dir.path().join("b.jsonl"), batch).unwrap();
    run(dir.path(), &[&SUBMIT[..], &["--submit", "--record", "plan.json"]].concat());
    let path = dir.path().join("plan.json");
    let record = fs::read_to_string(&path).unwrap().replace("\"batch.csv\"", "\"a\\u001b[31m\"");
    fs::write(&path, record).unwrap();
    let all =
        [run(dir.path(), &["plan", "show", "b.jsonl"]), run(dir.path(), &["plan", "reality", "plan.json"])];
    assert_snapshot!(all.join("\n"), @r"
    stderr: tessera: b.jsonl:1: field id: has control characters
    exit 1
    stderr: tessera: plan.json: a text in it has control characters
    stderr: hint: `tessera plan reality` reads what `tessera plan submit` wrote
    exit 1
    ");
}

#[test]
fn commands_and_flags_do_the_same() {
    let submitted = |args: &[&str]| {
        let dir = world("tessera gpu0-1=free", &[]);
        let said = run(dir.path(), args);
        let record = blot(&fs::read_to_string(dir.path().join("plan.json")).unwrap_or_default());
        let record: Vec<&str> = record.lines().filter(|l| !l.contains("\"submitted\"")).collect();
        (said, log(dir.path()), record.join("\n"))
    };
    let both = |command: &str, flags: &str| {
        let words = |line: &str| submitted(&line.split(' ').collect::<Vec<_>>());
        let (new, old) = (words(command), words(flags));
        assert_eq!(new, old, "{command}");
        new
    };
    let (said, log, record) = both(
        "plan submit batch.csv --on n1:1 --record plan.json --time-limit 2 -- --partition=gpu",
        "plan --tasks batch.csv --on n1:1 --submit --record plan.json --time-limit 2 -- --partition=gpu",
    );
    assert!(said.ends_with("exit 0") && log.contains("<--partition=gpu>") && record.contains("lavamd"));
    let dry = both(
        "plan submit batch.csv --on n1 --on n2 --dry-run",
        "plan --tasks batch.csv --on n1 --on n2 --submit --dry-run",
    );
    assert!(dry.0.contains("exit 1"), "two models: {}", dry.0);
    both(
        "plan submit batch.csv --on n1 --dry-run --policy miso",
        "plan --tasks batch.csv --on n1 --submit --dry-run --policy miso",
    );
    both("plan reality nothing", "plan --reality nothing");
    both("plan reality --json 8,900-905", "plan --json --reality 8,900-905");
}
