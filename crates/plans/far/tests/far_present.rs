//! Plans over the present state, checked against that state itself: units, instances and clocks, nothing of the planners.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use std::collections::BTreeMap;

use far::{
    After, Costs, Micros, OpKind, Policy, PolicyError, Present, PresentError, PresentGpu, PresentInstance,
    PresentPlace, PresentPlan, ProblemError, STEPS_PER_MS, Task, Tree,
};
use geometry::{GpuIndex, Model, Slice};
use proptest::prelude::*;

const MODELS: [&str; 4] = ["a30-24gb", "a100-40gb", "h100-80gb-sxm", "rtx-pro-6000-96gb"];
const S: Micros = 1_000_000;

/// Plans two tasks on a GPU with three jobs and a GPU that a job has whole.
#[test]
fn a_plan_over_what_there_is() {
    let instance = |profile: &str, start, until| PresentInstance { profile: profile.into(), start, until };
    let mut n1 = PresentGpu::empty("n1", 0);
    n1.instances = vec![
        instance("3g.20gb", 4, Some(40 * S)), // a job that should end in 40 s
        instance("2g.10gb", 0, Some(0)),      // idle
        instance("1g.5gb", 3, None),          // a job without an end
    ];
    let n2 = PresentGpu { usable_from: Some(60 * S), ..PresentGpu::empty("n2", 0) };
    let present = Present::new(Model::find("a100-40gb").unwrap(), vec![n1, n2]).unwrap();

    // As `--gpu-times=1g:60s,2g:35s` says.
    let tasks = vec![present.task(&[(1, 60 * S), (2, 35 * S)]).unwrap(); 2];
    let plan = present.plan(&tasks, &Policy::Tessera, 10 * STEPS_PER_MS).unwrap();

    assert!(plan.left_out.is_empty());
    let (run, gpu) = (&plan.runs[0], &present.gpus()[plan.runs[0].at.gpu]);
    assert_eq!((gpu.node.as_str(), run.at.profile, run.at.start, run.begin), ("n1", "2g.10gb", 0, 0));
}

/// An instance that exists, in the oracle's world.
struct Alive {
    profile: String,
    start: u8,
    mask: u16,
    /// When it may be used or destroyed; `None` for never.
    free: Option<Micros>,
}

struct World<'a> {
    present: &'a Present,
    costs: Costs,
    sizes: Vec<u8>,
    alive: Vec<Vec<Alive>>,
    /// Per GPU and unit: when its last instance was gone.
    cleared: Vec<[Micros; 16]>,
    /// Per node: operations so far.
    lanes: BTreeMap<String, Vec<(Micros, Micros)>>,
}

fn mask(model: &Model, profile: &str, start: u8) -> u16 {
    let p = model.profile(profile).unwrap();
    assert!(p.starts.contains(&Slice(start)), "{profile}@{start} is legal");
    p.at(Slice(start)).mask()
}

impl<'a> World<'a> {
    fn new(present: &'a Present) -> Self {
        let model = present.model();
        let tree = Tree::of(model).unwrap();
        let alive = |g: &PresentGpu| {
            let one = |i: &PresentInstance| Alive {
                profile: i.profile.clone(),
                start: i.start,
                mask: mask(model, &i.profile, i.start),
                free: i.until,
            };
            g.instances.iter().map(one).collect()
        };
        Self {
            present,
            costs: Costs::table_1(model, &tree),
            sizes: tree.sizes,
            alive: present.gpus().iter().map(alive).collect(),
            cleared: vec![[0; 16]; present.gpus().len()],
            lanes: BTreeMap::new(),
        }
    }

    fn class(&self, size: u8) -> usize {
        self.sizes.iter().position(|&s| s == size).unwrap()
    }

    fn usable(&self, gpu: usize, from: Micros) {
        assert!(self.present.gpus()[gpu].usable_from.unwrap() <= from, "GPU {gpu} is not there yet");
    }

    fn find(&mut self, at: &PresentPlace) -> &mut Alive {
        let mut all = self.alive[at.gpu].iter_mut();
        all.find(|a| a.profile == at.profile && a.start == at.start).expect("the instance exists")
    }

