//! The cluster as Prometheus reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use protocol::Standing;

use super::changes::{Changes, Started};
use super::counted::Counted;
use super::registered::{Counters, Family, Gauges, Labels, Ratios, family, gauge};
use crate::cluster_snapshot::{ClusterSnapshot, GpuSeen, NodeSeen, held_by, kind, request};
use crate::fragmentation::{Wholeness, wholeness};
use crate::idle_jobs::IdleSeen;

/// Upper bounds of the waits that are counted, s: from those that a backfill cycle explains to a week.
const WAITS: [f64; 10] = [1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0];

/// How long jobs waited, by kind.
#[derive(Default)]
pub(super) struct Waits(Family<Histogram>);

impl Waits {
    pub(super) fn add(&self, started: &[Started]) {
        for (kind, seconds) in started {
            #[expect(clippy::cast_precision_loss, reason = "seconds of a wait")]
            let wait = *seconds as f64;
            let labels = vec![("kind", (*kind).to_owned())];
            self.0.get_or_insert(&labels, || Histogram::new(WAITS)).observe(wait);
        }
    }
}

/// Longest time that Slurm's commands may take for one look, s. A command that waits for a file system or for munge has no limit
/// of its own.
const LONGEST_LOOK_S: u64 = 300;

/// How the exporter has asked Slurm.
pub(super) struct LookState {
    /// Looks that failed since the exporter began.
    pub(super) failures: u64,
    pub(super) last_failed: bool,
    /// The interval between two looks.
    pub(super) every: Duration,
    /// tessera.toml was good when it was read last.
    pub(super) file_is_good: bool,
}

impl LookState {
    /// Tells whether Slurm answers: the last look did not fail, and it is not so old that the next one must hang. `seen` is the last that
    /// succeeded.
    fn is_up(&self, seen: Option<&ClusterSnapshot>, now: u64) -> bool {
        let age = seen.map(|seen| now.saturating_sub(seen.at));
        !self.last_failed && age.is_some_and(|age| age <= self.every.as_secs() + LONGEST_LOOK_S)
    }
}

/// Everything, in the OpenMetrics text format. `seen`: the last look that succeeded. `now` is in seconds since 1970.
pub(super) fn text(
    seen: Option<&ClusterSnapshot>,
    changes: &Changes,
    waits: &Waits,
    counted: &Counted,
    asked: &LookState,
    now: u64,
) -> String {
    let mut registry = Registry::with_prefix("tessera");
    gauge(&mut registry, "slurm_up", "1 if the last question to Slurm was answered")
        .set(i64::from(asked.is_up(seen, now)));
    gauge(
        &mut registry,
        "file_good",
        "1 if tessera.toml on the exporter's machine has no errors; at 0 the numbers are by its last good version",
    )
    .set(i64::from(asked.file_is_good));
    let failed = Counter::<u64>::default();
    failed.inc_by(asked.failures);
    registry.register("refresh_failures", "Times that Slurm could not be asked", failed);
    if let Some(seen) = seen {
        let ratio = |registry: &mut Registry, name, help, value| {
            let gauge = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
            gauge.set(value);
            registry.register_with_unit(name, help, Unit::Seconds, gauge);
        };
        ratio(&mut registry, "refresh", "Duration of the last poll of Slurm", seen.took_s);
        #[expect(clippy::cast_precision_loss, reason = "an age")]
        let age = now.saturating_sub(seen.at) as f64;
        ratio(&mut registry, "snapshot_age", "Age of these numbers", age);
        let whole = wholeness(&seen.nodes.iter().collect::<Vec<_>>());
        nodes(&mut registry, seen);
        unhealthy(&mut registry, seen);
        ending(&mut registry, seen, changes);
        if let Some(found) = IdleSeen::of(seen) {
            idle(&mut registry, &found);
        }
        places(&mut registry, &whole);
        jobs(&mut registry, seen, &whole, now);
    }
    instances(&mut registry, changes);
    registry.register_with_unit(
        "job_wait",
        "From submission to start, of jobs with GPUs that started while the exporter ran",
        Unit::Seconds,
        waits.0.clone(),
    );
    counted.register(&mut registry);
    let mut text = String::new();
    // Writing into a text does not fail.
    let _ = encode(&mut text, &registry);
    text
}

