//! Limits on the jobs of a partition, an account, a QOS or a user.

use geometry::size::display_gb;
use geometry::{Model, Profile, split_compute_name};
use node_state::InstanceLimit;
use protocol::{Isolation, Request};

/// Whole GPUs and compute slices that a limit leaves; `None`: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Whole GPUs.
    pub gpus: Option<u64>,
    /// Compute slices, those of whole GPUs included.
    pub slices: Option<u64>,
}

/// Properties of a job by which limits are chosen; `None`: not known, so only limits for all match.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whose<'a> {
    /// The partition.
    pub partition: Option<&'a str>,
    /// The account that the job is charged to.
    pub account: Option<&'a str>,
    /// The user's number.
    pub uid: Option<u32>,
    /// The QOS.
    pub qos: Option<&'a str>,
}

/// Limit on the jobs of a partition, an account, a QOS or a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Place among the limits of the file, from 0.
    pub number: usize,
    /// Line of the file, from 1.
    pub line: usize,
    /// The limit is for jobs in this partition; `None`: in any.
    pub partition: Option<String>,
    /// The limit is for jobs of this account; `None`: of any.
    pub account: Option<String>,
    /// The limit is for jobs with this QOS; `None`: with any.
    pub qos: Option<String>,
    /// The limit is for jobs of this user, by name or number; `None`: of any.
    pub user: Option<String>,
    /// Number of that user; `None`: not known, so the limit holds nobody. See [`crate::SiteConfig::name_users`].
    pub uid: Option<u32>,
    /// The only isolations allowed: `Mig(None)`, `Mig(profile)`, `Mps`, `Tasks`, `Whole`. `None`: all.
    pub isolation: Option<Vec<Isolation>>,
    /// Most instances per node; `None`: any number.
    pub max_instances: Option<u32>,
    /// Most memory per instance, share or whole GPU, MiB; `None`: any.
    pub max_mem_mib: Option<u64>,
    /// Most that one job may have on all its nodes.
    pub per_job: Most,
    /// Longest time limit of a job, minutes; `None`: any.
    pub max_time_min: Option<u32>,
    /// Most that running jobs may have together.
    pub running: Most,
    /// `running` is for the jobs of each user alone.
    pub each_user: bool,
}

/// Gives the instances that all of these limits leave a job.
#[must_use]
pub fn instances_under(limits: &[&Limit]) -> InstanceLimit {
    let mut left = InstanceLimit::default();
    limits.iter().for_each(|limit| limit.narrow(&mut left));
    left
}

impl Limit {
    /// Tells whether a job may have this isolation.
    ///
    /// `mig` in the file allows every profile, `mig:PROFILE` only that one. [`Isolation::Mig`] without a profile is allowed
    /// in both cases: [`crate::SiteConfig::policy_for`] says which instances it may get. `mig-shared:INSTANCE` is allowed
    /// only by name, because it shares memory with other jobs. `auto` and `slurm` are always allowed.
    #[must_use]
    pub fn allows(&self, isolation: &Isolation) -> bool {
        let Some(allowed) = &self.isolation else { return true };
        match isolation {
            Isolation::Auto | Isolation::None => true,
            Isolation::Mig(None) => allowed
                .iter()
                .any(|a| matches!(a, Isolation::Mig(name) if name.as_deref().is_none_or(is_isolated))),
            Isolation::Mig(Some(name)) => {
                allowed.contains(isolation) || is_isolated(name) && allowed.contains(&Isolation::Mig(None))
            }
            // With or without probes.
            Isolation::Tasks { .. } => allowed.iter().any(|a| matches!(a, Isolation::Tasks { .. })),
            Isolation::Mps | Isolation::Whole => allowed.contains(isolation),
        }
    }

    /// The names of the only profiles that are allowed; `None`: any.
    fn profiles(&self) -> Option<Vec<&str>> {
        let allowed = self.isolation.as_ref().filter(|all| !all.contains(&Isolation::Mig(None)))?;
        let names = allowed
            .iter()
            .map(|isolation| if let Isolation::Mig(name) = isolation { name.as_deref() } else { None });
        Some(names.flatten().collect())
    }

