//! Runs rules on drawn streams of instances, whole GPUs and sets, and prints a table of means over seeds. The first fifth of a
//! stream warms the cluster up: `streams SITE[,…] MIX[,…] LOAD[,…] RULE[,…] lose|queue FIRST-SEED SEEDS JOBS`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for the laboratory")]

use pack_study::stream::{MIXES, Rule, StreamSummary, named_site, row, simulate, stream, title};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [sites, mixes, loads, rules, mode, first, seeds, jobs] = &args[..] else {
        panic!("streams SITE[,...] MIX[,...] LOAD[,...] RULE[,...] lose|queue FIRST-SEED SEEDS JOBS");
    };
    let (first, seeds): (u64, u64) = (first.parse().unwrap(), seeds.parse().unwrap());
    let jobs: usize = jobs.parse().unwrap();
    let queue = mode == "queue";
    println!("{}", title(queue));
    for name in sites.split(',') {
        let site = named_site(name).unwrap();
        for mix in MIXES.iter().filter(|mix| mixes.split(',').any(|name| name == mix.name)) {
            for load in loads.split(',') {
                for rule_name in rules.split(',') {
                    let rule = Rule::named(rule_name).unwrap();
                    let runs: Vec<StreamSummary> = (first..first + seeds)
                        .map(|seed| {
                            let all = stream(&site, mix, load.parse().unwrap(), (seed, jobs));
                            let warm_ms = all[jobs / 5].submit_ms;
                            simulate(&site, &all, (rule, queue, warm_ms), &mut |_| ())
                        })
                        .collect();
                    println!("| {name} | {} | {load} | {rule_name} {}", mix.name, row(&runs, queue));
                }
            }
        }
    }
}
