//! Reads `[tasks]`.

use gpu_rules::PoolPolicy;

use crate::sections::directory;
use crate::types::{Overuse, TaskPolicy, Tasks};
use toml_tables::TableReader;

/// Most seats per compute slice: as many clients as one MPS daemon serves.
const MOST_WORKERS: u64 = 48;
/// Most GPUs that the tasks of one job may use: no node has more.
const MOST_GPUS: u64 = 16;
/// Most memory of a context that is reserved, MiB.
const MOST_CONTEXT_MIB: u64 = 65_536;

/// The pool of GPU tasks; `None` without the section.
pub(crate) fn tasks(root: &mut TableReader<'_, '_>) -> Option<Tasks> {
    let table = root.table("tasks")?;
    let unset = PoolPolicy::default();
    let policies = [TaskPolicy::Tessera, TaskPolicy::Alg2, TaskPolicy::Alg3];
    let policies = policies.map(|p| (p.name(), p));
    let number = |key, range| table.number(key, range).map(|at| at.value);
    let workers = number("workers_per_slice", 1..MOST_WORKERS + 1).and_then(|n| u32::try_from(n).ok());
    let gpus = number("gpus_per_job", 1..MOST_GPUS + 1).and_then(|n| u32::try_from(n).ok());
    let read = Tasks {
        policy: table.word("policy", &policies).unwrap_or(TaskPolicy::Tessera),
        pool: PoolPolicy {
            workers_per_slice: workers.unwrap_or(unset.workers_per_slice),
            context_mib: number("context_mib", 0..MOST_CONTEXT_MIB + 1).unwrap_or(unset.context_mib),
            gpus_per_job: gpus.unwrap_or(unset.gpus_per_job),
        },
        overuse: table
            .word("overuse", &[("charge", Overuse::Charge), ("end", Overuse::End)])
            .unwrap_or(Overuse::Charge),
        log: directory(&table, "log"),
    };
    table.finish();
    Some(read)
}
