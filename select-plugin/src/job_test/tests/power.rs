//! Power budgets in the tests of a job.

use protocol::CommentBody;
use protocol::wire::parse_placement;

use super::*;
use crate::lifecycle_hooks;

/// Two racks of two nodes of two GPUs: `n1` and `n2` share 560 W, `m1` and `m2` 1000 W. Four idle GPUs draw 200 W.
const RACKS: &str = "[[power_budgets]]\nnodes = \"n[1-2]\"\nwatts = 560\nfloor_w = 180\n\
                     [[power_budgets]]\nnodes = \"m[1-2]\"\nwatts = 1000\n\
                     [[nodes]]\nnames = \"n[1-2],m[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                     cap_w = 250\nidle_w = 50\n";

fn racks() -> Memory {
    Memory { rebuilt: true, ..Memory::new(Engine::of_tests(RACKS)) }
}

fn watts(memory: &Memory, node: &str) -> u32 {
    let layout = node_layout::parse_layout(&memory.engine.layout(node).unwrap()).unwrap();
    layout.watts.unwrap()
}

fn gpu(cap: &str) -> JobView {
    job(&format!("v1 iso=whole{cap}"), GresKind::Gpu, 1)
}

/// The caps of a start on one GPU of each of these nodes, which Slurm has chosen; or its AdminComment.
fn start(memory: &mut Memory, view: &JobView, nodes: &[&str]) -> Result<Vec<Option<u16>>, Option<String>> {
    let slurm = nodes.iter().fold(Fake::with(nodes), |fake, node| fake.choosing(node, 1, 0b11));
    let (opinion, effects) = succeeds(memory, Ask::RunNow, view, &Fake::with(nodes), &slurm);
    let said =
        effects.iter().find_map(|e| if let Effect::Comment(text) = e { Some(text.clone()) } else { None });
    if opinion != Opinion::AsSlurmSays {
        return Err(said);
    }
    let text = effects.iter().find_map(|e| if let Effect::Placement(text) = e { text.clone() } else { None });
    let placement = parse_placement(&text.unwrap(), &|node, gpu| memory.engine.model_of(node, gpu)).unwrap();
    let pending = memory.pending.take().unwrap();
    assert_eq!(pending.placement, placement);
    assert_eq!(memory.engine.commit(USER, &placement), Vec::<String>::new());
    Ok(placement.nodes.iter().map(|(_, given)| given.cap_w).collect())
}

fn other(id: u32, view: JobView) -> JobView {
    JobView { id: JobId(id), ..view }
}

#[test]
fn a_job_starts_at_less_and_the_next_waits_with_a_reason() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    assert_eq!((watts(&memory, "n1"), watts(&memory, "n2")), (300, 100));
    // 160 W are free beside what an idle GPU draws.
    assert_eq!(start(&mut memory, &other(2, gpu("")), &["n2"]), Ok(vec![Some(210)]));
    let view = other(3, gpu(""));
    let mut third = case(Ask::RunNow, false, &view);
    let effects = third.before(&mut memory, &Fake::with(&["n1", "n2", "m1"]));
    let [Effect::RuleOut(out)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(out, &[0, 1], "another rack has room");
    let mut third = case(Ask::RunNow, false, &view);
    let effects = third.before(&mut memory, &Fake::with(&["n1", "n2"]));
    let [Effect::Comment(text), Effect::RuleOut(out)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(out, &[0, 1]);
    assert_eq!(
        text,
        "tessera: waits for power: power budget n[1-2] has 0 of 560 W free, 130 W more are needed with GPUs at 180 W"
    );
    // Said once, and taken back.
    let waiting = JobView { comment: AdminComment::parse(text), ..view.clone() };
    let mut again = case(Ask::RunNow, false, &waiting);
    let effects = again.before(&mut memory, &Fake::with(&["n1", "n2"]));
    assert!(matches!(&effects[..], [Effect::RuleOut(_)]), "{effects:?}");
    let effects = case(Ask::RunNow, false, &waiting).before(&mut memory, &Fake::with(&["m1"]));
    assert!(
        matches!(&effects[..], [Effect::Comment(text), Effect::RuleOut(_)] if text.is_empty()),
        "{effects:?}"
    );
}

#[test]
fn a_cap_below_the_floor_is_taken_as_asked() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    assert_eq!(start(&mut memory, &other(2, gpu(" cap=150")), &["n2"]), Ok(vec![Some(150)]));
    assert_eq!(start(&mut memory, &other(3, gpu(" cap=110")), &["n2"]), Ok(vec![Some(110)]));
    // Without a floor in its own rack a job waits for all that it asks.
    assert_eq!(start(&mut memory, &other(4, gpu(" cap=400")), &["m1"]), Ok(vec![Some(250)]));
}

