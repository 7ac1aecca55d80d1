//! Reads `[[limits]]`.

use geometry::Model;
use protocol::Isolation;
use toml_tables::{At, TableReader};

use crate::limit::{Limit, Most};
use crate::sections::{isolation, memory};

/// Most limits of a file: slurmctld goes through all of them in each test of a job.
const MOST_LIMITS: usize = 1024;
/// Longest time that a limit can say, minutes: ten years.
const MOST_MIN: u64 = 5_256_000;
/// Most GPUs or slices that a limit can say.
const MOST_AMOUNT: u64 = 1_000_000;

/// The section, in the order of the file.
pub(crate) fn limits(root: &mut TableReader<'_, '_>, models: &[&Model]) -> Vec<Limit> {
    let tables = root.tables("limits");
    if let Some(table) = tables.get(MOST_LIMITS) {
        table.errors.push(table.span.clone(), format!("more than {MOST_LIMITS} limits"), None);
    }
    let numbered = tables.into_iter().take(MOST_LIMITS).enumerate();
    numbered.map(|(number, table)| Limit { number, ..limit(table, models) }).collect()
}

fn limit(table: TableReader<'_, '_>, models: &[&Model]) -> Limit {
    let text = |key| table.string(key).map(|at| at.value);
    let wrong = |what: &str, hint: &str| table.errors.push(table.span.clone(), what, Some(hint.to_owned()));
    let each_user = table.boolean("each_user").unwrap_or(false);
    let user = text("user");
    if !["partition", "account", "qos", "user"].iter().any(|key| table.has(key)) && !each_user {
        wrong(
            "[[limits]] names no partition, account, QOS or user",
            "add one of partition = \"…\", account = \"…\", qos = \"…\", user = \"…\" and each_user = true",
        );
    }
    if each_user && user.is_some() {
        wrong("[[limits]] has user and each_user", "leave one of them out");
    }
    let isolations = table.strings("isolation").map(|list| {
        let one = |At { value, span }: At<String>| match isolation(&value, models) {
            Ok(Isolation::Auto | Isolation::None) => {
                let hint = "use mig, mig:PROFILE, mig-shared:INSTANCE, mps, gpu-tasks or whole".to_owned();
                table.errors.push(span, format!("isolation cannot be limited to {value}"), Some(hint));
                None
            }
            Ok(kind) => Some(kind),
            Err((what, hint)) => {
                table.errors.push(span, what, hint);
                None
            }
        };
        list.into_iter().filter_map(one).collect()
    });
    let amount = |key| table.number(key, 1..MOST_AMOUNT + 1).map(|at| at.value);
    let small = |key, most| table.number(key, 1..most).and_then(|at| u32::try_from(at.value).ok());
    let running = Most { gpus: amount("running_gpus"), slices: amount("running_slices") };
    if each_user && running == Most::default() {
        wrong("each_user needs a sum", "add running_slices = 14 or running_gpus = 2");
    }
    let read = Limit {
        number: 0,
        line: table.errors.line_of(table.span.start),
        partition: text("partition"),
        account: text("account"),
        qos: text("qos"),
        uid: user.as_deref().and_then(|user| user.parse().ok()),
        user,
        isolation: isolations,
        max_instances: small("max_instances", 1025),
        max_mem_mib: table.parsed("max_mem", |text| memory("max_mem", text, models)).map(|at| at.value),
        per_job: Most { gpus: amount("max_gpus"), slices: amount("max_slices") },
        max_time_min: small("max_time_min", MOST_MIN + 1),
        running,
        each_user,
    };
    table.finish();
    read
}
