//! Tessera's own time in prologs and epilogs, read from slurmd's log.

use lab::{Cluster, JobId};

use super::stats::Spread;
use super::table::{Reference, Row};

/// Most that our own part of a prolog or an epilog may take.
const TARGET_MS: f64 = 20.0;

/// Times of one job, in milliseconds.
#[derive(Debug, Default, PartialEq)]
struct Times {
    /// Without the driver's time.
    prolog: Option<f64>,
    epilog: Option<f64>,
}

/// Times of all prologs and of all epilogs of a kind of job, ms.
pub(super) type Both = [Vec<f64>; 2];

/// Reads the times of these jobs from the logs.
pub(super) fn read(cluster: &Cluster, jobs: &[JobId]) -> Both {
    let read = |node: &String| std::fs::read(cluster.layout().log(&format!("slurmd-{node}"))).ok();
    let logs: Vec<String> = cluster
        .nodes()
        .iter()
        .filter_map(read)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect();
    let all: Vec<Times> = jobs.iter().map(|job| times(&logs, *job)).collect();
    [all.iter().filter_map(|t| t.prolog).collect(), all.iter().filter_map(|t| t.epilog).collect()]
}

/// Prologs and epilogs of each kind beside the most that they may take, those of `tasks` also beside those of `mps`, and those
/// with a power cap beside those without.
pub(super) fn rows(kinds: &[(&str, Both)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, both) in kinds {
        let like = match (name.strip_prefix("tasks: "), name.rsplit_once(", at ")) {
            (Some(rest), _) => Some(format!("mps: {rest}")),
            (None, Some((uncapped, _))) => Some(uncapped.to_owned()),
            (None, None) => None,
        };
        let like = like.and_then(|like| kinds.iter().find(|(other, _)| *other == like));
        for (index, what) in ["prolog", "epilog"].into_iter().enumerate() {
            let Some(ours) = Spread::of(&both[index]) else { continue };
            let mut row = |reference| {
                rows.push(Row {
                    bench: "prolog",
                    case: format!("{name}: {what}"),
                    unit: "ms",
                    ours,
                    reference,
                });
            };
            row(Reference::Target(TARGET_MS));
            if let Some((of, spread)) = like.and_then(|(of, both)| Some((of, Spread::of(&both[index])?))) {
                row(Reference::Measured((*of).to_owned(), spread));
            }
        }
    }
    rows
}

fn times(logs: &[String], job: JobId) -> Times {
    let own = format!("tessera: job {job} on ");
    let mut times = Times::default();
    for line in logs.iter().flat_map(|log| log.lines()).filter(|line| line.contains(&own)) {
        if let Some((took, driver)) =
            line.split_once("; took ").and_then(|(_, rest)| rest.split_once(" ms, the driver "))
        {
            times.prolog = number(took).zip(number(driver)).map(|(took, driver)| took - driver);
        } else if let Some((_, took)) = line.split_once("released in ") {
            times.epilog = number(took);
        }
    }
    times
}

/// The number a text begins with.
fn number(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_job_are_read() {
        let log = "[t] tessera: job 4 on n1: 1g.5gb on GPU 0; took 12.5 ms, the driver 8.0 ms of it\n\
                   [t] tessera: job 44 on n1: 1g.5gb on GPU 1; took 99.0 ms, the driver 1.0 ms of it\n\
                   [t] tessera: job 4 on n1: released in 2.5 ms\n";
        let expect = Times { prolog: Some(4.5), epilog: Some(2.5) };
        assert_eq!(times(&[log.to_owned()], JobId(4)), expect);
        assert_eq!(times(&[log.to_owned()], JobId(5)), Times::default());
    }

    #[test]
    fn tasks_are_compared_with_mps_and_caps_with_none() {
        let both = [vec![2.0], vec![1.0]];
        let rows = rows(&[
            ("mps: joining", both.clone()),
            ("tasks: joining", [vec![3.0], vec![]]),
            ("whole", [vec![], vec![1.0]]),
            ("whole, at 300 W", [vec![], vec![2.0]]),
        ]);
        let shown: Vec<(&str, bool)> = rows
            .iter()
            .map(|row| (row.case.as_str(), matches!(row.reference, Reference::Measured(..))))
            .collect();
        assert_eq!(
            shown,
            [
                ("mps: joining: prolog", false),
                ("mps: joining: epilog", false),
                ("tasks: joining: prolog", false),
                ("tasks: joining: prolog", true),
                ("whole: epilog", false),
                ("whole, at 300 W: epilog", false),
                ("whole, at 300 W: epilog", true),
            ]
        );
    }
}
