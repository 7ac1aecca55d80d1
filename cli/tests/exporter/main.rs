//! What Prometheus and a browser get from `tessera exporter`. Slurm's commands are stand-ins.
#![allow(clippy::unwrap_used, reason = "tests")]

mod browser;
mod crowd;
mod page;
#[path = "../slurm/mod.rs"]
mod slurm;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use decision_counts::decisions::{Ask, Hook, Placing, Reason};
use shared_pages::decisions;
use tempfile::TempDir;

const SITE: &str = "[[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n\
                    [[nodes]]\nnames = \"n4\"\ngpu = \"t4-16gb\"\ncount = 2\n";
const NODES: &str = "NodeName=n1 A=x\n   Extra=tessera gpu0=mig[3g.20gb@0:job11,1g.5gb@4:idle]\n\n\
                     NodeName=n2 A=x\n   Extra=tessera gpu0=whole[job13]\n\n\
                     NodeName=n3 A=x\n   Extra=tessera gpu0=mig[9g@0:idle]\n\n\
                     NodeName=n4 A=x\n   Extra=tessera gpu0=free gpu1=mps[job14:3815M/25%]\n";

/// A line of squeue.
fn job(id: &str, user: &str, state: &str, submitted: u64, started: &str, comment: &str) -> String {
    let reason = if state == "PENDING" { "Resources" } else { "None" };
    slurm::line(&[
        ("JobID", id),
        ("ArrayJobID", id),
        ("ArrayTaskID", "N/A"),
        ("HetJobID", "N/A"),
        ("UserName", user),
        ("Partition", "gpu"),
        ("PriorityLong", "50"),
        ("State", state),
        ("Reason", reason),
        ("NumNodes", "1"),
        ("SubmitTime", &submitted.to_string()),
        ("StartTime", started),
        ("EndTime", "N/A"),
        ("admin_comment", comment),
    ]) + "\n"
}

const ASKS: &str = "tessera: asks v1 iso=mig:4g.20gb";

struct Exporter {
    dir: TempDir,
    child: Child,
    /// Kept open: the exporter may say more.
    _stderr: BufReader<ChildStderr>,
    address: String,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn epoch() -> u64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

impl Exporter {
    fn start(args: &[&str]) -> Self {
        Self::start_by("exec \"$@\"", &[&["--every", "1s"], args].concat())
    }

    /// Starts it as the last step of a shell script, which has its command line as its arguments.
    fn start_by(script: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        fs::write(at("tessera.toml"), SITE).unwrap();
        fs::write(at("nodes"), NODES).unwrap();
        let waits = job("20", "<b>mallory", "PENDING", epoch() - 90, "N/A", ASKS);
        fs::write(at("jobs"), job("11", "alice", "RUNNING", 1, "2", ASKS) + &waits).unwrap();
        fs::write(
            at("tres"),
            format!("{:<14}{:<512}{:<512}{:<512}{:<512}\n", 20, "N/A", "gres:shard:20", "", ""),
        )
        .unwrap();
        fs::write(at("owners"), format!("{:<14}{:<14}\n", 20, 1000)).unwrap();
        let program = |name: &str, text: &str| slurm::program(dir.path(), name, text);
        program(
            "squeue",
            "echo \"$*\" >> asked\ncase \"$*\" in *admin_comment*) cat jobs ;; *tres-per-task*) cat tres ;; *%14A*) ;; *) cat owners ;; esac",
        );
        program("sinfo", "printf 'n1 mixed gpu\\nn2 mixed gpu\\nn3 drained gpu\\nn4 idle gpu\\n'");
        program("scontrol", "case \"$*\" in *config*) cat config ;; *) cat nodes ;; esac");
        let args = [&["exporter", "--listen", "127.0.0.1:0"], args].concat();
        let mut child = slurm::by_script(dir.path(), script, &args).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        let exporter = Self { dir, child, _stderr: stderr, address };
        exporter.until("/metrics", "tessera_node_takes_jobs");
        exporter
    }

