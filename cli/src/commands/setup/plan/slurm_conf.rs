//! The lines of slurm.conf.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use site_config::hostlist::expand;

use super::super::conf::{ConfFile, Logical, has_word};
use super::super::discovered::{Discovered, count, with_shards};
use super::super::marks::Edit;
use super::super::read_order::{At, Lines};
use super::{Files, Installed, Plan, place};

/// slurm.conf with what it includes, and the changes so far: of existing lines per file, and new lines.
struct Draft<'a> {
    files: &'a [ConfFile],
    lines: Lines,
    edits: Vec<Vec<Edit>>,
    added: Vec<String>,
}

impl<'a> Draft<'a> {
    fn of(files: &'a Files) -> Self {
        let files = &files.slurm[..];
        Self { files, lines: Lines::of(files), edits: vec![Vec::new(); files.len()], added: Vec::new() }
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.lines.value(key)
    }

    fn is_sent_to_nodes(&self) -> bool {
        self.value("SlurmctldParameters").is_some_and(|list| has_word(list, "enable_configless"))
    }

    fn place(&self, at: &At<'_>) -> String {
        place(&self.files[at.file].path, at.line)
    }

    /// Gives a key another value, or adds a line for it.
    fn set(&mut self, key: &str, value: &str, plan: &mut Plan) {
        let Some(at) = self.lines.line_of(key) else {
            self.added.push(format!("{key}={value}"));
            return;
        };
        match at.line.with_value(key, value) {
            Some(edit) => self.edits[at.file].push(edit),
            None => plan.problems.push(format!(
                "{}: this line cannot be changed safely: make it {key}={value} by hand, then run this again",
                self.place(&at)
            )),
        }
    }

    /// Adds a word to a list if it is not in it.
    fn add_word(&mut self, key: &str, word: &str, plan: &mut Plan) {
        match self.value(key).map(str::to_owned) {
            Some(list) if has_word(&list, word) => {}
            Some(list) => self.set(key, &format!("{list},{word}"), plan),
            None => self.set(key, word, plan),
        }
    }
}

/// Tells whether slurmctld sends its files to the nodes.
pub(in super::super) fn is_sent_to_nodes(files: &Files) -> bool {
    Draft::of(files).is_sent_to_nodes()
}

/// Tells whether HealthCheckProgram is free, or names Tessera's script.
pub(super) fn wants_health(files: &Files) -> bool {
    let draft = Draft::of(files);
    draft.value("HealthCheckProgram").is_none_or(|program| Path::new(program) == files.health.path)
}

pub(super) fn plan(files: &Files, installed: &Installed, kinds: &[Discovered], plan: &mut Plan) {
    let mut draft = Draft::of(files);
    select_type(&draft, installed, plan);
    plugin_dir(&mut draft, installed, &files.plugin_dirs_of_tessera, plan);
    job_submit(&mut draft, plan);
    prolog_flags(&mut draft, plan);
    gres_types(&mut draft, plan);
    health_check(&mut draft, files, plan);
    kinds.iter().for_each(|kind| nodes(&mut draft, kind, plan));
    programs_of_the_site(&draft, plan);
    let Draft { files, mut edits, added, .. } = draft;
    if let (Some(edits), false) = (edits.first_mut(), added.is_empty()) {
        edits.push(Edit::add(&added));
    }
    // What slurm.conf includes is written before slurm.conf.
    files.iter().zip(edits).rev().for_each(|(file, edits)| plan.change(file, edits));
}

/// Slurm's default was select/linear before 23.11 [CHANGELOG/slurm-23.11.md].
fn select_type(draft: &Draft, installed: &Installed, plan: &mut Plan) {
    let found = draft.value("SelectType");
    let default = if installed.slurm.since(23, 11) { "select/cons_tres" } else { "select/linear" };
    let is = found.unwrap_or(default);
    if !is.ends_with("cons_tres") {
        let from = if found.is_some() { "" } else { ", Slurm's default," };
        plan.problems.push(format!(
            "SelectType={is}{from} gives no GPUs by the piece: set SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory, \
             restart slurmctld while no job runs, then run this again"
        ));
    }
}