    /// Leaves the instances of which this limit allows a job one.
    fn narrow(&self, left: &mut InstanceLimit) {
        left.most_mib = left.most_mib.into_iter().chain(self.max_mem_mib).min();
        let slices = self.per_job.slices.into_iter().chain(self.running.slices);
        left.most_slices = left.most_slices.into_iter().chain(slices).min();
        let Some(profiles) = self.profiles() else { return };
        let before = left.only.take();
        let stays = |name: &&&str| before.as_ref().is_none_or(|before| before.iter().any(|b| b == **name));
        left.only = Some(profiles.iter().filter(stays).map(|name| (*name).to_owned()).collect());
    }

    /// Why a request is refused: a line that names the option, its value and what would work. `None` if it is allowed.
    #[must_use]
    pub fn refusal(&self, request: &Request) -> Option<String> {
        let whom = self.whom();
        if !self.allows(&request.isolation) {
            let allowed: Vec<String> = self.isolation.iter().flatten().map(ToString::to_string).collect();
            let (asked, allowed) = (&request.isolation, allowed.join(", "));
            return Some(format!("--gpu-isolation={asked} is not allowed {whom}: use {allowed}"));
        }
        if let Some(most) = self.max_instances.filter(|most| request.instances > *most) {
            return Some(format!("--gpu-instances={} is too many {whom}: at most {most}", request.instances));
        }
        let most = self.max_mem_mib?;
        if let Some(asked) = request.mem_mib.filter(|asked| *asked > most) {
            let (asked, most) = (display_gb(asked), display_gb(most));
            return Some(format!("--gpu-mem={asked} is too much {whom}: at most {most}"));
        }
        if matches!(request.isolation, Isolation::Tasks { .. }) && request.mem_mib.is_none() {
            let (asked, most) = (&request.isolation, display_gb(most));
            return Some(format!(
                "--gpu-isolation={asked} needs --gpu-mem {whom}: at most {most} of a device's memory"
            ));
        }
        // An instance holds a little more than its name says, and a job that may have 10 GB may have 2g.10gb.
        let Isolation::Mig(Some(profile)) = &request.isolation else { return None };
        let most = display_gb(named_mib(profile).filter(|named| *named > most).and(Some(most))?);
        Some(format!("--gpu-isolation={} is too much {whom}: at most {most}", request.isolation))
    }

    /// Tells whether the limit is for a job. In names of accounts and QOS capitals do not count: Slurm knows all of them in small
    /// letters, those of a submission only after it has asked its plugins.
    #[must_use]
    pub fn is_for(&self, job: Whose<'_>) -> bool {
        let named = |own: &Option<String>, is: Option<&str>| {
            own.as_deref().is_none_or(|own| is.is_some_and(|is| is.eq_ignore_ascii_case(own)))
        };
        self.partition.as_deref().is_none_or(|own| job.partition == Some(own))
            && named(&self.account, job.account)
            && named(&self.qos, job.qos)
            && (self.user.is_none() || self.uid.is_some() && self.uid == job.uid)
    }

    /// The jobs that it binds, as the end of a sentence: `in partition gpu for account lab`.
    #[must_use]
    pub fn whom(&self) -> String {
        let of = |word: &str, name: &Option<String>| name.as_ref().map(|name| format!("{word} {name}"));
        let whose = [of("user", &self.user), of("account", &self.account), of("QOS", &self.qos)];
        let whose: Vec<String> = whose.into_iter().flatten().collect();
        let whose = (!whose.is_empty()).then(|| format!("for {}", whose.join(", ")));
        let words: Vec<String> = of("in partition", &self.partition).into_iter().chain(whose).collect();
        if words.is_empty() { String::from("here") } else { words.join(" ") }
    }

    /// The place in the file, for messages: `running_slices, line 31 of tessera.toml`.
    #[must_use]
    pub fn place(&self, key: &str) -> String {
        format!("{key}, line {} of tessera.toml", self.line)
    }
}

/// Tells whether this is the name of a profile, not of a compute instance.
fn is_isolated(name: &str) -> bool {
    split_compute_name(name).is_none()
}

/// The memory that a profile is named by, MiB: that of 10 GB for `2g.10gb`. A compute instance can use all of its GPU
/// instance's memory.
fn named_mib(profile: &str) -> Option<u64> {
    let profile = split_compute_name(profile).map_or(profile, |(_, within)| within);
    Model::all().iter().find_map(|model| model.profile(profile)).map(Profile::nominal_mib)
}
