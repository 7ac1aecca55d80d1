//! Steps and tasks that get some of their job's whole GPUs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{parts_of_whole_gpus, with};

#[test]
fn a_step_or_task_sees_its_own_part_of_the_jobs_gpus() {
    with(|cluster| parts_of_whole_gpus(cluster));
}
