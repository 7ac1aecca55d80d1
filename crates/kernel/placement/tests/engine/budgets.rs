//! Power budgets against an oracle that counts every GPU for every cap.

use audit::{CappedJob, PoweredNode, audit_cap, watts_in};
use geometry::GpuIndex;
use node_state::{PowerBudget, PowerRange};
use placement::{Budgets, Need, OnNode};
use proptest::prelude::*;
use topology::GpuSet;

const NAMES: [&str; 4] = ["n1", "n2", "n3", "n4"];
const GPUS: u16 = 3;

fn range() -> impl Strategy<Value = PowerRange> {
    (120..260_u16, 20..60_u16).prop_map(|(cap_w, idle_w)| PowerRange { cap_w, idle_w })
}

fn site() -> impl Strategy<Value = Vec<PoweredNode>> {
    let node =
        |(at, range): (usize, PowerRange)| PoweredNode { name: NAMES[at].to_owned(), gpus: GPUS, range };
    prop::collection::vec(range(), 4).prop_map(move |all| all.into_iter().enumerate().map(node).collect())
}

fn budget() -> impl Strategy<Value = PowerBudget> {
    let nodes = prop::sample::subsequence(&NAMES[..], 1..=3);
    (nodes, 100..2000_u32, prop::option::of(60..280_u16)).prop_map(|(nodes, watts, floor_w)| PowerBudget {
        name: nodes.join(","),
        nodes: nodes.into_iter().map(str::to_owned).collect(),
        watts,
        floor_w,
    })
}

/// What a job asks: GPUs of each of some nodes, and a cap.
type Asks = (Vec<(usize, u64)>, Option<u16>);

fn job() -> impl Strategy<Value = Asks> {
    let places = prop::collection::btree_map(0..4_usize, 1..8_u64, 1..=2);
    (places.prop_map(|all| all.into_iter().collect()), prop::option::of(50..300_u16))
}