    fn operate(&mut self, kind: OpKind, at: &PresentPlace, begin: Micros, end: Micros) {
        self.usable(at.gpu, begin);
        let class = self.class(at.size);
        let lane = self.lanes.entry(self.present.gpus()[at.gpu].node.clone()).or_default();
        assert!(lane.iter().all(|&(b, e)| end <= b || e <= begin), "one operation at a time on a node");
        lane.push((begin, end));
        let mask = mask(self.present.model(), at.profile, at.start);
        if kind == OpKind::Create {
            assert_eq!(end - begin, self.costs.create[class]);
            assert!(self.alive[at.gpu].iter().all(|a| a.mask & mask == 0), "{at:?} overlaps");
            for unit in (0..16).filter(|u| mask >> u & 1 == 1) {
                assert!(self.cleared[at.gpu][unit] <= begin, "unit {unit} is still being cleared");
            }
            let (profile, start) = (at.profile.to_owned(), at.start);
            self.alive[at.gpu].push(Alive { profile, start, mask, free: Some(end) });
        } else {
            assert_eq!(end - begin, self.costs.destroy[class]);
            assert!(self.find(at).free.expect("its end is known") <= begin, "{at:?} is still busy");
            self.alive[at.gpu].retain(|a| a.profile != at.profile || a.start != at.start);
            (0..16).filter(|u| mask >> u & 1 == 1).for_each(|u| self.cleared[at.gpu][u] = end);
        }
    }

    fn run(&mut self, at: &PresentPlace, begin: Micros, end: Micros) {
        self.usable(at.gpu, begin);
        let instance = self.find(at);
        assert!(instance.free.expect("its end is known") <= begin, "{at:?} is still busy");
        instance.free = Some(end);
    }
}

/// Carries a plan out on the present state.
fn audit(present: &Present, tasks: &[Task], plan: &PresentPlan) {
    let mut world = World::new(present);
    // At one instant: what ends an instance, what makes one, what runs.
    let ops = plan.ops.iter().enumerate().map(|(k, o)| (o.begin, usize::from(o.kind == OpKind::Create), k));
    let runs = plan.runs.iter().enumerate().map(|(k, r)| (r.begin, 2, k));
    let mut events: Vec<_> = ops.chain(runs).collect();
    events.sort_unstable();
    for (_, what, k) in events {
        if what < 2 {
            let op = &plan.ops[k];
            world.operate(op.kind, &op.at, op.begin, op.end);
        } else {
            let run = &plan.runs[k];
            let time = tasks[run.task].times[world.class(run.at.size)].expect("it runs at this size");
            assert_eq!(run.end - run.begin, time);
            world.run(&run.at, run.begin, run.end);
        }
    }
    let mut seen: Vec<usize> =
        plan.runs.iter().map(|r| r.task).chain(plan.left_out.iter().copied()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..tasks.len()).collect::<Vec<_>>(), "every task once");
    assert!(plan.left_out.iter().all(|&t| !placeable(present, &tasks[t])));
    assert_eq!(plan.makespan, plan.runs.iter().map(|r| r.end).max().unwrap_or(0));
    assert!(plan.lower_bound <= plan.makespan);
    audit_after(present, plan);
}

/// Whether some place of some size will be free one day.
fn placeable(present: &Present, task: &Task) -> bool {
    let (model, tree) = (present.model(), Tree::of(present.model()).unwrap());
    let free = |g: &PresentGpu, m: u16| {
        let mut for_ever = g.instances.iter().filter(|i| i.until.is_none_or(|u| u == Micros::MAX));
        g.usable_from.is_some() && for_ever.all(|i| mask(model, &i.profile, i.start) & m == 0)
    };
    present.gpus().iter().any(|g| tree.nodes.iter().any(|n| task.times[n.class].is_some() && free(g, n.mask)))
}

/// Whoever waits only for what `after` names begins on free units: nothing that had them before is forgotten.
fn audit_after(present: &Present, plan: &PresentPlan) {
    let m = |at: &PresentPlace| mask(present.model(), at.profile, at.start);
    for run in &plan.runs {
        let gpu = &present.gpus()[run.at.gpu];
        let mut covered = 0;
        for after in &run.after {
            covered |= match *after {
                After::Gpu => u16::MAX,
                After::Instance(k) => {
                    mask(present.model(), &gpu.instances[k].profile, gpu.instances[k].start)
                }
                After::Task(t) => {
                    let before = plan.runs.iter().find(|r| r.task == t).unwrap();
                    assert!(before.end <= run.begin && before.at.gpu == run.at.gpu);
                    m(&before.at)
                }
            };
        }
        let busy = gpu.instances.iter().filter(|i| i.until != Some(0));
        let earlier = plan.runs.iter().filter(|r| r.at.gpu == run.at.gpu && r.end <= run.begin);
        let taken = busy.map(|i| mask(present.model(), &i.profile, i.start)).chain(earlier.map(|r| m(&r.at)));
        let taken = taken.fold(if gpu.usable_from == Some(0) { 0 } else { u16::MAX }, |a, b| a | b);
        assert_eq!(taken & m(&run.at) & !covered, 0, "{run:?} waits for all that had its units");
    }
}

