//! Commands of Slurm and `tessera` that the documentation shows, run as a user or root in a cluster.

mod transcript;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;

use lab::command::{Done, PATIENCE, run, wait_for};
use lab::pages::{Place, Shown, commands, shown};
use lab::paths::workspace;
use lab::{Cluster, JobId, User};

use super::common::on;

/// Pages that other tests run, or that report what developers measured.
const OTHER_PAGES: [&str; 6] = [
    "docs/decisions/",
    "docs/figures/",
    "docs/gpu-tasks.md",
    "docs/real-gpu.md",
    "docs/slurm-quirks.md",
    "docs/upgrade.md",
];

/// Commands of `tessera` that read, and so can be run at any time.
const READ: [&str; 14] = [
    "check", "discover", "doctor", "explain", "free", "history", "idle", "layout", "power", "profiles",
    "report", "times", "usage", "why",
];

/// Lines that are not run here, and why.
const NOT_RUN: [(&str, &str); 6] = [
    ("--gpu-isolation=gpu-tasks", "this cluster has no pool of GPU tasks; task_tutorial has"),
    ("tessera check", "this cluster's directories are below /tmp, which it reports"),
    ("tessera doctor | grep ^bad", "nothing is bad here; wrong_slurm has such a cluster"),
    ("tessera idle", "this cluster has no [idle]; sick_gpu has"),
    ("tessera idle --act", "this cluster has no [idle]; sick_gpu has"),
    ("tessera idle --since 2h", "this cluster has no [idle]; sick_gpu has"),
];

/// Begins of lines that change the cluster: they run one after another, after all others.
const CHANGES: [&str; 4] =
    ["sacctmgr ", "scontrol requeue", "scontrol update nodename", "scontrol reconfigure"];

/// Jobs that stand for those of the pages.
struct Jobs {
    ended: JobId,
    running: JobId,
    waiting: JobId,
    /// Waits with whole GPUs, by Slurm's own option.
    plain: JobId,
}

/// Puts into the jobs' directory what the pages name.
fn files(cluster: &Cluster) {
    let jobs = cluster.layout().jobs();
    let (from, to) = (workspace().join("contrib/example"), jobs.join("contrib/example"));
    std::fs::create_dir_all(&to).unwrap();
    std::fs::set_permissions(&to, Permissions::from_mode(0o1777)).unwrap();
    for entry in std::fs::read_dir(&from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    for script in ["job.sh", "solver.sh", "stream.sh"] {
        std::fs::write(jobs.join(script), "#!/bin/sh\n").unwrap();
    }
}

fn jobs(cluster: &Cluster) -> Jobs {
    let submit = |options: &[&str], script| cluster.sbatch(User::Bob, options, script).unwrap();
    let full = submit(&["-w", "n2", "--gres=gpu:4", "-t", "60"], "exec sleep 600");
    let running = submit(&["-w", "n1", "--gpu-isolation=mig:1g.5gb"], "exec sleep 600");
    let ended = submit(&["-w", "n1", "--gpu-mem=10G"], "true");
    cluster.wait_running(full).unwrap();
    cluster.wait_running(running).unwrap();
    cluster.wait_end(ended).unwrap();
    let waiting = submit(&["-w", "n2", "--gpu-isolation=mig:3g.40gb"], "true");
    cluster.wait_job(waiting, "waiting for GPUs", |job| job.reason() == "Resources").unwrap();
    wait_for("slurmdbd to know the job that ended", PATIENCE, || {
        let done = cluster.run(User::Root, "tessera", &["report", &ended.to_string()]);
        done.and_then(Done::ok).map(drop).map_err(|e| format!("{e:?}"))
    })
    .unwrap();
    let plain = submit(&["--hold", "--gres=gpu:1"], "true");
    Jobs { ended, running, waiting, plain }
}

/// The line with a job of the cluster for the page's, and changed so that it allocates nothing.
fn prepared(shown: &Shown, jobs: &Jobs) -> String {
    let text = &shown.text;
    let has = |part: &str| text.contains(part);
    let job = if has("report") || has("sacct") {
        jobs.ended
    } else if has("show job") || has("--jobid") || has("requeue") {
        jobs.running
    } else if has("Gres=gpu") {
        jobs.plain
    } else {
        jobs.waiting
    };
    let is_job = |word: &str| matches!(word, "ID" | "JOBID") || word.len() < 5 && word.parse::<u32>().is_ok();
    let words = text.split(' ').scan(String::new(), |before, word| {
        let takes = matches!(
            before.as_str(),
            "report" | "why" | "change" | "job" | "release" | "requeue" | "-j" | "--jobid"
        );
        let word = match word {
            word if takes && (is_job(word) || word == "N") => job.to_string(),
            "sbatch" | "srun" if !has("--jobid") => format!("{word} --test-only"),
            word => word
                .replace("JobId=ID", &format!("JobId={job}"))
                .replace("jobid=N", &format!("jobid={job}"))
                .replace("JOBID", &job.to_string())
                .replace("nodename=N", "nodename=n1")
                .replace("=N", "=2")
                .replace("NODE", "n1")
                .replace("NAME", if has("qos") { "normal" } else { "physics" }),
        };
        before.clone_from(&word);
        Some(word)
    });
    let line = words.collect::<Vec<_>>().join(" ");
    let (first, last) =
        (line.split(' ').next().unwrap_or_default(), line.rsplit(' ').next().unwrap_or_default());
    let only_options = last.starts_with('-') || line.ends_with("--test-only");
    match first {
        "sbatch" if only_options => format!("{line} --wrap true"),
        "srun" if only_options => format!("{line} true"),
        "salloc" => format!("{line} true"),
        "sacctmgr" => line.replacen("sacctmgr", "sacctmgr -i", 1),
        _ => line,
    }
}

/// Tells if a line is run here: all its commands are of Slurm, of `tessera` that reads, or filters after those.
fn is_run(shown: &Shown) -> bool {
    let mentioned = match shown.place {
        Place::Command { .. } => false,
        Place::Mention => true,
        Place::ForSbatch | Place::Sample(_) => return false,
    };
    let all = commands(&shown.text);
    let Some(first) = all.first() else { return false };
    let has = |word: &str| first.get(1).is_some_and(|second| second == word);
    let runs = match first[0].as_str() {
        "tessera" => {
            // A text mentions many commands without their arguments.
            let whole =
                !mentioned || first.len() > 2 || !["explain", "why", "report"].iter().any(|word| has(word));
            whole && READ.iter().any(|word| has(word))
        }
        "sbatch" | "srun" | "salloc" | "scontrol" | "sinfo" | "squeue" | "sacct" | "sacctmgr" | "sreport" => {
            !mentioned || first.len() > 2
        }
        _ => false,
    };
    // The files of the machine stay as they are.
    let elsewhere = shown.text.contains("> /") || shown.text.contains('…');
    runs && !elsewhere && !OTHER_PAGES.iter().any(|page| shown.page.starts_with(page))
}

/// Options of `sbatch` in a table, as a line.
fn for_sbatch(shown: &Shown) -> Option<String> {
    (shown.place == Place::ForSbatch).then(|| format!("sbatch --test-only {} --wrap true", shown.text))
}

/// Returns who runs a line: root if the page says so, or if Slurm lets no user do it.
fn user(shown: &Shown) -> User {
    let roots = [
        "sacctmgr",
        "scontrol update nodename",
        "scontrol update jobid",
        "scontrol reconfigure",
        "tessera doctor",
        "tessera discover",
        "tessera power status",
    ];
    let typed = matches!(shown.place, Place::Command { root: true, .. });
    if typed || roots.iter().any(|begin| shown.text.starts_with(begin)) { User::Root } else { User::Bob }
}

/// A line, who runs it, and where it is shown.
type Line = (String, User, String);

/// Returns each line that is run here, once, in the order of the pages.
fn lines(all: &[Shown], jobs: &Jobs) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for shown in all.iter().filter(|shown| !NOT_RUN.iter().any(|(line, _)| shown.text == *line)) {
        let line = for_sbatch(shown).or_else(|| is_run(shown).then(|| prepared(shown, jobs)));
        if let Some(line) = line.filter(|line| !lines.iter().any(|(other, ..)| other == line)) {
            lines.push((line, user(shown), shown.to_string()));
        }
    }
    for (line, _) in NOT_RUN {
        assert!(all.iter().any(|shown| shown.text == line), "on no page: {line}");
    }
    lines
}

