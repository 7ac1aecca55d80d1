//! `tessera free`: what could start now, and where.

mod args;
mod count;
mod shapes;
mod text;

use admission::Submission;
use geometry::{Model, Uid};
use mapa::Memo;
use node_state::Policy;
use serde_json::json;
use site_config::SiteConfig;

pub(crate) use args::FreeArgs;
pub(crate) use count::Free;
use count::{Rules, Under};
pub(crate) use shapes::Wanted;

use crate::allowance::{self, Allowance, Asker};
use crate::commands::layout;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::caller::caller;
use crate::slurm_nodes::{self, Among, Live, Published, away};
use crate::{files, site, unknown_name};

pub(crate) fn run(args: &FreeArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let wanted = args.node.as_deref().map(|list| layout::named(list, &config)).transpose()?;
    let published = match &args.from {
        Some(path) => Published::in_file(layout::from_text(&files::read_text(path)?)),
        None => Published::by_slurm()?,
    };
    let partitions = admission::distinct(args.partition.as_deref().unwrap_or_default());
    if args.from.is_none() {
        unknown_name::partitions(&partitions, &|name| published.has_node_in(name))?;
    }
    let who = published.submission(&config, partitions, args.account.clone());
    let among = Among { names: wanted.as_deref(), partitions: &who.partitions, ..Among::default() };
    let live = slurm_nodes::nodes(&config, &published, among)?;
    let limits = if args.from.is_none() { limits(args, &who)? } else { None };
    let under = (limits.as_ref().map(|(_, allowance)| allowance), None);
    let wanted = Wanted { mem_mib: args.mem, ..Wanted::default() };
    let all = now(&config, &live, &who, wanted, under);
    if args.json {
        return Ok(Outcome::json(&as_json(&all, &live, limits.as_ref().map(|(_, allowance)| allowance)), 0));
    }
    let whose = limits.as_ref().map(|(user, allowance)| (user.as_str(), allowance));
    Ok(Outcome::ok(text::table(&all, &live, whose)))
}

/// The caller's name, and what Slurm's limits leave; `None`: Slurm keeps none.
fn limits(args: &FreeArgs, who: &Submission) -> Result<Option<(String, Allowance)>, Failure> {
    let caller = caller(false);
    let partition = if who.partitions.is_empty() {
        caller.partition.as_deref()
    } else {
        allowance::single(who.partitions.iter().map(String::as_str))
    };
    let asker = Asker {
        user: &caller.user,
        account: who.account.as_deref().or(caller.account.as_deref()),
        partition,
        qos: args.qos.as_deref().or(caller.qos.as_deref()),
    };
    Ok(allowance::ask(asker)?.map(|allowance| (caller.user, allowance)))
}

/// Lists the wanted shapes that these nodes' GPUs could have, and the jobs of each that the caller could start
/// now as `who`, a job with partitions and account, under what Slurm's limits leave.
pub(crate) fn now(
    config: &SiteConfig,
    live: &Live,
    who: &Submission,
    wanted: Wanted,
    under: Under<'_>,
) -> Vec<Free> {
    let partition = who.partitions.first().map(String::as_str);
    let policy = Policy { sets: config.sets(partition), ..config.policy() };
    let uid = Uid(rustix::process::getuid().as_raw());
    let mut models: Vec<&Model> = Vec::new();
    for gpu in live.nodes.iter().flat_map(|n| &n.node.gpus).filter(|gpu| gpu.model.has_mig()) {
        if !models.iter().any(|known| std::ptr::eq(*known, gpu.model)) {
            models.push(gpu.model);
        }
    }
    let most = live.nodes.iter().map(|n| n.node.gpus.len()).max().unwrap_or(0);
    let shapes = shapes::shapes(config, &models, most, wanted);
    let mut memo = Memo::default();
    let rules = Rules { config, policy: &policy, who, uid, under };
    let count = |shape| count::count(shape, &live.nodes, rules, &mut memo);
    shapes.into_iter().map(count).collect()
}

fn as_json(all: &[Free], live: &Live, allowance: Option<&Allowance>) -> serde_json::Value {
    let shape = |free: &Free| {
        let mut value =
            json!({ "shape": free.shape.name, "options": free.shape.options, "now": free.total() });
        if let Some(most) = free.allowed {
            value["room"] = free.room().into();
            value["allowed"] = most.into();
        }
        match &free.nodes {
            Ok(nodes) => {
                value["nodes"] = nodes.iter().map(|(node, n)| json!({ "node": node, "now": n })).collect()
            }
            Err(why) => value["refused"] = why.as_str().into(),
        }
        value
    };
    let left: Vec<&str> = live.left_to_slurm().map(|aside| aside.name.as_str()).collect();
    let (not_taking, reserved) = away::json(&live.not_taking);
    let mut value = json!({
        "shapes": all.iter().map(shape).collect::<Vec<_>>(), "not_taking_jobs": not_taking,
        "reserved": reserved, "left_to_slurm": left,
    });
    if let Some(allowance) = allowance {
        value["limits"] = allowance::json(allowance);
        value["barred"] = allowance.barred.as_deref().into();
    }
    value
}