/// Puts the directory of Tessera's plugins first, in the place of those of other installations of Tessera.
fn plugin_dir(draft: &mut Draft, installed: &Installed, of_tessera: &[String], plan: &mut Plan) {
    let ours = installed.plugins.display().to_string();
    let now = draft.value("PluginDir").map(str::to_owned);
    let slurms = installed.slurm_plugins.as_ref().map(|dir| dir.display().to_string());
    let Some(list) = now.clone().or(slurms) else {
        plan.problems.push(
            "the directory of Slurm's own plugins is not found: set PluginDir to it in slurm.conf, then run this again"
                .to_owned(),
        );
        return;
    };
    let is_ours = |dir: &str| dir.trim_end_matches('/') == ours || of_tessera.iter().any(|of| of == dir);
    let mut others: Vec<&str> = list.split(':').filter(|dir| !is_ours(dir)).collect();
    if others.is_empty() {
        // Slurm's own plugins are in one of them.
        others = list.split(':').filter(|dir| dir.trim_end_matches('/') != ours).collect();
    }
    let others = others.join(":");
    let wanted = format!("{ours}:{others}");
    if now.is_none() && draft.is_sent_to_nodes() {
        plan.notes.push(format!(
            "PluginDir={wanted} is new, and slurmctld sends it to every machine: where Slurm has its plugins elsewhere, as another distribution \
             does, make {others} a link to them, or no daemon and no command of Slurm's starts there"
        ));
    }
    if now.as_deref() != Some(&wanted) {
        draft.set("PluginDir", &wanted, plan);
    }
}

/// Slurm calls the plugins in their order, and each may change the job [job_submit.c, `job_submit_g_submit`]. It takes
/// `job_submit/NAME` for NAME.
fn job_submit(draft: &mut Draft, plan: &mut Plan) {
    let list = draft.value("JobSubmitPlugins").unwrap_or_default().to_owned();
    let is_ours = |word: &str| word.strip_prefix("job_submit/").unwrap_or(word) == "tessera";
    let words = || list.split(',').map(str::trim);
    let others: Vec<&str> = words().filter(|word| !word.is_empty() && !is_ours(word)).collect();
    if words().any(is_ours) {
        if !words().next_back().is_some_and(is_ours) {
            plan.notes.push(format!(
                "JobSubmitPlugins={list}: plugins behind tessera change jobs that it has already ruled on; better {},tessera",
                others.join(",")
            ));
        }
        return;
    }
    if !others.is_empty() {
        plan.notes.push(format!(
            "JobSubmitPlugins: {} stays and runs first; tessera comes last, so that it rules on the job as the others leave it",
            others.join(",")
        ));
    }
    draft.add_word("JobSubmitPlugins", "tessera", plan);
}

/// These flags have `Alloc` in them [read_config.c].
fn prolog_flags(draft: &mut Draft, plan: &mut Plan) {
    let list = draft.value("PrologFlags").unwrap_or_default().to_owned();
    if has_word(&list, "RunInJob") {
        plan.problems.push(
            "PrologFlags=RunInJob is not supported: before Slurm 25.11 the prologs of a job's further nodes do not learn their GPUs, and a \
             daemon that a prolog starts would get the job's limits; take RunInJob out, then run this again"
                .to_owned(),
        );
    }
    if !["Alloc", "Contain", "NoHold", "X11", "RunInJob"].iter().any(|flag| has_word(&list, flag)) {
        draft.add_word("PrologFlags", "Alloc", plan);
    }
}

fn gres_types(draft: &mut Draft, plan: &mut Plan) {
    let list = draft.value("GresTypes").unwrap_or_default().to_owned();
    let missing = ["gpu", "shard"].into_iter().filter(|word| !has_word(&list, word));
    let wanted: Vec<&str> = list.split(',').filter(|word| !word.is_empty()).chain(missing).collect();
    let wanted = wanted.join(",");
    if wanted != list {
        draft.set("GresTypes", &wanted, plan);
    }
}

fn health_check(draft: &mut Draft, files: &Files, plan: &mut Plan) {
    let ours = files.health.path.display().to_string();
    match draft.lines.line_of("HealthCheckProgram") {
        Some(at) if !wants_health(files) => {
            let program = at.line.fields.field("HealthCheckProgram").unwrap_or_default();
            plan.notes.push(format!(
                "{}: HealthCheckProgram={program} stays, because Slurm has room for one: have it run what tessera-health runs, `tessera node \
                 reconcile --if-dead` and `tessera node health`, both in the background and in a session of their own",
                draft.place(&at)
            ));
        }
        Some(_) => {}
        None => {
            draft.set("HealthCheckProgram", &ours, plan);
            for (key, value) in [("HealthCheckInterval", "60"), ("HealthCheckNodeState", "ANY")] {
                if draft.value(key).is_none() {
                    draft.set(key, value, plan);
                }
            }
        }
    }
}