/// Runs a line where the pages' files are; says what failed.
fn problem(cluster: &Cluster, (line, user, page): &Line) -> Option<String> {
    let here = cluster.layout().jobs().display().to_string();
    let mut shell = cluster.command_on("n1", *user, "sh").unwrap();
    let done = run(shell.args(["-c", &format!("cd {here} && {line}")])).unwrap();
    (done.code != Some(0)).then(|| format!("{page}\n  {line}\n  {} {}", done.stdout, done.stderr))
}

/// Runs the lines, four at a time, and then those that change the cluster.
fn each_runs(cluster: &Cluster, lines: Vec<Line>) {
    assert!(lines.len() > 90, "{lines:#?}");
    let changes = |(line, ..): &Line| CHANGES.iter().any(|begin| line.starts_with(begin));
    let (changes, others): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(changes);
    let queue = Mutex::new(others.iter());
    let work = || {
        let next = || queue.lock().unwrap().next();
        std::iter::from_fn(next).filter_map(|line| problem(cluster, line)).collect::<Vec<String>>()
    };
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); 4].map(|()| scope.spawn(work));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    wrong.extend(changes.iter().filter_map(|line| problem(cluster, line)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn sacctmgr(cluster: &Cluster, args: &[&str]) {
    cluster.run(User::Root, "sacctmgr", &[&["-i"], args].concat()).unwrap().ok().unwrap();
}

/// Runs them as Bob, whose account the pages' limits name.
pub(crate) fn hold(cluster: &mut Cluster) {
    files(cluster);
    sacctmgr(cluster, &["add", "account", "physics"]);
    sacctmgr(cluster, &["add", "user", User::Bob.name(), "account=physics"]);
    wait_for("slurmctld to know the account", PATIENCE, || {
        let done = cluster.run(User::Bob, "sbatch", &["--test-only", "--wrap", "true"]);
        done.and_then(Done::ok).map(drop).map_err(|e| format!("{e:?}"))
    })
    .unwrap();
    on(cluster, |cluster| {
        transcript::holds(cluster, "docs/tutorial.md", &[]);
        cluster.run(User::Root, "scancel", &["-u", User::Bob.name()]).unwrap().ok().unwrap();
        cluster.wait_idle().unwrap();
        // That depends on samples of a GPU's memory.
        let left_out = ["tessera report"];
        transcript::holds(cluster, "docs/choosing-a-size.md", &left_out);
        let jobs = jobs(cluster);
        each_runs(cluster, lines(&shown().unwrap(), &jobs));
        let none = ["MaxTRESPerUser=license/slice=-1", "GrpTRESMins=license/slice=-1", "flags-=DenyOnLimit"];
        sacctmgr(cluster, &[&["modify", "qos", "normal", "set"], &none[..]].concat());
        cluster.run(User::Root, "scontrol", &["update", "nodename=n1", "state=resume"]).unwrap();
        cluster.wait_ready(PATIENCE).unwrap();
    });
}
