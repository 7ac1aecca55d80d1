//! Launches that Slurm 22.05 loses while slurmctld reads its configuration anew (docs/slurm-quirks.md, "Launches beside a
//! reconfiguration"). What is told from the daemons' logs is narrow: the job was allocated within a second of a
//! reconfiguration, and slurmd has never heard of it.

/// How far from the beginning of a reconfiguration the job was allocated, in milliseconds.
const BESIDE_MS: u64 = 1_000;

/// A step of Slurm's own on the way from allocation to launch.
const RECONFIGURED: &str = "Processing Reconfiguration Request";

/// True if the launch of a batch job was lost in this way. `slurmd` has the log of each of the job's nodes. Lines begin with the
/// daemons' times; those of slurmctld are compared with each other, and slurmd's count if they are not older than the allocation.
pub(super) fn is_lost(job: u32, slurmctld: &str, slurmd: &[String]) -> bool {
    let allocations =
        [format!("Allocate JobId={job} "), format!("({job}) NodeList="), format!("Started JobId={job} in")];
    let is_allocation = |line: &&str| allocations.iter().any(|text| line.contains(text));
    let Some(allocated) = slurmctld.lines().rfind(is_allocation).and_then(moment) else { return false };
    let mut reconfigured = slurmctld.lines().filter(|line| line.contains(RECONFIGURED)).filter_map(moment);
    let is_beside = reconfigured.any(|at| at.abs_diff(allocated) <= BESIDE_MS);
    let has = |log: &String, text: &str| {
        let of_job = log.lines().filter(|line| line.ends_with(text) || line.contains(&format!("{text} ")));
        of_job.filter_map(moment).any(|at| at + BESIDE_MS >= allocated)
    };
    let prolog = format!("Running spank/prolog for jobid [{job}]");
    let batch = format!("task_p_slurmd_batch_request: {job}");
    let is_launched = slurmd.iter().all(|log| has(log, &prolog)) && slurmd.iter().any(|log| has(log, &batch));
    is_beside && !is_launched
}

/// The time at a line's beginning, as in `[2026-11-23T05:13:19.985]`, in milliseconds since an arbitrary day. A month counts 31
/// days: only differences of seconds matter.
fn moment(line: &str) -> Option<u64> {
    let (date, time) = line.strip_prefix('[')?.split_once(']')?.0.split_once('T')?;
    let numbers = |text: &str, separators: &[char]| -> Option<Vec<u64>> {
        text.split(separators).map(|part| part.parse().ok()).collect()
    };
    let (date, time) = (numbers(date, &['-'])?, numbers(time, &[':', '.'])?);
    let ([year, month, day], [hour, minute, second, ms]) = (&date[..], &time[..]) else { return None };
    let days = (year * 12 + month) * 31 + day;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLURMCTLD: &str = "\
[2026-11-23T05:13:16.829] Processing Reconfiguration Request
[2026-11-23T05:13:17.910] _slurm_rpc_submit_batch_job: JobId=11 InitPrio=4294901749 usec=2741
[2026-11-23T05:13:19.985] sched: Allocate JobId=11 NodeList=n1 #CPUs=1 Partition=gpu
[2026-11-23T05:13:19.985] Processing Reconfiguration Request
[2026-11-23T05:13:19.986] sched: Allocate JobId=3_1(12) NodeList=n1 #CPUs=1 Partition=gpu
[2026-11-23T05:13:30.001] sched: Allocate JobId=13 NodeList=n1 #CPUs=1 Partition=gpu
";

    fn slurmd(lines: &[&str]) -> Vec<String> {
        vec![lines.iter().map(|line| format!("{line}\n")).collect()]
    }

    const BATCH_12: &str = "[2026-11-23T05:13:20.005] debug:  task/none: task_p_slurmd_batch_request: task_p_slurmd_batch_request: 12";
    const PROLOG_12: &str =
        "[2026-11-23T05:13:20.105] debug:  Running spank/prolog for jobid [12] uid [1001] gid [1001]";

    #[test]
    fn a_launch_beside_a_reconfiguration_that_slurmd_never_heard_of_is_lost() {
        assert!(is_lost(11, SLURMCTLD, &slurmd(&[])));
        assert!(is_lost(12, SLURMCTLD, &slurmd(&[BATCH_12])), "its prolog's request is missing");
        assert!(is_lost(12, SLURMCTLD, &slurmd(&[PROLOG_12])), "its script's request is missing");
        assert!(!is_lost(12, SLURMCTLD, &slurmd(&[BATCH_12, PROLOG_12])), "slurmd has it: another reason");
        let on_two = [slurmd(&[BATCH_12, PROLOG_12]), slurmd(&[])].concat();
        assert!(is_lost(12, SLURMCTLD, &on_two), "the second node's prolog is missing");
    }

    #[test]
    fn a_launch_at_any_other_time_is_not_excused() {
        assert!(!is_lost(13, SLURMCTLD, &slurmd(&[])), "ten seconds after the reconfiguration");
        assert!(!is_lost(14, SLURMCTLD, &slurmd(&[])), "never allocated");
        assert!(!is_lost(1, SLURMCTLD, &slurmd(&[])), "another job's number begins so");
    }

    #[test]
    fn an_earlier_start_of_the_same_job_is_no_launch() {
        let earlier = [PROLOG_12, BATCH_12].map(|line| line.replace("05:13:20", "05:12:20"));
        let earlier: Vec<&str> = earlier.iter().map(String::as_str).collect();
        assert!(is_lost(12, SLURMCTLD, &slurmd(&earlier)));
    }
}
