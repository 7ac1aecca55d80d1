//! The job's grant at its start, as its AdminComment states it.

use std::fmt;

use geometry::JobId;

use crate::moldable::is_job_profile_name;
use crate::plan::MAX_INSTANT;
use crate::strict::{WireError, number};
use crate::wire::{JobPlacement, ModelOf, parse_nodes};

/// Grants of a job at its start: `n1=mig:3/2g.10gb@4 job-profile=bert planned=1790000000-1790000035: why`, behind `planned`
/// perhaps `low=74`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Nodes and grants, as [`crate::wire::encode_placement`] writes them.
    pub got: String,
    /// The job profile that learns from this job's run time.
    pub job_profile: Option<String>,
    /// Begin and end as its plan predicted them, seconds since 1970.
    pub planned: Option<(u64, u64)>,
    /// Speed that the job was promised when it was put beside others, percent of its speed alone.
    pub low: Option<u8>,
    /// Why the job got that, for people.
    pub why: String,
}

impl Started {
    /// Reads the text behind `tessera: `; `None` if it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, why) = text.split_once(": ").unwrap_or((text, ""));
        let mut fields = head.split(' ');
        let got = fields.next().filter(|g| g.contains('='))?.to_owned();
        let mut started = Self { got, job_profile: None, planned: None, low: None, why: why.to_owned() };
        for field in fields {
            match field.split_once('=')? {
                ("job-profile", name) if is_job_profile_name(name) => {
                    started.job_profile = Some(name.to_owned())
                }
                ("planned", span) => {
                    let (begin, end) = span.split_once('-')?;
                    let instant = |text| number(text, 0, MAX_INSTANT).ok();
                    started.planned = Some((instant(begin)?, instant(end)?));
                }
                ("low", percent) => started.low = Some(number(percent, 0, u64::from(u8::MAX)).ok()?),
                _ => return None,
            }
        }
        Some(started)
    }

    /// The node and the grant of each part, `("n1", "mig:3/2g.10gb@4")`; the grant is empty where [`Self::got`] has none.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.got.split(';').map(|part| part.split_once('=').unwrap_or((part, "")))
    }

    /// Reads what the job with this id got on its nodes.
    ///
    /// # Errors
    ///
    /// As of [`parse_placement`](crate::wire::parse_placement).
    pub fn placement(&self, job: JobId, model_of: ModelOf<'_>) -> Result<JobPlacement, WireError> {
        parse_nodes(job, self.got.split(';'), model_of)
    }
}

impl fmt::Display for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.got)?;
        if let Some(name) = &self.job_profile {
            write!(f, " job-profile={name}")?;
        }
        if let Some((begin, end)) = self.planned {
            write!(f, " planned={begin}-{end}")?;
        }
        if let Some(low) = self.low {
            write!(f, " low={low}")?;
        }
        write!(f, ": {}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_grant() {
        let parts = |text: &str| {
            let started = Started::parse(text).unwrap();
            started.parts().map(|(node, grant)| format!("{node} {grant}")).collect::<Vec<_>>()
        };
        assert_eq!(parts("n1=mig:3/2g.10gb@4: why"), ["n1 mig:3/2g.10gb@4"]);
        assert_eq!(parts("n1=whole:0,1/cap=200;n2=whole:3: why"), ["n1 whole:0,1/cap=200", "n2 whole:3"]);
        assert_eq!(parts("n1=whole:0;n2: why"), ["n1 whole:0", "n2 "]);
    }
}
