//! What a person reads from `tessera report`. sacct is a stand-in.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

#[path = "../src/slurm/sacct/columns.rs"]
#[allow(dead_code, reason = "each test file uses its own part of this")]
mod columns;

use std::cell::Cell;
use std::fs;

use insta::assert_snapshot;

/// The widths that sacct is asked for.
const WIDTHS: [usize; 13] = [24, 64, 40, 20, 20, 12, 24, 256, 512, 512, 512, 12, 512];

thread_local! {
    /// End of `TRESUsageOutTot` in every line of sacct.
    static SENT: Cell<&'static str> = const { Cell::new("") };
}

/// A line of a job or step that Slurm's commands call so, on one node. The last but one of `cells` is what `TRESUsageOutTot` begins with.
fn line(mut cells: [&str; 13], number: &str) -> String {
    let out = format!("{},{}", std::mem::replace(&mut cells[11], "1"), SENT.get());
    let own: String = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$} ")).collect();
    format!("{own}{number:>64} {:>512} \n", out.trim_matches(','))
}

fn report(lines: &[[&str; 13]], args: &[&str]) -> String {
    numbered(&lines.iter().map(|cells| (*cells, cells[0])).collect::<Vec<_>>(), args)
}

fn numbered(lines: &[([&str; 13], &str)], args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(
        dir.path().join("records"),
        lines.iter().map(|(cells, number)| line(*cells, number)).collect::<String>(),
    )
    .unwrap();
    slurm::program(dir.path(), "sacct", "cat records");
    slurm::tessera(dir.path(), &[&["report"], args].concat())
}

const GOT: &str = "tessera: n1=mig:3/3g.20gb@4: smallest instance with 20 GB; asks v1 iso=mig mem=19074";
const JOB: [&str; 13] = [
    "20",
    "bob",
    "COMPLETED",
    "1000",
    "1840",
    "7500",
    "427500",
    "billing=3,cpu=1,license/slice=3,node=1",
    "",
    "",
    "",
    "",
    GOT,
];
const BATCH: [&str; 13] = [
    "20.batch",
    "",
    "COMPLETED",
    "1840",
    "1840",
    "7500",
    "427500",
    "cpu=1",
    "cpu=02:00:00,gres/gpumem=5.5G,gres/gpuutil=85",
    "gres/gpumem=5.5G,gres/gpuutil=85",
    "",
    "",
    "",
];
const STEP: [&str; 13] = [
    "20.0",
    "",
    "COMPLETED",
    "1850",
    "1850",
    "70",
    "",
    "cpu=1",
    "gres/gpumem=100M,gres/gpuutil=0",
    "gres/gpuutil=0",
    "",
    "",
    "",
];

