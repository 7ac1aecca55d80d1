//! `cargo xtask cluster …`: a cluster to try things on.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lab::artefacts::{self, Profile};
use lab::{Cluster, User};

use crate::command::{TaskError, absolute, at};
use crate::progress::ShownStep;
use crate::setup::Purpose;
use crate::which::Which;

/// Actions on the cluster.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Build, lay out and start a cluster, and leave it running
    Up(Up),
    /// End the cluster's daemons and what they left running
    Down(Dir),
    /// Print the shell exports under which commands speak to the cluster
    Env(Dir),
    /// Run a command where the cluster's Slurm is, in its chroot if it has one; without a command, a shell
    Run(Inside),
    /// Print the end of the daemons' logs
    Logs(Dir),
}

/// Options of `cluster up`.
#[derive(Args)]
pub(crate) struct Up {
    /// Directory for the cluster's files
    #[arg(long)]
    dir: PathBuf,
    /// A tessera.toml whose nodes are simulated, instead of the example's; one plain name per `[[nodes]]`
    #[arg(long)]
    nodes: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// Build for release
    #[arg(long)]
    release: bool,
    /// Slurm alone, without any part of Tessera
    #[arg(long)]
    stock: bool,
    /// Add a second slurmctld that takes over when the first is gone
    #[arg(long)]
    backup: bool,
    /// Add slurmdbd with a database of its own, which `tessera report`, `usage` and `history` and Slurm's limits need
    #[arg(long)]
    accounting: bool,
    /// Remove what an earlier cluster left in the directory
    #[arg(long)]
    fresh: bool,
}

/// Choice of the cluster.
#[derive(Args)]
pub(crate) struct Dir {
    /// The cluster's directory
    #[arg(long)]
    dir: PathBuf,
}

