//! Runs policies on the openb traces of a directory and prints the mean of GPUs left over, and the time of a decision with
//! everything that is learnt: `openb DIR WORKLOAD[,…] POLICY[,…] FIRST-SEED SEEDS`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for the laboratory")]

use std::fs;
use std::time::{Duration, Instant};

use pack_study::{Run, Trace, arrivals};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [dir, workloads, policies, first, seeds] = &args[..] else {
        panic!("openb DIR WORKLOAD[,...] POLICY[,...] FIRST-SEED SEEDS");
    };
    let first: u64 = first.parse().unwrap();
    let seeds: u64 = seeds.parse().unwrap();
    let nodes = fs::read_to_string(format!("{dir}/openb_node_list_gpu_node.csv")).unwrap();
    for workload in workloads.split(',') {
        let file = format!("{dir}/openb_pod_list_{workload}.csv");
        let tasks = fs::read_to_string(&file).unwrap();
        let trace = Trace::read(("nodes", &nodes), (&file, &tasks)).unwrap();
        print!("{workload:12}");
        for policy in policies.split(',') {
            let (mut left, mut time, mut decisions) = (0.0, Duration::ZERO, 0);
            for seed in first..first + seeds {
                let all = arrivals(&trace, seed, 1.3).unwrap();
                let mut run = Run::new(&trace, policy, seed).unwrap();
                let start = Instant::now();
                for &task in &all {
                    run.decide(task);
                }
                time += start.elapsed();
                decisions += all.len();
                left += run.summary().unallocated;
            }
            let mean = left / f64::from(u32::try_from(seeds).unwrap());
            let us = time.as_secs_f64() * 1e6 / f64::from(u32::try_from(decisions).unwrap());
            print!("  {policy} {mean:7.1} {us:5.1} us");
        }
        println!();
    }
}
