//! What a person reads from `tessera history`. sacct is a stand-in.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unused_imports, reason = "each test file uses its own part of this")]
mod slurm;

#[path = "../src/slurm/sacct/columns.rs"]
mod columns;

use std::fs;
use std::path::PathBuf;

use columns::line;
use decision_counts::decisions::Reason;
use insta::assert_snapshot;
use serde_json::Value;
use shared_pages::refusals_by_day;

const SITE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";
const DAY: u64 = 86_400;

/// A job with one GPU or a part of it: its number, when it was submitted and started, how long it ran, and what it got.
fn job(id: &str, state: &str, times: [u64; 3], got: &str) -> String {
    let [submit, start, ran] = times.map(|n| n.to_string());
    let comment =
        if got.is_empty() { String::new() } else { format!("tessera: {got}: why; asks v1 iso=mig mem=9537") };
    line([id, "bob", state, &submit, &submit, &start, &ran, "60", "1", "gres/shard=10", "", &comment])
}

fn jobs() -> String {
    let hour = 3600;
    let begin = 20_000 * DAY;
    let never = begin.to_string();
    [
        job("1", "COMPLETED", [begin, begin + hour, 5 * hour], "n1=mig:0/2g.10gb@0"),
        job("2", "COMPLETED", [begin + 7 * hour, begin + 7 * hour, hour], "n1=mig:0/2g.10gb@0"),
        job("3", "FAILED", [begin + hour, begin + 2 * hour, 30 * hour], "n2=whole:0"),
        // Through midnight, in the place of the idle instance.
        job("4", "TIMEOUT", [begin + 8 * hour, begin + 20 * hour, 8 * hour], "n1=mig:0/3g.20gb@0"),
        job("5", "RUNNING", [begin + DAY, begin + DAY + 5 * hour, 31 * hour], "n1=mps:0/mem=2862/threads=25"),
        line(["6", "eve", "CANCELLED b+", &never, &never, "Unknown", "0", "60", "1", "gres/gpu=1", "", ""]),
        // Cancelled while it waited: it has a start, as Slurm writes it.
        line(["9", "eve", "CANCELLED b+", &never, &never, &never, "0", "60", "1", "gres/gpu=1", "", ""]),
        line(["7", "eve", "COMPLETED", &never, &never, &never, "60", "60", "1", "cpu=1", "", ""]),
        line(["8", "eve", "COMPLETED", &never, &never, &never, "60", "60", "1", "gres/gpu=1", "", "mine"]),
    ]
    .concat()
}

fn history(file: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    fs::write(dir.path().join("tessera.toml"), SITE).unwrap();
    fs::write(dir.path().join("jobs"), file).unwrap();
    slurm::program(
        dir.path(),
        "sacct",
        "case \"$*$SLURM_TIME_FORMAT\" in *now-604800seconds*%s) cat jobs ;; *) echo 'Slurm accounting storage is disabled' >&2; exit 1 ;; esac",
    );
    slurm::tessera(dir.path(), &[&["history"], args].concat())
}

