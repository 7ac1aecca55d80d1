//! Reads slurmctld's counts of its decisions, if it runs on this machine.

use decision_counts::decisions::{Ask, BOUNDS_NS, Hook, Placing};
use decision_pages::decisions::{self, Decisions};
use decision_pages::words;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::registered::{Counters, family, gauge};
use crate::slurm::command::run;
use crate::slurm::scontrol::state_and_user;

/// slurmctld's counters, as they were seen last.
#[derive(Clone, Default)]
pub(super) struct Counted {
    /// Directory of slurmctld's state, and its user's id: the counters are found by these.
    whose: Option<(String, u32)>,
    seen: Option<Decisions>,
}

impl Counted {
    /// Reads them. Slurm is asked only until it has said where they are.
    pub(super) fn look(&mut self) {
        if self.whose.is_none() {
            self.whose = run("scontrol", &["show", "config"]).ok().as_deref().and_then(state_and_user);
        }
        let read = |(state, user): &(String, u32)| decisions::read(state, *user).ok();
        self.seen = self.whose.as_ref().and_then(read);
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        gauge(
            registry,
            "decisions_known",
            "1 if slurmctld runs on this machine and its counters could be read",
        )
        .set(i64::from(self.seen.is_some()));
        let placing = self.seen.as_ref().and_then(Decisions::placing);
        gauge(
            registry,
            "placement_on",
            "1 if slurmctld places GPUs by Tessera's decisions, 0 if it leaves them to Slurm or if that is not known",
        )
        .set(i64::from(placing == Some(Placing::On)));
        let answers: Counters =
            family(registry, "decisions", "What slurmctld's plugins were asked, by the answer");
        let refused: Counters =
            family(registry, "rejections", "Questions that they answered with no, by the reason");
        let Some(seen) = &self.seen else { return };
        for ask in Ask::ALL {
            let label = || ("ask", words::ask(ask).to_owned());
            let mut no = 0;
            for why in words::reasons(ask) {
                let n = seen.refused(ask, *why);
                refused.get_or_create(&vec![label(), ("reason", words::reason(*why).to_owned())]).inc_by(n);
                no += n;
            }
            for (answer, n) in [("yes", seen.accepted(ask)), ("no", no)] {
                answers.get_or_create(&vec![label(), ("answer", answer.to_owned())]).inc_by(n);
            }
        }
        registry.register_collector(Box::new(Times(seen.clone())));
    }
}

/// The time that decisions and Slurm's calls took, as histograms.
#[derive(Debug)]
struct Times(Decisions);

impl Collector for Times {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help =
            "Time that Tessera's part of a decision took in slurmctld, under its locks, without Slurm's own";
        let mut family =
            encoder.encode_descriptor("decision", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for ask in Ask::ALL {
            histogram(&mut family, ("ask", words::ask(ask)), (self.0.times(ask), self.0.total_ns(ask)))?;
        }
        let help = "Time that Tessera's part of a call of Slurm's took in slurmctld, under its locks, without Slurm's own";
        let mut family =
            encoder.encode_descriptor("hook", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for hook in Hook::ALL {
            histogram(&mut family, ("hook", words::hook(hook)), self.0.hook(hook))?;
        }
        Ok(())
    }
}

/// Writes how many calls took so long, by [`BOUNDS_NS`], and the time of all, ns.
fn histogram(
    family: &mut MetricEncoder<'_>,
    label: (&str, &str),
    (times, total_ns): (&[u64], u64),
) -> Result<(), std::fmt::Error> {
    #[expect(clippy::cast_precision_loss, reason = "times of less than 104 days are exact")]
    let seconds = |ns: u64| ns as f64 / 1e9;
    let bounds = BOUNDS_NS.iter().map(|ns| seconds(*ns)).chain([f64::MAX]);
    let buckets: Vec<(f64, u64)> = bounds.zip(times.iter().copied()).collect();
    let (total, count) = (seconds(total_ns), times.iter().sum());
    family.encode_family(&[label])?.encode_histogram::<NoLabelSet>(total, count, &buckets, None)
}
