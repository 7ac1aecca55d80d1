//! Numbers in sentences.

use std::fmt::Display;

/// `1 node`, `2 nodes`, `0 nodes`: a number with the word that it counts. `one` takes an s in the plural.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {one}{s}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0_u32, 1, 2].map(|n| counted(n, "node")), ["0 nodes", "1 node", "2 nodes"]);
    }
}
