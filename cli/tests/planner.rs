//! What a person reads from `tessera planner` and `tessera times`, and what scontrol is told. Slurm's commands are stand-ins.
#![allow(clippy::unwrap_used, reason = "tests")]

mod slurm;

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use tempfile::TempDir;

const SITE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";
/// What sacct prints of completed jobs, alice's and one of bob's.
fn past() -> String {
    let rows = [
        ("alice", "COMPLETED", 60, "tessera: n1=mig:0/1g.5gb@4 job-profile=bert: why"),
        ("alice", "COMPLETED", 64, "tessera: n1=mig:0/1g.5gb@5 job-profile=bert: why"),
        ("alice", "COMPLETED", 61, "tessera: n1=mig:0/1g.5gb@6 job-profile=bert: why"),
        ("alice", "COMPLETED", 9, "tessera: n1=mig:0/7g.40gb@0 job-profile=bert planned=1-9: as planned"),
        ("alice", "COMPLETED", 30, "tessera: n1=mig:0/2g.10gb@0 job-profile=gpt: why"),
        ("alice", "FAILED", 1, "tessera: n1=mig:0/2g.10gb@0 job-profile=gpt: why"),
        ("bob", "COMPLETED", 1, "tessera: n1=mig:0/1g.5gb@0 job-profile=bert: why"),
    ];
    let line = |(id, (user, state, seconds, comment)): (usize, &(&str, &str, u32, &str))| {
        format!("{id:>14} {user:>64} {:>64} {state:>20} {seconds:>12} {comment:>512} \n", "lab")
    };
    rows.iter().enumerate().map(line).collect()
}

/// A line of squeue: id, priority, nice, state, reason, AdminComment.
fn job(id: u32, priority: u32, nice: u32, state: &str, reason: &str, comment: &str) -> String {
    let id = id.to_string();
    slurm::line(&[
        ("JobID", &id),
        ("ArrayJobID", &id),
        ("ArrayTaskID", "N/A"),
        ("HetJobID", "N/A"),
        ("UserName", "alice"),
        ("Partition", "gpu"),
        ("PriorityLong", &priority.to_string()),
        ("Nice", &nice.to_string()),
        ("State", state),
        ("Reason", reason),
        ("NumNodes", "1"),
        ("StartTime", "N/A"),
        ("EndTime", "N/A"),
        ("TimeLimit", "UNLIMITED"),
        ("admin_comment", comment),
    ]) + "\n"
}

fn world(jobs: &str, priority: &str, update: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("tessera.toml"), SITE).unwrap();
    fs::write(at("past"), past()).unwrap();
    fs::write(at("jobs"), jobs).unwrap();
    let config = format!("StateSaveLocation = {}\nPriorityType = {priority}\n", dir.path().display());
    fs::write(at("config"), config).unwrap();
    let nodes =
        "NodeName=n1 A=x\n   Extra=tessera gpu0=free\n\nNodeName=n2 A=x\n   Extra=tessera gpu0=free\n\n";
    fs::write(at("nodes"), nodes).unwrap();
    let program = |name: &str, text: &str| slurm::program(dir.path(), name, text);
    program("squeue", "cat jobs");
    program("sinfo", "echo 'n1 idle gpu'; echo 'n2 drained gpu'");
    program(
        "sacct",
        "[ -f past ] || { echo 'sacct: error: Slurm accounting storage is disabled' >&2; exit 1; }; cat past",
    );
    let update = format!("update) shift; printf '<%s> ' \"$@\" >> log; echo >> log; {update} ;;");
    program(
        "scontrol",
        &format!(
            "case $1-$2 in show-config) cat config ;; -a-show) cat nodes ;; -o-show) cat reservations 2>/dev/null ;; esac\n\
             case $1 in {update} esac"
        ),
    );
    dir
}

/// Runs `tessera`; instants and seconds since 1970 are blotted out.
fn run(dir: &Path, args: &[&str]) -> String {
    blot(&slurm::tessera(dir, args), dir)
}

