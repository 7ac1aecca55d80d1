//! Models and choices for a person to read.

use power_study::{Candidate, Choice, Errors, Problem, Question};

use crate::render::table;

/// Both errors as percentages.
pub(super) fn errors(errors: Errors) -> String {
    format!("throughput {:.1} %, fairness {:.1} %", 100.0 * errors.throughput, 100.0 * errors.fairness)
}

/// The chosen candidate, or why there is none.
pub(super) fn choice(question: &Question<'_>, choice: &Choice) -> String {
    let Some(c) = &choice.chosen else {
        return format!("nothing chosen: {}\n", choice.reason(question).unwrap_or_default());
    };
    let goal = match question.problem {
        Problem::Throughput(_) => "the highest throughput under this cap",
        Problem::Efficiency => "the highest throughput per watt",
    };
    let known = if c.measured { "measured" } else { "predicted" };
    let mut rows = vec![["APP", "PART", "RPERF", "LOW (95 %)"].map(str::to_owned).to_vec()];
    for (at, app) in question.apps.iter().enumerate() {
        let low = c.low.as_ref().map_or_else(|| "-".to_owned(), |low| format!("{:.3}", low[at]));
        rows.push(vec![app.clone(), c.state.parts()[at].to_string(), format!("{:.3}", c.rperf[at]), low]);
    }
    format!(
        "state         {}\ncap           {}\nthroughput    {:.3}, {known}\nfairness      {:.3} (alpha {})\n\
         efficiency    {:.3} per 100 W\nchosen for    {goal}\n\n{}",
        c.state,
        c.cap,
        c.throughput,
        c.fairness,
        question.alpha,
        100.0 * c.efficiency,
        table::render(&rows, &[2, 3]),
    )
}

/// All candidates as a table; a star marks the chosen one.
pub(super) fn candidates(choice: &Choice) -> String {
    let head = ["", "STATE", "CAP", "RPERF", "LOW", "THROUGHPUT", "FAIRNESS", "ALLOWED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(choice.candidates.iter().map(|c| row(c, choice.chosen.as_ref() == Some(c))));
    format!("\n{}", table::render(&rows, &[2, 5, 6]))
}

fn row(c: &Candidate, is_chosen: bool) -> Vec<String> {
    let joined = |values: &[f64]| values.iter().map(|v| format!("{v:.3}")).collect::<Vec<_>>().join("+");
    vec![
        if is_chosen { "*" } else { "" }.to_owned(),
        c.state.to_string(),
        c.cap.watts().to_string(),
        joined(&c.rperf),
        c.low.as_deref().map_or_else(|| "-".to_owned(), joined),
        format!("{:.3}", c.throughput),
        format!("{:.3}", c.fairness),
        if c.allowed { "yes" } else { "no" }.to_owned(),
    ]
}
