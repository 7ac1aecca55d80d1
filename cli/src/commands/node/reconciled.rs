//! What a reconciliation has done, for an administrator.

use std::fmt::Write as _;

use gpu_node::ReconcileReport;

/// Says in one line each what was freed, set right or could not be; empty if there was nothing to do.
pub(super) fn lines(report: &ReconcileReport) -> String {
    let mut text = String::new();
    for job in &report.finished {
        let _ = writeln!(text, "job {job} was from before the boot: released");
    }
    for (gpu, id) in &report.destroyed {
        let _ = writeln!(text, "GPU {gpu}: half-made GPU instance {id} destroyed");
    }
    for gpu in &report.modes {
        let _ = writeln!(text, "GPU {gpu}: a pending change of its MIG mode was taken back");
    }
    for name in &report.device_nodes {
        let _ = writeln!(text, "device node {name} set right");
    }
    for gpu in &report.limits {
        let _ = writeln!(text, "GPU {gpu}: its power limit is as it was before jobs changed it");
    }
    for key in &report.daemons {
        let _ = writeln!(text, "MPS daemon {key} ended");
    }
    for key in &report.daemons_started {
        let _ = writeln!(text, "MPS daemon {key} had ended: started again");
    }
    if report.broker_started {
        text.push_str("the task broker did not run: started again\n");
    }
    for job in &report.broker_jobs {
        let _ = writeln!(text, "the task broker still had job {job}: ended");
    }
    for file in &report.damaged {
        let _ = writeln!(text, "damaged journal file ({}) kept as {}", file.why, file.path.display());
    }
    for problem in &report.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_driver::NvmlIndex;

    #[test]
    fn a_mode_that_was_taken_back_is_said() {
        let report = ReconcileReport { modes: vec![NvmlIndex(3)], ..ReconcileReport::default() };
        assert_eq!(lines(&report), "GPU 3: a pending change of its MIG mode was taken back\n");
        assert_eq!(lines(&ReconcileReport::default()), "");
    }
}
