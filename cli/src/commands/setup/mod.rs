//! `tessera setup`: fits the plugins to the installed Slurm, and Slurm's files to the plugins.

mod conf;
mod discovered;
mod found;
mod marks;
mod plan;
mod programs;
mod read_order;
mod remove;
mod retire;
mod slurm_conf_file;
mod slurm_dirs;
mod stamp;
mod write;

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use node_slurm::slurm_conf;
use slurm_tables::Version;

use crate::commands::discover;
use crate::files::read_text;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use discovered::Discovered;
use plan::{FileChange, Files, Installed, Plan, is_sent_to_nodes, plan};
pub(crate) use slurm_conf_file::{Plugstack, SlurmConfFile};

/// Prepare the installed Slurm and its files for Tessera
///
/// Slurm loads a plugin only if it bears Slurm's own version: this command stamps copies of the plugins with it. It reads
/// slurm.conf, gres.conf, plugstack.conf and tessera.toml with the files that they include, asks the driver for GPUs, and
/// shows which lines are missing, what stays as it is, and what to restart. Without --apply nothing is changed. It puts each
/// changed line between two comments, so that --remove can take it back. After an upgrade of Slurm without a package, run it
/// again with --plugins-only --apply. Exit status 1 if there is something left to do.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera setup                        what would be changed on this machine
  tessera setup --node 'n[1-64]'       these nodes have this machine's GPUs
  tessera setup --apply                change it
  tessera setup --plugins-only --apply stamp the plugins, leave all files
  tessera setup --remove --keep-jobs   what would go while jobs run
  tessera setup --remove               what would be taken back")]