#[test]
fn a_job_of_two_nodes_has_one_cap_and_needs_power_for_both() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1", "n2"]), Ok(vec![Some(230), Some(230)]));
    // Each rack has a say: the other one starts nobody at less.
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    assert!(start(&mut memory, &other(2, gpu("")), &["n2", "m1"]).is_err());
    assert_eq!(start(&mut memory, &other(2, gpu(" cap=205")), &["n2", "m1"]), Ok(vec![Some(205), Some(205)]));
    let pair = other(3, gpu(""));
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    let test = Test { ask: Ask::RunNow, min_nodes: 2, may_preempt: false, record: RECORD };
    let slurm = Fake::with(&["n1", "n2", "m1"]);
    let mut out = || PendingTest::new(test, pair.clone()).before(&mut memory, &slurm);
    assert_eq!(out(), [Effect::RuleOut(vec![1])], "n1 and n2 have power for one of both");
    // Slurm may be unable to use n1.
    assert_eq!(out(), [Effect::RuleOut(vec![])]);
    assert_eq!(out(), [Effect::RuleOut(vec![1])]);
}

#[test]
fn instances_share_the_cap_of_their_gpu() {
    let mut memory = racks();
    let part = |id, cap: &str| other(id, job(&format!("v1 iso=mig:1g.5gb{cap}"), GresKind::Shard, 5));
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n2"]), Ok(vec![Some(250)]));
    assert_eq!(start(&mut memory, &part(2, ""), &["n1"]), Ok(vec![Some(210)]));
    // The second adds nothing beside the first, and may have no more than that.
    assert_eq!(start(&mut memory, &part(3, ""), &["n1"]), Ok(vec![Some(210)]));
    assert_eq!(watts(&memory, "n1"), 260);
}

#[test]
fn what_is_ending_draws_until_its_epilog_is_over() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    assert_eq!(start(&mut memory, &other(2, gpu("")), &["n2"]), Ok(vec![Some(210)]));
    lifecycle_hooks::ended(&mut memory, JobId(1));
    let view = other(3, gpu(""));
    let slurm = Fake { completing: vec!["n1".to_owned()], ..Fake::with(&["n2"]) };
    let effects = case(Ask::RunNow, false, &view).before(&mut memory, &slurm);
    assert!(matches!(&effects[..], [Effect::Comment(_), Effect::RuleOut(out)] if out == &[0]), "{effects:?}");
    let effects = case(Ask::RunNow, false, &view).before(&mut memory, &Fake::with(&["n2"]));
    assert!(
        matches!(&effects[..], [Effect::Layouts(_), Effect::RuleOut(out)] if out.is_empty()),
        "{effects:?}"
    );
    assert_eq!(start(&mut memory, &view, &["n2"]), Ok(vec![Some(250)]));
}

#[test]
fn backfill_is_told_when_jobs_of_the_rack_leave_enough_power() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    assert_eq!(start(&mut memory, &other(2, gpu("")), &["n1"]), Ok(vec![Some(210)]));
    let ends = vec![(JobId(1), 5000), (JobId(2), 4000)];
    let chosen = Fake { ends, start_time: 1000, preempted: Some(HashSet::new()), ..Fake::with(&["n2"]) };
    let mut waits = case(Ask::WillRun, false, &other(3, gpu("")));
    let effects = waits.before(&mut memory, &Fake::with(&["n2"]));
    assert_eq!(effects, [Effect::RuleOut(vec![])], "it is kept for later");
    let (opinion, effects) = waits.after(&mut memory, &chosen);
    assert_eq!((opinion, effects), (Opinion::AsSlurmSays, vec![Effect::StartAt(4000)]));
}

