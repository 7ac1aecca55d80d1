//! Streams of jobs under every rule, against an account of the cluster that shares no code with the simulator.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fs;

use geometry::{JobId, Uid};
use node_state::{Ask, Node, Spread};
use pack_study::stream::{
    MIXES, Rule, StreamEvent, StreamJob, StreamSite, named_site, row, simulate, stream, title,
};
use placement::fits;
use protocol::{Grant, Isolation, Request};

const RULES: [&str; 9] =
    ["tessera", "slurm", "first-fit", "best-fit", "most-placements", "mfi", "grmu", "quota:1", "learnt"];

/// A small site: two nodes of the named one.
fn small(name: &str) -> StreamSite {
    let mut site = named_site(name).unwrap();
    site.nodes.truncate(2);
    site
}

/// Units of each GPU that jobs hold, and free cores.
struct Account<'a> {
    site: &'a StreamSite,
    jobs: &'a [StreamJob],
    held: HashMap<(usize, usize, u32), usize>,
    cpus: Vec<u32>,
    nodes: Vec<Node>,
    runs: HashMap<usize, Vec<(usize, Grant)>>,
}

impl<'a> Account<'a> {
    fn new(site: &'a StreamSite, jobs: &'a [StreamJob]) -> Self {
        let nodes = site.nodes.iter().map(|spec| spec.node.clone()).collect();
        let cpus = site.nodes.iter().map(|spec| spec.cpus).collect();
        Self { site, jobs, held: HashMap::new(), cpus, nodes, runs: HashMap::new() }
    }

    /// Lists the units that a grant takes: node, GPU, unit.
    fn units(&self, node: usize, grant: &Grant) -> Vec<(usize, usize, u32)> {
        let gpus = &self.site.nodes[node].node.gpus;
        match grant {
            Grant::Whole(all) => {
                let each =
                    |gpu: usize| (0..u32::from(gpus[gpu].model.placement_units)).map(move |u| (node, gpu, u));
                all.iter().flat_map(|gpu| each(usize::from(gpu.0))).collect()
            }
            Grant::Mig(specs) => {
                let each = specs.iter().flat_map(|spec| {
                    let gpu = usize::from(spec.gpu.0);
                    let profile = gpus[gpu].model.profile_by_id(spec.profile).unwrap();
                    let from = u32::from(spec.start.0);
                    (from..from + u32::from(profile.size)).map(move |unit| (node, gpu, unit))
                });
                each.collect()
            }
            other => panic!("{other:?} was not asked for"),
        }
    }

    fn enter(&mut self, event: &StreamEvent<'_>, drops_only_without_place: bool) {
        match event {
            StreamEvent::Start { job, at_ms, parts } => {
                assert!(*at_ms >= self.jobs[*job].submit_ms && parts.len() == self.jobs[*job].nodes);
                for (node, grant) in *parts {
                    for unit in self.units(*node, grant) {
                        assert_eq!(self.held.insert(unit, *job), None, "two jobs on {unit:?}");
                    }
                    self.cpus[*node] = self.cpus[*node].checked_sub(self.jobs[*job].cpus).unwrap();
                    let id = JobId(u32::try_from(*job + 1).unwrap());
                    self.nodes[*node].apply(id, Uid(1), grant).unwrap();
                }
                assert_eq!(self.runs.insert(*job, parts.to_vec()), None, "started twice");
            }
            StreamEvent::End { job, .. } => {
                for (node, grant) in self.runs.remove(job).unwrap() {
                    for unit in self.units(node, &grant) {
                        assert_eq!(self.held.remove(&unit), Some(*job));
                    }
                    self.cpus[node] += self.jobs[*job].cpus;
                    self.nodes[node].release(JobId(u32::try_from(*job + 1).unwrap()));
                }
            }
            StreamEvent::Drop { job, .. } => {
                let wanted = &self.jobs[*job];
                let ask = Ask { spread: Spread::ALIKE, ..Ask::new(JobId(0), Uid(1), wanted.request.clone()) };
                let has_room =
                    |(node, cpus): (&Node, &u32)| *cpus >= wanted.cpus && fits(node, &ask, &self.site.policy);
                let room = self.nodes.iter().zip(&self.cpus).any(has_room);
                assert!(!drops_only_without_place || !room, "job {job} had room and was dropped");
            }
        }
    }
}

