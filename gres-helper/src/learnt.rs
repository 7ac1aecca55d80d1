//! Uses what the traffic of earlier jobs says about a submitted one.
//!
//! `tessera traffic --write` leaves a table in slurmctld's directory. A job that says nothing of bandwidth gets the word of its row
//! into its AdminComment, where the select plugin finds it.

use std::path::Path;

use learnt_bandwidth::{FILE, LearntTable, MOST_BYTES, ProgramKey};
use plugin_rt::Chain;
use plugin_rt::kept_file::KeptFile;
use plugin_rt::log;
use protocol::wire::parse_request;
use protocol::{AdminComment, Bandwidth, Isolation};

use crate::answer::{Answer, Effect};
use crate::file_state::FileState;
use crate::submission::Described;

/// The row that is for a job; `None`: it says itself how it depends on bandwidth, asks for something else than several whole GPUs,
/// or cannot be learnt by.
pub(crate) fn row_of(job: &Described) -> Option<ProgramKey> {
    let request = job.request.as_deref().map(parse_request).transpose().ok()?;
    let app = match request {
        Some(request) if request.bandwidth.is_some() => return None,
        Some(request) => match request.isolation {
            Isolation::Whole | Isolation::Auto => request.job_profile,
            _ => return None,
        },
        None => None,
    };
    ProgramKey::of(job.user, app.as_deref(), job.name.as_deref(), gpus_of(job))
}

/// GPUs on all nodes together, as far as a submission tells.
fn gpus_of(job: &Described) -> u32 {
    let nodes = u64::from(job.nodes.unwrap_or(1).max(1));
    let tasks = nodes.saturating_mul(job.tasks_per_node.unwrap_or(1).into());
    let entries = job.tres.gpu_entries().into_iter().filter(|entry| entry.name == "gpu");
    let all = entries.map(|entry| match entry.option {
        "--gpus-per-task" if !entry.per_node => entry.count.saturating_mul(tasks),
        _ => entry.on(nodes),
    });
    u32::try_from(all.fold(0, u64::saturating_add)).unwrap_or(u32::MAX)
}

/// Writes what is known of such jobs into the comment of an accepted one.
pub(crate) fn noted(job: &Described, answer: Answer) -> Answer {
    let Some(learnt) = job.learnt.filter(|_| answer.refused.is_none()) else { return answer };
    let Answer { mut effects, .. } = answer;
    let mut comment = AdminComment::parse(job.comment.as_deref().unwrap_or_default());
    effects.retain(|effect| match effect {
        Effect::Comment(text) => {
            comment = AdminComment::parse(text);
            false
        }
        _ => true,
    });
    comment.learnt = Some(learnt);
    // Somebody else's comment stays as it is.
    effects.push(Effect::Comment(comment.to_string()));
    Answer { effects, ..answer }
}

/// The table as it was read last.
#[derive(Debug, Default)]
pub(crate) struct LearntFile {
    table: LearntTable,
    /// The file that it was read from.
    seen: FileState,
}

impl LearntFile {
    /// Finds the word for such jobs. Reads the table in the directory `state` again if it has changed; one that cannot be read is
    /// empty.
    pub(crate) fn find(&mut self, state: &Path, key: &ProgramKey) -> Option<Bandwidth> {
        let file = KeptFile::in_dir(state, FILE);
        let seen = FileState::of(&file.path());
        if seen != self.seen {
            self.table = if seen.0.is_some() { read(&file) } else { LearntTable::default() };
            self.seen = seen;
        }
        self.table.find(key)
    }
}

