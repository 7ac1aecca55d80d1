//! `tessera setup --remove --keep-jobs`: takes Tessera out of slurmctld and out of submissions, and leaves the nodes what running jobs
//! need: steps 1 and 3 of docs/uninstall.md. What it changes it changes within what `--apply` wrote, so that a later `--remove` restores all.

use std::fmt::Write as _;
use std::path::Path;

use super::conf::{ConfFile, Logical};
use super::marks::{self, BadMarks, Edit};
use super::plan::Files;
use super::{ended, found, write};
use crate::outcome::{Failure, Outcome};

/// Changes of one file, or the reason why a line has to be changed by hand.
struct Retired<'a> {
    file: &'a ConfFile,
    edits: Vec<Edit>,
    by_hand: Vec<String>,
}

pub(super) fn run(dir: &Path, slurm_conf: &Path, apply: bool) -> Result<Outcome, Failure> {
    let _held = if apply { Some(write::hold(slurm_conf)?) } else { None };
    let files = found::files(slurm_conf)?;
    let damaged = |file: &ConfFile, BadMarks(line, why): BadMarks| {
        Failure::new(format!("{}:{line}: {why}: nothing was changed", file.path.display()))
            .hint("make the changes of docs/uninstall.md, steps 1 and 3, by hand")
    };
    let (mut text, mut new_texts, mut left) = (String::new(), Vec::new(), 0);
    for retired in retire(&files, dir) {
        let Retired { file, edits, by_hand } = retired;
        let old = file.text.as_deref();
        if !edits.is_empty() {
            let _ = writeln!(text, "{}\n{}", file.path.display(), marks::diff(&edits, false));
            new_texts.push((file, marks::apply(old, &edits).map_err(|why| damaged(file, why))?));
        }
        by_hand.iter().for_each(|line| _ = writeln!(text, "to do: {line}"));
        left += by_hand.len() + if apply { 0 } else { edits.len() };
    }
    if apply {
        for (file, new) in &new_texts {
            write::write(&file.path, new, false)?;
            let _ = writeln!(text, "{}: changed", file.path.display());
        }
    }
    if left == 0 && new_texts.is_empty() {
        text.push_str("Slurm's files have no line of `tessera setup` that lets users ask for anything new\n");
    } else {
        text.push_str(
            "then: put the same files on every machine; hold or cancel pending jobs with shards; systemctl restart slurmctld, then slurmd on each node\n\
             then: tessera node hand-over on each node, until its jobs have ended; then tessera setup --remove\n",
        );
    }
    Ok(ended(text, left, (!apply).then_some("tessera setup --remove --keep-jobs --apply")))
}

/// Plans the changes: submissions first, then slurmctld.
fn retire<'a>(files: &'a Files, dir: &Path) -> Vec<Retired<'a>> {
    let plugstack = files.plugstack.iter().map(|file| each_line(file, |line| spank(line, dir)));
    let slurm = files.slurm.iter().rev().map(|file| each_line(file, |line| slurmctld(line, dir)));
    plugstack.chain(slurm).collect()
}

fn each_line<'a>(file: &'a ConfFile, change: impl Fn(&Logical) -> Option<Edit>) -> Retired<'a> {
    let text = file.text.as_deref().unwrap_or_default();
    let ours = marks::written(text).unwrap_or_default();
    let mut retired = Retired { file, edits: Vec::new(), by_hand: Vec::new() };
    for line in &file.logical() {
        let Some(edit) = change(line) else { continue };
        if ours.iter().any(|lines| lines.contains(&line.first)) {
            retired.edits.push(edit);
        } else {
            let place = format!("{}:{}", file.path.display(), line.first + 1);
            let wanted = edit
                .now
                .first()
                .map_or_else(|| "remove this line".to_owned(), |now| format!("make it {}", now.trim()));
            retired.by_hand.push(format!("{place} was not written by `tessera setup`: {wanted}"));
        }
    }
    retired
}

/// The SPANK plugin without its options, by its whole path: PluginDir will not name its directory any more.
fn spank(line: &Logical, dir: &Path) -> Option<Edit> {
    let file = line.plugin().filter(|file| file.ends_with("spank_tessera.so"))?;
    if line.text.split_whitespace().any(|word| word == "options=off") {
        return None;
    }
    let whole = if file.starts_with('/') { file.to_owned() } else { dir.join(file).display().to_string() };
    Some(line.with_text(|raw| raw.replacen(file, &format!("{whole} options=off"), 1)))
}

/// A line of slurm.conf without a plugin of Tessera's.
fn slurmctld(line: &Logical, dir: &Path) -> Option<Edit> {
    let (key, kept) = line.without_tessera(dir)?;
    if kept.is_empty() { Some(line.gone()) } else { line.with_value(key, &kept) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> ConfFile {
        ConfFile { path: name.into(), text: Some(text.to_owned()) }
    }

    #[test]
    fn lines_of_setup_change_and_come_back() {
        let before = "PluginDir=/usr/lib/slurm\nJobSubmitPlugins=lua";
        let logical = file("s", before).logical();
        let edits = [
            logical[0].with_value("PluginDir", "/usr/lib/tessera:/usr/lib/slurm").unwrap(),
            logical[1].with_value("JobSubmitPlugins", "lua,tessera").unwrap(),
            Edit::add(&[
                "AcctGatherEnergyType=acct_gather_energy/tessera".to_owned(),
                "PrologFlags=Alloc".to_owned(),
            ]),
        ];
        let applied = marks::apply(Some(before), &edits).unwrap();
        let plugstack =
            marks::apply(None, &[Edit::add(&["required spank_tessera.so config=/x".to_owned()])]).unwrap();
        let files = Files {
            slurm: vec![file("slurm.conf", &applied)],
            plugstack: vec![
                file("plugstack.conf", &plugstack),
                file("by-hand.conf", "required /x/spank_tessera.so a=b\n"),
            ],
            ..Files::default()
        };
        let mut shown = String::new();
        let all = retire(&files, Path::new("/usr/lib/tessera"));
        let mut after = Vec::new();
        for retired in &all {
            shown.push_str(&format!(
                "{}\n{}",
                retired.file.path.display(),
                marks::diff(&retired.edits, false)
            ));
            retired.by_hand.iter().for_each(|line| shown.push_str(&format!("to do: {line}\n")));
            after.push(marks::apply(retired.file.text.as_deref(), &retired.edits).unwrap());
        }
        insta::assert_snapshot!(shown, @r"
        plugstack.conf
             2 - required spank_tessera.so config=/x
               + required /usr/lib/tessera/spank_tessera.so options=off config=/x
        by-hand.conf
        to do: by-hand.conf:1 was not written by `tessera setup`: make it required /x/spank_tessera.so options=off a=b
        slurm.conf
             3 - PluginDir=/usr/lib/tessera:/usr/lib/slurm
               + PluginDir=/usr/lib/slurm
             7 - JobSubmitPlugins=lua,tessera
               + JobSubmitPlugins=lua
            10 - AcctGatherEnergyType=acct_gather_energy/tessera
        ");
        assert_eq!(marks::undo(&after[2]).unwrap().text.unwrap(), before);
        assert!(marks::undo(&after[0]).unwrap().text.is_none());
        let again = Files { slurm: vec![file("slurm.conf", &after[2])], ..Files::default() };
        assert!(retire(&again, Path::new("/usr/lib/tessera")).iter().all(|retired| retired.edits.is_empty()));
    }
}
