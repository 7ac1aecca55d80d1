//! Groups of commands in the help of `tessera` itself: `-h` lists the dozen that most people need, `--help` all.

use std::fmt::Write as _;

use clap::Command;

/// A heading, the commands that `-h` lists below it, and those that `--help` adds.
type Group = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The groups in the order in which help prints them.
pub(crate) const GROUPS: [Group; 4] = [
    (
        "For users",
        &["explain", "free", "why", "change", "report", "usage"],
        &["top", "times", "traffic", "tasks", "profiles"],
    ),
    ("For batches", &["plan"], &["planner"]),
    (
        "For administrators",
        &["setup", "check", "doctor", "layout"],
        &["exporter", "history", "idle", "power", "discover", "node"],
    ),
    ("Other", &["lab"], &["completions", "man-pages"]),
];

/// Usage, groups, options and examples, in this order.
const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}Options:
{options}{after-help}";

/// Gives `root` a help that lists its commands in groups.
pub(crate) fn grouped(root: Command) -> Command {
    let (few, all) = (listed(&root, false), listed(&root, true));
    let more = "All commands: tessera --help. One of them: tessera COMMAND --help";
    root.before_help(format!("{few}\n\n{more}")).before_long_help(all).help_template(TEMPLATE)
}

fn listed(root: &Command, all: bool) -> String {
    let names = |group: &Group| [group.1, if all { group.2 } else { &[] }].concat();
    let width = GROUPS.iter().flat_map(names).map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for group in &GROUPS {
        let _ = write!(text, "{}{}:", if text.is_empty() { "" } else { "\n\n" }, group.0);
        for command in names(group).into_iter().filter_map(|name| root.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = write!(text, "\n  {:width$}  {about}", command.get_name());
        }
    }
    text
}
