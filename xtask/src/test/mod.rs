//! `cargo xtask test`: everything that must hold before a commit goes out. CI runs the same.
//!
//! Set-up, format and one build come first; the chroots of other Slurms are set up during the build. Then three lanes run
//! side by side. End-to-end tests mostly wait for daemons, so several of their programs run at a time, each with clusters
//! of its own. Each program runs on the Slurm of the next Debian. On those of Debian 13 and 12 run the programs whose outcome may depend on
//! Slurm's series. The second lane compiles, at a lower priority than the daemons: lints and documentation. The third runs the unit tests, two
//! programs at a time, all but gpu-node's at the lower priority too: it is the last to end, when nobody else needs the processors.
//!
//! The output of each part is printed whole when the part ends. The last line adds up all tests: `N passed, N failed`.

mod lanes;
mod programs;
mod tally;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use error_chain::with_causes;
use lab::artefacts;
use lab::command::line;
use lab::paths::{target_dir, workspace};
use slurm_releases::Release;

use crate::command::{TaskError, at, run};
use crate::setup::{self, Purpose};
use lanes::{Job, Lane, Outcome};
use programs::Program;
use tally::{Series, Tally};

/// Package of the end-to-end tests.
const END_TO_END: &str = "e2e";

/// End-to-end test programs at a time per processor: each uses less than a third of one.
const PER_PROCESSOR: usize = 3;

/// The end-to-end programs that start first on each Slurm, in this order: those that take longest.
const FIRST: [&str; 12] = [
    "task_shapes",
    "killed_daemons",
    "vanished_gpu",
    "calibration",
    "gpu_sets",
    "plain",
    "forgotten",
    "chaos",
    "moldable",
    "disagreements",
    "planner",
    "jobs",
];

/// The end-to-end programs that a whole run has on the oldest Slurm: those with a part that only this Slurm can run or answers in its own way,
/// and one for each way in which Tessera enters Slurm. `--slurm` runs all of them, and so does a whole run that has no other
/// Slurm of a supported series.
const ON_OLDEST: [&str; 18] = [
    "autodetect",
    "billing",
    "disagreements",
    "file_against_slurm",
    "forgotten",
    "gres_conf",
    "harness",
    "host_name",
    "jobs",
    "mps",
    "plain",
    "resize",
    "several_gpus",
    "steps",
    "task_tutorial",
    "tasks",
    "uninstall",
    "wrong_slurm",
];

/// The end-to-end programs that a whole run has only on the newest Slurm: the node, the commands or the programs of jobs decide their
/// outcome, or they compare Slurm with itself. `--slurm` runs all of them, and so does a whole run without the newest Slurm.
const ON_NEWEST: [&str; 21] = [
    "calibration",
    "compute_instances",
    "crowded",
    "cuda",
    "disagreements",
    "environments",
    "every_gpu",
    "hardware",
    "host_name",
    "kept_gpus",
    "links",
    "moldable",
    "pairs",
    "plain_nodes",
    "planner",
    "power_budgets",
    "scale",
    "shares",
    "task_programs",
    "task_shapes",
    "vanished_gpu",
];

/// Programs of unit tests at a time.
const UNITS_AT_A_TIME: usize = 2;

/// The programs of unit tests that start first: package and name of those that take longest. None is left for the end, when
/// one of two processors would have nothing to do.
const UNITS_FIRST: [(&str, &str); 4] =
    [("gpu-node", "gpu_node"), ("xtask", "case_pass"), ("xtask", "package"), ("cuda-sim", "kernels")];

