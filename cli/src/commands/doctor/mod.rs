//! `tessera doctor`: does everything agree?

mod accounting;
mod answers;
mod clients;
mod cluster;
mod counts;
mod file_says;
mod findings;
mod health_check;
mod here;
mod installed;
mod job_namespace;
mod links;
mod out_of_service;
mod power;
mod queue;
mod settings;
mod slurms_files;
mod versions;

use clap::Args;
use serde_json::json;
use site_config::SiteConfig;
use site_files::last_good::InForce;
use site_files::tessera_toml::{self, LoadError};

use file_says::GoodFile;
use findings::Findings;
use slurms_files::SlurmsFiles;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::site;
use crate::this_machine::this_node;

/// Check the running cluster: do nodes, Slurm and tessera.toml agree?
///
/// Compares every node of tessera.toml, or the one that --node names, with what Slurm, slurm.conf and gres.conf say of it, says
/// why Slurm keeps nodes from jobs and what to do, and compares the plugins installed here with each other and with the Slurm that runs. Names the partitions, accounts and types of GPU in the file that Slurm does
/// not have. On a node, as root, it also checks that node's journal, driver, device nodes and MPS daemons. Each disagreement is a line that begins with
/// "bad"; exit status 1 if there is one. A job that is just starting or ending looks like one, so the check is repeated for
/// up to two seconds. Nothing is changed: `tessera node reconcile` repairs what no live job owns.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Only this node
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &DoctorArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let here = this_node();
    let InForce { config, bad, .. } = site::in_force(globals.config.as_deref(), here.as_deref(), false)?;
    if let Some(name) = args.node.as_deref().filter(|n| config.node(n).is_none()) {
        return Err(site::unknown_node(name, &config));
    }
    let mut findings = Findings::default();
    let path = site::path(globals.config.as_deref());
    findings.group(format!("{}: {}", path.display(), site::node_count(&config)), |f| file(bad.as_ref(), f));
    let names = names(&config, args.node.as_deref());
    let slurm = answers::ask(&mut findings);
    // Of a bad file only the errors are sure.
    let good = tessera_toml::load(&path).ok().filter(|_| bad.is_none());
    let file = good.as_ref().map(|(config, texts)| GoodFile { path: &path, text: &texts.main, config });
    if let Some(file) = &file {
        file.check(slurm.as_ref(), &mut findings);
    }
    if let Some(slurm) = &slurm {
        settings::check(slurm, &mut findings);
        installed::check(slurm, &config, &mut findings);
        let node = here.as_deref().filter(|name| config.node(name).is_some());
        health_check::check(slurm, node, &mut findings);
        job_namespace::check(slurm, node, &config, &mut findings);
        cluster::controllers_file(slurm, &mut findings);
        cluster::counts_decisions(slurm, &mut findings);
        let files = SlurmsFiles::read(slurm);
        for name in &names {
            cluster::node(slurm, &files, name, &config, &mut findings);
        }
        power::budgets(slurm, &names, &config, &mut findings);
        queue::check(slurm, &config, &mut findings);
    }
    here::check(&config, args.node.as_deref(), slurm.as_ref(), &mut findings);
    if let Some(file) = &file {
        file.check_here(args.node.as_deref(), &mut findings);
    }
    let status = u8::from(findings.any_bad());
    if args.json {
        let list =
            findings.list.iter().map(|(result, what)| json!({ "verdict": result.word(), "what": what }));
        return Ok(Outcome::json(&json!({ "checks": list.collect::<Vec<_>>() }), status));
    }
    let text = findings.list.iter().map(|(result, what)| format!("{:<5}{what}\n", result.word())).collect();
    Ok(Outcome { text, status })
}

/// Reports if the file is good.
fn file(bad: Option<&LoadError>, findings: &mut Findings) {
    let Some(bad) = bad else { return };
    bad.lines().into_iter().for_each(|line| findings.bad(line));
    findings.bad("this machine works with the last good version of tessera.toml until the file is corrected");
}

fn names<'c>(config: &'c SiteConfig, only: Option<&str>) -> Vec<&'c str> {
    let all = config.nodes.iter().flat_map(|s| &s.names).map(String::as_str);
    all.filter(|n| only.is_none_or(|o| o == *n)).collect()
}
