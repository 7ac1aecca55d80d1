//! `tessera lab power divide`.

use std::time::Instant;

use power::CsvError;
use power_study::{ChooseError, DivideError, Division, Group, Model, divide, groups};
use serde_json::{Value, json};

use super::args::DivideArgs;
use super::guard::Guard;
use super::{about, counters};
use crate::files;
use crate::outcome::{Failure, Outcome};
use crate::render::table;

pub(super) fn run(args: &DivideArgs) -> Result<Outcome, Failure> {
    let model = Model::from_json(&files::read_text(&args.model)?).map_err(|e| about(&args.model, &e))?;
    let counters = counters(&args.counters)?;
    let file = args.groups.display().to_string();
    let listed = groups::parse(&file, &files::read_text(&args.groups)?, &model, &counters);
    let listed = listed.map_err(|e| Failure::of(&e))?;
    let groups: Vec<Group> = listed.iter().map(|listed| listed.group.clone()).collect();
    let start = Instant::now();
    let divided = divide(&model, &groups, args.budget, args.alpha, args.guard == Guard::On);
    let elapsed_us = (start.elapsed().as_secs_f64() * 1e7).round() / 10.0;
    let mut value = json!({
        "budget_w": args.budget, "alpha": args.alpha, "basis": model.basis().name(), "elapsed_us": elapsed_us,
    });
    match divided {
        Ok(division) if args.json => {
            add(&mut value, &groups, &division);
            Ok(Outcome::json(&value, 0))
        }
        Ok(division) => Ok(Outcome::ok(text(args.budget, &groups, &division))),
        Err(e @ DivideError::Group { error: ChooseError::Alpha(_), .. }) => Err(Failure::of(&e)),
        Err(e @ DivideError::Group { error: ChooseError::NoGuard, .. }) => Err(about(&args.model, &e)),
        Err(DivideError::Group { at, error }) => {
            let line = listed.get(at).map_or(1, |listed| listed.line);
            Err(Failure::of(&CsvError { file, line, field: "apps", what: error.to_string() }))
        }
        Err(e) if args.json => {
            value["chosen"] = json!(false);
            value["reason"] = json!(e.to_string());
            Ok(Outcome::json(&value, 1))
        }
        Err(e) => Ok(Outcome { text: format!("nothing chosen: {e}\n"), status: 1 }),
    }
}

fn add(value: &mut Value, groups: &[Group], division: &Division) {
    let gpus = groups.iter().zip(&division.chosen).map(|(group, c)| {
        json!({
            "gpu": group.gpu, "apps": group.apps, "state": c.state.to_string(), "cap_w": c.cap.watts(),
            "throughput": c.throughput, "rperf": c.rperf, "low": c.low,
        })
    });
    value["gpus"] = gpus.collect();
    value["chosen"] = json!(true);
    value["used_w"] = json!(division.used_w);
    value["throughput"] = json!(division.throughput);
    value["exact"] = json!(division.exact);
}

fn text(budget_w: u64, groups: &[Group], division: &Division) -> String {
    let mut rows = vec![["GPU", "APPS", "STATE", "CAP", "THROUGHPUT"].map(str::to_owned).to_vec()];
    for (group, c) in groups.iter().zip(&division.chosen) {
        let (state, watts) = (c.state.to_string(), c.cap.watts().to_string());
        rows.push(vec![
            group.gpu.clone(),
            group.apps.join("+"),
            state,
            watts,
            format!("{:.3}", c.throughput),
        ]);
    }
    format!(
        "budget        {budget_w} W, {} W used\nthroughput    {:.3}, {}\n\n{}",
        division.used_w,
        division.throughput,
        if division.exact { "no division is better" } else { "caps rounded up to a coarser unit" },
        table::render(&rows, &[3, 4]),
    )
}
