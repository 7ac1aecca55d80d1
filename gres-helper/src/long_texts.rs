//! Texts of a submission or a change that are too long to be read under slurmctld's locks. They are measured where they are, before
//! anything is copied.

use crate::harm::Harm;

/// Longest text of most fields that slurmctld accepts, bytes (`_test_job_desc_fields`, the same from 22.05 to 26.05). It checks that only
/// after this plugin has read them, and a message may have a gigabyte.
pub(crate) const MAX_TEXT: usize = 1024;

/// Longest text of the others, bytes: a list of nodes, which slurmctld does not bound, and an AdminComment.
pub(crate) const MAX_LONG_TEXT: usize = 128 << 10;

/// Names the first of these fields whose text has more bytes than it may. `is_longer`: measures a text, and stops there.
pub(crate) fn too_long<T: Copy, const N: usize>(
    texts: [(&'static str, T, usize); N],
    is_longer: impl Fn(T, usize) -> bool,
) -> Option<Harm> {
    let long = texts.into_iter().find(|(_, text, most)| is_longer(*text, *most));
    long.map(|(field, _, most)| Harm::TooLong(field, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fake;
    use crate::modify::{Asker, modify};
    use crate::site::Rules;
    use crate::submission::{Described, Recorded};
    use crate::submit::submit;

    #[test]
    fn the_first_text_that_is_too_long_is_named() {
        let of = |list: &str, nodes: &str| {
            let texts = [("tres_per_node", list, MAX_TEXT), ("nodelist", nodes, MAX_LONG_TEXT)];
            too_long(texts, |text, most| text.len() > most)
        };
        let (list, nodes) = ("x".repeat(MAX_TEXT), "n".repeat(MAX_LONG_TEXT));
        assert_eq!(of(&list, &nodes), None);
        assert_eq!(of(&nodes, &nodes), Some(Harm::TooLong("tres_per_node", MAX_TEXT)));
        assert_eq!(of(&list, &(nodes + "n")), Some(Harm::TooLong("nodelist", MAX_LONG_TEXT)));
    }

    #[test]
    fn a_submission_and_a_change_with_such_a_text_are_refused() {
        let long = Described { harm: Some(Harm::TooLong("partition", MAX_TEXT)), ..Described::default() };
        let refused = [
            submit(&long, Rules::None, &Fake::default()),
            modify(&long, &Recorded::default(), Asker::Other, Rules::None, &Fake::default()),
        ];
        for answer in refused {
            let why = answer.refused.map(|why| why.text).unwrap_or_default();
            assert!(why.ends_with("its partition has more than 1024 bytes; shorten it"), "{why}");
        }
    }
}
