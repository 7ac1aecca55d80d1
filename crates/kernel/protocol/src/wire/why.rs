//! Why a job got its placement, as text for its user.

/// Name of the environment variable that holds the reason.
pub const WHY_ENV: &str = "TESSERA_WHY";
/// Longest reason, in bytes.
pub const MAX_WHY: usize = 200;
/// Ends a reason that was cut.
const DOTS: &str = "...";

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
