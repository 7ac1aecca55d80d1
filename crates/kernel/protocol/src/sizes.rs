//! The sizes that a moldable job may have on a GPU model.

use geometry::{Model, Profile};

use crate::request::{Isolation, Request};

/// A size that a moldable job may have on a GPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The profile to create.
    pub profile: &'static Profile,
    /// The run time on it that the job states, milliseconds; `None` if only its job profile can tell.
    pub millis: Option<u64>,
}

impl Request {
    /// Tells whether a planner may choose the job's size. A job that names a compute instance gets just that.
    #[must_use]
    pub fn is_moldable(&self) -> bool {
        let may_be_resized =
            self.compute_name().is_none() && !self.auto_cap && self.isolation != Isolation::Whole;
        (!self.times.is_empty() || self.job_profile.is_some()) && may_be_resized
    }

    /// The sizes that a planner may choose from on this model, ascending: of each number of compute slices the plain
    /// profile with the fewest units, as in the tree that FAR plans on; sizes the job has not listed, and those with too
    /// little memory or too few multiprocessors for it, are left out. Empty for a job that is not moldable.
    #[must_use]
    pub fn sizes_on(&self, model: &'static Model) -> Vec<Size> {
        let mut plain: Vec<&Profile> = model.profiles.iter().filter(|p| !p.is_variant()).collect();
        plain.sort_by_key(|p| (p.compute_slices, p.size));
        plain.dedup_by_key(|p| p.compute_slices);
        plain.retain(|p| self.is_moldable() && self.lists(p.compute_slices) && self.is_served_by(model, p));
        let time = |p: &Profile| self.times.iter().find(|t| t.slices == p.compute_slices).map(|t| t.millis);
        plain.into_iter().map(|profile| Size { profile, millis: time(profile) }).collect()
    }

    /// The size of [`Request::sizes_on`] with the least work, run time times compute slices, of those that it `may` have; of two alike
    /// the smaller.
    /// A job that lists times and names no profile gets it unless a plan chooses another. `None`: the job lists no times,
    /// or none of its sizes will do on this model.
    #[must_use]
    pub fn least_work(
        &self,
        model: &'static Model,
        may: impl Fn(&Profile) -> bool,
    ) -> Option<&'static Profile> {
        let work = |s: &Size| Some((s.millis? * u64::from(s.profile.compute_slices), s.profile));
        let sizes = self.sizes_on(model);
        sizes
            .iter()
            .filter(|size| may(size.profile))
            .filter_map(work)
            .min_by_key(|(work, _)| *work)
            .map(|(_, profile)| profile)
    }

    /// Tells whether the profile has the memory and the SMs that the request itself names. The site's default memory does
    /// not count: a job that states its run time on a size also states that it fits there.
    pub(crate) fn is_served_by(&self, model: &Model, profile: &Profile) -> bool {
        let sm_need = model.least_sm(self.threads.unwrap_or(0));
        profile.memory_mib >= self.mem_mib.unwrap_or(0) && profile.sm >= sm_need
    }

    /// Tells whether the job listed a size with this number of compute slices; true if it listed none.
    pub(crate) fn lists(&self, slices: u8) -> bool {
        self.times.is_empty() || self.times.iter().any(|t| t.slices == slices)
    }

    /// The sizes that the job lists: `1g, 2g, 7g`.
    #[must_use]
    pub fn listed(&self) -> String {
        let sizes: Vec<String> = self.times.iter().map(|t| format!("{}g", t.slices)).collect();
        sizes.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_request;

    #[test]
    fn sizes_and_least_work_by_model() {
        let sizes = |text: &str, model: &str| {
            let request = parse_request(text).unwrap();
            let model = Model::find(model).unwrap();
            let list: Vec<&str> = request.sizes_on(model).iter().map(|s| s.profile.name.as_str()).collect();
            (list.join(" "), request.least_work(model, |_| true).map(|p| p.name.as_str()))
        };
        let all = "v1 iso=mig times=1g:60,2g:35,3g:20,4g:15,7g:10";
        assert_eq!(
            sizes(all, "a100-40gb"),
            ("1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb".to_owned(), Some("1g.5gb"))
        );
        assert_eq!(sizes(all, "a30-24gb"), ("1g.6gb 2g.12gb 4g.24gb".to_owned(), Some("1g.6gb")));
        let ten = "v1 iso=mig mem=9537 times=1g:60,2g:35,3g:20";
        assert_eq!(
            sizes(ten, "a100-40gb"),
            ("2g.10gb 3g.20gb".to_owned(), Some("3g.20gb")),
            "60 < 70 slices s"
        );
        assert_eq!(
            sizes("v1 iso=mig times=2g:30,3g:20", "a100-40gb").1,
            Some("2g.10gb"),
            "of two alike the smaller"
        );
        assert_eq!(sizes("v1 iso=mig times=3g:1", "a30-24gb"), (String::new(), None));
        assert_eq!(
            sizes("v1 iso=mig job-profile=x", "a30-24gb"),
            ("1g.6gb 2g.12gb 4g.24gb".to_owned(), None)
        );
        assert_eq!(sizes("v1 iso=mig mem=10", "a100-40gb"), (String::new(), None), "not moldable");
    }
}
