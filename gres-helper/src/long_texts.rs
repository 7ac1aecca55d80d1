//! Texts of a submission or a change that are too long to be read under slurmctld's locks.

use crate::harm::Harm;
use crate::submission::Described;

/// Longest text of most fields that slurmctld accepts, bytes (`_test_job_desc_fields`, 22.05 to 24.11). It checks that only after this plugin
/// has read them, and a message may have a gigabyte.
const MAX_TEXT: usize = 1024;

/// Longest text of the others: a list of nodes, which slurmctld does not bound, and an AdminComment.
const MAX_LONG_TEXT: usize = 128 << 10;

/// Names the first text of a submission or a change that is too long to be read, under the locks of slurmctld.
fn too_long(job: &Described) -> Option<Harm> {
    let texts = [
        ("tres_per_job", &job.tres.per_job, MAX_TEXT),
        ("tres_per_node", &job.tres.per_node, MAX_TEXT),
        ("tres_per_socket", &job.tres.per_socket, MAX_TEXT),
        ("tres_per_task", &job.tres.per_task, MAX_TEXT),
        ("partition", &job.partition, MAX_TEXT),
        ("account", &job.account, MAX_TEXT),
        ("qos", &job.qos, MAX_TEXT),
        ("licenses", &job.licenses, MAX_TEXT),
        ("gpu_bind", &job.gpu_bind, MAX_TEXT),
        ("nodelist", &job.required_nodes, MAX_LONG_TEXT),
        ("admin_comment", &job.comment, MAX_LONG_TEXT),
    ];
    let is_long =
        |(_, text, most): &(_, &Option<String>, usize)| text.as_ref().is_some_and(|t| t.len() > *most);
    texts.into_iter().find(is_long).map(|(field, _, most)| Harm::TooLong(field, most))
}

/// Gives the description; of one with a text that is too long nothing else, so that nobody reads it.
pub(crate) fn bounded(job: Described) -> Described {
    match too_long(&job) {
        None => job,
        harm => Described { harm, ..Described::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fake;
    use crate::modify::{Asker, modify};
    use crate::site::Rules;
    use crate::submission::Recorded;
    use crate::submit::submit;
    use admission::gres_list::Tres;

    /// Describes a job with this text in one field.
    type Make<'a> = &'a dyn Fn(Option<String>) -> Described;

    #[test]
    fn texts_longer_than_slurmctld_accepts_are_not_read() {
        let list = |n: usize| Some("gres/gpu:1,".repeat(n));
        let fields: [(&str, Make<'_>); 4] = [
            ("tres_per_node", &|text| Described {
                tres: Tres { per_node: text, ..Tres::default() },
                ..Described::default()
            }),
            ("partition", &|partition| Described { partition, ..Described::default() }),
            ("licenses", &|licenses| Described { licenses, ..Described::default() }),
            ("nodelist", &|required_nodes| Described { required_nodes, ..Described::default() }),
        ];
        for (field, of) in fields {
            let short = bounded(of(list(93)));
            assert!(short.harm.is_none(), "{field}");
            let long = bounded(of(list(1_000_000)));
            assert!(matches!(long.harm, Some(Harm::TooLong(named, _)) if named == field), "{field}");
            let nothing = long.tres == Tres::default() && long.partition.is_none() && long.licenses.is_none();
            assert!(nothing && long.required_nodes.is_none(), "{field}");
            let refused = [
                submit(&long, Rules::None, &Fake::default()),
                modify(&long, &Recorded::default(), Asker::Other, Rules::None, &Fake::default()),
            ];
            for answer in refused {
                assert!(answer.refused.is_some_and(|why| why.text.contains("shorten it")), "{field}");
            }
        }
    }
}
