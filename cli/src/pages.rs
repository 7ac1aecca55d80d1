//! The parser reads every `tessera` command that the documentation shows.

use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use lab::pages::{Place, Shown, commands, filled, lines, shown};

use crate::cli::{Cli, root};

/// Old names that docs/upgrade.md lists.
const OLD: [&str; 1] = ["tessera lint"];

/// Returns the parser's error, if `words` is a command that it refuses. A text may mention a command without its arguments, and an option
/// without its value.
fn refused(words: &[String], mentioned: bool) -> Option<clap::Error> {
    let read = root().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    let error = read.err()?;
    let no_value = || error.get(ContextKind::InvalidValue) == Some(&ContextValue::String(String::new()));
    let incomplete = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        ErrorKind::InvalidValue => no_value(),
        _ => false,
    };
    (!mentioned || !incomplete).then_some(error)
}

fn problems(shown: &Shown) -> Vec<String> {
    let mentioned = match shown.place {
        Place::Mention => true,
        Place::Command { .. } => false,
        Place::Sample(_) | Place::ForSbatch => return Vec::new(),
    };
    let ours =
        commands(&shown.text).into_iter().filter(|words| words[0] == "tessera" || words[0] == "./tessera");
    let read = ours.filter_map(|words| {
        let (words, whole) = filled(&words);
        // A node's line in sinfo begins with the same word.
        let layout = words.get(1).is_none_or(|second| second.contains('=') || second.ends_with(':'));
        if layout {
            None
        } else if hidden(&words) {
            Some("help shows it below `tessera lab`".to_owned())
        } else {
            refused(&words, mentioned || !whole).map(|error| error.to_string())
        }
    });
    read.map(|error| format!("{shown}: {error}")).collect()
}

/// Tells if help does not show the first word of a command: of the laboratory, a page has to name it below `lab`.
fn hidden(words: &[String]) -> bool {
    let all = root();
    words.get(1).and_then(|word| all.find_subcommand(word)).is_some_and(clap::Command::is_hide_set)
}

#[test]
fn the_parser_reads_every_command_of_the_pages() {
    let (old, all): (Vec<_>, Vec<_>) =
        shown().unwrap().into_iter().partition(|shown| OLD.contains(&shown.text.as_str()));
    let wrong: Vec<String> = all.iter().flat_map(problems).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(old.len(), OLD.len());
    let ours = all.iter().filter(|shown| commands(&shown.text).iter().any(|words| words[0] == "tessera"));
    assert!(ours.count() > 300);
}

/// Collects the examples below the options of a command and of those below it: a command, then two blanks before words about it, or one
/// if the line is full.
fn examples(command: &clap::Command, all: &mut Vec<String>) {
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let typed = lines(&help).into_iter().filter(|line| line.starts_with("tessera "));
    all.extend(typed.filter_map(|line| line.split("  ").next().map(str::to_owned)));
    command.get_subcommands().for_each(|below| examples(below, all));
}

#[test]
fn the_parser_reads_every_example_of_the_help() {
    let mut all = Vec::new();
    examples(&root(), &mut all);
    assert!(all.len() > 50, "{all:?}");
    let read = all.iter().flat_map(|line| commands(line)).filter(|words| words[0] == "tessera");
    let about = |word: &&String| word.chars().all(|c| c.is_ascii_lowercase() || c == ',');
    let wrong: Vec<String> = read
        .filter_map(|words| {
            let words = filled(&words).0;
            let error = refused(&words, false)?;
            let typed = words.len() - words.iter().rev().take_while(about).count();
            refused(&words[..typed], false).map(|_| format!("{words:?}: {error}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