fn set(budgets: &mut Budgets, running: &[(usize, CappedJob)]) {
    for name in NAMES {
        let here = running.iter().filter(|(_, job)| job.node == name);
        budgets.set_jobs(name, here.map(|(_, job)| (job.gpus, job.cap_w)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Jobs come and go: each gets the highest cap that fits or has to wait, and no budget is ever exceeded.
    #[test]
    fn every_start_has_the_highest_cap_that_fits(
        nodes in site(),
        limits in prop::collection::vec(budget(), 1..=3),
        jobs in prop::collection::vec((job(), any::<prop::sample::Index>()), 1..24),
    ) {
        let described = nodes.iter().map(|n| (n.name.as_str(), usize::from(n.gpus), GpuSet::EMPTY, n.range));
        let mut budgets = Budgets::new(&limits, described);
        let mut running: Vec<(usize, CappedJob)> = Vec::new();
        for (id, ((places, asked_w), ends)) in jobs.into_iter().enumerate() {
            let places: Vec<CappedJob> = places
                .into_iter()
                .map(|(at, bits)| CappedJob { node: NAMES[at].to_owned(), gpus: GpuSet::from_bits(bits), cap_w: None })
                .collect();
            let on: Vec<OnNode<'_>> = places.iter().map(|p| OnNode { node: &p.node, gpus: p.gpus }).collect();
            let before: Vec<CappedJob> = running.iter().map(|(_, job)| job.clone()).collect();
            let chosen = budgets.cap(&on, asked_w);
            let within = on.iter().any(|on| budgets.limits(on.node));
            prop_assert_eq!(within, chosen != Ok(None));
            if within {
                let cap = chosen.clone().unwrap_or_default();
                prop_assert_eq!(audit_cap(&limits, &nodes, &before, &places, asked_w, cap), Vec::<String>::new());
            }
            // What is asked of a single node before Slurm's own test must not rule out what fits.
            if let ([only], true) = (&on[..], chosen.is_ok()) {
                let need = Need { gpus: only.gpus.len(), whole: false, asked_w, fixed: false };
                prop_assert!(budgets.has_room(only.node, need).is_ok());
                let possible = budgets.possible(only.node, asked_w);
                prop_assert!(possible.is_none_or(|possible| possible.and(only.gpus) == only.gpus));
                prop_assert_eq!(budgets.together([(only.node, need)].into_iter()), [true]);
            }
            if let ([only], Some(possible)) = (&on[..], on.first().and_then(|o| budgets.possible(o.node, asked_w))) {
                for gpu in (0..GPUS).map(GpuIndex) {
                    let alone = OnNode { node: only.node, gpus: [gpu].into_iter().collect() };
                    prop_assert_eq!(budgets.cap(&[alone], asked_w).is_ok(), possible.contains(gpu));
                }
            }
            if let Ok(cap) = chosen {
                for place in places {
                    let most = nodes.iter().find(|n| n.name == place.node).map(|n| n.range.cap_w);
                    let cap_w = cap.map(|cap| cap.min(most.unwrap_or(cap))).or(asked_w);
                    running.push((id, CappedJob { cap_w, ..place }));
                }
            }
            if id % 3 == 2 && !running.is_empty() {
                let over = running[ends.index(running.len())].0;
                running.retain(|(job, _)| *job != over);
            }
            set(&mut budgets, &running);
            let now: Vec<CappedJob> = running.iter().map(|(_, job)| job.clone()).collect();
            let idle: Vec<u32> = limits.iter().map(|b| watts_in(b, &nodes, &[])).collect();
            for ((limit, committed), idle) in budgets.committed().zip(idle) {
                prop_assert_eq!(committed, watts_in(limit, &nodes, &now));
                prop_assert!(committed <= limit.watts.max(idle), "{:?}: {}", limit, committed);
            }
        }
    }

    /// Nodes that are promised to a job of several nodes at the same time can all be had.
    #[test]
    fn nodes_that_go_together_fit_together(
        nodes in site(),
        limits in prop::collection::vec(budget(), 1..=3),
        gpus in 1..=3_usize,
        asked_w in prop::option::of(50..300_u16),
    ) {
        let limits: Vec<PowerBudget> =
            limits.into_iter().map(|limit| PowerBudget { floor_w: Some(50), ..limit }).collect();
        let described = nodes.iter().map(|n| (n.name.as_str(), usize::from(n.gpus), GpuSet::EMPTY, n.range));
        let budgets = Budgets::new(&limits, described);
        let need = Need { gpus, whole: true, asked_w, fixed: false };
        let kept = budgets.together(NAMES.iter().map(|name| (*name, need)));
        let bits = (1_u64 << gpus) - 1;
        let on: Vec<OnNode<'_>> = NAMES
            .iter()
            .zip(kept)
            .filter(|(_, kept)| *kept)
            .map(|(node, _)| OnNode { node, gpus: GpuSet::from_bits(bits) })
            .collect();
        prop_assert!(budgets.cap(&on, asked_w).is_ok());
    }
}

#[test]
fn a_job_starts_at_less_or_waits_and_a_smaller_budget_stops_starts_only() {
    let range = PowerRange { cap_w: 250, idle_w: 50 };
    let limit = |watts, floor_w| PowerBudget {
        name: "n[1-2]".into(),
        nodes: vec!["n1".into(), "n2".into()],
        watts,
        floor_w,
    };
    let both = || ["n1", "n2"].into_iter().map(|name| (name, 2, GpuSet::EMPTY, range));
    let gpu = |at: u16| -> GpuSet { [GpuIndex(at)].into_iter().collect() };
    let on = |gpus| [OnNode { node: "n2", gpus }];
    // Four idle GPUs draw 200 W; the first job takes 200 W more.
    let mut budgets = Budgets::new(&[limit(560, Some(180))], both());
    budgets.set_jobs("n1", [(gpu(0), Some(250))].into_iter());
    assert_eq!(budgets.cap(&on(gpu(0)), None), Ok(Some(210)));
    assert_eq!(
        budgets.cap(&on(gpu(0)), Some(150)),
        Ok(Some(150)),
        "who asks for less than the floor gets it"
    );
    let short = budgets.cap(&on(GpuSet::from_bits(3)), None).unwrap_err();
    assert_eq!(
        short.to_string(),
        "power budget n[1-2] has 160 of 560 W free, 260 W more are needed with GPUs at 180 W"
    );
    // Without a floor jobs wait for what they ask.
    let mut strict = Budgets::new(&[limit(560, None)], both());
    strict.set_jobs("n1", [(gpu(0), Some(250))].into_iter());
    assert!(strict.cap(&on(gpu(0)), None).is_err());
    // Beside a job of more, a job adds nothing.
    assert_eq!(strict.cap(&[OnNode { node: "n1", gpus: gpu(0) }], None), Ok(Some(250)));
    let mut small = Budgets::new(&[limit(300, Some(100))], both());
    small.set_jobs("n1", [(gpu(0), Some(250))].into_iter());
    assert_eq!(small.committed().map(|(_, watts)| watts).collect::<Vec<_>>(), [400]);
    assert!(small.cap(&[OnNode { node: "n1", gpus: gpu(0) }], None).is_err());
}

#[test]
fn gpus_that_slurm_gives_out_alone_count_as_used() {
    let range = PowerRange { cap_w: 250, idle_w: 50 };
    let limit = PowerBudget { name: "n1".into(), nodes: vec!["n1".into()], watts: 500, floor_w: Some(100) };
    let unseen = [GpuIndex(1)].into_iter().collect();
    let budgets = Budgets::new(&[limit], [("n1", 2, unseen, range)].into_iter());
    assert_eq!(budgets.watts_on("n1"), Some(300));
    assert_eq!(budgets.watts_on("n9"), None);
}
