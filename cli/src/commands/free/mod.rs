//! `tessera free`: what could start now, and where.

mod args;
mod count;
mod shapes;
mod text;

use geometry::{Model, Uid};
use mapa::Memo;
use serde_json::json;
use site_config::SiteConfig;
use site_limits::Submission;

pub(crate) use args::FreeArgs;
pub(crate) use count::Free;
use count::{Rules, Under};
pub(crate) use shapes::Wanted;

use crate::allowance::{self, Allowance, Asker};
use crate::commands::layout;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::caller::{Caller, caller};
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
    let by_account = config.limits.iter().any(|limit| limit.account.is_some());
    let caller = match args.from {
        Some(_) => Caller::default(),
        None => caller(by_account && args.account.is_none()),
    };
    let default = caller.partition.as_deref().filter(|_| partitions.is_empty());
    let default = default.map(admission::distinct).filter(|names| has_gpus(&config, &published, names));
    let account = args.account.clone().or_else(|| caller.account.clone());
    let of = |partitions| published.submission(&config, partitions, account);
    let mut who = of(default.clone().unwrap_or(partitions));
    who.user = Some(rustix::process::getuid().as_raw());
    let among = Among { names: wanted.as_deref(), partitions: &who.partitions, ..Among::default() };
    let live = slurm_nodes::nodes(&config, &published, among)?;
    let limits = if args.from.is_none() { limits(args, &caller, &who, &config)? } else { None };
    who.qos = limits.as_ref().and_then(|(_, allowance)| allowance.qos.clone()).or_else(|| args.qos.clone());
    let under = (limits.as_ref().map(|(_, allowance)| allowance), None);
    let wanted = Wanted { mem_mib: args.mem, ..Wanted::default() };
    let all = now(&config, &live, &who, wanted, under);
    if args.json {
        let mut value = as_json(&all, &live, limits.as_ref().map(|(_, allowance)| allowance));
        value["partitions"] = who.partitions.into();
        return Ok(Outcome::json(&value, 0));
    }
    let whose = limits.as_ref().map(|(user, allowance)| (user.as_str(), allowance));
    // Of a cluster with one partition there is nothing to say.
    let matters = config.limits.iter().any(|limit| limit.partition.is_some())
        || config.nodes.iter().flat_map(|spec| &spec.names).any(|name| !who.reaches(name));
    let said = default.as_deref().filter(|_| matters);
    Ok(Outcome::ok(text::table(&all, &live, said, whose)))
}

/// Tells whether these partitions have a node that the file describes.
fn has_gpus(config: &SiteConfig, published: &Published, partitions: &[String]) -> bool {
    let there = published.submission(config, partitions.to_vec(), None);
    config.nodes.iter().flat_map(|spec| &spec.names).any(|name| there.reaches(name))
}

/// The caller's name, and what limits leave; `None`: there are none.
fn limits(
    args: &FreeArgs,
    caller: &Caller,
    who: &Submission,
    config: &SiteConfig,
) -> Result<Option<(String, Allowance)>, Failure> {
    let partition = if who.partitions.is_empty() {
        caller.partition.as_deref()
    } else {
        allowance::single(who.partitions.iter().map(String::as_str))
    };
    let asker = Asker {
        user: &caller.user,
        account: who.account.as_deref(),
        partition,
        qos: args.qos.as_deref().or(caller.qos.as_deref()),
        uid: who.user,
    };
    Ok(allowance::ask(asker, config)?.map(|allowance| (caller.user.clone(), allowance)))
}

/// Lists the wanted shapes that these nodes' GPUs could have, and the jobs of each that could start now as `who`, a job with user, partitions
/// and account, under what Slurm's limits leave. Without a user it is the caller's.
pub(crate) fn now(
    config: &SiteConfig,
    live: &Live,
    who: &Submission,
    wanted: Wanted,
    under: Under<'_>,
) -> Vec<Free> {
    let partition = who.partitions.first().map(String::as_str);
    let policy = site_limits::policy_for(config, partition, &site_limits::limits_of(who, config));
    let uid = who.user.map_or_else(|| Uid(rustix::process::getuid().as_raw()), Uid);
    let mut models: Vec<&Model> = Vec::new();
    for gpu in live.nodes.iter().flat_map(|n| &n.node.gpus) {
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
        let sms = |(sms, of): &(u32, u32)| json!({ "sms": sms, "of": of });
        value["sms"] = free.shape.sms.iter().map(sms).collect();
        value["memory_mib"] = free.shape.memory_mib.into();
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
