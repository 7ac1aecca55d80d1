//! Runs rules on drawn streams of instances, whole GPUs and sets, and prints tables of means over seeds, for which the first fifth of
//! a stream warms the cluster up: `streams SITE[,…] MIX[,…]|all|mig LOAD[,…] RULE[,…] lose|queue FIRST-SEED SEEDS JOBS`. With
//! `all` or `mig` (instances alone), the tables have the accepted jobs by mix, what the first rule accepts more than each other
//! one (with the standard error of the seeds), and the rest as means over the mixes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for the laboratory")]

use pack_study::stream::{
    INSTANCE_MIXES, MIXES, Measure, Mix, Rule, StreamSummary, cell, difference, measures, named_site, row,
    simulate, stream, title,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [sites, mixes, loads, rules, mode, first, seeds, jobs] = &args[..] else {
        panic!("streams SITE[,...] MIX[,...]|all|mig LOAD[,...] RULE[,...] lose|queue FIRST-SEED SEEDS JOBS");
    };
    let seeds: Vec<u64> = (first.parse().unwrap()..).take(seeds.parse().unwrap()).collect();
    let jobs: usize = jobs.parse().unwrap();
    let queue = mode == "queue";
    let mut lines: Vec<Line> = Vec::new();
    for name in sites.split(',') {
        let all: &[Mix] = if mixes == "mig" { &INSTANCE_MIXES } else { &MIXES };
        let wanted = |of: &&Mix| by_mix(mixes) || mixes.split(',').any(|n| n == of.name);
        for of in all.iter().filter(wanted) {
            for load in loads.split(',') {
                let runs =
                    rules.split(',').map(|rule| runs(name, of, load, rule, queue, &seeds, jobs)).collect();
                let (site, mix, load) = (name.to_owned(), of.name, load.to_owned());
                lines.push(Line { site, mix, load, runs });
            }
        }
    }
    if by_mix(mixes) {
        more_accepted(&lines, &measures(queue)[0], rules);
        return measures(queue).iter().for_each(|measure| by_rule(&lines, measure, rules));
    }
    println!("{}", title(queue));
    for line in &lines {
        for (rule, runs) in rules.split(',').zip(&line.runs) {
            println!("| {} | {} | {} | {rule} {}", line.site, line.mix, line.load, row(runs, queue));
        }
    }
}

fn by_mix(mixes: &str) -> bool {
    mixes == "all" || mixes == "mig"
}

/// Prints what the first rule has more than the others.
fn more_accepted(lines: &[Line], measure: &Measure, rules: &str) {
    let others: Vec<&str> = rules.split(',').skip(1).collect();
    let first = rules.split(',').next().unwrap();
    println!("{}: {first} less …\n\n| site | mix | load | {} |", measure.name, others.join(" | "));
    println!("|---|---|---|{}", "---|".repeat(others.len()));
    for line in lines {
        let cells: Vec<String> =
            line.runs[1..].iter().map(|runs| difference(measure, &line.runs[0], runs)).collect();
        println!("| {} | {} | {} | {} |", line.site, line.mix, line.load, cells.join(" | "));
    }
    println!();
}

/// The runs of a site, mix and load: by rule, then seed.
struct Line {
    site: String,
    mix: &'static str,
    load: String,
    runs: Vec<Vec<StreamSummary>>,
}

fn runs(
    site: &str,
    mix: &Mix,
    load: &str,
    rule: &str,
    queue: bool,
    seeds: &[u64],
    jobs: usize,
) -> Vec<StreamSummary> {
    let site = named_site(site).unwrap();
    let rule = Rule::named(rule).unwrap();
    let one = |seed: &u64| {
        let all = stream(&site, mix, load.parse().unwrap(), (*seed, jobs));
        simulate(&site, &all, (rule, queue, all[jobs / 5].submit_ms), &mut |_| ())
    };
    seeds.iter().map(one).collect()
}

/// Prints a table with a column for each rule.
fn by_rule(lines: &[Line], measure: &Measure, rules: &str) {
    println!("{}\n\n| site | mix | load | {} |", measure.name, rules.replace(',', " | "));
    println!("|---|---|---|{}", "---|".repeat(rules.split(',').count()));
    let mut done: Vec<(String, String)> = Vec::new();
    for line in lines {
        let key = (line.site.clone(), line.load.clone());
        if !measure.by_mix && done.contains(&key) {
            continue;
        }
        done.push(key);
        let alike = |other: &&Line| {
            (&other.site, &other.load) == (&line.site, &line.load)
                && (!measure.by_mix || other.mix == line.mix)
        };
        let cells: Vec<String> = (0..line.runs.len())
            .map(|at| {
                let all: Vec<StreamSummary> =
                    lines.iter().filter(alike).flat_map(|other| other.runs[at].iter().copied()).collect();
                cell(measure, &all)
            })
            .collect();
        let mix = if measure.by_mix { line.mix } else { "all" };
        println!("| {} | {mix} | {} | {} |", line.site, line.load, cells.join(" | "));
    }
    println!();
}