    /// Status, headers and body.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The first answer that has this text.
    fn until(&self, path: &str, text: &str) -> String {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.get(path);
            if answer.contains(text) {
                return answer;
            }
            assert!(Instant::now() < patience, "no {text:?} in {answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn put(&self, name: &str, text: &str) {
        // A reader sees the old or the new.
        fs::write(self.dir.path().join("new"), text).unwrap();
        fs::rename(self.dir.path().join("new"), self.dir.path().join(name)).unwrap();
    }
}

/// A slurmctld's page of counters, as the plugins make it; gone at the end.
struct Page(std::path::PathBuf);

impl Page {
    /// The page of the slurmctld in the exporter's directory: of this process, so there is one.
    fn of(exporter: &Exporter) -> Self {
        let state = exporter.dir.path().join("state").display().to_string();
        decisions::begin(&state);
        let user = rustix::process::geteuid().as_raw();
        exporter.put("config", &format!("SlurmUser = me({user})\nStateSaveLocation = {state}\n"));
        Self(decisions::path(&state))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn has(answer: &str, lines: &[&str]) {
    for line in lines {
        assert!(answer.lines().any(|l| l == *line), "no {line:?} in\n{answer}");
    }
}

#[test]
fn metrics_say_who_has_what() {
    let exporter = Exporter::start(&[]);
    let answer = exporter.get("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.trim_end().ends_with("# EOF"), "{answer}");
    has(
        &answer,
        &[
            "tessera_slurm_up 1",
            "tessera_refresh_failures_total 0",
            "tessera_node_takes_jobs{node=\"n1\"} 1",
            "tessera_node_takes_jobs{node=\"n3\"} 0",
            "tessera_node_layout_known{node=\"n2\"} 1",
            "tessera_node_layout_known{node=\"n3\"} 0",
            "tessera_gpus{node=\"n1\",model=\"a100-40gb\",state=\"instances\"} 1",
            "tessera_gpus{node=\"n2\",model=\"a100-40gb\",state=\"whole\"} 1",
            "tessera_gpus{node=\"n4\",model=\"t4-16gb\",state=\"shared\"} 1",
            "tessera_compute_slices{node=\"n1\",state=\"isolated\"} 3",
            "tessera_compute_slices{node=\"n1\",state=\"idle\"} 1",
            "tessera_compute_slices{node=\"n1\",state=\"free\"} 3",
            "tessera_compute_slices{node=\"n2\",state=\"whole\"} 7",
            "tessera_instances{node=\"n1\",profile=\"1g.5gb\",state=\"idle\"} 1",
            // Four compute slices are free, and with 3g at 0 no more than a 3g fits beside it.
            "tessera_fragmentation_ratio{node=\"n1\"} 0.25",
            "tessera_fragmentation_ratio{node=\"n4\"} 0.0",
            "tessera_gpus_without_jobs 1",
            "tessera_nodes_without_jobs 0",
            "tessera_places{model=\"a100-40gb\",shape=\"1g.5gb\",jobs=\"now\"} 3",
            "tessera_places{model=\"a100-40gb\",shape=\"4g.20gb\",jobs=\"packed\"} 1",
            "tessera_places_lost_ratio{model=\"a100-40gb\",shape=\"4g.20gb\"} 1.0",
            "tessera_places_lost_ratio{model=\"t4-16gb\",shape=\"1 GPU\"} 0.0",
            "tessera_pending_jobs_fragmented 1",
            "tessera_jobs{kind=\"mig\",state=\"running\"} 1",
            "tessera_pending_jobs{kind=\"mig\",reason=\"Resources\"} 1",
            "tessera_instances_created_total{node=\"n1\"} 0",
            "tessera_node_fit{node=\"n1\"} 1",
            "tessera_node_ending_jobs{node=\"n2\"} 0",
            "tessera_pending_jobs_by_rule{kind=\"mig\",by=\"none\"} 1",
        ],
    );
    assert!(exporter.get("/").starts_with("HTTP/1.1 404"), "the page is off by default");
}

#[test]
fn what_ails_a_node_or_holds_a_job_is_told() {
    let exporter = Exporter::start(&[]);
    let held = "tessera: waits until 2026-11-21T10:20:00Z for GPUs above 25 GB/s; asks v1 iso=mig:4g.20gb";
    exporter.put("jobs", &job("20", "bob", "PENDING", 1, "N/A", held));
    exporter.put(
        "nodes",
        "NodeName=n1 A=x\n   Extra=tessera unfit: GPU 0 is gone\n\n\
         NodeName=n2 A=x\n   Extra=tessera config=last-good ending=job13 gpu0=whole[job13]\n",
    );
    let answer = exporter.until("/metrics", "tessera_node_fit{node=\"n1\"} 0");
    has(
        &answer,
        &[
            "tessera_node_layout_known{node=\"n1\"} 0",
            "tessera_node_fit{node=\"n2\"} 1",
            "tessera_node_config_good{node=\"n2\"} 0",
            "tessera_node_ending_jobs{node=\"n2\"} 1",
        ],
    );
    has(&answer, &["tessera_pending_jobs_by_rule{kind=\"mig\",by=\"better_gpus\"} 1"]);
}

#[test]
fn what_changes_is_counted() {
    let exporter = Exporter::start(&[]);
    let submitted = epoch() - 90;
    exporter.put("nodes", &NODES.replace("3g.20gb@0:job11,1g.5gb@4:idle", "2g.10gb@0:job15,1g.5gb@4:job20"));
    exporter.put("jobs", &job("20", "bob", "RUNNING", submitted, &(submitted + 70).to_string(), ASKS));
    let answer = exporter.until("/metrics", "tessera_instances_created_total{node=\"n1\"} 1");
    has(
        &answer,
        &[
            "tessera_instances_destroyed_total{node=\"n1\"} 1",
            "tessera_instances_reused_total{node=\"n1\"} 1",
            "tessera_job_wait_seconds_sum{kind=\"mig\"} 70.0",
            "tessera_job_wait_seconds_bucket{le=\"60.0\",kind=\"mig\"} 0",
            "tessera_job_wait_seconds_bucket{le=\"300.0\",kind=\"mig\"} 1",
        ],
    );
    // Slurm goes away: what was seen last stays, and both say so.
    slurm::program(exporter.dir.path(), "scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1");
    let answer = exporter.until("/metrics", "tessera_slurm_up 0");
    has(&answer, &["tessera_compute_slices{node=\"n2\",state=\"whole\"} 7"]);
}

/// Where nobody may read a copy of the last good version: on a machine of neither slurmctld nor a node.
#[test]
fn a_mistake_in_tessera_toml_is_not_slurms_silence() {
    let exporter = Exporter::start(&[]);
    has(&exporter.get("/metrics"), &["tessera_file_good 1"]);
    exporter.put("tessera.toml", "[[nodes]]\nnames = \"n[1-3\"\n");
    let answer = exporter.until("/metrics", "tessera_file_good 0");
    has(&answer, &["tessera_slurm_up 1", "tessera_refresh_failures_total 0"]);
    // What Slurm says now is shown, by the file that was good.
    exporter.put("nodes", &NODES.replace("tessera gpu0=whole[job13]", "tessera config=last-good gpu0=free"));
    exporter.until("/metrics", "tessera_node_config_good{node=\"n2\"} 0");
    exporter.put("tessera.toml", SITE);
    has(&exporter.until("/metrics", "tessera_file_good 1"), &["tessera_slurm_up 1"]);
}

#[test]
fn the_page_shows_slices_and_why_jobs_wait() {
    let exporter = Exporter::start(&["--page"]);
    let page = exporter.get("/");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    for part in [
        "<b>1</b> <span>of 4 GPUs without jobs</span> <small>11 of 28 compute slices free</small>",
        "<b>1</b> <span>job waits</span> <small>1 job running</small>",
        "<span>longest wait</span> <small><a href=\"/jobs/20\" data-job=\"20\">job 20</a></small>",
        "<b>1</b> <span>node takes no jobs</span>",
        "<h3>a100-40gb</h3><ul class=\"shapes\"><li><b>3</b> 1g.5gb <small>5.1 GB, 14 of 108 SMs</small></li>",
        "<li class=\"isolated u4\" title=\"3g.20gb job 11\"><b>3g.20gb</b> <a href=\"/jobs/11\" data-job=\"11\">job 11</a></li>",
        "<li class=\"free u3\"",
        "Its GPUs are not known: gpu0: a 9g cannot start at memory slice 0 (a100-40gb)",
        "takes no jobs now",
        "<td><a href=\"/jobs/20\" data-job=\"20\">20</a></td><td>4g.20gb</td>",
        "<b>whole</b> <a href=",
        "n1 <small>1 x a100-40gb, links pcie</small>",
    ] {
        assert!(page.contains(part), "no {part:?} in\n{page}");
    }
    assert!(!page.contains("mallory") && !page.contains("alice"), "users are not named");
    assert!(!page.contains("https://") && !page.contains("http://"), "the page loads nothing from elsewhere");
    let why = exporter.get("/jobs/20");
    assert!(why.contains("job 20 of a user asks for an instance 4g.20gb"), "{why}");
    assert!(why.contains("n1: has room when job 11 (a user) ends"), "{why}");
    assert!(
        why.contains("<title>Job 20 · GPUs of the cluster</title>")
            && why.contains("← All GPUs of the cluster"),
        "{why}"
    );
    let part = exporter.get("/jobs/11?part");
    assert!(
        part.contains("<small class=\"state\">running</small>") && part.contains("href=\"/nodes/n1#gpu-0\""),
        "{part}"
    );
    assert!(!part.contains("<html"), "a part goes into the page");
    assert!(exporter.get("/jobs/99").contains("Slurm knows no job 99"));
    let style = exporter.get("/page.css");
    assert!(
        style.contains(".isolated { background-color: #9bcbff;"),
        "the colours of every picture: {style}"
    );
    for path in ["/jobs/x", "/jobs/", "/nothing", "/jobs/-1", "/../etc/passwd"] {
        let answer = exporter.get(path);
        assert!(answer.starts_with("HTTP/1.1 40"), "{path}: {answer}");
    }
}

#[test]
fn a_node_has_the_history_of_its_gpus() {
    let exporter = Exporter::start(&["--page"]);
    let page = exporter.get("/");
    assert!(
        page.contains("<a class=\"name\" href=\"/nodes/n4#gpu-1\" data-node=\"n4\" data-gpu=\"1\""),
        "{page}"
    );
    let part =
        exporter.until("/nodes/n4?part", "Slices that jobs had, 0 to 100 %: 100 % now; 100 % on average");
    assert!(part.contains("id=\"gpu-1\"") && !part.contains("<html"), "{part}");
    assert!(exporter.get("/nodes/n4").contains("<html"), "a link that is opened elsewhere is a page");
    assert!(exporter.get("/nodes/n9").starts_with("HTTP/1.1 404"));
}

#[test]
fn the_page_shows_what_is_asked_for() {
    let exporter = Exporter::start(&["--page"]);
    let sections = |query: &str| {
        let page = exporter.get(&format!("/cluster?{query}"));
        ["n1", "n2", "n3", "n4"]
            .into_iter()
            .filter(|n| page.contains(&format!("id=\"node-{n}\"")))
            .collect::<Vec<_>>()
    };
    assert_eq!(sections("node=n%5B1-2%5D"), ["n1", "n2"]);
    assert_eq!(sections("state=away"), ["n3"]);
    assert_eq!(sections("partition=gpu&state=full"), ["n2"]);
    assert_eq!(sections("partition=nothing"), [""; 0]);
    // Who may not be named cannot be found out either.
    assert_eq!(sections("user=alice").len(), 4);
    let page = exporter.get("/?node=n%5B1&partition=gpu");
    assert!(page.contains("the list of nodes &quot;n[1&quot; has a [ without a ]"), "{page}");
    assert!(page.contains("value=\"n[1\"") && page.contains("<option value=\"gpu\" selected>"), "{page}");
}

#[test]
fn users_are_named_where_the_site_says_so() {
    let exporter = Exporter::start(&["--page", "--users"]);
    let page = exporter.get("/cluster");
    assert!(
        page.contains("job 11<span> (alice)</span>") && page.contains("<td>&lt;b&gt;mallory</td>"),
        "{page}"
    );
    assert!(!page.contains("<b>mallory"), "markup in a name stays text");
    let job = exporter.get("/jobs/20");
    assert!(job.contains("<dd>&lt;b&gt;mallory</dd>") && !job.contains("<b>mallory"), "{job}");
    let page = exporter.get("/cluster?user=alice");
    assert!(page.contains("node-n1") && !page.contains("node-n2"), "{page}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let exporter = Exporter::start(&[]);
    let said = slurm::tessera(exporter.dir.path(), &["exporter", "--listen", &exporter.address]);
    assert!(said.contains(&format!("cannot listen on {}: ", exporter.address)), "{said}");
    assert!(said.contains("--listen takes another address and port"), "{said}");
    let said = slurm::tessera(exporter.dir.path(), &["exporter", "--every", "10ms"]);
    assert!(said.contains("at least 1s"), "{said}");
}

#[test]
fn slurmctlds_decisions_are_told_and_the_dashboard_asks_for_what_there_is() {
    let exporter = Exporter::start(&[]);
    has(&exporter.get("/metrics"), &["tessera_decisions_known 0"]);
    let page = Page::of(&exporter);
    decisions::say_placing(Placing::On);
    decisions::count(Ask::Submit, Err(Reason::Limit), Duration::from_micros(20));
    for took in [5, 500, 5_000_000] {
        decisions::count(Ask::RunNow, Ok(()), Duration::from_micros(took));
    }
    for took in [4_000, 6_000] {
        decisions::count_hook(Hook::JobTest, Duration::from_micros(took));
    }
    let answer = exporter.until("/metrics", "tessera_hook_seconds_count{hook=\"job_test\"} 2");
    has(
        &answer,
        &[
            "tessera_decisions_known 1",
            "tessera_placement_on 1",
            "tessera_decisions_total{ask=\"run_now\",answer=\"yes\"} 3",
            "tessera_decisions_total{ask=\"submit\",answer=\"no\"} 1",
            "tessera_rejections_total{ask=\"submit\",reason=\"limit\"} 1",
            "tessera_rejections_total{ask=\"run_now\",reason=\"no_room\"} 0",
            "# TYPE tessera_decision_seconds histogram",
            "tessera_decision_seconds_bucket{le=\"0.00001\",ask=\"run_now\"} 1",
            "tessera_decision_seconds_bucket{le=\"1.0\",ask=\"run_now\"} 2",
            "tessera_decision_seconds_bucket{le=\"+Inf\",ask=\"run_now\"} 3",
            "tessera_decision_seconds_sum{ask=\"run_now\"} 5.000505",
            "tessera_decision_seconds_count{ask=\"run_now\"} 3",
            "# TYPE tessera_hook_seconds histogram",
            "tessera_hook_seconds_bucket{le=\"0.005\",hook=\"job_test\"} 1",
            "tessera_hook_seconds_bucket{le=\"0.01\",hook=\"job_test\"} 2",
            "tessera_hook_seconds_sum{hook=\"job_test\"} 0.01",
            "tessera_hook_seconds_count{hook=\"reconfigure\"} 0",
        ],
    );
    the_dashboard_asks_for_the_metrics_that_there_are_and_for_all_of_them(&exporter);
    drop(page);
    exporter.until("/metrics", "tessera_decisions_known 0");
}

fn the_dashboard_asks_for_the_metrics_that_there_are_and_for_all_of_them(exporter: &Exporter) {
    exporter.put(
        "jobs",
        &(job("20", "bob", "RUNNING", 1, "2", ASKS) + &job("21", "bob", "PENDING", 1, "N/A", ASKS)),
    );
    let answer = exporter.until("/metrics", "tessera_job_wait_seconds");
    let known: Vec<&str> =
        answer.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let dashboard = include_str!("../../../contrib/grafana/tessera.json");
    let value: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    assert!(value["panels"].as_array().unwrap().len() > 8);
    let asked = dashboard.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let asked: Vec<&str> = asked.filter(|word| word.starts_with("tessera_")).collect();
    assert!(asked.len() > 10);
    let asked: Vec<&str> =
        asked.into_iter().map(|word| word.trim_end_matches("_bucket").trim_end_matches("_total")).collect();
    // They are there only while a GPU is left out, or with [idle] in tessera.toml.
    let sometimes = [
        "tessera_gpu_left_out_since_timestamp_seconds",
        "tessera_idle_jobs",
        "tessera_idle_slices",
        "tessera_idle_silent_nodes",
    ];
    for name in &asked {
        assert!(known.contains(name) || sometimes.contains(name), "{name} is not among {known:?}");
    }
    let rules = include_str!("../../../contrib/prometheus/tessera.rules.yml");
    let rules = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let alerts = rules.flat_map(|rule| rule.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    for name in alerts.filter(|word| word.starts_with("tessera_")) {
        let name = name.trim_end_matches("_bucket");
        let is_known = known.contains(&name) || sometimes.contains(&name);
        assert!(is_known, "a rule for alerts asks for {name}");
    }
    for name in known {
        assert!(asked.contains(&name), "no panel shows {name}");
    }
}
