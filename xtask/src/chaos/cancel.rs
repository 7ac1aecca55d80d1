//! Cancelling one job by its number.

use lab::command::Done;
use lab::{Cluster, HarnessError, User};

/// Runs scancel for one job. 22.05 takes the number of an array's task for that of an array, and finds none.
pub(super) fn cancel(cluster: &Cluster, job: u32) -> Result<Done, HarnessError> {
    let number = job.to_string();
    let shown = cluster.run(User::Root, "scontrol", &["-o", "show", "job", &number])?.stdout;
    cluster.run(User::Root, "scancel", &[&name_of(&shown, job).unwrap_or(number)])
}

/// `ARRAY_TASK`, if that is what scontrol shows the job to be. Of an array it shows every task, a line each.
fn name_of(shown: &str, job: u32) -> Option<String> {
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let own = format!("JobId={job}");
    let words = shown.lines().map(words).find(|words| words.first() == Some(&own))?;
    let number = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.parse::<u32>().ok());
    Some(format!("{}_{}", number("ArrayJobId=")?, number("ArrayTaskId=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_of_an_array_has_a_name_of_its_own() {
        let shown = "JobId=225 ArrayJobId=225 ArrayTaskId=2 JobName=chaos1\nJobId=229 ArrayJobId=225 ArrayTaskId=0 X=1\n";
        assert_eq!(name_of(shown, 229), Some("225_0".to_owned()));
        assert_eq!(name_of(shown, 225), Some("225_2".to_owned()));
        assert_eq!(name_of(shown, 22), None);
        // What waits of an array has its number.
        assert_eq!(name_of("JobId=7 ArrayJobId=7 ArrayTaskId=0-2 JobName=a", 7), None);
        assert_eq!(name_of("JobId=7 JobName=a", 7), None);
    }
}