/// Gives the nodes of one kind their GRES.
fn nodes(draft: &mut Draft, kind: &Discovered, plan: &mut Plan) {
    let named = |line: &Logical| {
        line.fields.begins("NodeName").then(|| expand(line.fields.field("NodeName")?).ok()).flatten()
    };
    // The last line of a node is the one that Slurm goes by.
    let mut line_of = BTreeMap::new();
    for at in draft.lines.iter() {
        named(at.line).into_iter().flatten().for_each(|name| _ = line_of.insert(name, (at.file, at.number)));
    }
    let (mut done, ours) = (BTreeSet::new(), kind.nodes.iter().collect::<BTreeSet<_>>());
    for node in &kind.nodes {
        let Some(&(file, number)) = line_of.get(node) else {
            plan.problems.push(format!(
                "no NodeName= of slurm.conf has {node}: add NodeName={node} with what `slurmd -C` prints there, or name the node as Slurm does \
                 by --node"
            ));
            continue;
        };
        if !done.insert((file, number)) {
            continue;
        }
        let line = draft.lines.at(file, number);
        let at = draft.place(&At { file, number, line });
        let others: Vec<String> =
            named(line).unwrap_or_default().into_iter().filter(|name| !ours.contains(name)).collect();
        if !others.is_empty() {
            let all = line.fields.field("NodeName").unwrap_or_default();
            plan.problems.push(format!(
                "{at}: this line is for {all}, and only {} was looked at: if all have these GPUs, run `tessera setup --node '{all}'`, else \
                 give {} lines of their own",
                kind.names,
                others.join(" and ")
            ));
            continue;
        }
        match gres(line, draft.lines.default_gres((file, number)), kind) {
            Ok(Some(edit)) => draft.edits[file].push(edit),
            Ok(None) => {}
            Err(why) => plan.problems.push(format!("{at}: {why}")),
        }
    }
}

/// Changes the `Gres=` of one line, which has the default's if it has none of its own; `None` if it is right.
fn gres(line: &Logical, default: Option<&str>, kind: &Discovered) -> Result<Option<Edit>, String> {
    let own = line.fields.field("Gres");
    let by_hand = |gres: &str| {
        format!("this line cannot be changed safely: make it Gres={gres} by hand, then run this again")
    };
    let Some(now) = own.or(default).filter(|gres| count(gres, "gpu") > 0) else {
        let others = own.or(default).filter(|gres| !gres.is_empty()).map(|gres| format!("{gres},"));
        let wanted = format!("{}{}", others.unwrap_or_default(), kind.gres);
        return put(line, own.is_some(), &wanted).map(Some).ok_or_else(|| by_hand(&wanted));
    };
    if count(now, "gpu") != kind.gpus {
        return Err(format!(
            "Gres={now} has {} GPUs, the driver finds {}: correct it, then run this again",
            count(now, "gpu"),
            kind.gpus
        ));
    }
    if count(now, "shard") == kind.shards {
        return Ok(None);
    }
    let wanted = with_shards(now, kind.shards);
    put(line, own.is_some(), &wanted).map(Some).ok_or_else(|| by_hand(&wanted))
}

fn put(line: &Logical, has: bool, gres: &str) -> Option<Edit> {
    if has { line.with_value("Gres", gres) } else { line.with_key_behind("NodeName", "Gres", gres) }
}

/// Says what happens to programs that the site has. slurmd runs SPANK plugins first [prep_script_slurmd.c, `slurmd_script`].
fn programs_of_the_site(draft: &Draft, plan: &mut Plan) {
    for (key, why) in [
        (
            "Prolog",
            "slurmd runs it after Tessera's prolog, when the job has its GPUs: it must not switch MIG modes or reset GPUs",
        ),
        (
            "Epilog",
            "slurmd runs it after Tessera's epilog, when the GPUs may have the next job: it must not switch MIG modes or reset GPUs",
        ),
        ("PrologSlurmctld", "it runs on slurmctld's machine, where Tessera does nothing at a job's start"),
        ("EpilogSlurmctld", "it runs on slurmctld's machine, where Tessera does nothing at a job's end"),
        (
            "TaskProlog",
            "it runs after Tessera has set a task's environment: it must not set CUDA_VISIBLE_DEVICES",
        ),
    ] {
        if let Some(at) = draft.lines.line_of(key) {
            let program = at.line.fields.field(key).unwrap_or_default();
            plan.notes.push(format!("{}: {key}={program} stays: {why}", draft.place(&at)));
        }
    }
}
