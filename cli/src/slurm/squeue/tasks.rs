//! Lists of an array's tasks as squeue writes them, `1-3,7%2` or `0-8:2`.

/// Tells whether a list of tasks as squeue writes it, `1-3,7%2` or `0-8:2`, has this one. What squeue has cut may have any.
pub(crate) fn has_task(tasks: &str, task: u32) -> bool {
    let (list, _) = tasks.split_once('%').unwrap_or((tasks, ""));
    list.split(',').any(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u32>(), last.parse::<u32>(), step.parse::<u32>()) {
            (Ok(first), Ok(last), Ok(step)) if step > 0 => {
                (first..=last).contains(&task) && (task - first).is_multiple_of(step)
            }
            _ => part.ends_with("..."),
        }
    })
}

/// Most tasks that are written one by one.
const MOST_TASKS: usize = 4096;

/// Gives tasks of an array as scontrol takes them: `0-8:4%2` is `0,4,8`. With a colon in it, scontrol takes a number for the name of a job. `None`: it is no
/// list, or has too many tasks.
pub(crate) fn listed_for_scontrol(tasks: &str) -> Option<String> {
    let list = tasks.split('%').next().unwrap_or_default();
    let parts = list.split(',').map(|part| {
        let Some((range, step)) = part.split_once(':') else {
            return part.bytes().all(|b| b.is_ascii_digit() || b == b'-').then(|| part.to_owned());
        };
        let (first, last) = range.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let tasks = (first..=last).step_by(step.parse().ok().filter(|step| *step > 0)?);
        let tasks: Vec<String> = tasks.take(MOST_TASKS + 1).map(|task| task.to_string()).collect();
        (tasks.len() <= MOST_TASKS).then(|| tasks.join(","))
    });
    let parts: Option<Vec<String>> = parts.collect();
    parts.map(|parts| parts.join(",")).filter(|list| list.split(',').count() <= MOST_TASKS)
}

/// The tasks in a list of an array's, `1-3,7` or `0-8:2%4`; 1 in what is no list.
pub(crate) fn count_tasks(tasks: &str) -> usize {
    let count = |part: &str| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let step = step.parse::<usize>().ok().filter(|step| *step > 0)?;
        Some((last.saturating_sub(first) / step).saturating_add(1))
    };
    let list = tasks.split('%').next().unwrap_or_default();
    list.split(',').filter_map(count).fold(0, usize::saturating_add).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_for_scontrol_have_no_colon() {
        let listed = |tasks: &str| listed_for_scontrol(tasks);
        assert_eq!(listed("1-43:21,50-60%4").as_deref(), Some("1,22,43,50-60"));
        assert_eq!(listed("0-8190:2").map(|list| list.split(',').count()), Some(4096));
        for none in ["1,3,...", "0-4000000000:2", "0-8192:2", "1-5:0", "1-x:2", "5:2"] {
            assert_eq!(listed(none), None, "{none}");
        }
    }
}