fn blot(text: &str, dir: &Path) -> String {
    let word = |word: &str| {
        let time = word.len() >= 20 && word.starts_with("20") && word.contains('T');
        let (key, digits) = word.split_once('=').unwrap_or(("", word));
        let number = digits.trim_end_matches([';', '>']);
        if time {
            word.replacen(&word[..20], "TIME", 1)
        } else if number.len() == 10 && number.bytes().all(|b| b.is_ascii_digit()) {
            format!("{key}=SECONDS{}", &digits[10..])
        } else {
            word.to_owned()
        }
    };
    let line = |l: &str| l.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let text: Vec<String> = text.lines().map(line).collect();
    text.join("\n").replace(&dir.display().to_string(), "DIR")
}

fn log(dir: &Path) -> String {
    blot(&fs::read_to_string(dir.join("log")).unwrap_or_default(), dir)
}

fn asks(text: &str) -> String {
    format!("tessera: asks v1 iso=mig {text}")
}

/// Jobs of all kinds: three to plan, one of an unknown job profile, one held.
fn jobs() -> String {
    [
        job(11, 500, 0, "PENDING", "Resources", &asks("times=1g:90,7g:40")),
        job(12, 400, 0, "PENDING", "Priority", &asks("job-profile=bert")),
        job(13, 300, 0, "PENDING", "Priority", &asks("times=1g:30,2g:16,3g:12,7g:9")),
        job(14, 200, 0, "PENDING", "Priority", &asks("job-profile=nobody")),
        job(15, 0, 0, "PENDING", "JobHeldUser", &asks("times=1g:5")),
        job(16, 100, 0, "RUNNING", "None", "tessera: n2=mig:0/1g.5gb@0: why"),
    ]
    .concat()
}

#[test]
fn a_round_sets_size_and_place() {
    let dir = world(&jobs(), "priority/basic", "exit 0");
    let dry = run(dir.path(), &["planner", "--once", "--dry-run"]);
    assert_eq!(log(dir.path()), "", "a dry run sets nothing");
    let said = run(dir.path(), &["planner", "--once"]);
    assert_eq!(said, dry);
    assert_snapshot!(said + "\n" + &log(dir.path()), @r"
    job 11 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 1g, 7g)
    job 12 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of job profile bert)
    job 13 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 1g, 2g, 3g, 7g)
    job 14: not planned: no past job of profile nobody is known yet
    exit 0
    <JobId=11> <AdminComment=tessera: plan v1 size=7g.40gb place=n1:0@0 begin=SECONDS end=SECONDS until=SECONDS; asks v1 iso=mig times=1g:90,7g:40> 
    <JobId=12> <AdminComment=tessera: plan v1 size=7g.40gb place=n1:0@0 begin=SECONDS end=SECONDS until=SECONDS; asks v1 iso=mig job-profile=bert> 
    <JobId=13> <AdminComment=tessera: plan v1 size=7g.40gb place=n1:0@0 begin=SECONDS end=SECONDS until=SECONDS; asks v1 iso=mig times=1g:30,2g:16,3g:12,7g:9>
    ");
}

#[test]
fn one_users_jobs_are_ordered_by_nice() {
    let wait = |id, priority, nice, times| job(id, priority, nice, "PENDING", "Priority", &asks(times));
    let jobs = [
        wait(21, 400, 0, "times=1g:50,2g:30,7g:9"),
        wait(22, 300, 0, "times=1g:70,7g:12"),
        wait(23, 200, 5, "times=1g:100,7g:20"),
        wait(24, 100, 0, "times=1g:9,2g:8"),
    ];
    let dir = world(&jobs.concat(), "priority/multifactor", "exit 0");
    let said = run(dir.path(), &["planner", "--once"]);
    let nices =
        log(dir.path()).lines().filter(|l| l.contains("Nice")).map(|l| format!("{l}\n")).collect::<String>();
    assert_snapshot!(said + "\n" + &nices, @r"
    job 24 of alice: 2g.10gb at n1:0@0, TIME to TIME (no plan before; of 1g, 2g)
    job 23 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 1g, 7g)
    job 22 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 1g, 7g)
    job 21 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 1g, 2g, 7g)
    job 23: nice 106, to run in the planned order
    job 22: nice 202, to run in the planned order
    job 21: nice 303, to run in the planned order
    exit 0
    <JobId=23> <Nice=106> 
    <JobId=22> <Nice=202> 
    <JobId=21> <Nice=303>
    ");
    // Somebody else's job between them: the order stays Slurm's.
    let other = job(30, 150, 0, "PENDING", "Priority", "").replace("alice", "bobby");
    let dir = world(&(jobs.concat() + &other), "priority/multifactor", "exit 0");
    run(dir.path(), &["planner", "--once"]);
    assert!(log(dir.path()).contains("AdminComment") && !log(dir.path()).contains("Nice"));
}