#[test]
fn no_unit_has_two_jobs_and_what_is_dropped_has_no_place() {
    for site in ["13x8-a100-80", "25x4-h100"].map(small) {
        for mix in &MIXES {
            let jobs = stream(&site, mix, 1.1, (7, 400));
            for name in RULES {
                let rule = Rule::named(name).unwrap();
                let refuses = matches!(rule, Rule::Grmu | Rule::Quota(_));
                for queue in [false, true] {
                    let mut account = Account::new(&site, &jobs);
                    let mut events = 0;
                    let summary = simulate(&site, &jobs, (rule, queue, 0), &mut |event| {
                        events += 1;
                        account.enter(event, !queue && !refuses);
                    });
                    assert!(account.runs.is_empty() && account.held.is_empty(), "{name}: all jobs end");
                    assert!(summary.accepted <= summary.submitted && events >= jobs.len());
                    assert!(
                        !queue || refuses || summary.accepted == jobs.len(),
                        "{name}: all that wait start"
                    );
                }
            }
        }
    }
}

#[test]
fn a_stream_asks_for_its_load() {
    let site = named_site("50x8-a100-40").unwrap();
    for mix in &MIXES {
        let jobs = stream(&site, mix, 0.9, (3, 40_000));
        let model = site.nodes[0].node.gpus[0].model;
        let gpus = |job: &StreamJob| match &job.request.isolation {
            Isolation::Mig(Some(name)) => {
                f64::from(model.profile(name).unwrap().size) / f64::from(model.placement_units)
            }
            _ => f64::from(job.request.gpus.unwrap()),
        };
        let seconds = |ms: u64| f64::from(u32::try_from(ms / 1000).unwrap());
        let asked: f64 = jobs.iter().map(|job| gpus(job) * seconds(job.run_ms)).sum();
        let load = asked / (400.0 * seconds(jobs.last().unwrap().submit_ms));
        assert!((load - 0.9).abs() < 0.03, "{}: {load}", mix.name);
    }
}

fn instance(id: &str, submit_ms: u64, cpus: u32) -> StreamJob {
    StreamJob {
        id: id.to_owned(),
        submit_ms,
        run_ms: 10_000,
        cpus,
        mem_mib: 0,
        nodes: 1,
        request: Request::new(Isolation::Mig(Some("1g.10gb".to_owned()))),
        plain: false,
    }
}

/// A job with many cores makes n2 the node with the fewest free ones: Slurm sends small jobs there, Tessera to the cut GPU.
#[test]
fn slurm_looks_at_cores_and_tessera_at_gpus() {
    let site = small("25x4-h100");
    let mut first = instance("a", 0, 1);
    first.request = Request { gpus: Some(1), ..Request::new(Isolation::Whole) };
    let jobs = [instance("small", 0, 1), StreamJob { cpus: 60, ..first }, instance("next", 2, 1)];
    let nodes = |rule: &str| {
        let mut nodes = Vec::new();
        simulate(&site, &jobs, (Rule::named(rule).unwrap(), false, 0), &mut |event| {
            if let StreamEvent::Start { parts, .. } = event {
                nodes.push(parts[0].0);
            }
        });
        nodes
    };
    assert_eq!(nodes("first-fit"), [0, 0, 0]);
    let [small, _, next] = nodes("tessera")[..] else { panic!() };
    assert_eq!(small, next, "the GPU that is cut already");
}

/// The piece of the table at the end of the page, made again.
#[test]
fn the_page_has_what_the_program_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/figures/pack-streams.md");
    let page = fs::read_to_string(page).unwrap();
    let site = named_site("25x4-h100").unwrap();
    for queue in [false, true] {
        assert!(page.contains(&title(queue)));
        for name in ["slurm", "tessera", "mfi"] {
            let mix = &MIXES[4];
            let jobs = stream(&site, mix, 0.9, (1, 3000));
            let warm_ms = jobs[600].submit_ms;
            let rule = Rule::named(name).unwrap();
            let summary = simulate(&site, &jobs, (rule, queue, warm_ms), &mut |_| ());
            let line = format!("| 25x4-h100 | {} | 0.9 | {name} {}", mix.name, row(&[summary], queue));
            assert!(page.contains(&line), "the page lacks\n{line}");
        }
    }
}