pub(crate) struct SetupArgs {
    /// Only show what would be changed, as without any option
    #[arg(long, conflicts_with = "apply")]
    check: bool,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// Take back what --apply has changed, and remove the stamped plugins
    #[arg(long, conflicts_with_all = ["slurm", "node", "from"])]
    remove: bool,
    /// Take Tessera out of slurmctld and of new submissions only: running jobs keep what they have
    #[arg(long, requires = "remove", conflicts_with = "plugins_only")]
    keep_jobs: bool,
    /// Leave the files of Slurm and Tessera alone: packages do
    #[arg(long, conflicts_with_all = ["node", "from", "slurm_conf"])]
    plugins_only: bool,
    /// Nodes that have this machine's GPUs, by default this machine: n[1-64]
    #[arg(long, value_name = "NAMES")]
    node: Option<String>,
    /// GPUs of other nodes, from `tessera discover --format all` there
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// The slurm.conf to change, by default that of SLURM_CONF, then /etc/slurm/slurm.conf
    #[arg(long, value_name = "FILE")]
    slurm_conf: Option<PathBuf>,
    /// The Slurm that will load the plugins, instead of the one that is found: 24.11.5
    #[arg(long, value_name = "VERSION")]
    slurm: Option<Version>,
    /// The directory for stamped plugins; those without a stamp are in `unstamped` below it
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

pub(crate) fn run(args: &SetupArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let dir = args.plugins.clone().map_or_else(stamp::beside_this_program, |dir| Ok(absolute(dir)))?;
    if args.keep_jobs {
        return retire::run(&dir, &slurm_conf_of(args), args.apply);
    }
    if args.remove {
        return remove::run(&dir, &slurm_conf_of(args), args.plugins_only, args.apply);
    }
    let slurm = args.slurm.map_or_else(stamp::slurm_here, Ok)?;
    let stamps = stamp::stamp(&dir, slurm, args.apply)?;
    let mut text = format!("Slurm {slurm}\n{}", stamps.text);
    let mut left = stamps.left;
    let mut does_it = (!args.apply).then_some("tessera setup --apply");
    let table = plugin_stamp::check(slurm);
    if let Err(why) = &table {
        let _ = writeln!(text, "{why}. Until Tessera has one, its plugins leave all GPUs to Slurm");
        left += usize::from(!args.apply);
    }
    if !args.plugins_only {
        let path = slurm_conf_of(args);
        let _held = if args.apply { Some(write::hold(&path)?) } else { None };
        let mut kinds = kinds(args, globals, &mut text)?;
        kinds.dedup();
        let installed = Installed {
            slurm,
            slurm_plugins: slurm_dirs::slurm_plugins(slurm),
            slurm_commands: slurm_dirs::slurm_commands(slurm),
            plugins: dir,
            program: env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default(),
        };
        let files = found::files(&path)?;
        let mut plan = plan(&files, &installed, &kinds);
        if table.is_err() {
            plan.problems.push(
                "Slurm's files stay as they are, because Tessera has no table for this Slurm".to_owned(),
            );
        }
        let (files_left, can_apply) = carry_out(&files, &plan, args.apply, &mut text)?;
        left += files_left;
        does_it = does_it.filter(|_| can_apply);
    }
    Ok(ended(text, left, does_it))
}

/// The command's end: a status of 1 if something is left to do.
fn ended(mut text: String, left: usize, does_it: Option<&str>) -> Outcome {
    if let (Some(command), true) = (does_it, left > 0) {
        let _ = writeln!(text, "nothing was changed: `{command}` does it");
    }
    Outcome { text, status: u8::from(left > 0) }
}

fn slurm_conf_of(args: &SetupArgs) -> PathBuf {
    let named = || env::var("SLURM_CONF").ok().filter(|path| !path.is_empty()).map(PathBuf::from);
    // Never the files that slurmctld has sent: the next ones would replace what is changed there.
    absolute(args.slurm_conf.clone().or_else(named).unwrap_or_else(|| slurm_conf::DEFAULT.into()))
}

/// Makes a path one that Slurm's files can name.
fn absolute(path: PathBuf) -> PathBuf {
    // Without a slash at its end: the directory has one name in Slurm's files.
    std::path::absolute(&path).unwrap_or(path).components().collect()
}

/// Reads the kinds of nodes that are to be described: of the files that were named, or else this machine's.
fn kinds(args: &SetupArgs, globals: &Globals, text: &mut String) -> Result<Vec<Discovered>, Failure> {
    let read = |text: &str, from: &Path| {
        Discovered::read(text).map_err(|why| Failure::new(format!("{}: {why}", from.display())))
    };
    if !args.from.is_empty() {
        return args.from.iter().map(|file| read(&read_text(file)?, file)).collect();
    }
    match discover::everything(args.node.as_deref(), globals) {
        Ok(found) => read(&found, Path::new("this machine")).map(|kind| vec![kind]),
        Err(why) if args.node.is_some() => Err(why),
        Err(why) => {
            let _ = writeln!(text, "no GPU is found on this machine: {}", why.what());
            Ok(Vec::new())
        }
    }
}

/// Makes the changes or shows them; returns how much is left to do, and whether `--apply` would do it. If one cannot be made, none is.
fn carry_out(files: &Files, plan: &Plan, apply: bool, text: &mut String) -> Result<(usize, bool), Failure> {
    let mut problems = plan.problems.clone();
    let mut texts = Vec::new();
    for change in &plan.changes {
        let path = change.path.display();
        let _ = writeln!(
            text,
            "\n{path}{}\n{}",
            if change.is_new { ", a new file" } else { "" },
            marks::diff(&change.edits, change.is_new).trim_end()
        );
        match marks::apply(text_of(files, change), &change.edits) {
            Ok(new) => texts.push((change, new)),
            Err(marks::BadMarks(line, why)) => {
                problems.push(format!("{path}:{line}: {why}: make the change by hand"))
            }
        }
    }
    let _ = writeln!(text);
    plan.notes.iter().for_each(|note| _ = writeln!(text, "note: {note}"));
    if !problems.is_empty() {
        problems.iter().for_each(|problem| _ = writeln!(text, "to do: {problem}"));
        let _ = writeln!(text, "none of the files is changed before that is done");
        return Ok((problems.len(), false));
    }
    if apply {
        for (change, new) in &texts {
            write::write(&change.path, new, change.is_program)?;
            let _ = writeln!(text, "{}: changed", change.path.display());
        }
    }
    after(files, plan, text);
    Ok((if apply { 0 } else { plan.changes.len() }, true))
}

/// The text that a change was planned for.
fn text_of<'a>(files: &'a Files, change: &FileChange) -> Option<&'a str> {
    let single = [&files.gres, &files.tessera, &files.health];
    let mut all = files.slurm.iter().chain(&files.plugstack).chain(single);
    all.find(|file| file.path == change.path)?.text.as_deref()
}