fn unhealthy(registry: &mut Registry, seen: &ClusterSnapshot) {
    let since: Gauges = family(
        registry,
        "gpu_left_out_since_timestamp_seconds",
        "Since when an unhealthy GPU gets no new jobs, seconds since 1970, with the reason; GPUs that get jobs have none",
    );
    for node in &seen.nodes {
        for sick in &node.sick {
            let gpu = [("gpu", sick.gpu.0.to_string()), ("reason", sick.why.clone())];
            let labels: Labels = [("node", node.name.clone())].into_iter().chain(gpu).collect();
            since.get_or_create(&labels).set(i64::try_from(sick.since).unwrap_or(i64::MAX));
        }
    }
}

/// How long jobs have been ending. Other jobs may end all the time, so their number does not say that one hangs.
fn ending(registry: &mut Registry, seen: &ClusterSnapshot, changes: &Changes) {
    let longest = Gauges::default();
    registry.register_with_unit(
        "node_ending_longest",
        "How long the exporter has seen the job that has been ending longest on the node, 0 without one",
        Unit::Seconds,
        longest.clone(),
    );
    for node in &seen.nodes {
        let seconds = i64::try_from(changes.ending_longest(node, seen.at)).unwrap_or(i64::MAX);
        longest.get_or_create(&vec![("node", node.name.clone())]).set(seconds);
    }
}

/// GPUs that jobs hold without using them.
fn idle(registry: &mut Registry, seen: &IdleSeen) {
    let jobs: Gauges = family(
        registry,
        "idle_jobs",
        "Jobs that have not used a GPU of theirs for at least 10 minutes, by partition, and whether all of theirs are idle",
    );
    let slices: Ratios =
        family(registry, "idle_slices", "Compute slices that such jobs leave idle, by partition");
    for held in &seen.held {
        let own = || vec![("partition", held.job.partition.clone())];
        let all = ("all", if held.wholly { "yes" } else { "no" }.to_owned());
        jobs.get_or_create(&own().into_iter().chain([all]).collect()).inc();
        #[expect(clippy::cast_precision_loss, reason = "slices of a cluster")]
        slices.get_or_create(&own()).inc_by(held.slices_c as f64 / 100.0);
    }
    let silent = i64::try_from(seen.silent.len()).unwrap_or(i64::MAX);
    gauge(registry, "idle_silent_nodes", "Nodes that have not said for an hour which jobs are idle")
        .set(silent);
}

fn nodes(registry: &mut Registry, seen: &ClusterSnapshot) {
    let takes: Gauges = family(registry, "node_takes_jobs", "1 if Slurm starts jobs on the node");
    let known: Gauges =
        family(registry, "node_layout_known", "1 if the node's published layout could be read");
    let gpus: Gauges = family(registry, "gpus", "GPUs by model and state");
    let slices: Gauges =
        family(registry, "compute_slices", "Compute slices by who has them; a GPU that cannot be cut has 7");
    let kept: Gauges = family(registry, "instances", "MIG instances by profile and state");
    let ratio: Ratios = family(
        registry,
        "fragmentation_ratio",
        "Part of the free compute slices that the largest instance of each GPU could not use",
    );
    let fit: Gauges = family(
        registry,
        "node_fit",
        "1 if the driver shows the GPUs that tessera.toml describes and the journal can be used",
    );
    let config: Gauges = family(
        registry,
        "node_config_good",
        "1 if slurmctld works with tessera.toml as it is, without errors",
    );
    let standing: Gauges = family(
        registry,
        "nodes_by_word",
        "Nodes by what they say of themselves: same takes jobs with options of Tessera's, other has another tessera.toml, \
         detects takes MIG instances for GPUs, silent does not load Tessera",
    );
    for word in Standing::ALL {
        let nodes = seen.nodes.iter().filter(|node| node.standing == Some(word)).count();
        let labels = vec![("word", word.word().to_owned())];
        standing.get_or_create(&labels).set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }
    let ending: Gauges =
        family(registry, "node_ending_jobs", "Jobs that were told to end and whose epilogs are not over");
    for node in &seen.nodes {
        let own = || vec![("node", node.name.clone())];
        takes.get_or_create(&own()).set(i64::from(node.takes_jobs));
        known.get_or_create(&own()).set(i64::from(node.gpus.is_ok()));
        fit.get_or_create(&own()).set(i64::from(node.health.fit));
        config.get_or_create(&own()).set(i64::from(node.health.config_good));
        ending.get_or_create(&own()).set(i64::try_from(node.health.ending.len()).unwrap_or(i64::MAX));
        let with = |labels: Labels| own().into_iter().chain(labels).collect::<Labels>();
        for gpu in node.gpus.iter().flatten() {
            let labels = vec![("model", gpu.model.key.clone()), ("state", gpu.state().to_owned())];
            gpus.get_or_create(&with(labels)).inc();
            for (owner, n) in gpu.slices() {
                slices.get_or_create(&with(vec![("state", owner.name().to_owned())])).inc_by(i64::from(n));
            }
            for piece in &gpu.pieces {
                let Some(profile) = &piece.profile else { continue };
                let labels = vec![("profile", profile.clone()), ("state", piece.owner.name().to_owned())];
                kept.get_or_create(&with(labels)).inc();
            }
        }
        if let Some(value) = fragmentation(node) {
            ratio.get_or_create(&own()).set(value);
        }
    }
}

