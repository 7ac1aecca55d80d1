//! Why a job got its placement, as text for its user.

/// Name of the environment variable that holds the reason.
pub const WHY_ENV: &str = "TESSERA_WHY";
/// Longest reason, in bytes.
pub const MAX_WHY: usize = 300;
/// Ends a reason that was cut.
const DOTS: &str = "...";

/// Prefix of the reason for the node, behind the reason for the place on the node.
const NODE: &str = "; node: ";

/// Prefix of the request behind a reason in an AdminComment.
const ASKS: &str = "; asks ";

/// A reason made fit to travel with a job and be shown to its user: one line of at most [`MAX_WHY`] bytes, in which nothing reads as
/// the request that an AdminComment has behind it.
#[must_use]
pub fn plain_why(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let out: String = text.trim().chars().map(plain).collect();
    let mut out = out.replace(ASKS, ", asks ");
    if out.len() > MAX_WHY {
        let end = (0..=MAX_WHY - DOTS.len()).rev().find(|i| out.is_char_boundary(*i)).unwrap_or(0);
        out.truncate(end);
        out.push_str(DOTS);
    }
    out
}

/// Adds why the job is on its node to why it has its place there: `as named; node: fills a GPU that is in use already; keeps n1 whole`.
#[must_use]
pub fn with_node(why: &str, node: &str) -> String {
    plain_why(&format!("{why}{NODE}{node}"))
}

/// Splits a reason into why the job has its place, and why it is on that node, if the reason says so.
#[must_use]
pub fn split_node(why: &str) -> (&str, Option<&str>) {
    why.split_once(NODE).map_or((why, None), |(place, node)| (place, Some(node)))
}
