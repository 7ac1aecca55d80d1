//! What jobs of a partition or an account may ask for.

use geometry::size::display_gb;
use geometry::{Model, Profile, split_compute_name};
use protocol::{Isolation, Request};

/// Limit on the requests of jobs of a partition or an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit is for jobs in this partition; `None`: in any.
    pub partition: Option<String>,
    /// The limit is for jobs of this account; `None`: of any.
    pub account: Option<String>,
    /// The only isolations allowed: `Mig(None)`, `Mig(profile)`, `Mps`, `Tasks`, `Whole`. `None`: all.
    pub isolation: Option<Vec<Isolation>>,
    /// Most instances per node; `None`: any number.
    pub max_instances: Option<u32>,
    /// Most memory per instance, share or whole GPU, MiB; `None`: any.
    pub max_mem_mib: Option<u64>,
}

impl Limit {
    /// Tells whether a job may have this isolation.
    ///
    /// `mig` in the file allows every profile, `mig:PROFILE` only that one. [`Isolation::Mig`] without a profile is allowed
    /// in both cases. `auto` and `none` are always allowed.
    #[must_use]
    pub fn allows(&self, isolation: &Isolation) -> bool {
        let Some(allowed) = &self.isolation else { return true };
        match isolation {
            Isolation::Auto | Isolation::None => true,
            Isolation::Mig(None) => allowed.iter().any(|a| matches!(a, Isolation::Mig(_))),
            Isolation::Mig(Some(_)) => allowed.contains(isolation) || allowed.contains(&Isolation::Mig(None)),
            // With or without probes.
            Isolation::Tasks { .. } => allowed.iter().any(|a| matches!(a, Isolation::Tasks { .. })),
            Isolation::Mps | Isolation::Whole => allowed.contains(isolation),
        }
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
        Some(format!("--gpu-isolation=mig:{profile} is too much {whom}: at most {most}"))
    }

    /// Whom it is for, as the end of a sentence: `in partition gpu for account lab`.
    #[must_use]
    pub fn whom(&self) -> String {
        match (&self.partition, &self.account) {
            (Some(p), Some(a)) => format!("in partition {p} for account {a}"),
            (Some(p), None) => format!("in partition {p}"),
            (None, Some(a)) => format!("for account {a}"),
            (None, None) => String::from("here"),
        }
    }
}

/// The memory that a profile is named by, MiB: that of 10 GB for `2g.10gb`. A compute instance can use all of its GPU
/// instance's memory.
fn named_mib(profile: &str) -> Option<u64> {
    let profile = split_compute_name(profile).map_or(profile, |(_, within)| within);
    Model::all().iter().find_map(|model| model.profile(profile)).map(Profile::nominal_mib)
}