#[test]
fn exclusive_jobs_start_where_the_highest_limit_fits() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu("")), &["n1"]), Ok(vec![Some(250)]));
    let none = other(2, job("v1 iso=none", GresKind::Gpu, 1));
    let out = |memory: &mut Memory, view: &JobView| left_out(memory, &Fake::with(&["n2", "m1"]), false, view);
    assert_eq!(out(&mut memory, &none), [0; 0], "Slurm's choice of GPUs may start at less, too");
    let exclusive = JobView { exclusive: true, ..other(3, gpu("")) };
    assert_eq!(out(&mut memory, &exclusive), [0]);
    let modest = JobView { exclusive: true, ..other(4, gpu(" cap=130")) };
    let effects = case(Ask::RunNow, false, &modest).before(&mut memory, &Fake::with(&["n2", "m1"]));
    assert_eq!(effects, []);
}

#[test]
fn an_exclusive_job_of_two_nodes_needs_power_for_both() {
    let two = Test { ask: Ask::RunNow, min_nodes: 2, may_preempt: false, record: RECORD };
    let nodes = Fake::with(&["n1", "n2", "m1"]);
    let before = |view: JobView| PendingTest::new(two, view).before(&mut racks(), &nodes);
    let exclusive = |text: &str| JobView { exclusive: true, ..job(text, GresKind::Gpu, 1) };
    // Each rack of two nodes has idle GPUs of 200 W: 360 and 800 W are left.
    assert_eq!(before(exclusive("v1 iso=whole")), [Effect::RuleOut(vec![1])], "260 W on each at the floor");
    assert_eq!(before(exclusive("v1 iso=whole cap=140")), [], "180 W on each");
    let mut memory = racks();
    let mut out = || PendingTest::new(two, exclusive("v1 iso=whole")).before(&mut memory, &nodes);
    assert_eq!(
        [out(), out(), out()],
        [vec![Effect::RuleOut(vec![1])], vec![], vec![Effect::RuleOut(vec![1])]]
    );
    // Nobody caps these.
    assert_eq!(before(exclusive("v1 iso=none cap=140")), [Effect::RuleOut(vec![0, 1])], "400 W on each");
    let every_gpu = JobView { gres: Vec::new(), ..exclusive("v1 iso=whole") };
    assert_eq!(before(JobView { request: None, ..every_gpu }), [Effect::RuleOut(vec![0, 1])]);
    // Slurm may choose more nodes than the least.
    let mut one = PendingTest::new(Test { min_nodes: 1, ..two }, exclusive("v1 iso=whole"));
    assert_eq!(one.before(&mut racks(), &nodes), []);
    let (opinion, effects) = one.after(&mut racks(), &Fake::with(&["n1", "n2"]));
    assert_eq!((opinion, effects), (Opinion::Refused(Reason::Power), Vec::from(Effect::refusal())));
    assert_eq!(one.after(&mut racks(), &Fake::with(&["n1", "m1"])).0, Opinion::AsSlurmSays);
}

#[test]
fn nobody_is_ended_for_a_job_that_would_then_wait_for_power() {
    let mut memory = racks();
    assert_eq!(start(&mut memory, &other(1, gpu(" cap=200")), &["n1"]), Ok(vec![Some(200)]));
    assert_eq!(start(&mut memory, &other(2, gpu(" cap=100")), &["n2"]), Ok(vec![Some(100)]));
    assert_eq!(start(&mut memory, &other(3, gpu(" cap=100")), &["n2"]), Ok(vec![Some(100)]));
    let victims = vec![JobId(2), JobId(3)];
    let listed = Some(victims.iter().copied().collect());
    let slurm = Fake { victims, preempted: listed, ..Fake::with(&["n2"]) }.choosing("n2", 0b11, 0b11);
    let two = other(4, job("v1 iso=whole", GresKind::Gpu, 2));
    let (opinion, effects) = succeeds(&mut memory, Ask::RunNow, &two, &slurm, &slurm);
    assert_eq!(opinion, Opinion::Refused(Reason::Power), "{effects:?}");
    let one = other(5, gpu(""));
    let slurm = Fake { choices: Vec::new(), ..slurm }.choosing("n2", 1, 0b11);
    let (opinion, effects) = succeeds(&mut memory, Ask::RunNow, &one, &slurm, &slurm);
    assert_eq!(opinion, Opinion::AsSlurmSays, "{effects:?}");
    assert!(matches!(one.comment.says, CommentBody::Nothing));
}