fn read(file: &KeptFile) -> LearntTable {
    let path = file.path();
    let unread = |why: &dyn std::error::Error| {
        log::error(format_args!(
            "job submit plugin: {}: {}: nothing is known of jobs' traffic",
            path.display(),
            Chain(why)
        ));
    };
    let bytes = match file.read(MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(why) => {
            unread(&why);
            return LearntTable::default();
        }
    };
    LearntTable::parse(&String::from_utf8_lossy(&bytes)).unwrap_or_else(|why| {
        unread(&why);
        LearntTable::default()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::fixtures::{Fake, asking, site};
    use crate::site::Rules;
    use crate::submit::submit;
    use learnt_bandwidth::Jobs;
    use site_limits::tres::Tres;

    fn plain(list: &str) -> Described {
        let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
        Described { tres, user: 7, name: Some("train.sh".to_owned()), ..Described::default() }
    }

    #[test]
    fn jobs_with_several_whole_gpus_have_a_row() {
        let row = |job: &Described| row_of(job).map(|key| (key.uid, key.jobs));
        let named = |gpus| Some((7, Jobs::Name("train.sh".to_owned(), gpus)));
        assert_eq!(row(&plain("gres:gpu:2")), named(2));
        assert_eq!(row(&Described { nodes: Some(3), ..plain("gres:gpu:a100:2,gres:nic:9") }), named(6));
        assert_eq!((row(&plain("gres:gpu:1")), row(&plain("gres:nic:4"))), (None, None));
        assert_eq!(row(&Described { name: Some("a b".to_owned()), ..plain("gres:gpu:2") }), None);
        let tasks = Tres { per_task: Some("gres:gpu:1".to_owned()), ..Tres::default() };
        let job = Described { tres: tasks, nodes: Some(2), tasks_per_node: Some(4), ..plain("") };
        assert_eq!(row(&job), named(8));
        let with =
            |request: &str| row(&Described { request: Some(request.to_owned()), ..plain("gres:gpu:2") });
        assert_eq!(with("v1 iso=whole pattern=ring"), named(2));
        assert_eq!(with("v1 iso=whole job-profile=bert"), Some((7, Jobs::App("bert".to_owned()))));
        for other in ["v1 iso=whole bw=sensitive", "v1 iso=none", "v1 iso=mig mem=9", "rubbish"] {
            assert_eq!(with(other), None, "{other}");
        }
    }

    fn comment(job: Described) -> Option<String> {
        let answer = submit(&job, Rules::Of(&site()), &Fake::default());
        let text = |effect: Effect| if let Effect::Comment(text) = effect { Some(text) } else { None };
        answer.effects.into_iter().find_map(text)
    }

    #[test]
    fn what_is_known_stands_in_the_comment() {
        let learnt = Some(Bandwidth::Insensitive);
        assert_eq!(comment(plain("gres:gpu:2")), None);
        let known = Described { learnt, ..plain("gres:gpu:2") };
        assert_eq!(comment(known.clone()).as_deref(), Some("tessera: learnt insensitive"));
        let theirs = Described { comment: Some("benchmark of June".to_owned()), ..known };
        assert_eq!(comment(theirs).as_deref(), Some("benchmark of June"));
        let asks = Described { learnt, ..asking("v1 iso=mig:2g.10gb") };
        assert_eq!(comment(asks).as_deref(), Some("tessera: learnt insensitive; asks v1 iso=mig:2g.10gb"));
        assert_eq!(comment(Described { learnt, ..asking("v1 iso=mig:9g.90gb") }), None, "it is refused");
    }

    #[test]
    fn the_table_is_read_when_it_changes_and_only_from_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (state, path) = (dir.path(), dir.path().join(FILE));
        let key = ProgramKey::of(7, None, Some("train.sh"), 2).unwrap();
        let mut file = LearntFile::default();
        assert_eq!(file.find(state, &key), None);
        let row = |word: &str| format!("tessera-bandwidth 1\n7 name train.sh 2 {word}\n");
        fs::write(&path, row("insensitive")).unwrap();
        assert_eq!(file.find(state, &key), Some(Bandwidth::Insensitive));
        fs::write(&path, row("sensitive")).unwrap();
        assert_eq!(file.find(state, &key), Some(Bandwidth::Sensitive));
        fs::write(&path, "rubbish").unwrap();
        assert_eq!(file.find(state, &key), None);
        fs::write(&path, row("insensitive")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(file.find(state, &key), None, "anybody could have written it");
        fs::remove_file(&path).unwrap();
        assert_eq!(file.find(state, &key), None);
        fs::write(&path, row("sensitive") + &"x".repeat(1 << 20)).unwrap();
        assert_eq!(file.find(state, &key), None, "too long");
    }
}
