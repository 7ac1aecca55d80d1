//! Where the state of the nodes comes from.

use std::collections::HashMap;
use std::io::Read as _;
use std::process::Command;
use std::{fs, io};

use placement::Uid;
use site_config::{SiteConfig, hostlist};

use super::{Drawn, words};
use crate::args::LayoutArgs;
use crate::outcome::Failure;

/// The nodes to draw, in the order of `tessera.toml`.
pub(crate) fn nodes(args: &LayoutArgs, config: &SiteConfig) -> Result<Vec<Drawn>, Failure> {
    let wanted = args.node.as_deref().map(|list| named(list, config)).transpose()?;
    let published = match &args.from {
        Some(path) => from_text(&read(path)?),
        None => from_slurm()?,
    };
    let mut drawn = Vec::new();
    for (spec, name) in config.nodes.iter().flat_map(|s| s.names.iter().map(move |n| (s, n))) {
        if wanted.as_ref().is_some_and(|w| !w.contains(name)) {
            continue;
        }
        let mut node = spec.to_node();
        let note = match published.get(name) {
            Some(text) => words::read(text, &mut node, Uid(0))
                .map(|()| None)
                .map_err(|why| Failure::new(format!("layout of {name}: {why}")))?,
            // A file with some nodes means those.
            None if args.from.is_some() && wanted.is_none() => continue,
            None => Some("no layout published".to_owned()),
        };
        drawn.push(Drawn { name: name.clone(), links: spec.interconnect.clone(), node, note });
    }
    Ok(drawn)
}

/// The names of a hostlist, each of which the site must have.
fn named(list: &str, config: &SiteConfig) -> Result<Vec<String>, Failure> {
    let names = hostlist::expand(list).map_err(|why| Failure::new(format!("--node={list:?} {why}")))?;
    match names.iter().find(|n| config.node(n).is_none()) {
        Some(unknown) => Err(unknown_node(unknown, config)),
        None => Ok(names),
    }
}

/// The error for a node that `tessera.toml` does not have.
pub(crate) fn unknown_node(name: &str, config: &SiteConfig) -> Failure {
    let known: Vec<&str> = config.nodes.iter().flat_map(|s| &s.names).map(String::as_str).take(8).collect();
    let more = if known.len() == 8 { ", …" } else { "" };
    Failure::new(format!("node {name} is not in tessera.toml"))
        .hint(format!("it has {}{more}", known.join(", ")))
}

fn read(path: &std::path::Path) -> Result<String, Failure> {
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
}

/// Lines as `sinfo -O nodelist,extra` prints them: a name, spaces, a layout. Other lines are passed over.
fn from_text(text: &str) -> HashMap<String, String> {
    let line = |l: &str| {
        let (name, layout) = l.trim().split_once(char::is_whitespace)?;
        let layout = layout.trim_start();
        layout.starts_with("tessera ").then(|| (name.to_owned(), layout.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// What the controller publishes, by node.
pub(crate) fn from_slurm() -> Result<HashMap<String, String>, Failure> {
    Ok(of_scontrol(&slurm("scontrol", &["show", "nodes"])?))
}

/// A Slurm command's output.
pub(crate) fn slurm(program: &str, args: &[&str]) -> Result<String, Failure> {
    let line = || format!("{program} {}", args.join(" "));
    let hint = "the layout can also be read from a file: tessera layout --from FILE";
    let out = Command::new(program)
        .args(args)
        .output()
        .map_err(|e| Failure::new(format!("cannot run `{}`: {e}", line())).hint(hint))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(Failure::new(format!("`{}` failed: {}", line(), said.trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// `scontrol show nodes` in its form of several lines, where `Extra=` has one to itself.
fn of_scontrol(text: &str) -> HashMap<String, String> {
    let (mut found, mut name) = (HashMap::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("NodeName=") {
            name = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(extra) = line.trim_start().strip_prefix("Extra=tessera ") {
            found.insert(name.clone(), extra.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_is_found_by_node() {
        let text = "NodeName=n1 Arch=x86_64 CoresPerSocket=1\n   Gres=gpu:8\n   Extra=tessera gpu0=free\n\n\
                    NodeName=n2 Arch=x86_64\n   Comment=x\n   Extra=somebody else's\n\n";
        let found = of_scontrol(text);
        assert_eq!(found.get("n1").map(String::as_str), Some("gpu0=free"));
        assert_eq!(found.len(), 1);
    }
}
