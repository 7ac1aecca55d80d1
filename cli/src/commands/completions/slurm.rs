//! Completion of Tessera's options where Slurm's commands are typed.

use std::fmt::Write as _;

use clap_complete::Shell;
use job_options::Spec;

const COMMANDS: [&str; 3] = ["sbatch", "salloc", "srun"];

/// Names and values alike. bash splits words at `=` and `:`, so what is before the last of them is taken off each answer.
const BASH: &str = r#"# Completes Tessera's options of sbatch, salloc and srun. Source it after Slurm's own completion, whose answers stay.
declare -A _tessera_before
_tessera_slurm() {
    local line=${COMP_LINE:0:COMP_POINT} words=$_tessera_names answer
    local typed=${line##*[[:space:]]}
    COMPREPLY=()
    [ -z "${_tessera_before[$1]-}" ] || "${_tessera_before[$1]}" "$@"
    [[ $typed == --gpu-*=* ]] && words=$_tessera_values
    local cut=${typed%"${typed##*[=:]}"}
    while IFS= read -r answer; do
        COMPREPLY+=("${answer#"$cut"}")
    done < <(compgen -W "$words" -- "$typed")
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
    return 0
}
for _tessera_command in sbatch salloc srun; do
    _tessera_spec=$(complete -p "$_tessera_command" 2>/dev/null)
    if [[ $_tessera_spec =~ -F\ ([^\ ]+) ]] && [ "${BASH_REMATCH[1]}" != _tessera_slurm ]; then
        _tessera_before[$_tessera_command]=${BASH_REMATCH[1]}
    fi
    complete -o default -F _tessera_slurm "$_tessera_command"
done
unset _tessera_command _tessera_spec
"#;

/// The script of a shell; `None` where there is none.
pub(super) fn script(shell: Shell) -> Option<String> {
    match shell {
        Shell::Bash => Some(bash()),
        Shell::Fish => Some(fish()),
        _ => None,
    }
}

fn bash() -> String {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for spec in &Spec::ALL {
        names.push(format!("--{}=", spec.name));
        values.extend(spec.opt.words().iter().map(|word| format!("--{}={word}", spec.name)));
    }
    format!("{BASH}_tessera_names='{}'\n_tessera_values='{}'\n", names.join(" "), values.join(" "))
}

fn fish() -> String {
    let mut script =
        "# Completes Tessera's options of sbatch, salloc and srun, beside what else completes them.\n"
            .to_owned();
    for spec in &Spec::ALL {
        let usage = spec.usage.trim_start_matches("[tessera] ").replace('\'', "\\'");
        let words = spec.opt.words().join(" ");
        for command in COMMANDS {
            let _ = writeln!(script, "complete -c {command} -l {} -x -a '{words}' -d '{usage}'", spec.name);
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Lists what bash offers after this line, besides `--gpus-own` of a completion that was there before.
    fn offered(line: &str) -> Vec<String> {
        let before =
            "own() { [[ ${COMP_LINE} != *--gpu-s* ]] || COMPREPLY=(--gpus-own); }; complete -F own sbatch\n";
        let ask = "COMP_LINE=$0; COMP_POINT=${#COMP_LINE}; _tessera_slurm sbatch; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let script = format!("{before}{}{ask}", bash());
        let out = Command::new("bash").args(["--norc", "-c", &script, line]).output().unwrap();
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_names_and_values() {
        assert_eq!(offered("sbatch --gpu-i"), ["--gpu-isolation=", "--gpu-instances="]);
        assert_eq!(offered("sbatch -n 4 --gpu-isolation=mp"), ["mps"]);
        assert_eq!(offered("sbatch --gpu-bandwidth="), ["sensitive", "insensitive"]);
        assert!(offered("sbatch --gpu-isolation=mig:2g").iter().all(|answer| answer.starts_with("2g.")));
        assert_eq!(offered("sbatch job"), [""]);
    }

    #[test]
    fn what_another_script_completes_stays() {
        assert_eq!(offered("sbatch --gpu-s"), ["--gpus-own", "--gpu-sms=", "--gpu-set-policy="]);
    }

    #[test]
    fn fish_says_what_each_option_is_for() {
        let script = fish();
        assert_eq!(
            script.lines().filter(|line| line.starts_with("complete -c ")).count(),
            3 * Spec::ALL.len()
        );
        assert!(
            script.contains(
                "complete -c sbatch -l gpu-bandwidth -x -a 'sensitive insensitive' -d 'sensitive or"
            ),
            "{script}"
        );
    }
}