/// Counters of eight applications, and runs of them alone and in pairs. Alone on the whole GPU each keeps 0.8 at 150 W, 0.95 at
/// 200 W and all at 250 W.
fn calibration() -> (String, String) {
    let mut counters = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n".to_owned();
    let mut runs = "state,cap_w,apps,rperf\n".to_owned();
    for i in 0..8_u32 {
        let (f3, f4, f5) = (10 + 6 * (i * 3 % 8), 20 + 9 * (i * 5 % 8), 15 + 8 * (i * 7 % 8));
        counters +=
            &format!("a{i},a100-40gb,ncu,{},{},{f3},{f4},{f5},{},0,0\n", 30 + 5 * i, 90 - 7 * i, i % 3);
    }
    for (cap, alone) in [(150, 0.8), (200, 0.95), (250, 1.0)] {
        for i in 0..8 {
            runs += &format!(
                "7g,{cap},a{i},{alone}\n4g,{cap},a{i},{}\n3g,{cap},a{i},{}\n",
                alone * 0.6,
                alone * 0.5
            );
            let (four, three) = (alone * 0.55, alone * 0.45);
            runs += &format!("4g+3g,{cap},a{i}+a{},{four}+{three}\n", (i + 3) % 8);
        }
    }
    (counters, runs)
}

/// A site whose only node has a power model, under `rule` of `[power]`; `a7` is not among the site's own counters.
fn with_model(rule: &str) -> Memory {
    let (counters, runs) = calibration();
    let table = ::power::CounterTable::parse("c", &counters).unwrap();
    let runs = ::power_study::runs::parse("r", &runs).unwrap();
    let gpu = geometry::Model::find("a100-40gb").unwrap();
    let model =
        ::power_study::fit(gpu, &table, &runs, ::power::Basis::Arima2022).unwrap().to_json().to_string();
    let own: String =
        counters.lines().filter(|line| !line.starts_with("a7")).map(|line| format!("{line}\n")).collect();
    let text = format!(
        "[power]\n{rule}\nguard = false\ncounters = \"c.csv\"\n\
                [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\npower_model = \"m.json\"\n\
                [[nodes]]\nnames = \"m1\"\ngpu = \"a100-40gb\"\ncount = 2\n"
    );
    let read = |name: &str| match name {
        "c.csv" => Ok(own.clone()),
        "m.json" => Ok(model.clone()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let (config, errors) = site_config::parse("t", &text, &read);
    assert_eq!(errors, []);
    Memory { rebuilt: true, ..Memory::new(Engine::new(config.unwrap())) }
}

/// The cap of a job that asks for the most efficient one, and what it is told of it.
fn auto(node: &str, rest: &str) -> (Option<u16>, String) {
    auto_of("alpha = 0.9", node, rest)
}

/// As [`auto`], under this rule of the site.
fn auto_of(rule: &str, node: &str, rest: &str) -> (Option<u16>, String) {
    let mut memory = with_model(rule);
    let view = other(1, job(&format!("v1 iso=whole cap=auto{rest}"), GresKind::Gpu, 1));
    let slurm = Fake::with(&[node]).choosing(node, 1, 0b11);
    let (opinion, effects) = succeeds(&mut memory, Ask::RunNow, &view, &Fake::with(&[node]), &slurm);
    assert_eq!(opinion, Opinion::AsSlurmSays);
    let why =
        effects.iter().find_map(|e| if let Effect::Why(text) = e { text.clone() } else { None }).unwrap();
    (memory.pending.unwrap().placement.nodes[0].1.cap_w, why)
}

#[test]
fn the_most_efficient_cap_that_keeps_alpha_is_the_jobs() {
    let (cap_w, why) = auto("n1", " job-profile=a1");
    assert_eq!(cap_w, Some(200));
    assert!(why.ends_with(", a1 is predicted to keep 95 % of its speed at 200 W"), "{why}");
    assert_eq!(auto_of("auto_keeps = 0.97", "n1", " job-profile=a1").0, Some(250));
    // The user's own counters count where the site has none.
    let (cap_w, why) = auto("n1", " job-profile=a7");
    assert_eq!(cap_w, None);
    assert!(
        why.ends_with("without a power cap: no counters of `a7` on a100-40gb: profile it first"),
        "{why}"
    );
    let own = " job-profile=a7 counters=a100-40gb:ncu:65000:41000:40000:47000:23000:1000:0:0";
    assert_eq!(auto("n1", own).0, Some(200));
    let (cap_w, why) = auto("m1", " job-profile=a1");
    assert_eq!(cap_w, None);
    assert!(why.ends_with("without a power cap: the node has no power model"), "{why}");
}
