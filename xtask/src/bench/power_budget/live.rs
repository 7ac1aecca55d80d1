//! Jobs under the budget, and the limits that they saw while they had their GPUs.

use lab::command::{PATIENCE, wait_for};
use lab::{Cluster, JobId, User};

use super::{ALL_GPUS, IDLE_W};
use crate::command::TaskError;

/// The limit of the job's GPU and when it saw it: it has its GPU for all of this time, and another before and after. The user's other
/// jobs on the node are seen too, so the GPU is named.
const READ: &str = "from=$(date +%s%N)\n\
                    watts=$(nvidia-smi -i $CUDA_VISIBLE_DEVICES --query-gpu=power.limit --format=csv,noheader,nounits)\n\
                    echo \"limit $watts\"";
const WHOLE: [&str; 2] = ["--gpu-isolation=whole", "--gpus-per-node=1"];

fn submit(cluster: &Cluster, cap: Option<u32>, script: &str) -> Result<JobId, TaskError> {
    let cap = cap.map(|watts| format!("--gpu-power={watts}"));
    let options: Vec<&str> = WHOLE.into_iter().chain(cap.as_deref()).collect();
    Ok(cluster.sbatch(User::Alice, &options, script)?)
}

/// The limit that a job has printed, W.
fn limit(cluster: &Cluster, job: JobId) -> Option<u32> {
    let output = cluster.output(job);
    let watts = output.lines().find_map(|line| line.strip_prefix("limit "))?;
    watts.trim().split('.').next()?.parse().ok()
}

/// Starts a job for each workload, in order, and gives the cap of each; `None`: it waits for power.
pub(super) fn caps(cluster: &Cluster, asked: &[Option<u32>]) -> Result<Vec<Option<u32>>, TaskError> {
    let script = format!("{READ}\nexec sleep 600");
    let jobs: Vec<JobId> =
        asked.iter().map(|cap| submit(cluster, *cap, &script)).collect::<Result<_, TaskError>>()?;
    let look = |job: JobId| -> Result<Option<u32>, String> {
        if let Some(watts) = limit(cluster, job) {
            return Ok(Some(watts));
        }
        let now = cluster.job(job).map_err(|e| error_chain::with_causes(&e))?;
        let waits = now.state() == "PENDING" && now.reason() == "Resources";
        if waits { Ok(None) } else { Err(format!("job {job}: {} ({})", now.state(), now.reason())) }
    };
    // Behind the first that waits, others have reason Priority.
    let all = wait_for("each job to run or to wait", PATIENCE, || {
        let mut got: Vec<Option<u32>> = Vec::new();
        for job in &jobs {
            match look(*job) {
                Ok(cap) => got.push(cap),
                Err(why) if got.contains(&None) && why.contains("(Priority)") => got.push(None),
                Err(why) => return Err(why),
            }
        }
        Ok(got)
    })?;
    cluster.run(User::Root, "scancel", &["--user", User::Alice.name()])?.ok()?;
    cluster.wait_idle()?;
    Ok(all)
}

/// Lets jobs with all kinds of caps start and end, and gives their number and the largest sum of limits, W: of the GPUs with a job
/// that runs the limit that it saw, of all others what an idle one counts with.
pub(super) fn stream(cluster: &Cluster, jobs: usize, seed: u64) -> Result<(usize, f64), TaskError> {
    let mut numbers = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |n: u64| {
        numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (numbers >> 33) % n
    };
    let mut all = Vec::new();
    for at in 0..jobs {
        if at % 100 == 0 {
            eprintln!("bench: power-budget: stream: {at} of {jobs} jobs");
        }
        let cap = u32::try_from(below(12)).ok().filter(|step| *step < 10).map(|step| 150 + 10 * step);
        let tenths = 5 + below(40);
        let script =
            format!("{READ}\nsleep {}.{}\necho \"had $from $(date +%s%N)\"", tenths / 10, tenths % 10);
        all.push(submit(cluster, cap, &script)?);
    }
    let mut held = Vec::new();
    for job in &all {
        cluster.wait_end(*job)?;
        let output = cluster.output(*job);
        let numbers = output.lines().find_map(|line| line.strip_prefix("had ")).unwrap_or_default();
        let mut numbers = numbers.split(' ').map(str::parse::<u64>);
        match (limit(cluster, *job), numbers.next(), numbers.next()) {
            (Some(watts), Some(Ok(from)), Some(Ok(to))) => held.push((from, to, watts)),
            _ => return Err(TaskError::Other(format!("job {job} printed: {output}"))),
        }
    }
    cluster.wait_idle()?;
    Ok((held.len(), f64::from(largest_sum(&held, ALL_GPUS, IDLE_W))))
}

/// The largest sum at any time: (from, to, W) of each GPU with a job, and `idle_w` of each other one.
fn largest_sum(held: &[(u64, u64, u32)], gpus: u32, idle_w: u32) -> u32 {
    let at = |time: u64| {
        let now = held.iter().filter(|(from, to, _)| (*from..*to).contains(&time));
        let (count, sum) = now.fold((0, 0), |(count, sum), (_, _, watts)| (count + 1, sum + watts));
        sum + gpus.saturating_sub(count) * idle_w
    };
    // It only grows where somebody begins.
    held.iter().map(|(from, ..)| at(*from)).max().unwrap_or_default().max(gpus * idle_w)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_at_one_time_adds_up() {
        assert_eq!(largest_sum(&[], 3, 40), 120);
        assert_eq!(largest_sum(&[(0, 5, 200), (5, 9, 250)], 3, 40), 330);
        assert_eq!(largest_sum(&[(0, 6, 200), (5, 9, 250), (7, 8, 150)], 3, 40), 490);
    }
}
