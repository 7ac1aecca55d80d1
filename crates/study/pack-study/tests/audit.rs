//! Every event of every policy, against an account of the cluster that shares no code with the simulator.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "tests")]

use std::collections::HashMap;

use pack_study::{Event, NAMES, Run, Trace, arrivals};
use proptest::prelude::*;

/// A node as the file has it: cores, MiB, GPUs, model.
type NodeRow = (u32, u64, u16, String);
/// A task as the file has it: cores, MiB, GPUs, thousandths of each, models.
type TaskRow = (u32, u64, u16, u16, String);

fn files(nodes: &[NodeRow], tasks: &[TaskRow]) -> (String, String) {
    let mut of_nodes = "sn,cpu_milli,memory_mib,gpu,model\n".to_owned();
    for (i, (cpu, memory, gpus, model)) in nodes.iter().enumerate() {
        of_nodes.push_str(&format!("n{i},{cpu},{memory},{gpus},{model}\n"));
    }
    let mut of_tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n".to_owned();
    for (i, (cpu, memory, gpus, milli, models)) in tasks.iter().enumerate() {
        of_tasks.push_str(&format!("t{i},{cpu},{memory},{gpus},{milli},{models}\n"));
    }
    (of_nodes, of_tasks)
}

/// Counts again what is left of the cluster.
struct Left {
    cpu: Vec<u32>,
    memory: Vec<u64>,
    gpus: Vec<Vec<u16>>,
}

impl Left {
    fn of(nodes: &[NodeRow]) -> Self {
        Self {
            cpu: nodes.iter().map(|n| n.0).collect(),
            memory: nodes.iter().map(|n| n.1).collect(),
            gpus: nodes.iter().map(|n| vec![1000; usize::from(n.2)]).collect(),
        }
    }

    /// The part of each GPU that a task takes.
    fn part(task: &TaskRow) -> u16 {
        if task.2 > 1 { 1000 } else { task.3 }
    }

    fn has_room(&self, node: usize, row: &NodeRow, task: &TaskRow) -> bool {
        let will_do = task.2 == 0 || task.4.is_empty() || task.4.split('|').any(|model| model == row.3);
        let free = self.gpus[node].iter().filter(|left| **left >= Self::part(task)).count();
        will_do && self.cpu[node] >= task.0 && self.memory[node] >= task.1 && free >= usize::from(task.2)
    }

    fn take(&mut self, node: usize, task: &TaskRow, gpus: &[usize]) {
        self.cpu[node] -= task.0;
        self.memory[node] -= task.1;
        for gpu in gpus {
            self.gpus[node][*gpu] -= Self::part(task);
        }
    }
}

fn node_rows() -> impl Strategy<Value = Vec<NodeRow>> {
    let row = (1..8_u32, 1..64_u64, 0..5_u16, prop_oneof![Just("T4"), Just("A10")]);
    let row = row.prop_map(|(c, m, g, model)| (c * 8000, m * 1024, g, model.to_owned()));
    prop::collection::vec(row, 1..6)
}

