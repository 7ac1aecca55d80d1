//! The Nice that the planner gave to jobs, and the Nice that they had before. The lock file keeps both, so that a planner
//! that was killed, or that runs once a minute, never mistakes its own value for the user's.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};

/// Nice of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    /// Nice before the planner changed it.
    own: i64,
    /// Nice that the planner gave it.
    ours: i64,
    /// Nice that it has until slurmctld has made the change; `None`: squeue has shown which of the two it has.
    until_made: Option<i64>,
}

/// By job id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nices(HashMap<u32, Given>);

impl Nices {
    /// Reads the notes of an earlier planner; other lines are ignored. A file that cannot be read is an error, not a file without
    /// jobs: the planner's Nice would then count as the user's.
    pub(super) fn read(file: &mut File) -> std::io::Result<Self> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(Self::parse(&String::from_utf8_lossy(&text)))
    }

    fn parse(text: &str) -> Self {
        let one = |line: &str| {
            let mut words = line.split(' ');
            let job = words.next()?.parse().ok()?;
            let (own, ours) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let until_made = words.next().map(str::parse).transpose().ok()?;
            Some((job, Given { own, ours, until_made }))
        };
        Self(text.lines().filter_map(one).collect())
    }

    fn text(&self) -> String {
        let mut lines: Vec<_> = self.0.iter().collect();
        lines.sort_by_key(|(job, _)| **job);
        lines.iter().fold(String::new(), |mut text, (job, given)| {
            // Written to a String: cannot fail.
            let _ = write!(text, "{job} {} {}", given.own, given.ours);
            let _ = match given.until_made {
                Some(nice) => writeln!(text, " {nice}"),
                None => writeln!(text),
            };
            text
        })
    }

    /// Replaces what the file says. Not another file in its place: it is locked. What was longer is overwritten by empty
    /// lines before it is cut off, so that a planner that is killed on the way leaves no part of a line.
    pub(super) fn write(&self, file: &mut File) -> std::io::Result<()> {
        let text = self.text();
        let before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let padded = text.clone() + &"\n".repeat(before.saturating_sub(text.len()));
        file.rewind()?;
        file.write_all(padded.as_bytes())?;
        file.set_len(text.len() as u64)
    }

    /// Forgets jobs that have ended, and learns from the Nice that the others have now which changes were made.
    pub(super) fn keep(&mut self, nice_of: impl Fn(u32) -> Option<i64>) {
        self.0.retain(|job, given| {
            let Some(now) = nice_of(*job) else { return false };
            if given.until_made.take() == Some(now) {
                given.ours = now;
            }
            given.own != given.ours
        });
    }

    /// Returns the Nice that a job had before the planner: a change by someone else since then counts as its own.
    pub(super) fn own(&self, job: u32, nice: i64) -> i64 {
        let is_ours = |given: &&Given| given.ours == nice || given.until_made == Some(nice);
        self.0.get(&job).filter(is_ours).map_or(nice, |given| given.own)
    }

    /// Notes that a job whose own Nice is `own`, and that has `now`, is about to get `ours`.
    pub(super) fn note(&mut self, job: u32, own: i64, ours: i64, now: i64) {
        self.0.insert(job, Given { own, ours, until_made: Some(now) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_elses_nice_is_not_taken_for_the_planners() {
        let mut nices = Nices::default();
        nices.note(7, 5, 16, 5);
        nices.keep(|_| Some(16));
        assert_eq!((nices.own(7, 16), nices.own(7, 1000), nices.own(8, 3)), (5, 1000, 3));
        nices.note(7, 5, 5, 16);
        nices.keep(|_| Some(5));
        assert_eq!(nices, Nices::default());
    }

    #[test]
    fn a_planner_that_was_killed_at_a_change_knows_the_nice_before_and_after_it() {
        for ours in [20, 5] {
            let mut nices = Nices::default();
            nices.note(7, 5, 16, 5);
            nices.keep(|_| Some(16));
            nices.note(7, 5, ours, 16);
            let next = Nices::parse(&nices.text());
            assert_eq!((next.own(7, 16), next.own(7, ours), next.own(7, 1000)), (5, 5, 1000));
            // The next round sees which it was. Whatever it does to other jobs changes nothing of that.
            for now in [16, ours] {
                let mut next = next.clone();
                next.keep(|_| Some(now));
                next.note(8, 0, 3, 0);
                assert_eq!(next.own(7, now), 5, "{now}");
            }
        }
    }

    #[test]
    fn a_line_that_is_no_text_hides_no_other() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"7 5 16\n\xff\xff\n12 0 1\n").unwrap();
        file.rewind().unwrap();
        assert_eq!(Nices::read(&mut file).unwrap().text(), "7 5 16\n12 0 1\n");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let mut file = tempfile::tempfile().unwrap();
        let (mut many, mut few) = (Nices::default(), Nices::default());
        (1..50).for_each(|job| many.note(job, 0, 1000, 0));
        few.note(49, 0, 1000, 0);
        for nices in [&few, &many, &few] {
            nices.write(&mut file).unwrap();
            file.rewind().unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, nices.text());
        }
    }

    #[test]
    fn it_is_read_back_as_it_was_written() {
        let mut nices = Nices::default();
        nices.note(7, -5, 16, -5);
        nices.keep(|_| Some(16));
        nices.note(12, 0, 1, -3);
        assert_eq!(nices.text(), "7 -5 16\n12 0 1 -3\n");
        assert_eq!(Nices::parse(&nices.text()), nices);
        nices.keep(|job| Some(if job == 7 { 16 } else { 1 }));
        assert_eq!(nices.text(), "7 -5 16\n12 0 1\n");
        assert_eq!(Nices::parse(&nices.text()), nices);
        assert_eq!(Nices::parse("rubbish\n7 -5\n\n12 0 1\nx 1 2\n8 0 1 x\n").text(), "12 0 1\n");
        nices.keep(|job| (job == 7).then_some(16));
        assert_eq!(nices.text(), "7 -5 16\n");
    }
}
