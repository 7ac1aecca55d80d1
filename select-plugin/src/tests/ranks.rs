//! The order of nodes follows from the state alone, whatever happened before.

use node_state::Fill;
use proptest::prelude::*;
use protocol::{NodeWord, Said};

use super::*;
use crate::engine::{CostNow, Heard, SEARCHES};

const NODES: [&str; 4] = ["n1", "n2", "n3", "plain"];
/// Requests, and the GRES that counts for each.
const ASKS: [(Option<&str>, GresKind, u64); 7] = [
    (Some("v1 iso=mig:1g.5gb"), GresKind::Shard, 5),
    (Some("v1 iso=mig:3g.20gb"), GresKind::Shard, 20),
    (Some("v1 iso=mps mem=8192"), GresKind::Shard, 9),
    (Some("v1 iso=auto mem=9000"), GresKind::Shard, 10),
    (Some("v1 iso=whole bw=sensitive"), GresKind::Gpu, 2),
    (None, GresKind::Gpu, 1),
    (None, GresKind::Gpu, 2),
];

fn site() -> Engine {
    let text = "[[nodes]]\nnames = \"n[1-3]\"\ngpu = \"a100-40gb\"\ncount = 4\nmig = \"dynamic\"\n\
                [[nodes]]\nnames = \"plain\"\ngpu = \"a100-80gb\"\ncount = 2\nmig = \"off\"\n";
    Engine::of_tests(text)
}

#[derive(Clone, Debug)]
enum Event {
    /// The node gives a new job its best choice.
    Start { ask: usize, node: usize },
    /// A job ends, by its place among those that run.
    End(usize),
    /// Slurm tests a job on all nodes.
    Test { ask: usize },
    /// The node's slurmd is started without Tessera, or with it.
    Registers { node: usize, tessera: bool },
    /// The node finds one of its GPUs unhealthy, or all well again.
    Finds { node: usize, sick: Option<u8> },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let (ask, node) = (0..ASKS.len(), 0..NODES.len());
    let event = prop_oneof![
        4 => (ask.clone(), node.clone()).prop_map(|(ask, node)| Event::Start { ask, node }),
        3 => (0..16_usize).prop_map(Event::End),
        3 => ask.prop_map(|ask| Event::Test { ask }),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, tessera)| Event::Registers { node, tessera }),
        1 => (node, prop::option::of(0..2_u8)).prop_map(|(node, sick)| Event::Finds { node, sick }),
    ];
    prop::collection::vec(event, 0..50)
}

/// Costs of a request on each node.
fn costs(engine: &mut Engine, ask: usize) -> [CostNow; 4] {
    let (request, kind, count) = ASKS[ask];
    let question = question(engine, &want(request, kind, count));
    NODES.map(|node| {
        let fits = engine.fits_now(node, &question);
        let mut searches = SEARCHES;
        let cost = engine.cost_now(node, &question, Fill::Pack, &mut searches, |_, _| Some(0));
        assert_eq!(fits == Some(true), matches!(cost, CostNow::Costs(_)), "{node}");
        cost
    })
}

/// Running jobs in the order of their starts, and the last word of each node's slurmd.
struct Cluster {
    running: Vec<JobPlacement>,
    words: [Heard; 4],
    next: u32,
}

impl Cluster {
    /// All slurmds load Tessera.
    fn new(engine: &mut Engine) -> Self {
        let mut cluster = Self { running: Vec::new(), words: Default::default(), next: 0 };
        for node in 0..NODES.len() {
            cluster.happens(engine, &Event::Registers { node, tessera: true });
        }
        cluster
    }

    fn start(&mut self, engine: &mut Engine, ask: usize, node: usize) -> bool {
        let (request, kind, count) = ASKS[ask];
        let question = question(engine, &want(request, kind, count));
        let chosen = engine.node(NODES[node]).and_then(|state| question.decide(state).chosen);
        let Some(grant) = chosen else { return false };
        self.next += 1;
        let job = JobId(1000 + self.next);
        let placement = JobPlacement { job, nodes: vec![(NODES[node].to_owned(), grant.into())] };
        assert_eq!(engine.commit(USER, &placement), Vec::<String>::new());
        self.running.push(placement);
        true
    }