fn instant() -> impl Strategy<Value = Option<Micros>> {
    prop_oneof![3 => Just(Some(0)), 4 => (1..90 * S).prop_map(Some), 1 => Just(None), 1 => Just(Some(Micros::MAX))]
}

/// Any instances of any profiles, variants included, that can be on a GPU together.
fn gpu(model: &'static Model) -> impl Strategy<Value = PresentGpu> {
    let wanted =
        prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), instant()), 0..8);
    let from = prop_oneof![5 => Just(Some(0)), 2 => (1..60 * S).prop_map(Some), 1 => Just(None)];
    (0..3u8, wanted, from).prop_map(move |(node, wanted, usable_from)| {
        let mut instances = Vec::new();
        let mut taken = 0;
        for (profile, start, until) in wanted {
            let profile = profile.get(&model.profiles);
            let start = start.get(&profile.starts).0;
            let mask = mask(model, &profile.name, start);
            if taken & mask == 0 {
                taken |= mask;
                instances.push(PresentInstance { profile: profile.name.clone(), start, until });
            }
        }
        PresentGpu { node: format!("n{node}"), index: GpuIndex(0), usable_from, instances }
    })
}

fn states() -> impl Strategy<Value = (Present, Vec<Task>)> {
    (0..MODELS.len()).prop_flat_map(|m| {
        let model = Model::find(MODELS[m]).unwrap();
        let sizes = Tree::of(model).unwrap().sizes.len();
        let time = prop_oneof![6 => (1..60 * S).prop_map(Some), 1 => Just(None)];
        let task =
            prop::collection::vec(time, sizes).prop_filter("one size", |t| t.iter().any(Option::is_some));
        let tasks = prop::collection::vec(task.prop_map(|times| Task { times }), 0..14);
        (prop::collection::vec(gpu(model), 1..6), tasks).prop_map(move |(mut gpus, tasks)| {
            (0u16..).zip(&mut gpus).for_each(|(k, g)| g.index = GpuIndex(k));
            (Present::new(model, gpus).unwrap(), tasks)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_can_be_carried_out((present, tasks) in states(), tessera in any::<bool>()) {
        let policy = if tessera { Policy::Tessera } else { Policy::Far };
        let plan = present.plan(&tasks, &policy, STEPS_PER_MS).unwrap();
        audit(&present, &tasks, &plan);
        prop_assert_eq!(present.plan(&tasks, &policy, STEPS_PER_MS).unwrap(), plan, "the same again");
    }
}

fn instance(profile: &str, start: u8, until: Option<Micros>) -> PresentInstance {
    PresentInstance { profile: profile.to_owned(), start, until }
}

fn a100(instances: &[(&str, u8, Option<Micros>)]) -> Present {
    let gpu = PresentGpu {
        instances: instances.iter().map(|&(p, s, u)| instance(p, s, u)).collect(),
        ..PresentGpu::empty("n1", 0)
    };
    Present::new(Model::find("a100-40gb").unwrap(), vec![gpu]).unwrap()
}

fn plan(present: &Present, times: &[&[(u8, Micros)]]) -> PresentPlan {
    let tasks: Vec<Task> = times.iter().map(|t| present.task(t).unwrap()).collect();
    let plan = present.plan(&tasks, &Policy::Tessera, 10 * STEPS_PER_MS).unwrap();
    audit(present, &tasks, &plan);
    plan
}

#[test]
fn an_idle_instance_is_kept_for_a_task_of_its_size() {
    let plan = plan(&a100(&[("2g.10gb", 4, Some(0))]), &[&[(2, 30 * S)]]);
    assert_eq!((plan.runs[0].at.start, plan.runs[0].begin, plan.ops.len()), (4, 0, 0));
}

#[test]
fn a_size_that_the_state_forbids_is_not_used() {
    // Nobody knows when 1g@6 comes free: no 7g and no 3g at 4, but 4g and 3g at 0.
    let present = a100(&[("1g.5gb", 6, None)]);
    let plan = plan(&present, &[&[(3, 10 * S), (7, 2 * S)], &[(7, S)], &[(3, 10 * S)], &[(4, 5 * S)]]);
    assert_eq!(plan.left_out, [1]);
    assert!(plan.runs.iter().all(|r| r.at.start == 0 && r.at.size != 7));
}

#[test]
fn a_job_in_the_way_is_waited_for() {
    let plan = plan(&a100(&[("1g.5gb", 3, Some(20 * S))]), &[&[(7, 10 * S)]]);
    // Destroyed when it is free (0.2 s), then the whole GPU is made (0.24 s).
    assert_eq!((plan.runs[0].begin, &plan.runs[0].after[..]), (20_440_000, &[After::Instance(0)][..]));
    assert_eq!((plan.ops[0].kind, plan.ops[0].at.start, plan.ops[0].begin), (OpKind::Destroy, 3, 20 * S));
}

#[test]
fn an_instance_of_another_profile_is_destroyed_not_used() {
    let present = a100(&[("1g.10gb", 6, Some(5 * S)), ("1g.5gb+me", 0, None)]);
    let plan = plan(&present, &[&[(3, 10 * S)], &[(7, S)]]);
    assert_eq!(plan.left_out, [1]);
    let run = &plan.runs[0];
    assert_eq!((run.at.start, run.begin, &run.after[..]), (4, 5_400_000, &[After::Instance(0)][..]));
    assert_eq!(plan.ops[0].at.profile, "1g.10gb");
}

#[test]
fn nodes_do_not_wait_for_each_other() {
    let gpus = |nodes: [&str; 2]| vec![PresentGpu::empty(nodes[0], 0), PresentGpu::empty(nodes[1], 1)];
    let model = Model::find("a100-40gb").unwrap();
    let times: &[(u8, Micros)] = &[(7, 10 * S)];
    let apart = plan(&Present::new(model, gpus(["a", "b"])).unwrap(), &[times, times]);
    let together = plan(&Present::new(model, gpus(["a", "a"])).unwrap(), &[times, times]);
    assert_eq!((apart.makespan, together.makespan), (10_240_000, 10_480_000));
}

#[test]
fn states_that_cannot_be_are_refused() {
    let model = Model::find("a100-40gb").unwrap();
    let with = |instances| Present::new(model, vec![PresentGpu { instances, ..PresentGpu::empty("n1", 0) }]);
    let no_place = with(vec![instance("3g.20gb", 2, None)]).unwrap_err();
    assert_eq!(no_place.to_string(), "n1 GPU 0: the model has no 3g.20gb at 2");
    let overlap = with(vec![instance("4g.20gb", 0, None), instance("1g.5gb", 3, Some(0))]).unwrap_err();
    assert_eq!(overlap.to_string(), "n1 GPU 0: instances overlap at 1g.5gb@3");
    let twice = Present::new(model, vec![PresentGpu::empty("n1", 0), PresentGpu::empty("n1", 0)]);
    assert!(matches!(twice, Err(PresentError::Twice { .. })));
    let present = with(Vec::new()).unwrap();
    assert!(present.task(&[(5, S)]).is_err());
    let tasks = [present.task(&[(1, S)]).unwrap(), present.task(&[(1, 0)]).unwrap()];
    let refused = present.plan(&tasks, &Policy::Far, 0);
    assert_eq!(refused, Err(PresentError::Policy(PolicyError::Problem(ProblemError::Time { task: 1 }))));
}

#[test]
fn models_are_planned_apart() {
    let (a100, a30) = (Model::find("a100-40gb").unwrap(), Model::find("a30-24gb").unwrap());
    let gpu = |k| PresentGpu::empty("n1", k);
    let groups = Present::by_model(vec![(a100, gpu(0)), (a30, gpu(1)), (a100, gpu(2))]).unwrap();
    let keys: Vec<_> = groups.iter().map(|g| (g.model().key.as_str(), g.gpus().len())).collect();
    assert_eq!(keys, [("a100-40gb", 2), ("a30-24gb", 1)]);
}