fn task_rows() -> impl Strategy<Value = Vec<TaskRow>> {
    let models = prop_oneof![Just(""), Just("T4"), Just("A10|T4"), Just("V100")];
    let row = (1..6_u32, 0..16_u64, 0..4_u16, 1..11_u16, models);
    let row = row.prop_map(|(c, m, g, part, models)| (c * 2000, m * 1024, g, part * 100, models.to_owned()));
    prop::collection::vec(row, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_placed_has_room_and_what_is_dropped_has_none(
        nodes in node_rows(), tasks in task_rows(), seed in 0..1000_u64,
    ) {
        let (of_nodes, of_tasks) = files(&nodes, &tasks);
        let trace = Trace::read(("nodes", &of_nodes), ("tasks", &of_tasks)).unwrap();
        let Ok(all) = arrivals(&trace, seed, 1.3) else { return Ok(()) };
        for policy in NAMES {
            let mut left = Left::of(&nodes);
            let mut run = Run::new(&trace, policy, seed).unwrap();
            for task in &all {
                let row = &tasks[*task];
                match run.decide(*task) {
                    Event::Place { node, gpus } => {
                        prop_assert!(left.has_room(node, &nodes[node], row), "{policy}: {row:?} on {node}");
                        prop_assert_eq!(gpus.len(), usize::from(row.2));
                        let mut seen = gpus.clone();
                        seen.dedup();
                        seen.sort_unstable();
                        seen.dedup();
                        prop_assert_eq!(seen.len(), gpus.len(), "one GPU twice");
                        prop_assert!(gpus.iter().all(|gpu| left.gpus[node][*gpu] >= Left::part(row)));
                        left.take(node, row, &gpus);
                    }
                    Event::Drop => {
                        let none = (0..nodes.len()).all(|node| !left.has_room(node, &nodes[node], row));
                        prop_assert!(none, "{policy} drops {row:?}, which has room");
                    }
                }
            }
            let unallocated: u64 = left.gpus.iter().flatten().map(|part| u64::from(*part)).sum();
            let summary = run.summary();
            prop_assert!((summary.unallocated * 1000.0 - unallocated as f64).abs() < 0.5);
            prop_assert_eq!(summary.placed + summary.dropped, all.len());
        }
    }

    #[test]
    fn arrivals_depend_on_seed_and_files_alone_and_a_smaller_share_comes_first(
        nodes in node_rows(), tasks in task_rows(), seed in 0..1000_u64,
    ) {
        let (of_nodes, of_tasks) = files(&nodes, &tasks);
        let trace = Trace::read(("nodes", &of_nodes), ("tasks", &of_tasks)).unwrap();
        let (Ok(few), Ok(many)) = (arrivals(&trace, seed, 0.8), arrivals(&trace, seed, 1.3)) else { return Ok(()) };
        prop_assert_eq!(&many[..few.len()], &few[..]);
        prop_assert_eq!(arrivals(&trace, seed, 1.3).unwrap(), many.clone());
        let mut times: HashMap<usize, usize> = HashMap::new();
        many.iter().take(tasks.len()).for_each(|task| *times.entry(*task).or_default() += 1);
        prop_assert!(times.values().all(|n| *n == 1), "each once before any comes again");
    }
}

#[test]
fn a_bad_record_is_named_by_file_line_and_column() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1024,2,T4\n";
    let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nt,1000,10,1,500\n";
    let read = |nodes: &str, tasks: &str| {
        Trace::read(("nodes.csv", nodes), ("tasks.csv", tasks)).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(read(nodes, tasks), Ok(()));
    for (bad_nodes, bad_tasks, error) in [
        ("sn,cpu_milli\n", tasks, "nodes.csv:1: no column memory_mib; the header must name"),
        ("", tasks, "nodes.csv:1: no column sn"),
        (
            &nodes.replace("8000", "-1"),
            tasks,
            "nodes.csv:2: column cpu_milli: \"-1\": expected a whole number",
        ),
        (
            &nodes.replace(",2,", ",65,"),
            tasks,
            "nodes.csv:2: column gpu: \"65\": expected a whole number from 0 to 64",
        ),
        (
            &format!("{nodes}n1,1,1,1,T4\n"),
            tasks,
            "nodes.csv:3: column sn: \"n1\": expected a name that no other",
        ),
        (nodes, &tasks.replace("1,500", "1,0"), "tasks.csv:2: column gpu_milli: \"0\": expected 1 to 1000"),
        (nodes, &tasks.replace(",1,500", ""), "tasks.csv:2: column num_gpu: missing; the line has 3 fields"),
    ] {
        let said = read(bad_nodes, bad_tasks).unwrap_err();
        assert!(said.starts_with(error), "{said}");
    }
    let trace = Trace::read(("n", nodes), ("t", tasks)).unwrap();
    for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(arrivals(&trace, 1, share).is_err(), "{share}");
    }
    assert!(Run::new(&trace, "best", 1).is_none());
}

/// Two half GPUs and a whole one on two nodes: only who fills a begun GPU has room for all.
#[test]
fn policies_differ_where_their_papers_say() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\na,9000,99,1,T4\nb,8000,99,1,T4\n";
    let tasks = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nhalf,1000,1,1,500\nwhole,1000,1,1,1000\n";
    let trace = Trace::read(("n", nodes), ("t", tasks)).unwrap();
    let node = |event| match event {
        Event::Place { node, .. } => node,
        Event::Drop => 9,
    };
    let on = |policy: &str| {
        let mut run = Run::new(&trace, policy, 1).unwrap();
        [0, 0, 1].map(|task| node(run.decide(task)))
    };
    assert_eq!(on("first-fit"), [0, 0, 1]);
    assert_eq!(on("slurm"), [1, 1, 0], "the fewest free cores");
    let [first, second, whole] = on("fgd");
    assert!(first == second && whole == 1 - first, "FGD keeps a GPU whole for the whole one");
}