/// A command, and where.
#[derive(Args)]
pub(crate) struct Inside {
    /// The cluster's directory
    #[arg(long)]
    dir: PathBuf,
    /// Who runs it: tessera-alice or tessera-bob, two users, or root, the administrator
    #[arg(long, default_value_t = User::Alice)]
    user: User,
    /// The command and its arguments
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs one action.
pub(crate) fn run(action: Action) -> Result<(), TaskError> {
    match action {
        Action::Up(up) => start(&up),
        Action::Down(Dir { dir }) => {
            let mut cluster = Cluster::open(&absolute(&dir)?)?;
            cluster.down();
            Ok(())
        }
        Action::Env(Dir { dir }) => {
            let cluster = Cluster::open(&absolute(&dir)?)?;
            if cluster.chroot().is_some() {
                return Err(TaskError::Other(format!(
                    "Slurm {} of this cluster runs in a chroot: `cargo xtask cluster run --dir {} -- sinfo`",
                    cluster.release(),
                    dir.display()
                )));
            }
            let mut text = String::new();
            for (name, value) in cluster.environment() {
                // Written to a String: cannot fail.
                let _ = writeln!(text, "export {name}='{}'", value.replace('\'', "'\\''"));
            }
            print(&text)
        }
        Action::Run(inside) => run_inside(&inside),
        Action::Logs(Dir { dir }) => print(&Cluster::open(&absolute(&dir)?)?.log_tails()),
    }
}

fn run_inside(inside: &Inside) -> Result<(), TaskError> {
    let cluster = Cluster::open(&absolute(&inside.dir)?)?;
    if inside.command.is_empty() {
        let dir = inside.dir.display();
        eprintln!(
            "cluster: a shell as {} in {dir}; `exit` leaves it, --user root makes it the administrator's",
            inside.user
        );
    }
    let (program, args) = inside.command.split_first().map_or(("bash", &[][..]), |(p, args)| (p, args));
    // The error names the program as typed, not the long command that enters a chroot.
    let status = at(Path::new(program), cluster.command(inside.user, program)?.args(args).status())?;
    if status.success() { Ok(()) } else { Err(TaskError::Other(format!("{program}: {status}"))) }
}

fn start(up: &Up) -> Result<(), TaskError> {
    let profile = if up.release { Profile::Release } else { Profile::Debug };
    let slurm =
        up.which.set_up_beside(Purpose::Clusters, || if up.stock { Ok(()) } else { build(profile) })?;
    let dir = absolute(&up.dir)?;
    if Cluster::open(&dir).is_ok() {
        eprintln!("cluster: ending the cluster of {} that was there before", dir.display());
        lab::cluster::end(&dir);
        if up.fresh {
            at(&dir, std::fs::remove_dir_all(&dir))?;
        }
    }
    let mut builder = Cluster::builder().dir(&dir).slurm(slurm).stock(up.stock).guardian(guardian()?);
    if let Some(file) = &up.nodes {
        let text = at(file, std::fs::read_to_string(file))?;
        without_errors(file, &text)?;
        builder = builder.templates(lab::config::Templates::for_nodes(&text)?);
    }
    if up.backup {
        builder = builder.backup();
    }
    if up.accounting {
        builder = builder.accounting();
    }
    if up.release {
        builder = builder.release();
    }
    let mut cluster = builder.start()?;
    examples(&cluster.layout().jobs().join("contrib/example"))?;
    cluster.keep();
    let dir = dir.display();
    eprintln!("cluster: up. `cargo xtask cluster run --dir {dir}` opens a shell in it as a user");
    if cluster.chroot().is_none() {
        eprintln!("cluster: `eval \"$(cargo xtask cluster env --dir {dir})\"` makes this shell speak to it");
    }
    eprintln!("cluster: `cargo xtask cluster down --dir {dir}` ends it");
    Ok(())
}

/// Builds what a cluster loads, and shows how long that takes.
pub(crate) fn build(profile: Profile) -> Result<(), TaskError> {
    let what = "building plugins, programs and the simulator";
    eprintln!("cluster: {what}: one to four minutes the first time, on two processors");
    let _step = ShownStep::new(what);
    Ok(artefacts::build(profile)?)
}

/// Refuses a tessera.toml with errors: slurmctld would start all the same, and leave GPUs to Slurm.
fn without_errors(file: &Path, text: &str) -> Result<(), TaskError> {
    let beside = |name: &str| std::fs::read_to_string(file.with_file_name(name));
    let (_, errors) = site_config::parse(&file.display().to_string(), text, &beside);
    if errors.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = errors.iter().map(site_problems::shown).collect();
    Err(TaskError::Other(format!("no cluster was started:\n{}", shown.join("\n"))))
}

/// Copies what the documentation's examples name to where the cluster's shells begin.
fn examples(to: &Path) -> Result<(), TaskError> {
    at(to, std::fs::create_dir_all(to))?;
    // Every user's `tessera plan submit` writes its record there.
    at(to, std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o1777)))?;
    let from = lab::paths::workspace().join("contrib/example");
    for entry in at(&from, std::fs::read_dir(&from))? {
        let entry = at(&from, entry)?;
        at(&entry.path(), std::fs::copy(entry.path(), to.join(entry.file_name())))?;
    }
    Ok(())
}

/// The command that makes this program a cluster's guardian: it ends the cluster when the process that started it is gone.
pub(crate) fn guardian() -> Result<Vec<String>, TaskError> {
    let program =
        std::env::current_exe().map_err(|error| TaskError::Other(format!("own program: {error}")))?;
    Ok(vec![program.display().to_string(), "guard".to_owned()])
}

fn print(text: &str) -> Result<(), TaskError> {
    at(Path::new("stdout"), std::io::stdout().write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_errors_start_no_cluster() {
        let file = Path::new("nodes.toml");
        let good = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        assert!(without_errors(file, good).is_ok());
        let why = without_errors(file, &format!("{good}[billing]\n")).unwrap_err().to_string();
        assert!(why.contains("nodes.toml:5:2: unknown key billing"), "{why}");
    }

    #[test]
    fn a_shell_finds_the_files_that_the_documentation_names() {
        let dir = tempfile::tempdir().unwrap();
        examples(&dir.path().join("contrib/example")).unwrap();
        let mut named = 0;
        for page in ["README.md", "docs/tutorial.md", "docs/gpu-tasks.md"] {
            let text = std::fs::read_to_string(lab::paths::workspace().join(page)).unwrap();
            let commands = text.split("```").skip(1).step_by(2).flat_map(str::split_whitespace);
            for file in commands.filter(|word| word.starts_with("contrib/example")) {
                assert!(dir.path().join(file).exists(), "{page} names {file}");
                named += 1;
            }
        }
        assert!(named > 3, "{named}");
    }
}
