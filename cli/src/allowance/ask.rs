//! Asks Slurm for the limits of a user's jobs.

use std::collections::HashMap;

use site_config::{Limit, SiteConfig};
use site_limits::Submission;

use super::rule::{self, Subject};
use super::{Allowance, Use};
use crate::outcome::Failure;
use crate::slurm::{assoc_mgr, caller, sacctmgr, scontrol, squeue, version};

/// Whose jobs are asked about. What is `None` is what Slurm takes by default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) user: &'a str,
    pub(crate) account: Option<&'a str>,
    pub(crate) partition: Option<&'a str>,
    pub(crate) qos: Option<&'a str>,
    /// The user's number.
    pub(crate) uid: Option<u32>,
}

/// The partition of a job that names one. Of several, each has limits of its own, and Slurm tries them in turn.
pub(crate) fn single<'a>(mut partitions: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    partitions.next().filter(|_| partitions.next().is_none())
}

/// The QOS that Slurm gives a job where nothing else says one.
const USUAL_QOS: &str = "normal";

/// The limits of this user's jobs, those that Slurm keeps and those of `site` that add up running jobs; `None`: there are none.
///
/// # Errors
///
/// Slurm does not answer.
pub(crate) fn ask(asker: Asker<'_>, site: &SiteConfig) -> Result<Option<Allowance>, Failure> {
    let by = |named: &dyn Fn(&Limit) -> bool| site.limits.iter().any(named);
    let (by_account, by_qos) = (by(&|limit| limit.account.is_some()), by(&|limit| limit.qos.is_some()));
    let slurms = of_slurm(asker)?;
    let kept = slurms.is_some();
    let mut all = slurms.unwrap_or_default();
    if by_account || by_qos {
        let account = asker.account.map(str::to_owned).or_else(|| caller::default_account(asker.user));
        all.account = all.account.or(account);
    }
    if by_qos {
        let qos = asker.qos.map(str::to_owned).or_else(|| default_qos(asker, all.account.as_deref()));
        all.qos = all.qos.or(qos);
    }
    let job = Submission {
        partitions: asker.partition.into_iter().map(str::to_owned).collect(),
        account: all.account.clone(),
        qos: all.qos.clone(),
        user: asker.uid,
        ..Submission::default()
    };
    let own = super::site::bounds(site, &job, asker.user)?;
    let any = kept || by_qos || !own.is_empty();
    all.bounds.extend(own);
    Ok(any.then_some(all))
}

/// The limits that Slurm keeps; `None`: the site has it keep none.
fn of_slurm(asker: Asker<'_>) -> Result<Option<Allowance>, Failure> {
    let config = scontrol::config()?;
    let enforced =
        scontrol::setting(&config, "AccountingStorageEnforce").unwrap_or_default().to_ascii_lowercase();
    if !enforced.split(',').any(|word| ["limits", "safe", "all"].contains(&word.trim())) {
        return Ok(None);
    }
    let held = assoc_mgr::held()?;
    // slurmctld keeps limits while slurmdbd is away: what only slurmdbd tells is then left out.
    let by_name = sacctmgr::qos_limits().unwrap_or_default();
    let partitions = scontrol::partitions()?;
    let of_partitions: HashMap<String, String> =
        partitions.iter().filter_map(|(name, fields)| Some((name.clone(), rule::own_qos(fields)?))).collect();
    let account = asker.account.map(str::to_owned).or_else(|| caller::default_account(asker.user));
    let qos = asker.qos.map(str::to_owned).or_else(|| default_qos(asker, account.as_deref()));
    let subject = Subject {
        user: asker.user.to_owned(),
        uid: caller::uid_of(asker.user).unwrap_or_default(),
        account: account.clone().unwrap_or_default(),
        partition: asker.partition.unwrap_or_default().to_owned(),
        partition_qos: asker.partition.and_then(|name| of_partitions.get(name)).cloned(),
        qos: qos.clone(),
        safe: enforced.contains("safe") || enforced.contains("all"),
    };
    let mut bounds = rule::bounds(&held, &subject, &by_name);
    let named = asker.partition.and_then(|name| Some((name, partitions.get(name)?)));
    bounds.extend(named.into_iter().flat_map(|(name, fields)| rule::of_partition(fields, name)));
    let parents = rule::parents(&held);
    let inherited = version::known().is_none_or(|version| version.since(23, 2)).then_some(&parents);
    let barred = asker.partition.and_then(|name| rule::barred(partitions.get(name)?, &subject, inherited));
    let uses = if bounds.is_empty() { Vec::new() } else { uses(&of_partitions)? };
    Ok(Some(Allowance { bounds, barred, qos, account, uses, parents }))
}

/// Running jobs with what they have.
fn uses(of_partitions: &HashMap<String, String>) -> Result<Vec<Use>, Failure> {
    let of = |job: squeue::RunningJob| Use {
        partition_qos: of_partitions.get(&job.partition).cloned().unwrap_or_default(),
        user: job.user,
        account: job.account,
        qos: job.qos,
        given: job.given,
    };
    Ok(squeue::running()?.into_iter().map(of).collect())
}

/// The QOS of a job that names none: the only one that the association has, else its default, else the usual one.
fn default_qos(asker: Asker<'_>, account: Option<&str>) -> Option<String> {
    let all = sacctmgr::association_qos(asker.user, account?).ok()?;
    let of = |partition: Option<&str>| all.iter().find(|(name, ..)| Some(name.as_str()) == partition);
    let (_, default, list) = of(asker.partition).or_else(|| of(Some("")))?;
    let only = Some(list).filter(|list| !list.is_empty() && !list.contains(','));
    Some(
        only.or(Some(default).filter(|name| !name.is_empty()))
            .map_or_else(|| USUAL_QOS.to_owned(), String::clone),
    )
}