/// Computes the part of the free compute slices that the largest possible instance of each GPU leaves; `None`: none is free.
fn fragmentation(node: &NodeSeen) -> Option<f64> {
    let both = node.gpus.iter().flatten().map(GpuSeen::free);
    let (free, largest) = both.fold((0, 0), |sum, gpu| (sum.0 + gpu.0, sum.1 + gpu.1.min(gpu.0)));
    (free > 0).then(|| 1.0 - f64::from(largest) / f64::from(free))
}

/// GPUs and nodes that are whole, and by shape the jobs that fit.
fn places(registry: &mut Registry, whole: &Wholeness) {
    let mut set = |name, help, n: u32| gauge(registry, name, help).set(i64::from(n));
    set("gpus_without_jobs", "GPUs without any job, on nodes that take jobs", whole.gpus);
    set("nodes_without_jobs", "Nodes that take jobs and have no job on any GPU", whole.nodes);
    let fit: Gauges = family(
        registry,
        "places",
        "Further jobs of a shape that fit now, and that would fit if the jobs that run were packed on as few GPUs as possible",
    );
    let lost: Ratios = family(
        registry,
        "places_lost_ratio",
        "Part of the places for a shape that packed jobs would leave and that do not exist now",
    );
    for places in &whole.places {
        let own = || vec![("model", places.model.to_owned()), ("shape", places.shape.to_string())];
        for (how, n) in [("now", places.now), ("packed", places.packed)] {
            let labels = own().into_iter().chain([("jobs", how.to_owned())]).collect();
            fit.get_or_create(&labels).set(i64::from(n));
        }
        let ratio = f64::from(places.lost()) / f64::from(places.packed.max(1));
        lost.get_or_create(&own()).set(ratio);
    }
}

fn jobs(registry: &mut Registry, seen: &ClusterSnapshot, whole: &Wholeness, now: u64) {
    let lost = seen.jobs.iter().filter(|job| job.waits());
    let lost = lost.filter(|job| request(job).is_some_and(|request| whole.is_lost(&request)));
    let lost = lost.map(|job| job.jobs()).fold(0, usize::saturating_add);
    gauge(
        registry,
        "pending_jobs_fragmented",
        "Jobs with an option of Tessera's that wait, fit nowhere now, and would if the jobs that run were packed",
    )
    .set(i64::try_from(lost).unwrap_or(i64::MAX));
    let count: Gauges = family(
        registry,
        "jobs",
        "Jobs with GPUs, by kind, plain without an option of Tessera's, and Slurm's state",
    );
    let pending: Gauges = family(
        registry,
        "pending_jobs",
        "Jobs with GPUs that wait, by kind, plain without an option of Tessera's, and Slurm's reason",
    );
    let held: Gauges = family(
        registry,
        "pending_jobs_by_rule",
        "Waiting jobs, by kind and the rule of Tessera that makes them wait",
    );
    let mut oldest: BTreeMap<&str, u64> = BTreeMap::new();
    for job in seen.jobs.iter().filter(|job| !job.ended()) {
        let Some(kind) = kind(job) else { continue };
        let own = || ("kind", kind.to_owned());
        let n = i64::try_from(job.jobs()).unwrap_or(i64::MAX);
        count.get_or_create(&vec![own(), ("state", job.state.to_lowercase())]).inc_by(n);
        if job.waits() {
            pending.get_or_create(&vec![own(), ("reason", job.reason.clone())]).inc_by(n);
            held.get_or_create(&vec![own(), ("by", held_by(job).to_owned())]).inc_by(n);
            let waits = job.submit.map_or(0, |submit| now.saturating_sub(submit));
            let longest = oldest.entry(kind).or_default();
            *longest = waits.max(*longest);
        }
    }
    let longest = Gauges::default();
    registry.register_with_unit(
        "pending_longest",
        "How long the job that has waited longest has waited, by kind",
        Unit::Seconds,
        longest.clone(),
    );
    for (kind, seconds) in oldest {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        longest.get_or_create(&vec![("kind", kind.to_owned())]).set(seconds);
    }
}

