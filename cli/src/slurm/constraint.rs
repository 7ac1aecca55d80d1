//! `--constraint`: which features a job wants of its nodes.

/// A constraint: terms from left to right, `&` and `|` alike, as slurmctld reads it (`valid_feature_counts`, the same in
/// 22.05 and 24.11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Constraint(Vec<(Joined, Term)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    And,
    Or,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Feature(String),
    /// In parentheses, which Slurm does not nest.
    Group(Vec<(Joined, String)>),
}

impl Constraint {
    /// Reads a constraint.
    ///
    /// # Errors
    ///
    /// It is none, or one that counts nodes: a line for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains(['[', ']', '*']) {
            return Err("explain reads features with & and | and parentheses, one node at a time, but no counts (*) and no \
                        sets ([…]): leave these out"
                .to_owned());
        }
        let wrong = || format!("{text:?} is no constraint such as a100&nvlink or (a100|h100)&nvlink");
        let mut terms = Vec::new();
        let (mut joined, mut rest) = (Joined::And, text);
        loop {
            let term = if let Some(inner) = rest.strip_prefix('(') {
                let (inner, after) = inner.split_once(')').ok_or_else(wrong)?;
                rest = after;
                Term::Group(group(inner).ok_or_else(wrong)?)
            } else {
                let (name, after) = feature(rest).ok_or_else(wrong)?;
                rest = after;
                Term::Feature(name.to_owned())
            };
            terms.push((joined, term));
            if rest.is_empty() {
                return Ok(Self(terms));
            }
            (joined, rest) = joint(rest).ok_or_else(wrong)?;
        }
    }

    /// True if a node with these features meets it.
    pub(crate) fn is_met(&self, has: &dyn Fn(&str) -> bool) -> bool {
        let term = |term: &Term| match term {
            Term::Feature(name) => has(name),
            Term::Group(group) => joined(group.iter().map(|(by, name)| (*by, has(name)))),
        };
        joined(self.0.iter().map(|(by, part)| (*by, term(part))))
    }

    /// The features that it names.
    pub(crate) fn features(&self) -> Vec<&str> {
        self.0
            .iter()
            .flat_map(|(_, term)| match term {
                Term::Feature(name) => vec![name.as_str()],
                Term::Group(group) => group.iter().map(|(_, name)| name.as_str()).collect(),
            })
            .collect()
    }
}

fn joined(terms: impl Iterator<Item = (Joined, bool)>) -> bool {
    terms.fold(true, |so_far, (by, term)| match by {
        Joined::And => so_far && term,
        Joined::Or => so_far || term,
    })
}

/// The name at the beginning of a text, and the rest.
fn feature(text: &str) -> Option<(&str, &str)> {
    let end = text.find(['&', '|', ',', '(', ')']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some((name, rest))
}

/// How the next term is joined, and the rest. Slurm takes a comma for an `&`.
fn joint(text: &str) -> Option<(Joined, &str)> {
    if let Some(rest) = text.strip_prefix('|') {
        return Some((Joined::Or, rest));
    }
    text.strip_prefix(['&', ',']).map(|rest| (Joined::And, rest))
}

fn group(text: &str) -> Option<Vec<(Joined, String)>> {
    let mut names = Vec::new();
    let (mut joined, mut rest) = (Joined::And, text);
    loop {
        let (name, after) = feature(rest)?;
        names.push((joined, name.to_owned()));
        if after.is_empty() {
            return Some(names);
        }
        (joined, rest) = joint(after)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the nodes, with features of one letter each, that meet it.
    fn met(constraint: &str, nodes: &[&str]) -> Vec<bool> {
        let constraint = Constraint::parse(constraint).unwrap();
        nodes.iter().map(|node| constraint.is_met(&|name| node.contains(name))).collect()
    }

    #[test]
    fn features_are_joined_from_left_to_right() {
        let nodes = ["", "a", "b", "c", "ab", "ac", "bc", "abc"];
        let of = |names: &str| nodes.map(|node| names.split(' ').any(|name| name == node)).to_vec();
        assert_eq!(met("a", &nodes), of("a ab ac abc"));
        assert_eq!(met("a&b", &nodes), of("ab abc"));
        assert_eq!(met("a,b", &nodes), of("ab abc"));
        assert_eq!(met("a|b", &nodes), of("a b ab ac bc abc"));
        assert_eq!(met("a|b&c", &nodes), of("ac bc abc"), "not by precedence");
        assert_eq!(met("a|(b&c)", &nodes), of("a ab ac bc abc"));
        assert_eq!(met("(a|b)&c", &nodes), of("ac bc abc"));
        assert_eq!(Constraint::parse("(a|b)&c").unwrap().features(), ["a", "b", "c"]);
    }

    #[test]
    fn what_is_no_constraint_is_said() {
        for text in ["", "a&", "&a", "a b", "(a", "a)", "()", "(a|(b&c))", "a(b)", "a&&b"] {
            assert!(Constraint::parse(text).unwrap_err().contains("is no constraint"), "{text}");
        }
        for text in ["[a|b]", "a*2", "[a*1&b*2]"] {
            assert!(Constraint::parse(text).unwrap_err().contains("no counts"), "{text}");
        }
    }
}