#[test]
fn a_job_that_used_little_is_told_what_to_ask() {
    assert_snapshot!(report(&[JOB, BATCH, STEP], &["20"]), @r"
    job 20 of bob: COMPLETED
      got         n1=mig:3/3g.20gb@4 (smallest instance with 20 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      427.5 kJ, 57 W on average
      GPU memory  at most 5.9 GB of the 20.0 GB asked for
      GPU busy    at most 85 %
      next time   --gpu-mem=8G is enough: smaller requests start sooner and cost less. It waited 14 min.
    exit 0
    ");
    assert_snapshot!(report(&[JOB, BATCH, STEP], &["20", "--json"]), @r#"
    {
      "asked_mib": 19074,
      "billing": 3,
      "busy_mean_percent": null,
      "busy_percent": 85,
      "device_mib": 5632,
      "energy_j": 427500,
      "enough_gb": 8,
      "got": "n1=mig:3/3g.20gb@4",
      "gpus": null,
      "job": "20",
      "label_contradicted": null,
      "memory_mib": 5632,
      "nvlink_sent_bytes": null,
      "pcie_sent_bytes": null,
      "place_earlier_s": null,
      "ran_s": 7500,
      "slices": 3,
      "state": "COMPLETED",
      "user": "bob",
      "waited_s": 840,
      "why": "smallest instance with 20 GB"
    }
    exit 0
    "#);
}

#[test]
fn a_running_job_has_what_slurmctld_says() {
    let running = |allocated| {
        let mut job = JOB;
        (job[2], job[6], job[7], job[12]) = ("RUNNING", "", allocated, "");
        line(job, job[0])
    };
    let said = |allocated, queued: &str| {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::write(dir.path().join("records"), running(allocated)).unwrap();
        fs::write(dir.path().join("queue"), queued).unwrap();
        slurm::program(dir.path(), "sacct", "cat records");
        slurm::program(dir.path(), "squeue", "cat queue");
        slurm::tessera(dir.path(), &["report", "20"])
    };
    let queue = slurm::line(&[("JobID", "20"), ("State", "RUNNING"), ("admin_comment", GOT)]) + "\n";
    assert_snapshot!(said("billing=3,license/slice=3", &queue), @r"
    job 20 of bob: RUNNING
      got         n1=mig:3/3g.20gb@4 (smallest instance with 20 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      not known before the job's end
      GPU memory  not known before the job's end
    exit 0
    ");
    // Without slurmctld's answer.
    assert_snapshot!(said("billing=3,license/slice=3", "slurm_load_jobs error"), @r"
    job 20 of bob: RUNNING
      got         not known before the job's end
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      not known before the job's end
      GPU memory  not known before the job's end
    exit 0
    ");
    assert_snapshot!(said("billing=2,gres/gpu=2", ""), @r"
    job 20 of bob: RUNNING
      got         2 GPUs
      waited      14 min
      ran         2 h 5 min
      energy      not known before the job's end
      GPU memory  not known before the job's end
    exit 0
    ");
}

#[test]
fn what_is_not_recorded_is_said() {
    let plain = [
        "21",
        "bob",
        "CANCELLED by 1000",
        "1000",
        "1000",
        "60",
        "",
        "billing=14,gres/gpu=2,license/slice=14",
        "",
        "",
        "",
        "",
        "",
    ];
    assert_snapshot!(report(&[plain], &["21"]), @r#"
    job 21 of bob: CANCELLED
      got         2 GPUs, by Slurm alone
      waited      0 s
      ran         60 s
      slices      14 (0.2 slice hours), billed as 14
      energy      not accounted; docs/energy-and-usage.md, "Energy of jobs", says how
      GPU memory  not recorded; `tessera report --help` says what records it
    exit 0
    "#);
    let waiting = ["22", "bob", "PENDING", "1000", "Unknown", "0", "", "", "", "", "", "", ""];
    assert_snapshot!(report(&[waiting], &["22"]), @r"
    stderr: tessera: job 22 has not started: it is PENDING
    stderr: hint: tessera why 22 says what a pending job waits for
    exit 1
    ");
    assert_snapshot!(report(&[], &["23"]), @r"
    stderr: tessera: Slurm's accounting knows no job 23
    stderr: hint: sacct shows other users' jobs only where the site lets it (PrivateData)
    exit 1
    ");
    assert_snapshot!(report(&[JOB, plain], &["20"]), @r"
    stderr: tessera: job 20 has 2 parts in Slurm's accounting
    stderr: hint: sacct -j ID shows them: give the number of one of them
    exit 1
    ");
    assert_snapshot!(report(&[], &["20;id"]), @r"
    stderr: error: invalid value '20;id' for '<JOBID>': a job is a number, as in 4711; a task of an array is two, as in 4711_3, and so is a component of a heterogeneous job, as in 4711+1
    stderr: 
    stderr: For more information, try '--help'.
    exit 2
    ");
}

/// The extern step, as acct_gather_interconnect/tessera fills it.
fn sampled(used: &'static str, most: &'static str, out: &'static str) -> [&'static str; 13] {
    ["20.extern", "", "COMPLETED", "1840", "1840", "7500", "", "cpu=1", used, most, out, out, ""]
}

#[test]
fn what_tessera_sampled_is_told_by_device() {
    let usage = "gres/gpumem=12000M,gres/gpuutil=100";
    let of_two = sampled(usage, usage, "gres/gpumem=6000M,gres/gpuutil=40");
    assert_snapshot!(report(&[JOB, of_two], &["20"]), @r"
    job 20 of bob: COMPLETED
      got         n1=mig:3/3g.20gb@4 (smallest instance with 20 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      427.5 kJ, 57 W on average
      GPU memory  at most 12.6 GB; on one device 6.3 GB of the 20.0 GB asked for
      GPU busy    at most 100 %, 40 % on average
      next time   --gpu-mem=8G is enough: smaller requests start sooner and cost less. It waited 14 min.
    exit 0
    ");
    let idle = sampled(
        "gres/gpumem=0,gres/gpuutil=0",
        "gres/gpumem=0,gres/gpuutil=0",
        "gres/gpumem=0,gres/gpuutil=0",
    );
    assert_snapshot!(report(&[JOB, idle], &["20"]), @r"
    job 20 of bob: COMPLETED
      got         n1=mig:3/3g.20gb@4 (smallest instance with 20 GB)
      waited      14 min
      ran         2 h 5 min
      slices      3 (6.2 slice hours), billed as 3
      energy      427.5 kJ, 57 W on average
      GPU memory  none was seen in use
      GPU busy    at most 0 %, 0 % on average
      next time   the job may need no GPU: it was not seen to use one
    exit 0
    ");
}

const SITE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 4\nmig = \"dynamic\"\n";
const HOPPER: &str = "[[nodes]]\nnames = \"n2\"\ngpu = \"h100-80gb-sxm\"\ncount = 4\nmig = \"dynamic\"\n";

/// What the report says of the utilisation of a job that got this, if only its memory was sampled.
fn busy(got: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("tessera.toml"), [SITE, HOPPER].concat()).unwrap();
    let comment = format!("tessera: {got}: why; asks v1 iso=mig mem=19074");
    let mut job = JOB;
    job[12] = &comment;
    let memory = sampled("gres/gpumem=12000M", "gres/gpumem=12000M", "gres/gpumem=12000M");
    fs::write(dir.path().join("records"), [line(job, job[0]), line(memory, memory[0])].concat()).unwrap();
    slurm::program(dir.path(), "sacct", "cat records");
    let said = slurm::tessera(dir.path(), &["report", "20"]);
    assert!(said.contains("GPU memory  at most 12.6 GB"), "{said}");
    said.lines().find_map(|line| line.strip_prefix("  GPU busy    ")).map(str::to_owned)
}

#[test]
fn why_the_utilisation_is_not_known_is_said() {
    let older = Some("not known: before the H100, the driver does not report it for instances".to_owned());
    let shared = Some("not known: the driver does not report one job's part of a shared device".to_owned());
    for got in ["n1=mig:3/3g.20gb@4", "n2=mig:0/3g.40gb@4;n1=mig:3/3g.20gb@4"] {
        assert_eq!(busy(got), older, "{got}");
    }
    for got in ["n1=mps:1/mem=4000/threads=25", "n2=mig:0/3g.40gb@4/1c@0/mem=4000", "n1=tasks:1*4/probes"] {
        assert_eq!(busy(got), shared, "{got}");
    }
    // An H100's or a whole GPU's would be told, had it been seen often enough; nobody knows n3.
    for got in ["n2=mig:0/3g.40gb@4", "n1=whole:1", "n1=tasks:whole*8:0,3/probes", "n3=mig:3/3g.20gb@4"] {
        assert_eq!(busy(got), None, "{got}");
    }
}

/// A run on n1 as the report asks for it: its number, from when to when, and its AdminComment.
fn run(id: &str, [from, to]: [u64; 2], comment: &str) -> String {
    let (start, ran) = (from.to_string(), (to - from).to_string());
    let cells = [id, "eve", "COMPLETED", "0", "0", &start, &ran, "600", "1", "gres/shard=10", "", comment];
    with_ends(id, cells)
}

/// The line with the columns that stand before and behind those of whole months.
fn with_ends(id: &str, cells: [&str; 12]) -> String {
    let widths = columns::COLUMNS.map(|(_, width)| width);
    let cells: String = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$} ")).collect();
    format!("{:>20} {cells}{:>256} \n", format!("9{id}"), "gres/shard=10,license/slice=2")
}

/// The report on a job that waited from 1000 to 1840, with these other runs on its node.
fn after(others: &[String], event: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("tessera.toml"), SITE).unwrap();
    fs::write(dir.path().join("records"), [line(JOB, JOB[0]), line(BATCH, BATCH[0])].concat()).unwrap();
    let own =
        ["20", "bob", "COMPLETED", "1000", "1000", "1840", "7500", "600", "1", "gres/shard=20", "", GOT];
    fs::write(dir.path().join("runs"), others.concat() + &with_ends("20", own)).unwrap();
    slurm::program(
        dir.path(),
        "sacct",
        "case \"$*\" in *'-N n1 '*DBIndex*) cat runs ;; *) cat records ;; esac",
    );
    slurm::program(dir.path(), "sacctmgr", &format!("printf '{event}'"));
    slurm::tessera(dir.path(), &[&["report", "20"], args].concat())
}

fn next_time(others: &[String], event: &str) -> String {
    let said = after(others, event, &[]);
    let line = said.lines().find_map(|line| line.strip_prefix("  next time   "));
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn a_place_that_was_there_before_is_said_where_it_is_certain() {
    let whole = |n: u64| run(&format!("{n}"), [100, 3000], &format!("tessera: n1=whole:{n}: why"));
    let beside = run("15", [100, 4000], "tessera: n1=mig:3/3g.20gb@0: why");
    // Slurm started the job ten seconds after it.
    let in_the_way = run("16", [900, 1830], "tessera: n1=mig:3/2g.10gb@4: why");
    let full = [whole(0), whole(1), whole(2), beside, in_the_way];
    let with = |other: String| [&full[..], &[other]].concat();
    let unsure = "--gpu-mem=8G is enough: smaller requests start sooner and cost less. It waited 14 min.";

    assert_snapshot!(next_time(&full, ""), @"--gpu-mem=8G is enough, and n1 would have had a place for it 14 min earlier.");
    assert!(after(&full, "", &["--json"]).contains("\"place_earlier_s\": 830,"));
    // The rest of GPU 3 was taken until 1600.
    let later = run("14", [100, 1600], "tessera: n1=mig:3/1g.10gb@6: why");
    assert_snapshot!(next_time(&with(later), ""), @"--gpu-mem=8G is enough, and n1 would have had a place for it 4 min earlier.");
    // Half a minute is not worth a word.
    let late = run("14", [100, 1810], "tessera: n1=mig:3/1g.10gb@6: why");
    assert_eq!(next_time(&with(late), ""), unsure);
    // Nobody knows what another job had.
    assert_eq!(next_time(&with(run("14", [1200, 1300], "somebody's own")), ""), unsure);
    // The node was drained meanwhile.
    assert_eq!(next_time(&full, "n1\\n"), unsure);
    // GPUs were free all the time: something else kept the job.
    assert_eq!(next_time(&full[1..], ""), unsure);
}

#[test]
fn an_array_is_summed() {
    let with = |cells: [&'static str; 13], changes: &[(usize, &'static str)]| {
        let mut cells = cells;
        changes.iter().for_each(|(at, cell)| cells[*at] = *cell);
        cells
    };
    let lines = [
        (with(JOB, &[(0, "21")]), "20_1"),
        (with(BATCH, &[(0, "21.batch")]), "20_1.batch"),
        (with(JOB, &[(0, "22"), (2, "FAILED"), (4, "1060"), (5, "60"), (6, "")]), "20_2"),
        (with(JOB, &[(2, "PENDING"), (4, "Unknown"), (5, "0"), (6, ""), (7, ""), (12, "")]), "20_[3-9%2]"),
    ];
    let task = numbered(&lines[..2], &["20_1"]);
    assert!(
        task.starts_with("job 20_1 of bob: COMPLETED\n"),
        "Slurm's number of the task, not the job's own: {task}"
    );
    assert_snapshot!(numbered(&lines, &["20"]), @r"
    array 20 of bob: 1 COMPLETED, 1 FAILED, 7 PENDING
      waited      8 min on average, at most 14 min
      ran         2 h 6 min in all, at most 2 h 5 min
      slices      6.3 slice hours
      energy      427.5 kJ
      GPU memory  at most 5.9 GB of the 20.0 GB asked for
      GPU busy    at most 85 %
      next time   --gpu-mem=8G is enough for each task: smaller requests start sooner and cost less.
    Sums of the 2 tasks that have started; `tessera report 20_N` shows one.
    exit 0
    ");
    assert_snapshot!(numbered(&lines, &["20", "--json"]), @r#"
    {
      "array": "20",
      "asked_mib": 19074,
      "busy_percent": 85,
      "device_mib": 5632,
      "energy_j": 427500,
      "enough_gb": 8,
      "longest_s": 7500,
      "mean_waited_s": 450,
      "most_waited_s": 840,
      "ran_s": 7560,
      "slice_s": 22680,
      "started": 2,
      "states": {
        "COMPLETED": 1,
        "FAILED": 1,
        "PENDING": 7
      },
      "user": "bob"
    }
    exit 0
    "#);
}

#[test]
fn a_label_that_the_traffic_contradicts_is_told() {
    let told = |label: &str, sent: &'static str, seconds: &'static str| {
        let got = format!("tessera: n1=whole:0,1,2,3: why; asks v1 iso=whole bw={label} gpus=4");
        let mut job = JOB;
        (job[5], job[7], job[12]) = (seconds, "gres/gpu=4", &got);
        SENT.set(sent);
        let mut step = job;
        step[0] = "20.extern";
        let said = report(&[job, step], &["20"]);
        let lines =
            said.lines().filter(|line| line.starts_with("  links") || line.starts_with("  bandwidth"));
        lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(told("insensitive", "cpu=0,ic/nvlink=20000000000000,ic/pcie=1.50G", "7500"), @r"
    links       20000.00 GB sent over NVLink, about 1.61 GB sent over PCIe: 0.66 GB/s by each GPU
    bandwidth   the job asked for --gpu-bandwidth=insensitive, but 0.50 GB/s and more need good links: leave the option out
    ");
    assert_snapshot!(told("sensitive", "ic/nvlink=0", "7500"), @"links       0.00 GB sent over NVLink: 0.00 GB/s by each GPU");
    assert_snapshot!(told("sensitive", "ic/nvlink=0,ic/pcie=20M", "7500"), @r"
    links       0.00 GB sent over NVLink, about 0.02 GB sent over PCIe: 0.00 GB/s by each GPU
    bandwidth   the job asked for --gpu-bandwidth=sensitive, but less than 0.50 GB/s needs no good links: with insensitive, it leaves them to other jobs
    ");
    assert_snapshot!(
        told("insensitive", "ic/pcie=20M", "7500"),
        @"links       about 0.02 GB sent over PCIe: 0.00 GB/s by each GPU"
    );
    assert_snapshot!(told("insensitive", "ic/nvlink=20000000000000", "30"), @"links       20000.00 GB sent over NVLink");
    assert_eq!(told("insensitive", "cpu=0", "7500"), "", "nothing was counted");
}

#[test]
fn a_heterogeneous_job_shows_each_component() {
    let mut second = JOB;
    second[0] = "21";
    let lines = [(JOB, "20+0"), (second, "20+1")];
    let heads = |args: &[&str]| {
        let said = numbered(&lines, args);
        let heads = said.lines().filter(|line| line.starts_with("job ") || line.starts_with("exit "));
        heads.map(str::to_owned).collect::<Vec<_>>().join(", ")
    };
    let both = "job 20+0 of bob: COMPLETED, job 20+1 of bob: COMPLETED, exit 0";
    assert_eq!(heads(&["20"]), both, "the leader's own number is that of all");
    let one = numbered(&lines[1..], &["20+1"]);
    assert!(one.starts_with("job 20+1 of bob: COMPLETED\n"), "{one}");
    let json = numbered(&lines, &["20", "--json"]);
    assert!(json.contains("\"components\": [") && json.contains("\"job\": \"20\""), "{json}");
}

#[test]
fn without_slurmdbd_nobody_is_told_to_configure_accounting() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let said = "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1";
    slurm::program(dir.path(), "sacct", said);
    assert_snapshot!(slurm::tessera(dir.path(), &["report", "20"]), @r"
    stderr: tessera: sacct: Problem talking to the database: Connection refused
    stderr: hint: slurmdbd does not answer: try again when it runs
    exit 1
    ");
}
