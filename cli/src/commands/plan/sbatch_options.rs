//! Options of sbatch that would contradict the plan.

use super::args::CarryArgs;
use crate::outcome::Failure;

/// Long options that the plan sets itself, or that turn a task into something other than one job.
const LONG: [&str; 11] = [
    "array",
    "dependency",
    "exclude",
    "gpu-instances",
    "gpu-isolation",
    "gpu-place",
    "gpu-times",
    "nodelist",
    "test-only",
    "wait",
    "wrap",
];
/// Short forms of these options.
const SHORT: [char; 5] = ['W', 'a', 'd', 'w', 'x'];
/// Letters that take no argument: others may follow in the same word.
const FLAGS: [char; 10] = ['H', 'O', 'Q', 'V', 'b', 'h', 'k', 's', 'u', 'v'];
/// Variables that sbatch takes for such options, where the command line does not have them.
pub(super) const ENVIRONMENT: [&str; 4] =
    ["SBATCH_ARRAY_INX", "SBATCH_WAIT", "TESSERA_GPU_INSTANCES", "TESSERA_GPU_TIMES"];

/// Refuses such options behind `--`.
pub(super) fn check(args: &CarryArgs) -> Result<(), Failure> {
    args.sbatch.iter().find(|word| is_plans(word)).map_or(Ok(()), |word| {
        Err(Failure::new(format!("{word} after --: the plan decides this"))
            .hint("the plan sets each job's place and order; other options of sbatch may follow --"))
    })
}

/// Refuses them in the lines of a batch script that sbatch reads.
pub(super) fn check_script(script: &str) -> Result<(), Failure> {
    in_script(script).find(|(_, word)| is_plans(word)).map_or(Ok(()), |(n, word)| {
        Err(Failure::new(format!("line {n} of the script: {word}: the plan decides this")))
    })
}

/// True if the user has a Comment of their own.
pub(super) fn has_comment(args: &CarryArgs, script: &str) -> bool {
    let mut words = args.sbatch.iter().map(String::as_str).chain(in_script(script).map(|(_, word)| word));
    words.any(|word| word.starts_with("--comment"))
}

/// The words of a script's lines for sbatch, with the number of the line.
fn in_script(script: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(script.lines()).filter_map(|(n, line)| Some((n, line.strip_prefix("#SBATCH")?)));
    lines.flat_map(|(n, line)| line.split_whitespace().map(move |word| (n, word)))
}

fn is_plans(word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        // sbatch takes any beginning that only one option has, such as `ar`; of one letter several have one.
        return LONG
            .iter()
            .any(|option| *option == name || (name.len() > 1 && name != "gpu" && option.starts_with(name)));
    }
    word.strip_prefix('-').is_some_and(|letters| letters.trim_start_matches(FLAGS).starts_with(SHORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plan_decides_is_told_from_other_options() {
        for word in [
            "--array=1-3",
            "--arr=1",
            "--ar=1",
            "--wr=x",
            "-a",
            "-a1-3",
            "--dependency=singleton",
            "-d",
            "--dep=x",
            "-w",
            "-wn2",
            "-Hvwn2",
            "--nodelist=n2",
            "--wrap=x",
            "--wait",
            "-W",
            "--gpu-place=1@0",
            "--gpu-isolation=whole",
            "-x",
            "--test-only",
        ] {
            assert!(is_plans(word), "{word}");
        }
        for word in [
            "--partition=gpu",
            "-p",
            "gpu",
            "--account=a",
            "-A",
            "--time=5",
            "-t",
            "--mem=1G",
            "--gpu-app=bert",
            "--gpu-bind=none",
            "--wait-all-nodes=1",
            "--comment=x",
            "--output=/dev/null",
            "-o",
            "-J",
            "--nodes=1",
            "-n4",
            "1-3",
            "--wckey=a",
            "-H",
        ] {
            assert!(!is_plans(word), "{word}");
        }
    }

    #[test]
    fn lines_of_a_script_are_named() {
        assert!(check_script("#!/bin/sh\n#SBATCH --mem=1G -t 5\necho --array\n").is_ok());
        let why = check_script("#!/bin/sh\n#SBATCH --mem=1G --array=1-3\n").unwrap_err();
        assert_eq!(why.what(), "line 2 of the script: --array=1-3: the plan decides this");
    }
}