fn instances(registry: &mut Registry, changes: &Changes) {
    let created: Counters = family(registry, "instances_created", "MIG instances that were seen new");
    let destroyed: Counters = family(registry, "instances_destroyed", "MIG instances that were seen gone");
    let reused: Counters =
        family(registry, "instances_reused", "Idle MIG instances that a job was seen to get");
    for (node, counts) in &changes.instances {
        let own = vec![("node", node.clone())];
        created.get_or_create(&own).inc_by(counts.created);
        destroyed.get_or_create(&own).inc_by(counts.destroyed);
        reused.get_or_create(&own).inc_by(counts.reused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(failures: u64, last_failed: bool) -> LookState {
        LookState { failures, last_failed, every: Duration::from_secs(15), file_is_good: true }
    }

    fn at(seen: Option<&ClusterSnapshot>, asked: &LookState, now: u64) -> String {
        text(seen, &Changes::default(), &Waits::default(), &Counted::default(), asked, now)
    }

    #[test]
    fn idle_jobs_are_counted_where_the_site_wants_it() {
        let shown = |seen: &ClusterSnapshot| {
            text(Some(seen), &Changes::default(), &Waits::default(), &Counted::default(), &asked(0, false), 0)
        };
        assert!(!shown(&crate::cluster_snapshot::tests::seen()).contains("tessera_idle"));
        let text = shown(&crate::idle_jobs::tests::seen());
        for line in [
            "tessera_idle_jobs{partition=\"gpu\",all=\"yes\"} 1",
            "tessera_idle_jobs{partition=\"gpu\",all=\"no\"} 1",
            "tessera_idle_slices{partition=\"gpu\"} 6.5",
            "tessera_idle_silent_nodes 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn each_task_of_an_array_that_waits_counts() {
        let mut seen = crate::cluster_snapshot::tests::seen();
        seen.jobs[2].array = Some((20, "1-3,7%2".to_owned()));
        let shown = text(
            Some(&seen),
            &Changes::default(),
            &Waits::default(),
            &Counted::default(),
            &asked(0, false),
            0,
        );
        for line in [
            "tessera_jobs{kind=\"mig\",state=\"pending\"} 4",
            "tessera_jobs{kind=\"mig\",state=\"running\"} 1",
        ] {
            assert!(shown.lines().any(|one| one == line), "{line}: {shown}");
        }
    }

    #[test]
    fn before_the_first_answer_slurm_is_not_up() {
        let seen = crate::cluster_snapshot::tests::seen();
        assert!(at(None, &asked(0, false), 0).contains("\ntessera_slurm_up 0\n"));
        assert!(at(Some(&seen), &asked(0, false), 0).contains("\ntessera_slurm_up 1\n"));
        assert!(at(Some(&seen), &asked(1, true), 0).contains("\ntessera_slurm_up 0\n"));
    }

    #[test]
    fn a_question_to_slurm_that_hangs_is_no_answer() {
        let seen = crate::cluster_snapshot::tests::seen();
        let up =
            |age: u64| at(Some(&seen), &asked(0, false), seen.at + age).contains("\ntessera_slurm_up 1\n");
        assert_eq!([0, 100, 315, 316, 9000].map(up), [true, true, true, false, false]);
    }
}