/// Says what to do when the files are changed.
fn after(files: &Files, plan: &Plan, text: &mut String) {
    if plan.changes.is_empty() {
        text.push_str("Slurm's files have all that Tessera needs\n");
        return;
    }
    // slurmd reads a script that it has already whenever it runs it.
    let is_read_again = |change: &FileChange| {
        change.path == files.tessera.path || change.path == files.health.path && !change.is_new
    };
    let without_restart = plan.changes.iter().all(is_read_again);
    let sends = is_sent_to_nodes(files);
    // A copy of slurm.conf on a node would end configless there.
    let copied =
        |change: &&FileChange| !sends || [&files.tessera.path, &files.health.path].contains(&&change.path);
    let copied = plan.changes.iter().filter(copied).map(|change| change.path.display().to_string());
    let names: Vec<String> = copied.collect();
    if !names.is_empty() {
        let _ = writeln!(text, "then: put the same {} on every machine", names.join(", "));
    }
    if sends {
        text.push_str(
            "then: copy no other file: slurmctld sends them, because slurm.conf has enable_configless\n",
        );
    }
    text.push_str(if without_restart {
        "then: scontrol reconfigure\n"
    } else {
        "then: systemctl restart slurmctld; after it slurmd on each node that has no job with GPUs at that moment, and sackd where it runs\n"
    });
    text.push_str("then: tessera doctor, on slurmctld's machine and on each node\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::ConfFile;

    #[test]
    fn a_plan_with_something_to_do_first_changes_nothing_and_does_not_offer_to() {
        let dir = tempfile::tempdir().unwrap();
        let file = ConfFile { path: dir.path().join("gres.conf"), text: None };
        let mut plan = Plan::default();
        plan.changes.push(FileChange {
            path: file.path.clone(),
            is_new: true,
            is_program: false,
            edits: vec![marks::Edit::add(&["Name=shard Count=1".to_owned()])],
        });
        plan.problems.push("correct File=".to_owned());
        let files = Files { gres: file, ..Files::default() };
        for apply in [false, true] {
            let mut text = String::new();
            assert_eq!(carry_out(&files, &plan, apply, &mut text).unwrap(), (1, false));
            let end = "to do: correct File=\nnone of the files is changed before that is done\n";
            assert!(text.ends_with(end) && !files.gres.path.exists(), "{text}");
        }
        plan.problems.clear();
        assert_eq!(carry_out(&files, &plan, false, &mut String::new()).unwrap(), (1, true));
        assert_eq!(carry_out(&files, &plan, true, &mut String::new()).unwrap(), (0, true));
        assert!(files.gres.path.exists());
    }

    #[test]
    fn relative_paths_become_absolute() {
        #[derive(clap::Parser)]
        struct Parsed {
            #[command(flatten)]
            args: SetupArgs,
        }
        let parsed: Parsed = clap::Parser::parse_from(["setup", "--slurm-conf", "etc/slurm.conf"]);
        let here = env::current_dir().unwrap();
        assert_eq!(slurm_conf_of(&parsed.args), here.join("etc/slurm.conf"));
        assert_eq!(absolute("./lib/tessera".into()), here.join("lib/tessera"));
    }

    #[test]
    fn slurm_conf_is_not_to_be_copied_where_slurmctld_sends_it() {
        let file = |name: &str, text: &str| ConfFile { path: name.into(), text: Some(text.to_owned()) };
        let change = |name: &str| FileChange {
            path: name.into(),
            is_new: false,
            is_program: false,
            edits: Vec::new(),
        };
        let mut plan = Plan::default();
        plan.changes.extend(["/e/slurm.conf", "/e/tessera.toml"].map(change));
        let said = |parameters: &str| {
            let slurm = vec![file("/e/slurm.conf", parameters)];
            let files = Files { slurm, tessera: file("/e/tessera.toml", ""), ..Files::default() };
            let mut text = String::new();
            after(&files, &plan, &mut text);
            text.lines().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            said("slurmctldparameters=idle_on_node_suspend,Enable_Configless")[..],
            [
                "then: put the same /e/tessera.toml on every machine",
                "then: copy no other file: slurmctld sends them, because slurm.conf has enable_configless"
            ]
        );
        assert_eq!(said("")[0], "then: put the same /e/slurm.conf, /e/tessera.toml on every machine");
    }

    #[test]
    fn a_script_that_slurmd_has_already_needs_no_restart() {
        let health = ConfFile { path: "/e/tessera-health".into(), text: Some(String::new()) };
        let files = Files { health, ..Files::default() };
        let asks_for_restart = |is_new: bool| {
            let path = files.health.path.clone();
            let changes = vec![FileChange { path, is_new, is_program: true, edits: Vec::new() }];
            let mut text = String::new();
            after(&files, &Plan { changes, ..Plan::default() }, &mut text);
            text.contains("restart")
        };
        assert_eq!([asks_for_restart(false), asks_for_restart(true)], [false, true]);
    }
}