#[test]
fn history_counts_instances_by_day() {
    assert_snapshot!(history(&jobs(), &["--from", "jobs"]), @r"
    2 nodes in 1 set; days begin at midnight UTC

                started   mean wait  never started  made  used again  destroyed  in jobs  idle  free
    2024-10-04        4  3 h 30 min              2     2           1          1     52 %   7 %  41 %
    2024-10-05        1         5 h              0     0           0          1     59 %   0 %  41 %
    2024-10-06        0           -              0     0           0          0     50 %   0 %  50 %

    Not counted: 1 job with GPUs. The accounting does not say which GPUs.
    Not shown: refused submissions are not in Slurm's accounting: see --help.
    exit 0
    ");
}

#[test]
fn history_json_keeps_its_keys() {
    assert_snapshot!(history(&job("1", "COMPLETED", [0, 60, 100], "n1=mig:0/2g.10gb@0"), &["--from", "jobs", "--json"]), @r#"
    {
      "days": [
        {
          "created": 1,
          "destroyed": 0,
          "free_percent": 92,
          "from": 0,
          "idle_percent": 0,
          "in_jobs_percent": 8,
          "mean_wait_s": 60,
          "never_started": 0,
          "refused": null,
          "reused": 0,
          "started": 1,
          "to": 161
        }
      ],
      "misfits": 0,
      "refused_since": null,
      "unnamed": 0
    }
    exit 0
    "#);
}

#[test]
fn what_sacct_says_now_is_as_good_as_a_file() {
    let said = history(&jobs(), &[]);
    // Eight days are touched, or seven at midnight. All of the jobs ended long before.
    let days: Vec<&str> = said.lines().filter(|line| line.starts_with("20")).collect();
    assert!((7..=8).contains(&days.len()) && days[0].contains(" 0  "), "{said}");
    assert_snapshot!(history(&jobs(), &["--since", "8d"]), @r"
    stderr: tessera: sacct: Slurm accounting storage is disabled
    stderr: hint: this needs Slurm's accounting: AccountingStorageType=accounting_storage/slurmdbd
    exit 1
    ");
}

/// The page of the slurmctld in a test's directory, of which there is one in each process.
struct Page(PathBuf);

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn slurmctlds_machine_tells_what_was_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("tessera.toml"), SITE).unwrap();
    fs::write(at("jobs"), jobs()).unwrap();
    slurm::program(dir.path(), "sacct", "cat jobs");
    let state = at("state").display().to_string();
    let user = rustix::process::geteuid().as_raw();
    fs::write(at("config"), format!("SlurmUser = me({user})\nStateSaveLocation = {state}\n")).unwrap();
    slurm::program(dir.path(), "scontrol", "cat config");
    let said = slurm::tessera(dir.path(), &["history"]);
    assert!(said.contains("Not shown: slurmctld counts refused submissions on its own machine"), "{said}");
    assert!(!said.contains("  refused  "), "{said}");

    refusals_by_day::begin(&state);
    let _page = Page(refusals_by_day::path(&state));
    for answer in [Ok(()), Err(Reason::Limit), Err(Reason::Impossible), Err(Reason::Impossible)] {
        refusals_by_day::count(answer);
    }
    let said = slurm::tessera(dir.path(), &["history"]);
    assert!(said.contains("  never started  refused  made  "), "{said}");
    assert!(
        said.contains(
            "Refused submissions: 2 that no node could ever serve, 1 for a limit of the site.\n\
             Refused submissions are counted from 20"
        ),
        "{said}"
    );
    // Nobody knows of the first days. At midnight all may be yesterday's.
    let days: Vec<Vec<&str>> = said
        .lines()
        .filter(|line| line.starts_with("20"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(days[0][4], "-", "{said}");
    assert!(days.iter().rev().take(2).any(|day| day[4] == "3"), "{said}");
    let json: Value = serde_json::from_str(
        slurm::tessera(dir.path(), &["history", "--json"]).strip_suffix("exit 0").unwrap(),
    )
    .unwrap();
    let all = json["days"].as_array().unwrap();
    assert!(all[0]["refused"].is_null() && json["refused_since"].is_u64(), "{json}");
    let impossible = |day: &Value| day["refused"]["impossible"].as_u64();
    assert_eq!(all.iter().filter_map(impossible).sum::<u64>(), 2, "{json}");
}

#[test]
fn placements_that_cannot_have_been_are_said() {
    let twice = [
        job("1", "COMPLETED", [0, 0, 100], "n1=whole:0"),
        job("2", "COMPLETED", [0, 50, 100], "n1=mig:0/2g.10gb@0"),
    ];
    let said = history(&twice.concat(), &["--from", "jobs"]);
    assert!(
        said.contains(
            "Only the start of 1 job is counted. The accounting says that others had the same GPUs"
        ),
        "{said}"
    );
    let elsewhere = history(&job("1", "COMPLETED", [0, 0, 100], "n9=whole:0"), &["--from", "jobs"]);
    assert!(
        elsewhere.contains("Not counted: 1 job with GPUs. The accounting does not say which GPUs."),
        "{elsewhere}"
    );
}

#[test]
fn no_jobs_is_one_line() {
    assert_snapshot!(history("", &["--from", "jobs"]), @r"
    stderr: tessera: Slurm's accounting has no job with GPUs in this time
    stderr: hint: sacct shows other users' jobs only where the site lets it (PrivateData); --since looks further back
    exit 1
    ");
}