    fn happens(&mut self, engine: &mut Engine, event: &Event) {
        match *event {
            Event::Start { ask, node } => _ = self.start(engine, ask, node),
            Event::End(at) if !self.running.is_empty() => {
                let ended = self.running.remove(at % self.running.len());
                engine.release(ended.job);
            }
            Event::End(_) => {}
            Event::Test { ask } => _ = costs(engine, ask),
            Event::Registers { node, tessera } => {
                let started = self.words[node].started + 1;
                let file = engine.fingerprint(NODES[node]);
                let word = tessera.then_some(NodeWord::Says(Said { started, file }));
                self.words[node] = Heard { word, started, ..self.words[node].clone() };
                engine.hear(NODES[node], self.words[node].clone());
            }
            Event::Finds { node, sick } => {
                self.words[node].sick =
                    sick.map_or_else(|| "sick=none".to_owned(), |gpu| format!("sick={gpu}:5:xid_79"));
                engine.hear(NODES[node], self.words[node].clone());
            }
        }
    }

    /// A slurmctld that starts now, and reads what runs and what nodes show.
    fn anew(&self, before: &Engine) -> Engine {
        let mut engine = site();
        for placement in &self.running {
            assert_eq!(engine.commit(USER, placement), Vec::<String>::new());
        }
        for (node, heard) in NODES.into_iter().zip(&self.words) {
            engine.remember_idle(node, &before.layout(node).unwrap());
            engine.hear(node, heard.clone());
        }
        engine
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_slurmctld_that_starts_anew_ranks_as_the_one_before(events in events()) {
        let mut engine = site();
        let mut cluster = Cluster::new(&mut engine);
        events.iter().for_each(|event| cluster.happens(&mut engine, event));
        let mut anew = cluster.anew(&engine);
        for (ask, asked) in ASKS.iter().enumerate() {
            prop_assert_eq!(costs(&mut engine, ask), costs(&mut anew, ask), "{:?}", asked);
        }
    }

    /// A job that is requeued goes back to the node that it was on: it does not move from one to the other for ever.
    #[test]
    fn a_requeued_job_finds_its_node_again(events in events(), ask in 0..ASKS.len()) {
        let mut engine = site();
        let mut cluster = Cluster::new(&mut engine);
        events.iter().for_each(|event| cluster.happens(&mut engine, event));
        let first = |engine: &mut Engine| {
            let costs = costs(engine, ask);
            (0..NODES.len()).filter(|i| costs[*i] != CostNow::Unknown).min_by_key(|i| costs[*i])
        };
        if let Some(node) = first(&mut engine) {
            prop_assert!(cluster.start(&mut engine, ask, node));
            cluster.happens(&mut engine, &Event::End(cluster.running.len() - 1));
            prop_assert_eq!(first(&mut engine), Some(node));
        }
    }
}

#[test]
fn requests_of_any_number_of_shapes_take_bounded_memory() {
    let mut engine = site();
    for mem in 1..3000 {
        let text = format!("v1 iso=mps mem={mem}");
        let want = want(Some(&text), GresKind::Shard, 5);
        let question = question(&engine, &want);
        let mut searches = SEARCHES;
        for node in NODES {
            engine.fits_now(node, &question);
            engine.fits_ever(node, &question);
            engine.cost_now(node, &question, Fill::Pack, &mut searches, |_, _| Some(0));
        }
        engine.shards(&want.request, &question, &NODES.map(str::to_owned));
    }
    assert!(engine.most_kept() <= crate::engine::CACHE_LIMIT, "{}", engine.most_kept());
    assert!(engine.most_kept() > 100, "{}", engine.most_kept());
    let kept = engine.kept();
    assert!(kept.iter().all(|(_, [now, most])| now <= most), "{kept:?}");
    assert!(kept[..2].iter().all(|(_, [now, _])| *now > 100), "{kept:?}");
}

/// A queue of odd requests would have each of them decided on each node of a full cluster.
#[test]
fn what_no_gpu_has_room_for_is_answered_without_a_decision() {
    let mut engine = engine();
    occupy(&mut engine, 1, "n1", &[0, 1]);
    for mem in 1..100 {
        let asked = want(Some(&format!("v1 iso=mps mem={mem}")), GresKind::Shard, 5);
        let question = question(&engine, &asked);
        assert_eq!(engine.fits_now("n1", &question), Some(false));
    }
    assert_eq!(engine.kept()[1].1[0], 0, "each decision keeps its answer");
}
