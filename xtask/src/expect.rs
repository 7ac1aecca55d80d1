//! `cargo xtask expect`: Slurm's own expect tests on plain Slurm and on Slurm with Tessera, and which of them differ.
//!
//! The tests come with Slurm's source. A test that fails on plain Slurm says nothing about Tessera: what counts are those
//! that pass there and not here. They are tried again alone, because some of them wait for fixed times.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, thread};

use clap::Args;
use error_chain::with_causes;
use lab::command::{run, wait_for};
use lab::config::Templates;
use lab::{Cluster, User};
use slurm_releases::Release;

use crate::cluster::guardian;
use crate::command::{TaskError, absolute, at};
use crate::setup;

/// Most seconds of one test.
const MOST_SECONDS: u64 = 240;
/// How often a test that differs is tried once more.
const AGAIN: usize = 2;

/// Options of `expect`.
#[derive(Args)]
pub(crate) struct Expect {
    /// Groups of tests, such as 39, or single ones, such as 39.4
    #[arg(value_name = "TEST", required = true)]
    tests: Vec<String>,
    /// Directory for logs and clusters
    #[arg(long)]
    dir: PathBuf,
    /// Hold tasks to their GPUs by a device cgroup
    #[arg(long)]
    device_cgroup: bool,
    /// Leave device nodes open and GPUs uncut, as a site without cgroups may choose
    #[arg(long)]
    open: bool,
}

/// Outcome of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TestOutcome {
    Passed,
    Skipped,
    Failed,
}

impl TestOutcome {
    /// The tests' own exit codes: above 127 for a test whose conditions are not met.
    fn of(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Passed,
            Some(124 | 137) | None => Self::Failed,
            Some(code) if code > 127 => Self::Skipped,
            Some(_) => Self::Failed,
        }
    }
}

/// A cluster of the two.
struct Side {
    cluster: Cluster,
    /// A copy of the tests that the user may write to.
    tests: PathBuf,
    logs: PathBuf,
}

/// Runs the tests. Whether all that pass on plain Slurm pass here.
#[expect(clippy::print_stdout, reason = "the result of the task")]
pub(crate) fn compare(options: &Expect) -> Result<bool, TaskError> {
    setup::run(Some(Release::MACHINE), setup::Purpose::Tests)?;
    if Command::new("expect").arg("-v").output().is_err() {
        return Err(TaskError::Other("no expect here: apt-get install expect gcc".to_owned()));
    }
    let dir = absolute(&options.dir)?;
    let stock = Side::start(options, &dir.join("stock"), true)?;
    let ours = Side::start(options, &dir.join("ours"), false)?;
    let tests = listed(&stock.tests, &options.tests)?;
    let (plain, mine) = thread::scope(|scope| {
        let mine = scope.spawn(|| ours.all(&tests));
        (stock.all(&tests), mine.join())
    });
    let mine = mine.map_err(|_| TaskError::Other("a thread panicked".to_owned()))??;
    let plain = plain?;
    let count = |all: &[TestOutcome], which: TestOutcome| all.iter().filter(|one| **one == which).count();
    for (name, all) in [("plain Slurm", &plain), ("Tessera", &mine)] {
        let [passed, failed, skipped] =
            [TestOutcome::Passed, TestOutcome::Failed, TestOutcome::Skipped].map(|which| count(all, which));
        println!("{name}: {passed} passed, {failed} failed, {skipped} skipped, of {}", tests.len());
    }
    let mut worse = 0;
    for (at, test) in tests.iter().enumerate().filter(|(at, _)| plain[*at] != mine[*at]) {
        let (mut of_stock, mut of_ours) = (vec![plain[at]], vec![mine[at]]);
        for _ in 0..AGAIN {
            of_stock.push(stock.one(test)?);
            of_ours.push(ours.one(test)?);
        }
        let differs = of_stock.contains(&TestOutcome::Passed) && !of_ours.contains(&TestOutcome::Passed);
        worse += usize::from(differs);
        let verdict = if differs { "DIFFERS" } else { "by chance" };
        println!("{verdict}: test{test}: plain Slurm {of_stock:?}, Tessera {of_ours:?}");
        for side in [&stock, &ours] {
            side.why(test).iter().for_each(|line| println!("    {}: {line}", side.name()));
        }
    }
    println!("{worse} tests pass on plain Slurm and never here");
    Ok(worse == 0)
}

/// The tests that were asked for, in order of their numbers.
fn listed(folder: &Path, asked: &[String]) -> Result<Vec<String>, TaskError> {
    let mut tests = Vec::new();
    for file in at(folder, fs::read_dir(folder))?.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some((group, number)) = name.strip_prefix("test").and_then(|name| name.split_once('.')) else {
            continue;
        };
        let (Ok(group), Ok(number)) = (group.parse::<u32>(), number.parse::<u32>()) else { continue };
        let (whole, one) = (group.to_string(), format!("{group}.{number}"));
        if asked.iter().any(|asked| *asked == whole || *asked == one) {
            tests.push((group, number));
        }
    }
    tests.sort_unstable();
    Ok(tests.into_iter().map(|(group, number)| format!("{group}.{number}")).collect())
}

