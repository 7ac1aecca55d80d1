//! A slurmctld that would wait for ever while it ends, by a fault of Slurm.
//!
//! As it ends, slurmctld tells its script process to end all scripts, and waits for the answer. An answer that comes before the wait begins
//! is lost. Slurm 24.11.6 ended this (`slurmctld/slurmscriptd.c`). An init system kills such a daemon when its time is over.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::{Object as _, ObjectSymbol as _, SymbolKind};
use slurm_tables::Version;

use crate::slurm::Slurm;

/// How much of the first thread's stack is read, in bytes: several times the frames between this wait and `main`.
const STACK: usize = 2048;

/// True of a Slurm that can lose the answer.
pub(crate) fn can_be_lost(slurm: &Slurm) -> bool {
    slurm.number().is_ok_and(|version| version < Version::new(24, 11, 6))
}

/// True if the first thread of a slurmctld waits in Slurm's functions for its script process.
pub(crate) fn waits_for_scripts(slurmctld: i32) -> bool {
    found(slurmctld).unwrap_or(false)
}

fn found(slurmctld: i32) -> Option<bool> {
    let process = format!("/proc/{slurmctld}");
    let program = fs::read(format!("{process}/exe")).ok()?;
    let program = object::File::parse(&*program).ok()?;
    let path = fs::read_link(format!("{process}/exe")).ok()?.display().to_string();
    let maps = fs::read_to_string(format!("{process}/maps")).ok()?;
    let base = mapped(&maps, "", |of| of == path).next()?.start;
    let functions = program.dynamic_symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let functions =
        functions.filter_map(|one| Some((one.name().ok()?, one.address()..one.address() + one.size())));
    let theirs = script_functions(functions)?;

    let stack = stack(&process)?;
    // Frames of Slurm's libraries and plugins do not count, only of slurmctld itself and of Tessera's plugins.
    let code: Vec<_> = mapped(&maps, "r-xp", |of| of == path || of.contains("/plugins/")).collect();
    let innermost = stack.into_iter().find(|word| code.iter().any(|part| part.contains(word)))?;
    Some(theirs.contains(&innermost.checked_sub(base)?))
}

/// The words of the first thread's stack, innermost first.
fn stack(process: &str) -> Option<Vec<u64>> {
    let waits_in = fs::read_to_string(format!("{process}/syscall")).ok()?;
    let pointer = waits_in.split_whitespace().rev().nth(1)?.strip_prefix("0x")?;
    let mut bytes = vec![0; STACK];
    let memory = fs::File::open(format!("{process}/mem")).ok()?;
    let read = memory.read_at(&mut bytes, u64::from_str_radix(pointer, 16).ok()?).ok()?;
    Some(bytes[..read].as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// The parts of a process's memory that hold parts of files and can be used so, in order (`/proc/PID/maps`, proc(5)).
fn mapped(maps: &str, usable: &str, file: impl Fn(&str) -> bool) -> impl Iterator<Item = Range<u64>> {
    maps.lines().filter_map(move |line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let so = fields.next()?.starts_with(usable) && file(fields.nth(3)?);
        so.then_some(number(start)?..number(end)?)
    })
}

/// Where the functions of `slurmscriptd.c` lie, also the ones without a name: from the end of the function of another
/// file before them to the end of the last.
fn script_functions<'a>(functions: impl Iterator<Item = (&'a str, Range<u64>)>) -> Option<Range<u64>> {
    let mut sorted: Vec<_> = functions.collect();
    sorted.sort_by_key(|(_, range)| range.start);
    let is = |(name, _): &&(&str, Range<u64>)| name.starts_with("slurmscriptd_");
    let end = sorted.iter().rfind(is)?.1.end;
    let first = sorted.iter().position(|one| is(&one))?;
    let start = first.checked_sub(1).map_or(sorted[first].1.start, |before| sorted[before].1.end);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{PATIENCE, run, wait_for};
    use crate::threads::Running;
    use std::process::Command;

    #[test]
    fn functions_without_a_name_belong_to_the_file_that_their_neighbours_are_of() {
        let functions = [
            ("slurmscriptd_init", 40..60),
            ("sackd_mgr_init", 0..10),
            ("slurmscriptd_flush", 20..30),
            ("srun_ping", 60..70),
        ];
        assert_eq!(script_functions(functions.into_iter()), Some(10..60));
        assert_eq!(script_functions([("srun_ping", 60..70)].into_iter()), None);
    }

    #[test]
    fn parts_of_a_file_are_found_by_its_path_and_use() {
        let maps = "1000-2000 r--p 00000000 fe:00 7 /sbin/slurmctld\n2000-3000 r-xp 00001000 fe:00 7 /sbin/slurmctld\n\
                    5000-6000 rw-p 00000000 00:00 0\n7000-8000 r-xp 00000000 fe:00 8 /x/plugins/select_cons_tres.so\n";
        let parts = |usable, name: &str| {
            let parts = mapped(maps, usable, |file| file.ends_with(name));
            parts.map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(parts("", "slurmctld"), [(0x1000, 0x2000), (0x2000, 0x3000)]);
        assert_eq!(parts("r-xp", "slurmctld"), [(0x2000, 0x3000)]);
        assert_eq!(parts("r-xp", ".so"), [(0x7000, 0x8000)]);
    }

    /// Waits in the function that its argument names.
    const WAITING: &str = "
        #include <unistd.h>
        __attribute__((noinline)) void slurmscriptd_flush(void) { pause(); __asm__ volatile(\"\"); }
        __attribute__((noinline)) void srun_ping(void) { pause(); __asm__ volatile(\"\"); }
        int main(int count, char **words) { (void)words; if (count > 1) slurmscriptd_flush(); else srun_ping(); return 0; }
    ";

    #[test]
    fn a_process_waits_for_scripts_only_in_those_functions() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("waits.c"), dir.path().join("waits"));
        fs::write(&source, WAITING).unwrap();
        let mut cc = Command::new("cc");
        run(cc.args(["-O1", "-pie", "-fPIE", "-rdynamic", "-o"]).args([&program, &source]))
            .unwrap()
            .ok()
            .unwrap();
        for (words, is_lost) in [(&["scripts"][..], true), (&[], false)] {
            let child = Running::start(Command::new(&program).args(words)).unwrap();
            let pid = i32::try_from(child.0.id()).unwrap();
            wait_for("the program to wait", PATIENCE, || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                let is_there = fs::read_link(format!("/proc/{pid}/exe")).unwrap() == program;
                if is_there && stat.contains(") S ") { Ok(()) } else { Err(stat) }
            })
            .unwrap();
            assert_eq!(waits_for_scripts(pid), is_lost, "{words:?}");
        }
    }

    #[test]
    fn another_process_does_not_wait_for_scripts() {
        assert!(!waits_for_scripts(i32::try_from(std::process::id()).unwrap()));
        assert!(!waits_for_scripts(-1));
    }
}
