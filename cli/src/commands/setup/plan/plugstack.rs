//! The line of plugstack.conf that loads Tessera's SPANK plugin.

use super::super::conf::{ConfFile, Logical};
use super::super::marks::{self, At, Edit};
use super::{Files, Installed, Plan, place};

/// Plans the line. `is_sent` says that Slurm sends the file to the nodes, without what it includes from other directories.
pub(super) fn plan(files: &Files, installed: &Installed, is_sent: bool, plan: &mut Plan) {
    let Some(main) = files.plugstack.first() else { return };
    let pyxis = pyxis(files);
    // Without its directory, Slurm looks for the plugin in PluginDir: a slurmd and its steps in the one that slurmd had at its start.
    let plugin = installed.plugins.join("spank_tessera.so");
    let words = [
        ("/", plugin.display().to_string()),
        ("config=", format!("config={}", files.tessera.path.display())),
        ("tessera=", format!("tessera={}", installed.program.display())),
    ];
    if let Some((_, word)) = words.iter().find(|(_, word)| word.contains(char::is_whitespace)) {
        plan.problems.push(format!(
            "{word}: SPANK takes no path with a blank in it: install to another, then run this again"
        ));
        return;
    }
    let mut is_there = false;
    for file in &files.plugstack {
        let ours: Vec<Logical> =
            file.logical().into_iter().filter(|line| loads(line, "spank_tessera.so")).collect();
        is_there |= !ours.is_empty();
        let edits = ours.iter().filter_map(|line| correct(file, line, &words, plan)).collect();
        plan.change(file, edits);
    }
    if is_there {
        return;
    }
    let line = words.iter().fold("required".to_owned(), |line, (_, word)| format!("{line} {word}"));
    if let Some((place, _)) = &pyxis {
        plan.notes.push(format!(
            "{place}: pyxis stays. Tessera's line comes before it, so that a container gets the devices that Tessera has set"
        ));
    }
    let part = files.plugstack_part.as_ref().filter(|_| !is_sent);
    if let Some(part) = part {
        let there = files.plugstack.iter().find(|file| file.path == *part);
        let file = there.cloned().unwrap_or_else(|| ConfFile { path: part.clone(), text: None });
        plan.change(&file, vec![Edit::add(&[line])]);
        return;
    }
    let at = pyxis.map_or(At::End, |(_, before)| At::Line(before));
    plan.change(main, vec![Edit { at, was: Vec::new(), now: vec![line] }]);
}

/// Gives a line of Tessera's the paths of this installation, if `tessera setup` wrote it. `words` are beginnings of words, and the words
/// that they should be. A plugin without a directory stays: Slurm finds it in PluginDir, where an earlier `tessera setup` left it.
fn correct(file: &ConfFile, line: &Logical, words: &[(&str, String)], plan: &mut Plan) -> Option<Edit> {
    let now = || line.text.split_whitespace();
    let wrong = words.iter().flat_map(|(key, wanted)| {
        now().filter(move |word| word.starts_with(key) && word != wanted).map(move |word| (word, wanted))
    });
    let wrong: Vec<(&str, &String)> = wrong.collect();
    if wrong.is_empty() {
        return None;
    }
    let text = file.text.as_deref().unwrap_or_default();
    if marks::untouched(text).iter().any(|own| own.contains(&line.first)) {
        let corrected = |raw: &str| {
            wrong.iter().fold(raw.to_owned(), |raw, (word, wanted)| raw.replacen(word, wanted, 1))
        };
        return Some(line.with_text(corrected));
    }
    let place = place(&file.path, line);
    // It may be another name of the same file.
    plan.notes.extend(wrong.iter().map(|(word, wanted)| {
        format!("{place}: this line has {word}, and stays. `tessera setup` would write {wanted}: correct it by hand if it is another file")
    }));
    None
}

/// Finds pyxis: where it is, and the line of the first file that loads or includes it.
fn pyxis(files: &Files) -> Option<(String, usize)> {
    let (main, others) = files.plugstack.split_first()?;
    if let Some(line) = main.logical().iter().find(|line| loads(line, "pyxis")) {
        return Some((place(&main.path, line), line.first));
    }
    let (file, line) = others.iter().find_map(|file| {
        file.logical().into_iter().find(|line| loads(line, "pyxis")).map(|line| (file, line))
    })?;
    // The first include, whichever file it finds: pyxis comes behind it.
    let before = main.logical().iter().find(|line| line.include().is_some()).map_or(0, |line| line.first);
    Some((place(&file.path, &line), before))
}

/// Tells whether a line loads a plugin with this in its file's name.
fn loads(line: &Logical, name: &str) -> bool {
    line.plugin().is_some_and(|file| file.contains(name))
}