/// Four nodes of four GPUs. Slurm names control groups after nodes, so each run has names of its own.
fn nodes(stock: bool, open: bool) -> Result<Templates, TaskError> {
    let prefix = if stock { "s" } else { "t" };
    let node = |n: u32| {
        format!(
            "[[nodes]]\nnames = \"x{}{prefix}{n}\"\ngpu = \"a100-40gb\"\ncount = 4\nmig = \"{}\"\n",
            std::process::id(),
            if open { "off" } else { "dynamic" }
        )
    };
    let mut templates = Templates::for_nodes(&(1..=4).map(node).collect::<String>())?;
    let cores = "CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=1";
    templates.slurm = templates.slurm.replace("CPUs=64", cores);
    if open {
        templates.tessera = templates.tessera.replace("[node]\n", "[node]\nmanage_device_nodes = false\n");
    }
    Ok(templates)
}

impl Side {
    fn start(options: &Expect, dir: &Path, is_stock: bool) -> Result<Self, TaskError> {
        let mut builder = Cluster::builder()
            .dir(&dir.join("cluster"))
            .slurm(Release::MACHINE)
            .templates(nodes(is_stock, options.open)?)
            .stock(is_stock)
            .guardian(guardian()?);
        if options.device_cgroup {
            builder = builder.device_cgroup();
        }
        let cluster = builder.start()?;
        let none = || TaskError::Other("there is no source tree with Slurm's expect suite".to_owned());
        let source = cluster.slurm_source().ok_or_else(none)?.to_path_buf();
        let (tests, logs) = (dir.join("expect"), dir.join("logs"));
        at(&logs, fs::create_dir_all(&logs))?;
        run(Command::new("cp").arg("-r").arg(source.join("testsuite/expect")).arg(&tests))?.ok()?;
        let local = format!(
            "set slurm_dir /usr\nset build_dir {0}\nset src_dir {0}\nset testsuite_user {1}\n",
            source.display(),
            User::Bob
        );
        at(&tests, fs::write(tests.join("globals.local"), local))?;
        run(Command::new("chown").args(["-R", User::Alice.name()]).arg(&tests))?.ok()?;
        Ok(Self { cluster, tests, logs })
    }

    fn name(&self) -> String {
        self.logs.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
    }

    fn all(&self, tests: &[String]) -> Result<Vec<TestOutcome>, TaskError> {
        let one = |test: &String| {
            let outcome = self.one(test)?;
            eprintln!("expect: {} {test}: {outcome:?}", self.name());
            Ok(outcome)
        };
        tests.iter().map(one).collect()
    }

    fn one(&self, test: &str) -> Result<TestOutcome, TaskError> {
        let path = self.logs.join(format!("test{test}"));
        let log = at(&path, fs::File::create(&path))?;
        let errors = at(&path, log.try_clone())?;
        let mut command = self.cluster.command(User::Alice, "timeout")?;
        let script = self.tests.join(format!("test{test}"));
        command.args(["-k", "10", &MOST_SECONDS.to_string(), "expect"]).arg(script);
        command.current_dir(&self.tests).env("HOME", &self.tests).env("SHELL", "/bin/bash");
        let status = command.stdin(Stdio::null()).stdout(log).stderr(errors).status();
        let outcome = TestOutcome::of(at(&path, status)?.code());
        self.settle();
        Ok(outcome)
    }

    /// Nothing of one test is left for the next.
    fn settle(&self) {
        let _ = self.cluster.run(User::Root, "scancel", &["-u", User::Alice.name()]);
        let idle = wait_for("idle nodes", std::time::Duration::from_secs(60), || {
            let _ = self.cluster.run(User::Root, "scontrol", &["update", "nodename=ALL", "state=resume"]);
            let shown = self.cluster.run(User::Root, "sinfo", &["-h", "-o", "%T"]);
            let shown = shown.map_err(|error| with_causes(&error))?.stdout;
            if shown.split_whitespace().all(|state| state == "idle") { Ok(()) } else { Err(shown) }
        });
        if let Err(error) = idle {
            eprintln!("expect: {}: {}", self.name(), with_causes(&error));
        }
    }

    /// The last lines in which a test says why it did not pass.
    fn why(&self, test: &str) -> Vec<String> {
        let text = fs::read(self.logs.join(format!("test{test}"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let tells =
            |line: &&str| ["Error", "Fatal", "FAILURE", "SKIPPED"].iter().any(|word| line.contains(word));
        let lines: Vec<&str> = text.lines().filter(tells).collect();
        lines[lines.len().saturating_sub(4)..].iter().map(|line| (*line).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_tests_own() {
        let outcomes =
            [Some(0), Some(1), Some(127), Some(128), Some(255), Some(124), None].map(TestOutcome::of);
        use TestOutcome::{Failed, Passed, Skipped};
        assert_eq!(outcomes, [Passed, Failed, Failed, Skipped, Skipped, Failed, Failed]);
    }

    #[test]
    fn groups_and_single_tests_come_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["test1.10", "test1.9", "test1.9.prog.c", "test12.1", "test2.1", "globals", "inc1.1"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let listed = |asked: &[&str]| {
            listed(dir.path(), &asked.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(listed(&["12", "1"]), ["1.9", "1.10", "12.1"]);
        assert_eq!(listed(&["2.1", "1.9"]), ["1.9", "2.1"]);
    }
}
