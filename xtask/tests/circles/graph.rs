//! Graph of the modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::Module;

/// Most steps from a name to where it is defined.
const STEPS: usize = 16;

/// Siblings that use others, by the module that they are in: each pair with the paths that make it one.
pub(crate) type Uses = BTreeMap<usize, BTreeMap<(usize, usize), BTreeSet<String>>>;

/// Finds which siblings use which, by their own code or by that of modules below them.
pub(crate) fn uses(modules: &[Module]) -> Uses {
    let mut uses = Uses::new();
    for (module, one) in modules.iter().enumerate() {
        for path in one.globs.iter().chain(&one.paths) {
            let found = Names { modules }.passed(module, path);
            for (parent, pair) in found.into_iter().filter_map(|used| siblings(modules, module, used)) {
                let text = format!("{}: {}", name(modules, module), path.join("::"));
                uses.entry(parent).or_default().entry(pair).or_default().insert(text);
            }
        }
    }
    uses
}

/// Returns the two siblings that two modules are in, if neither is above the other.
fn siblings(modules: &[Module], one: usize, other: usize) -> Option<(usize, (usize, usize))> {
    let (one, other) = (line(modules, one), line(modules, other));
    let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    Some((one[shared - 1], (*one.get(shared)?, *other.get(shared)?)))
}

/// The modules from the root to this one.
fn line(modules: &[Module], module: usize) -> Vec<usize> {
    let above = std::iter::successors(Some(module), |module| modules[*module].parent);
    let mut line: Vec<usize> = above.collect();
    line.reverse();
    line
}

/// The full path of a module, without `crate`.
pub(crate) fn name(modules: &[Module], module: usize) -> String {
    let names = line(modules, module).into_iter().skip(1).map(|module| modules[module].name.as_str());
    names.collect::<Vec<_>>().join("::")
}

struct Names<'a> {
    modules: &'a [Module],
}

impl Names<'_> {
    /// Modules that a path names or whose imports it goes through, last the one that defines what it names.
    fn passed(&self, module: usize, path: &[String]) -> Vec<usize> {
        let mut passed = Vec::new();
        self.walk(module, path, STEPS, &mut passed);
        passed
    }

    /// Follows a path from a module, and returns the module at its end if it ends at one.
    fn walk(&self, module: usize, path: &[String], steps: usize, passed: &mut Vec<usize>) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => module,
            "super" => self.modules[module].parent?,
            name => self.of(module, name, steps.checked_sub(1)?, passed)?,
        };
        passed.push(at);
        for name in rest {
            let next = match name.as_str() {
                "super" => self.modules[at].parent,
                name => self.of(at, name, steps.checked_sub(1)?, passed),
            };
            at = next?;
            passed.push(at);
        }
        Some(at)
    }

    /// Returns the module that a name means in a module. Passes the one that defines an item.
    fn of(&self, module: usize, name: &str, steps: usize, passed: &mut Vec<usize>) -> Option<usize> {
        let one = &self.modules[module];
        if let Some(child) = one.children.get(name) {
            return Some(*child);
        }
        if let Some(path) = one.imports.get(name) {
            return self.walk(module, path, steps, passed);
        }
        if one.items.iter().any(|item| item == name) {
            return None;
        }
        one.globs.iter().find_map(|path| {
            let mut aside = Vec::new();
            let other = self.walk(module, path, steps, &mut aside).filter(|other| *other != module)?;
            self.has(other, name).then(|| passed.push(other))?;
            self.of(other, name, steps.checked_sub(1)?, passed)
        })
    }

    fn has(&self, module: usize, name: &str) -> bool {
        let one = &self.modules[module];
        let defines = one.items.iter().any(|item| item == name);
        defines || one.children.contains_key(name) || one.imports.contains_key(name)
    }
}

/// Pairs of siblings that use each other directly, the smaller name first; and the paths by which they do.
pub(crate) fn pairs(modules: &[Module]) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut pairs = BTreeMap::new();
    for uses in uses(modules).values() {
        for ((a, b), paths) in uses {
            let Some(back) = uses.get(&(*b, *a)) else { continue };
            let names = (name(modules, *a), name(modules, *b));
            if names.0 < names.1 {
                pairs.insert(names, paths | back);
            }
        }
    }
    pairs
}

/// Circles among the modules right below the root: groups in which each reaches each, of more than two.
pub(crate) fn circles(modules: &[Module]) -> Vec<Vec<String>> {
    let all = uses(modules);
    let Some(uses) = all.get(&0) else { return Vec::new() };
    let reach = |from: usize| {
        let (mut open, mut seen) = (vec![from], BTreeSet::new());
        while let Some(at) = open.pop() {
            let next = uses.keys().filter(|(a, _)| *a == at).map(|(_, b)| *b);
            open.extend(next.filter(|b| seen.insert(*b)));
        }
        seen
    };
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        modules[0].children.values().map(|child| (*child, reach(*child))).collect();
    let group = |one: &usize| {
        let back = reached[one].iter().filter(|other| reached[*other].contains(one));
        let mut names: Vec<String> = back.map(|other| name(modules, *other)).collect();
        names.sort();
        names
    };
    let groups: BTreeSet<Vec<String>> = reached.keys().map(group).filter(|group| group.len() > 2).collect();
    groups.into_iter().collect()
}