/// A planner that is killed at a change finds the Nice that is there among its notes, whether slurmctld has made the change or not.
#[test]
fn nice_before_and_after_a_change_is_noted_until_it_is_made() {
    let wait = |id, priority, nice, times| job(id, priority, nice, "PENDING", "Priority", &asks(times));
    let jobs = [wait(23, 200, 7, "times=1g:100,7g:20"), wait(24, 100, 0, "times=1g:9,2g:8")].concat();
    let dir = world(&jobs, "priority/multifactor", "cat tessera-planner.lock > seen; exit 0");
    run(dir.path(), &["planner", "--once"]);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(
        (read("seen").as_str(), read("tessera-planner.lock").as_str()),
        ("23 7 108 7\n", "23 7 108 7\n"),
        "the next round sees what came of it"
    );
}

#[test]
fn nice_that_cannot_be_noted_is_not_given() {
    let wait = |id, priority, times| job(id, priority, 0, "PENDING", "Priority", &asks(times));
    let jobs = [wait(23, 200, "times=1g:100,7g:20"), wait(24, 100, "times=1g:9,2g:8")].concat();
    let dir = world(&jobs, "priority/multifactor", "exit 0");
    // No file can grow, as on a full disk.
    let once = slurm::command(dir.path(), &["planner", "--once"]);
    let mut limited = std::process::Command::new("sh");
    let line = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
    limited.args(["-c", line]).arg(once.get_program()).args(once.get_args()).current_dir(dir.path());
    limited.env_clear().envs(once.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = blot(&slurm::said(&mut limited), dir.path());
    assert!(said.contains("cannot be recorded: File too large"), "{said}");
    assert!(!said.contains("to run in the planned order") && said.ends_with("exit 1"), "{said}");
}

#[test]
fn a_planner_that_does_not_know_what_nice_was_given_gives_none() {
    let dir = world(&jobs(), "priority/multifactor", "exit 0");
    // It opens, and no process has memory at address 0.
    let said = run(dir.path(), &["planner", "--once", "--lock", "/proc/self/mem"]);
    assert_snapshot!(said, @r"
    stderr: tessera: cannot read /proc/self/mem, which records the Nice that jobs were given: Input/output error (os error 5)
    stderr: hint: --lock names another file; the Nice that jobs have now then counts as set by their users
    exit 1
    ");
    assert_eq!(log(dir.path()), "");
}

#[test]
fn nice_that_an_earlier_planner_gave_is_taken_back_and_other_nice_is_not() {
    // Given by a planner that was killed: 31 as it says, 32 changed by somebody since. 33 and 34 are not to be planned any more.
    let wait = |id, priority, nice, times| job(id, priority, nice, "PENDING", "Priority", &asks(times));
    let jobs = [
        wait(31, 200, 303, "times=7g:9"),
        wait(32, 100, 1000, "times=7g:9"),
        job(33, 50, 11, "PENDING", "Dependency", &asks("times=1g:5")),
        job(34, 0, 11, "PENDING", "JobHeldUser", &asks("times=1g:5")),
        job(35, 50, 11, "RUNNING", "None", "tessera: n2=mig:0/1g.5gb@0: why"),
        job(36, 50, 11, "COMPLETED", "None", "tessera: n2=mig:0/1g.5gb@0: why"),
    ];
    let dir = world(&jobs.concat(), "priority/multifactor", "exit 0");
    let lock = dir.path().join("tessera-planner.lock");
    let notes = "31 3 303\n32 0 4\n33 1 11\n34 0 11\n35 0 11\n36 0 11\n40 0 5\n";
    fs::write(&lock, notes).unwrap();
    let dry = run(dir.path(), &["planner", "--once", "--dry-run"]);
    assert_eq!(fs::read_to_string(&lock).unwrap(), notes);
    let said = run(dir.path(), &["planner", "--once"]);
    assert_eq!(said, dry);
    assert_snapshot!(said, @r"
    job 31 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 7g)
    job 32 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 7g)
    job 31: nice 3, its own value again
    job 33: nice 1, its own value again
    exit 0
    ");
    assert_eq!(
        fs::read_to_string(&lock).unwrap(),
        "31 3 3 303\n32 0 4\n33 1 1 11\n34 0 11\n35 0 11\n",
        "held, or requeued later: it would have the Nice as its own"
    );
}

#[test]
fn what_slurmctld_refuses_is_said() {
    let one = job(11, 500, 0, "PENDING", "Resources", &asks("times=1g:90,7g:40"));
    let dir =
        world(&one, "priority/basic", "echo 'Invalid generic resource (gres) specification' >&2; exit 1");
    assert_snapshot!(run(dir.path(), &["planner", "--once"]), @r"
    job 11: slurmctld refuses the plan: Invalid generic resource (gres) specification
    exit 1
    ");
}

#[test]
fn a_plan_that_stands_is_not_set_again() {
    let until = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 600;
    let plan = format!(
        "tessera: plan v1 size=7g.40gb place=n1:0@0 until={until}; asks v1 iso=mig times=1g:90,7g:40"
    );
    let dir = world(&job(11, 500, 0, "PENDING", "Resources", &plan), "priority/basic", "exit 0");
    assert_eq!(run(dir.path(), &["planner", "--once"]), "exit 0");
    assert_eq!(log(dir.path()), "");
    // What it predicted is true no more: the GPU is free now.
    let late = plan.replace(" until", &format!(" begin={} end={} until", until - 100, until));
    let dir = world(&job(11, 500, 0, "PENDING", "Resources", &late), "priority/basic", "exit 0");
    assert_eq!(run(dir.path(), &["planner", "--once"]), "exit 0");
    assert_eq!(log(dir.path()).lines().count(), 1);
    // It would count for longer than any that this planner makes.
    let long = plan.replace(&until.to_string(), &(until + 86_400).to_string());
    let dir = world(&job(11, 500, 0, "PENDING", "Resources", &long), "priority/basic", "exit 0");
    assert_eq!(run(dir.path(), &["planner", "--once"]), "exit 0");
    assert_eq!(log(dir.path()).lines().count(), 1);
}

/// Jobs whose limit was raised from 10 to 36 minutes, on a site that pairs none any more.
#[test]
fn a_raised_time_limit_goes_back_when_its_job_is_not_paired_any_more() {
    let until = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 500;
    let plan =
        format!("plan v1 size=3c.7g.40gb place=n1:0@0 cap=150 with=18 speed=40 low=27 until={until}; ");
    let got = "n1=mig:0/7g.40gb@0/3c@0/mem=9537/cap=150 job-profile=bert low=27: why; ";
    let limited = |id, state, reason, says: &str, limit| {
        let comment = format!("tessera: limit 10>36; {says}asks v1 iso=mig mem=9537 job-profile=bert");
        job(id, 500, 0, state, reason, &comment).replace("UNLIMITED", &format!("{limit:<9}"))
    };
    let jobs = [
        limited(11, "PENDING", "Priority", &plan, "36:00"),
        limited(12, "PENDING", "JobHeldUser", &plan, "36:00"),
        limited(13, "PENDING", "BeginTime", got, "36:00"),
        limited(14, "PENDING", "Dependency", "", "36:00"),
        limited(15, "PENDING", "Dependency", "", "2:00:00"),
        limited(16, "RUNNING", "None", got, "36:00"),
        limited(17, "REQUEUE_HOLD", "job requeued in held state", got, "36:00"),
        limited(18, "PENDING", "QOSMaxJobsPerUserLimit", &plan, "36:00"),
    ];
    let dir = world(&jobs.concat(), "priority/basic", "exit 0");
    let said = run(dir.path(), &["planner", "--once"]);
    assert_snapshot!(said + "\n" + &log(dir.path()), @r"
    job 18: a limit keeps it waiting (QOSMaxJobsPerUserLimit): its plan is withdrawn; time limit 10 min again
    job 11 of alice: 7g.40gb at n1:0@0, TIME to TIME; time limit 10 min (3c.7g.40gb before; of job profile bert)
    job 12: not planned in this round: its plan is withdrawn; time limit 10 min again
    job 13: not planned in this round: time limit 10 min again
    job 14: not planned in this round: time limit 10 min again
    job 15: not planned in this round: its time limit counts as its own
    job 17: not planned in this round: time limit 10 min again
    exit 0
    <JobId=18> <AdminComment=tessera: asks v1 iso=mig mem=9537 job-profile=bert> <TimeLimit=10> 
    <JobId=11> <AdminComment=tessera: plan v1 size=7g.40gb place=n1:0@0 begin=SECONDS end=SECONDS until=SECONDS; asks v1 iso=mig mem=9537 job-profile=bert> <TimeLimit=10> 
    <JobId=12> <AdminComment=tessera: asks v1 iso=mig mem=9537 job-profile=bert> <TimeLimit=10> 
    <JobId=13> <AdminComment=tessera: n1=mig:0/7g.40gb@0/3c@0/mem=9537/cap=150 job-profile=bert low=27: why; asks v1 iso=mig mem=9537 job-profile=bert> <TimeLimit=10> 
    <JobId=14> <AdminComment=tessera: asks v1 iso=mig mem=9537 job-profile=bert> <TimeLimit=10> 
    <JobId=15> <AdminComment=tessera: asks v1 iso=mig mem=9537 job-profile=bert> 
    <JobId=17> <AdminComment=tessera: n1=mig:0/7g.40gb@0/3c@0/mem=9537/cap=150 job-profile=bert low=27: why; asks v1 iso=mig mem=9537 job-profile=bert> <TimeLimit=10>
    ");
    let dir = world(&jobs[1..].concat(), "priority/basic", "exit 0");
    run(dir.path(), &["planner", "--once"]);
    assert_eq!(log(dir.path()).matches("<TimeLimit=10>").count(), 5, "with nothing to plan, too");
}

#[test]
fn unhealthy_gpus_and_nodes_without_jobs_of_tesseras_are_not_planned() {
    let one = job(11, 500, 0, "PENDING", "Resources", &asks("times=1g:90,7g:40"));
    let planned = |word: &str, reservations: &str| {
        let dir = world(&one, "priority/basic", "exit 0");
        fs::write(dir.path().join("nodes"), format!("NodeName=n1 A=x\n   Extra=tessera gpu0=free{word}\n\n"))
            .unwrap();
        fs::write(dir.path().join("reservations"), reservations).unwrap();
        run(dir.path(), &["planner", "--once"])
    };
    let none = "job 11: not planned: no GPU of its partition offers one of its sizes\nexit 0";
    for word in [" sick=0:7:xid_79", " node=silent", " node=other:5:00000000000000ab"] {
        assert_eq!(planned(word, ""), none, "{word}");
    }
    let reserved = |start| {
        format!("ReservationName=maint StartTime={start} EndTime=9000000000 Nodes=n1 Flags=SPEC_NODES\n")
    };
    assert_eq!(planned("", &reserved(1000)), none);
    for (word, reservations) in [(" node=same:5:00000000000000ab", ""), ("", &reserved(8_000_000_000_u64))] {
        assert!(planned(word, reservations).starts_with("job 11 of alice: 7g.40gb at n1:0@0"), "{word}");
    }
}

#[test]
fn a_plan_that_keeps_its_job_waiting_is_taken_back() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (begin, until) = (now - 100, now + 500);
    let plan = format!(
        "tessera: plan v1 size=7g.40gb place=n1:0@0 begin={begin} end={now} until={until}; asks v1 iso=mig times=1g:90,7g:40"
    );
    let dir = world(&job(11, 500, 0, "PENDING", "Resources", &plan), "priority/basic", "exit 0");
    assert_snapshot!(run(dir.path(), &["planner", "--once"]) + "\n" + &log(dir.path()), @r"
    job 11: did not start on 7g.40gb at n1:0@0, although it is free: its plan is withdrawn
    exit 0
    <JobId=11> <AdminComment=tessera: asks v1 iso=mig times=1g:90,7g:40>
    ");
}

#[test]
fn a_node_whose_layout_cannot_be_read_is_left_out() {
    let one = job(11, 500, 0, "PENDING", "Resources", &asks("times=1g:90,7g:40"));
    let dir = world(&one, "priority/basic", "exit 0");
    let nodes =
        "NodeName=n1 A=x\n   Extra=tessera gpu0=free\n\nNodeName=n2 A=x\n   Extra=tessera nonsense\n\n";
    fs::write(dir.path().join("nodes"), nodes).unwrap();
    slurm::program(dir.path(), "sinfo", "echo 'n1 idle gpu'; echo 'n2 idle gpu'");
    assert_snapshot!(run(dir.path(), &["planner", "--once"]), @r"
    node n2 is left out: cannot read its layout: something unexpected at byte 7 of the layout
    job 11 of alice: 7g.40gb at n1:0@0, TIME to TIME (no plan before; of 1g, 7g)
    exit 0
    ");
}

#[test]
fn a_plan_under_which_a_limit_holds_its_job_is_taken_back() {
    let until = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 500;
    let plan = format!("tessera: plan v1 size=7g.40gb until={until}; asks v1 iso=mig times=1g:90,7g:40");
    let jobs = [
        job(11, 500, 0, "PENDING", "QOSMaxGRESPerUser", &plan),
        job(12, 500, 0, "PENDING", "QOSMaxGRESPerUser", &asks("times=1g:90,7g:40")),
        job(13, 500, 0, "PENDING", "Dependency", &plan),
    ];
    let dir = world(&jobs.concat(), "priority/basic", "exit 0");
    assert_snapshot!(run(dir.path(), &["planner", "--once"]) + "\n" + &log(dir.path()), @r"
    job 11: a limit keeps it waiting (QOSMaxGRESPerUser): its plan is withdrawn
    exit 0
    <JobId=11> <AdminComment=tessera: asks v1 iso=mig times=1g:90,7g:40>
    ");
}

#[test]
fn times_by_profile_and_instance() {
    let dir = world("", "priority/basic", "exit 0");
    let table = run(dir.path(), &["times"]);
    let one = run(dir.path(), &["times", "--profile", "gpt", "--from", "past"]);
    let unknown = run(dir.path(), &["times", "--profile", "nobody"]);
    fs::remove_file(dir.path().join("past")).unwrap();
    let without = run(dir.path(), &["times"]);
    assert_snapshot!([table, one, unknown, without].join("\n"), @r"
    user   profile  instance  jobs  median s  quartiles  least  most
    alice  bert     1g.5gb       3        61   61 to 64     60    64
    alice  bert     7g.40gb      1         9     9 to 9      9     9
    alice  gpt      2g.10gb      1        30   30 to 30     30    30
    bob    bert     1g.5gb       1         1     1 to 1      1     1
    exit 0
    user   profile  instance  jobs  median s  quartiles  least  most
    alice  gpt      2g.10gb      1        30   30 to 30     30    30
    exit 0
    stderr: tessera: no completed job of profile nobody in sacct
    stderr: hint: only jobs submitted with --gpu-app count; --since looks further back
    exit 1
    stderr: tessera: sacct: Slurm accounting storage is disabled
    stderr: hint: times are learnt from Slurm's accounting, which needs AccountingStorageType=accounting_storage/slurmdbd; jobs can also give their times with --gpu-times
    exit 1
    ");
}