/// Sets up, builds, and runs all checks and every test whose name contains `filter`, the end-to-end tests on each packaged
/// Slurm. With `slurm`, only the end-to-end tests, on that Slurm. Whether all succeeded.
pub(crate) fn run_all(filter: Option<&str>, slurm: Option<Release>) -> Result<bool, TaskError> {
    setup::check_machine()?;
    timed("format", || run(&mut cargo(&["fmt", "--all", "--check"])))?;
    let programs = setup::beside(None, Purpose::Tests, || timed("build", build))?;
    let (daemons, mut units): (Vec<Program>, Vec<Program>) =
        programs.into_iter().partition(|program| program.package == END_TO_END);
    units.sort_by_key(|program| {
        let first =
            UNITS_FIRST.iter().position(|first| *first == (program.package.as_str(), program.name.as_str()));
        first.unwrap_or(UNITS_FIRST.len())
    });
    let side_by_side = PER_PROCESSOR * thread::available_parallelism().map_or(1, usize::from);
    let whole = slurm.is_none();
    let checks = if whole { compiling() } else { Vec::new() };
    // gpu-node's tests wait for real programs, each with a deadline: they take turns with the end-to-end tests as equals.
    let at_their_priority = |program: &Program| {
        let job = program.job(filter);
        if program.package == "gpu-node" { job } else { job.at_low_priority() }
    };
    let units = if whole { units.iter().map(at_their_priority).collect() } else { Vec::new() };
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    let usable = usable(slurm, &mut skipped);
    let lanes = [
        Lane { width: side_by_side, jobs: on_slurms(daemons, filter, &usable, whole) },
        Lane { width: 1, jobs: at_low_priority(checks).collect() },
        Lane { width: UNITS_AT_A_TIME, jobs: units },
    ];
    let mut total = Tally::default();
    let mut series = Series::default();
    let outputs = target_dir().join("test-output");
    timed("tests", || {
        lanes::run(lanes, &outputs, |outcome| {
            let tally = Tally::of(&outcome);
            failed.extend(tally.failed_names(&outcome));
            skipped.extend(Tally::skipped_parts(&outcome));
            print(&outcome, &tally)?;
            series.add(&outcome, tally);
            total += tally;
            Ok(())
        })
    })?;
    say(&series.to_string())?;
    for part in &skipped {
        say(&format!("skipped: {part}\n"))?;
    }
    for name in &failed {
        say(&format!("failed: {name}\n"))?;
    }
    say(&format!("{total}\n"))?;
    Ok(failed.is_empty())
}

/// Builds everything once and lists the test programs.
fn build() -> Result<Vec<Program>, TaskError> {
    let mut command = cargo(&["build", "--quiet", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
    command.args(artefacts::AUDITED);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let start_error = |source| TaskError::Start { program: "cargo".to_owned(), source };
    let done = command.output().map_err(start_error)?;
    if !done.status.success() {
        return Err(TaskError::Failed { line: line(&command), status: done.status, output: String::new() });
    }
    Ok(programs::listed(&String::from_utf8_lossy(&done.stdout)))
}

/// The packaged Slurms to test, or only `slurm`. Left out, and said: one of a Debian that still changes and has gone on to a Slurm
/// without a table.
fn usable(slurm: Option<Release>, skipped: &mut Vec<String>) -> Vec<Release> {
    let releases = Release::packaged().map(|(release, _)| release);
    let wanted = releases.filter(|release| slurm.is_none_or(|only| only == *release));
    let usable = wanted.filter(|release| match lab::Slurm::from(*release).check() {
        Err(why) if release.moves() => {
            skipped.push(format!("all tests on Slurm {release}: {}", with_causes(&why)));
            false
        }
        _ => true,
    });
    usable.collect()
}

/// The end-to-end programs on these Slurms, the longest first. A `whole` run has few of them on the older Slurms if it has all of them on
/// the newest.
fn on_slurms(mut programs: Vec<Program>, filter: Option<&str>, slurms: &[Release], whole: bool) -> Vec<Job> {
    let rank = |program: &Program| FIRST.iter().position(|name| *name == program.name);
    programs.sort_by_key(|program| rank(program).unwrap_or(FIRST.len()));
    let has_newest = slurms.iter().any(|release| release.moves());
    let runs = |program: &Program, release: Release| {
        let name = program.name.as_str();
        let few = whole && has_newest && !release.moves();
        match release {
            _ if !few => true,
            Release::MACHINE => ON_OLDEST.contains(&name),
            _ => !ON_NEWEST.contains(&name),
        }
    };
    let jobs = programs.iter().flat_map(|program| {
        let slurms = slurms.iter().filter(move |release| runs(program, **release));
        slurms.map(move |release| program.job_on(filter, *release))
    });
    jobs.collect()
}

fn at_low_priority(jobs: Vec<Job>) -> impl Iterator<Item = Job> {
    jobs.into_iter().map(Job::at_low_priority)
}

/// Lints and documentation. No comment has an example that rustdoc would compile.
fn compiling() -> Vec<Job> {
    let lints = cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    // The command line's comments are its --help texts, in which [[nodes]] is no link.
    let mut doc = cargo(&["doc", "--quiet", "--workspace", "--exclude", "tessera-cli", "--no-deps"]);
    doc.arg("--document-private-items");
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let mut policy = Command::new(setup::cargo_deny::program());
    policy.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]).current_dir(workspace());
    vec![
        Job::check("lints", lints),
        Job::check("documentation", doc),
        Job::check("policy of dependencies", policy),
    ]
}

