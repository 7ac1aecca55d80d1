//! The note in a job's AdminComment.

use protocol::AdminComment;

/// Begins every AdminComment of Tessera's.
const OURS: &str = "tessera: ";
/// Begins the note.
const NOTE: &str = "idle: ";
/// Stands before the request at the end of a comment.
const ASKS: &str = "; asks ";
/// Longest comment that squeue shows whole, bytes; see `slurm::squeue`.
const MOST: usize = 2000;

/// A comment with this note, in place of an earlier one. `None`: the site wrote the comment, or it may have been cut.
pub(super) fn with_note(comment: &str, note: &str) -> Option<String> {
    if comment.len() > MOST || !AdminComment::parse(comment).is_ours() {
        return None;
    }
    let text = comment.strip_prefix(OURS).unwrap_or_default();
    let (says, asks) = match text.strip_prefix(&ASKS[2..]) {
        Some(request) => ("", Some(request)),
        None => text.split_once(ASKS).map_or((text, None), |(says, request)| (says, Some(request))),
    };
    let says = match says.find(&format!("; {NOTE}")) {
        Some(at) => &says[..at],
        None if says.starts_with(NOTE) => "",
        None => says,
    };
    let before = if says.is_empty() { String::new() } else { format!("{says}; ") };
    let after = asks.map_or_else(String::new, |request| format!("{ASKS}{request}"));
    Some(format!("{OURS}{before}{NOTE}{note}{after}"))
}

#[cfg(test)]
mod tests {
    use protocol::CommentBody;

    use super::*;

    #[test]
    fn a_note_comes_behind_what_a_job_got_and_takes_the_place_of_an_earlier_one() {
        for (before, after) in [
            ("", "tessera: idle: X"),
            ("tessera: idle: old", "tessera: idle: X"),
            ("tessera: n1=whole:0: free", "tessera: n1=whole:0: free; idle: X"),
            ("tessera: n1=whole:0: free; idle: old", "tessera: n1=whole:0: free; idle: X"),
            (
                "tessera: n1=whole:0: free; asks v1 iso=mig",
                "tessera: n1=whole:0: free; idle: X; asks v1 iso=mig",
            ),
            ("tessera: asks v1 iso=mig", "tessera: idle: X; asks v1 iso=mig"),
        ] {
            assert_eq!(with_note(before, "X").as_deref(), Some(after));
            assert_eq!(with_note(after, "X").as_deref(), Some(after));
        }
        let text = with_note("tessera: n1=whole:0: free", "X").unwrap();
        let CommentBody::Started(started) = AdminComment::parse(&text).says else { panic!("{text}") };
        assert_eq!((started.got.as_str(), started.why.as_str()), ("n1=whole:0", "free; idle: X"));
        let asks = AdminComment::parse("tessera: idle: X; asks v1 iso=mig").asks;
        assert_eq!(asks.as_deref(), Some("v1 iso=mig"));
    }

    #[test]
    fn a_sites_own_comment_stays() {
        assert_eq!(with_note("ask Bob", "X"), None);
        assert_eq!(with_note(&format!("tessera: n1=whole:0: {}", "x".repeat(2000)), "X"), None);
    }
}
