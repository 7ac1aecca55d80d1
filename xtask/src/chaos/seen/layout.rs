//! Reads a layout line: `tessera gpu0=mig[1g.5gb@4:job1,1g.5gb@5:idle] gpu1=mps[job2:2862M/25%] gpu2-3=whole[job4] gpu4-7=free`.

/// A part of a GPU that the line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Place {
    pub(in crate::chaos) gpu: u32,
    /// Profile and first placement unit, for an instance.
    pub(in crate::chaos) instance: Option<(String, u32)>,
    pub(in crate::chaos) holder: Holder,
}

/// Who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Holder {
    /// Nobody.
    Idle,
    /// Used by one job alone.
    Job(u32),
    /// Jobs that share it.
    Shared(Vec<u32>),
}

/// The places of a line; free GPUs have none.
pub(super) fn parse(line: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for word in line.split(' ') {
        let Some((gpus, what)) = word.strip_prefix("gpu").and_then(|rest| rest.split_once('=')) else {
            continue;
        };
        let (first, last) = gpus.split_once('-').unwrap_or((gpus, gpus));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { continue };
        for gpu in first..=last {
            places.extend(of_gpu(gpu, what));
        }
    }
    places
}

fn of_gpu(gpu: u32, what: &str) -> Vec<Place> {
    let inner = |kind: &str| what.strip_prefix(kind)?.strip_prefix('[')?.strip_suffix(']');
    if inner("whole").is_some() || inner("mps").is_some() || inner("tasks").is_some() {
        return vec![Place { gpu, instance: None, holder: holder(what) }];
    }
    let instance = |text: &str| {
        let (shape, who) = text.split_once(':')?;
        let (profile, start) = shape.split_once('@')?;
        let instance = Some((profile.to_owned(), start.parse().ok()?));
        Some(Place { gpu, instance, holder: holder(who) })
    };
    inner("mig").map(|list| top_level(list).into_iter().filter_map(instance).collect()).unwrap_or_default()
}

/// Splits at commas outside of brackets.
fn top_level(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0_u32, 0);
    for (at, c) in list.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts
}

fn holder(text: &str) -> Holder {
    // After `>` stands the job that waits for the device.
    let text = text.split('>').next().unwrap_or_default();
    let jobs: Vec<u32> = text.split("job").skip(1).filter_map(leading_number).collect();
    let shared = ["mps[", "ci[", "tasks["].iter().any(|kind| text.starts_with(kind));
    match (jobs.as_slice(), shared) {
        ([], _) => Holder::Idle,
        ([job], false) => Holder::Job(*job),
        _ => Holder::Shared(jobs),
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_line_is_read() {
        let place = |gpu, instance: Option<(&str, u32)>, holder| Place {
            gpu,
            instance: instance.map(|(profile, start)| (profile.to_owned(), start)),
            holder,
        };
        let line = "tessera gpu0=mig[1g.5gb@4:job1,2g.10gb@0:idle,3g.20gb@5:mps[job8:1M/5%,job9:1M/5%]] \
                    gpu1=mps[job2:2862M/25%] gpu2-3=whole[job4] gpu4-7=free \
                    gpu8=mig[7g.40gb@0:ci[4c@0:job5:9537M,3c@4:job6:9537M]] gpu9=tasks[job10*2,job11*1>job12]";
        assert_eq!(
            parse(line),
            [
                place(0, Some(("1g.5gb", 4)), Holder::Job(1)),
                place(0, Some(("2g.10gb", 0)), Holder::Idle),
                place(0, Some(("3g.20gb", 5)), Holder::Shared(vec![8, 9])),
                place(1, None, Holder::Shared(vec![2])),
                place(2, None, Holder::Job(4)),
                place(3, None, Holder::Job(4)),
                place(8, Some(("7g.40gb", 0)), Holder::Shared(vec![5, 6])),
                place(9, None, Holder::Shared(vec![10, 11])),
            ]
        );
        assert_eq!(parse("(null)"), []);
    }
}