/// Prints what a part said, and how it ended. A test program that the filter left without tests says nothing.
fn print(outcome: &Outcome, tally: &Tally) -> Result<(), TaskError> {
    if outcome.succeeded && outcome.has_tests && tally.is_empty() {
        return Ok(());
    }
    let seconds = outcome.elapsed.as_secs_f64();
    let end = match (outcome.has_tests, outcome.succeeded) {
        (true, _) => tally.to_string(),
        (false, true) => "ok".to_owned(),
        (false, false) => "failed".to_owned(),
    };
    say(&format!("{}== {}: {end} ({seconds:.0} s)\n", outcome.output, outcome.name))
}

fn say(text: &str) -> Result<(), TaskError> {
    at(Path::new("stdout"), std::io::stdout().write_all(text.as_bytes()))
}

fn timed<T>(name: &str, work: impl FnOnce() -> Result<T, TaskError>) -> Result<T, TaskError> {
    eprintln!("== {name}");
    let begin = Instant::now();
    let done = work()?;
    eprintln!("== {name}: {:.0} s", begin.elapsed().as_secs_f64());
    Ok(done)
}

/// This very cargo, in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_builds_check_overflow() {
        let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
        let release = manifest.split("[profile.release]").nth(1).unwrap().split("\n[").next().unwrap();
        assert!(release.lines().any(|line| line == "overflow-checks = true"), "{release}");
    }

    #[test]
    fn every_series_has_tables() {
        let table = slurm_tables::Tables::parse(slurm_tables::TABLES).unwrap();
        for release in Release::ALL {
            assert!(table.releases.iter().any(|known| release.is_series_of(&known.to_string())), "{release}");
        }
    }

    /// The source of a packaged Slurm is there, unless its Debian still changes: its tables are compared with it.
    #[test]
    fn packaged_slurms_are_as_their_tables_say() {
        for (release, _) in Release::packaged().filter(|(release, _)| !release.moves()) {
            let slurm = lab::Slurm::from(release);
            crate::slurm_table::compare(slurm.source().unwrap()).unwrap();
        }
    }

    #[test]
    fn the_documentation_says_how_every_series_was_tried() {
        let table = std::fs::read_to_string(workspace().join("docs/compatibility.md")).unwrap();
        for release in Release::ALL {
            let tried = |line: &str| line.starts_with(&format!("| {release} | {release}."));
            assert!(table.lines().any(tried), "{release}: not in docs/compatibility.md");
        }
    }

    #[test]
    fn the_programs_that_are_named_exist() {
        let tests = workspace().join("tests/tests");
        for name in FIRST.into_iter().chain(ON_OLDEST).chain(ON_NEWEST) {
            let (file, dir) = (tests.join(format!("{name}.rs")), tests.join(name));
            assert!(file.is_file() || dir.is_dir(), "{name}: not in {}", tests.display());
        }
    }

    /// A program with something for an older Slurm alone would otherwise never run that.
    #[test]
    fn what_names_an_older_slurm_runs_on_it() {
        let named = ["V22_05", "_22_05"];
        for entry in std::fs::read_dir(workspace().join("tests/tests")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            if named.iter().any(|word| text.contains(word)) {
                assert!(ON_OLDEST.contains(&name.as_str()), "{name}: not in ON_OLDEST");
            }
            if text.contains("_24_11") {
                assert!(!ON_NEWEST.contains(&name.as_str()), "{name}: in ON_NEWEST");
            }
        }
    }

    #[test]
    fn the_unit_tests_that_start_first_exist() {
        for (package, program) in UNITS_FIRST {
            let groups = std::fs::read_dir(workspace().join("crates")).unwrap();
            let groups = groups.map(|group| group.unwrap().path()).chain([workspace()]);
            let part = groups.map(|group| group.join(package)).find(|dir| dir.is_dir());
            let part = part.unwrap_or_else(|| panic!("no package {package}"));
            let tests = part.join("tests");
            let found = tests.join(format!("{program}.rs")).is_file() || tests.join(program).is_dir();
            assert!(found || program == package.replace('-', "_"), "{program}: not in {}", part.display());
        }
    }

    /// A test that names a series would run twice on it, and never on the other, if its own name did not say so.
    #[test]
    fn a_test_for_one_series_says_so_in_its_name() {
        let mut files = vec![workspace().join("tests/tests")];
        let mut seen = 0;
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let (text, mut test) = (std::fs::read_to_string(&path).unwrap(), "");
            for line in text.lines() {
                test = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()).unwrap_or(test);
                let Some((_, named)) = line.split_once(".slurm(Release::") else { continue };
                let named = named.split(')').next().unwrap().replace("MACHINE", "V22_05");
                assert!(test.ends_with(&named.replace('V', "_")), "{}: {test}", path.display());
                seen += 1;
            }
        }
        assert!(seen > 3, "{seen} found");
    }
}
