//! `tessera check`: is `tessera.toml` good?

use std::fmt::Write as _;

use placement::MigPolicy;
use site_config::SiteConfig;

use crate::args::{CheckArgs, Cli};
use crate::outcome::{Failure, Outcome};
use crate::site;

pub(crate) fn run(args: &CheckArgs, cli: &Cli) -> Result<Outcome, Failure> {
    let path = site::path(args.file.as_deref().or(cli.config.as_deref()));
    let (config, errors) = site::parse(&path)?;
    if let Some(config) = config {
        return Ok(Outcome::ok(format!("{}: good\n{}", path.display(), summary(&config))));
    }
    let mut text: String = errors.iter().map(|e| e.render() + "\n").collect();
    let _ = writeln!(text, "{}: {}", path.display(), site::count(errors.len()));
    Ok(Outcome { text, status: 1 })
}

/// One line per node set: what it was understood as.
fn summary(config: &SiteConfig) -> String {
    let mut text = String::new();
    for spec in &config.nodes {
        let mig = match spec.mig {
            MigPolicy::On => "on",
            MigPolicy::Off => "off",
            MigPolicy::Dynamic => "dynamic",
        };
        let _ = writeln!(text, "  {}, MIG {mig}", site::title(spec));
    }
    text
}
