//! Needs of Slurm's files for Tessera: changes, reasons why they cannot be made, and notes about what stays. No file is opened here.

mod gres_conf;
mod job_namespace;
mod plugstack;
mod slurm_conf;
mod tessera_toml;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use slurm_tables::Version;

use super::conf::{ConfFile, Logical};
use super::discovered::Discovered;
use super::marks::{self, At, Edit};
pub(super) use job_namespace::named as named_job_namespace;
pub(super) use slurm_conf::is_sent_to_nodes;

/// The files of this machine that Slurm and Tessera read.
#[derive(Debug, Clone, Default)]
pub(super) struct Files {
    /// slurm.conf, then the files that it includes.
    pub(super) slurm: Vec<ConfFile>,
    pub(super) gres: ConfFile,
    /// plugstack.conf, then the files that it includes.
    pub(super) plugstack: Vec<ConfFile>,
    /// Directories in PluginDir, as they are written there, that have plugins of Tessera's.
    pub(super) plugin_dirs_of_tessera: Vec<String>,
    /// A file that an include of plugstack.conf with a wildcard would find.
    pub(super) plugstack_part: Option<PathBuf>,
    pub(super) tessera: ConfFile,
    /// Texts of the files beside tessera.toml that it names, by these names.
    pub(super) parts_of_tessera: BTreeMap<String, String>,
    pub(super) health: ConfFile,
    /// The file of the plugin that gives jobs a mount namespace, if slurm.conf names one.
    pub(super) job_namespace: Option<ConfFile>,
    /// Includes that nobody could follow, each with the reason.
    pub(super) not_followed: Vec<String>,
    /// Slurm's files come from slurmctld: none of them is here.
    pub(super) is_configless: bool,
}

/// Parts that are installed on this machine.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) slurm: Version,
    /// Directory of Slurm's own plugins, where no slurm.conf names it.
    pub(super) slurm_plugins: Option<PathBuf>,
    /// Directory of Slurm's commands, if programs without PATH do not find them.
    pub(super) slurm_commands: Option<PathBuf>,
    /// Directory of Tessera's stamped plugins.
    pub(super) plugins: PathBuf,
    /// The `tessera` program.
    pub(super) program: PathBuf,
}

/// Changes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileChange {
    pub(super) path: PathBuf,
    /// The file does not exist yet.
    pub(super) is_new: bool,
    /// The file is a program.
    pub(super) is_program: bool,
    pub(super) edits: Vec<Edit>,
}

/// Work to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// In the order in which they are written: slurm.conf comes last, because it switches the rest on.
    pub(super) changes: Vec<FileChange>,
    /// While there is one of these, nothing is written.
    pub(super) problems: Vec<String>,
    /// Lines that stay as they are, and why.
    pub(super) notes: Vec<String>,
}

impl Plan {
    fn change(&mut self, file: &ConfFile, edits: Vec<Edit>) {
        if !edits.is_empty() {
            self.changes.push(FileChange {
                path: file.path.clone(),
                is_new: file.text.is_none(),
                is_program: false,
                edits,
            });
        }
    }
}

/// Plans the changes for these kinds of nodes; none if this machine has no GPU and no other was asked.
pub(super) fn plan(files: &Files, installed: &Installed, kinds: &[Discovered]) -> Plan {
    let mut plan = Plan::default();
    for kind in kinds.iter().filter(|kind| kind.is_unknown) {
        plan.problems.push(format!(
            "{}: Tessera does not know the model of a GPU: put the output of `tessera discover` into {}, complete its [[models]], \
             then run this again",
            kind.names,
            files.tessera.path.display()
        ));
    }
    tessera_toml::plan(files, kinds, &mut plan);
    if files.is_configless {
        plan.notes.push(
            "this node gets slurm.conf, gres.conf and plugstack.conf from slurmctld: run `tessera discover --format all > FILE` here and \
             `tessera setup --from FILE` on slurmctld's machine"
                .to_owned(),
        );
        health(files, installed, &mut plan);
        return plan;
    }
    plan.notes.extend(files.not_followed.iter().cloned());
    gres_conf::plan(files, kinds, &mut plan);
    let with_health = slurm_conf::wants_health(files);
    if with_health {
        health(files, installed, &mut plan);
    }
    let is_sent = is_sent_to_nodes(files);
    plugstack::plan(files, installed, is_sent, &mut plan);
    slurm_conf::plan(files, installed, kinds, &mut plan);
    job_namespace::plan(files, kinds, &mut plan);
    if is_sent {
        plan.notes.push(format!(
            "SlurmctldParameters=enable_configless: Slurm sends slurm.conf, gres.conf and plugstack.conf to the nodes, but neither {} nor {}: \
             put both on every node",
            files.tessera.path.display(),
            files.health.path.display()
        ));
    }
    plan
}

/// Plans the script that HealthCheckProgram names. One that a person has written or changed stays.
fn health(files: &Files, installed: &Installed, plan: &mut Plan) {
    let lines: Vec<String> = health_script(files, installed).lines().map(str::to_owned).collect();
    let text = files.health.text.as_deref();
    let own = text.and_then(|text| marks::untouched(text).into_iter().next());
    let edit = match (text, own) {
        (None, _) => Edit::add(&lines),
        (Some(text), Some(own)) => {
            let was: Vec<String> = text.split('\n').map(str::to_owned).collect();
            Edit { at: At::Line(own.start), was: was[own].to_vec(), now: lines[1..].to_vec() }
        }
        (Some(text), None) => {
            let (path, program) = (files.health.path.display(), quoted(&installed.program));
            if !text.contains(&program) {
                plan.notes.push(format!(
                    "{path} stays, because it was written or changed by hand: it does not run {program}"
                ));
            }
            return;
        }
    };
    if edit.was != edit.now {
        let (path, is_new) = (files.health.path.clone(), files.health.text.is_none());
        plan.changes.push(FileChange { path, is_new, is_program: true, edits: vec![edit] });
    }
}

/// Writes the script for this installation. slurmd starts it with hardly any environment.
fn health_script(files: &Files, installed: &Installed) -> String {
    let slurm_conf = files.slurm.first().map(|file| file.path.clone());
    let slurm_conf = slurm_conf.unwrap_or_else(|| files.tessera.path.with_file_name("slurm.conf"));
    let script = include_str!("../../../../../contrib/example/tessera-health")
        .replace("/etc/slurm/slurm.conf", &quoted(&slurm_conf))
        .replace("/usr/local/bin/tessera", &quoted(&installed.program))
        .replace("/etc/slurm/tessera.toml", &quoted(&files.tessera.path));
    match &installed.slurm_commands {
        Some(dir) => {
            let path = format!("\nexport PATH={}:/usr/sbin:/usr/bin:/sbin:/bin\nsetsid ", quoted(dir));
            script.replacen("\nsetsid ", &path, 1)
        }
        None => script,
    }
}

/// Quotes a path for the shell, if it needs that.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// `file:line` of a line.
fn place(path: &Path, line: &Logical) -> String {
    format!("{}:{}", path.display(), line.first + 1)
}
