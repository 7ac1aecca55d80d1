//! A crate's modules: their names, items and imports, and each path that their code has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources;
use crate::tokens::{Token, tokens};

/// A module of a crate. Modules are named by their place in the list; the crate's root is the first.
#[derive(Default, Debug)]
pub(crate) struct Module {
    /// Name below its parent.
    pub(crate) name: String,
    /// The module that it is declared in; `None` for the root.
    pub(crate) parent: Option<usize>,
    /// Modules that it declares.
    pub(crate) children: BTreeMap<String, usize>,
    /// Types, functions, traits, constants and macros that it defines.
    pub(crate) items: Vec<String>,
    /// Names that it imports, each with its path.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// Paths of `use …::*`.
    pub(crate) globs: Vec<Vec<String>>,
    /// Every path in its code, those of imports too.
    pub(crate) paths: Vec<Vec<String>>,
}

/// Folder of a module's children.
struct Place {
    /// The file that is read.
    file: PathBuf,
    /// The folder for children without `#[path]`.
    folder: PathBuf,
}

/// Reads a crate from the file of its root.
pub(crate) fn read(root: &Path) -> Vec<Module> {
    let mut modules = vec![Module::default()];
    let folder = root.parent().unwrap().to_owned();
    read_file(&mut modules, 0, &Place { file: root.to_owned(), folder });
    modules
}

fn read_file(modules: &mut Vec<Module>, module: usize, place: &Place) {
    let text = fs::read_to_string(&place.file).unwrap();
    let words = tokens(&sources::product(&text).join("\n"));
    Reader { words: &words, at: 0, path: None }.block(modules, module, place);
}

struct Reader<'a> {
    words: &'a [Token],
    at: usize,
    /// Text of the last `#[path = "…"]`.
    path: Option<String>,
}

const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

impl Reader<'_> {
    fn next(&mut self) -> Option<&Token> {
        self.at += 1;
        self.words.get(self.at - 1)
    }

    fn is(&self, ahead: usize, sign: char) -> bool {
        self.words.get(self.at + ahead) == Some(&Token::Sign(sign))
    }

    fn name(&self, ahead: usize) -> Option<&str> {
        match self.words.get(self.at + ahead) {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Reads up to the bracket that closes what is open, or to the end.
    fn block(&mut self, modules: &mut Vec<Module>, module: usize, place: &Place) {
        let mut depth = 0;
        while self.at < self.words.len() {
            if self.is(0, '{') {
                depth += 1;
            } else if self.is(0, '}') {
                if depth == 0 {
                    return;
                }
                depth -= 1;
            }
            self.one(modules, module, place, depth);
        }
    }

    fn one(&mut self, modules: &mut Vec<Module>, module: usize, place: &Place, depth: usize) {
        let follows_path = self.at > 0 && self.words[self.at - 1] == Token::Path;
        let Some(name) = self.name(0).map(str::to_owned).filter(|_| !follows_path) else {
            self.at += 1;
            return;
        };
        match name.as_str() {
            "mod" if self.name(1).is_some() => self.module(modules, module, place),
            "use" if !self.is(1, '<') => self.imports(&mut modules[module]),
            "path" if self.is(1, '=') => self.path_attribute(),
            item if depth == 0 && ITEMS.contains(&item) => self.item(&mut modules[module]),
            _ => self.path(&mut modules[module]),
        }
    }

    fn path_attribute(&mut self) {
        if let Some(Token::Text(text)) = self.words.get(self.at + 2) {
            self.path = Some(text.clone());
        }
        self.at += 1;
    }

    fn item(&mut self, module: &mut Module) {
        let ahead = if self.is(1, '!') { 2 } else { 1 };
        module.items.extend(self.name(ahead).filter(|name| !ITEMS.contains(name)).map(str::to_owned));
        self.at += 1;
    }

    /// Reads a path in code, as far as it consists of names.
    fn path(&mut self, module: &mut Module) {
        let mut path = vec![self.name(0).unwrap().to_owned()];
        self.at += 1;
        while self.words.get(self.at) == Some(&Token::Path) && self.name(1).is_some() {
            path.push(self.name(1).unwrap().to_owned());
            self.at += 2;
        }
        if path.len() > 1 {
            module.paths.push(path);
        }
    }

    /// Reads `mod name;` with its file, or `mod name { … }`.
    fn module(&mut self, modules: &mut Vec<Module>, parent: usize, place: &Place) {
        let name = self.name(1).unwrap().to_owned();
        self.at += 2;
        let path = self.path.take();
        let child = modules.len();
        modules.push(Module { name: name.clone(), parent: Some(parent), ..Module::default() });
        modules[parent].children.insert(name.clone(), child);
        let folder = place.folder.join(&name);
        if self.is(0, '{') {
            self.at += 1;
            self.block(modules, child, &Place { file: place.file.clone(), folder });
            self.at += 1;
            return;
        }
        read_file(modules, child, &of_file(place, folder, path));
    }

    /// Reads a `use`, with all that stands in its braces.
    fn imports(&mut self, module: &mut Module) {
        self.at += 1;
        self.tree(module, &[]);
    }

    fn tree(&mut self, module: &mut Module, above: &[String]) {
        let mut path = above.to_vec();
        while let Some(word) = self.next().cloned() {
            match word {
                Token::Name(name) if name == "as" => {
                    let alias = self.name(0).unwrap_or("_").to_owned();
                    self.at += 1;
                    return leaf(module, &path, alias);
                }
                Token::Name(name) => path.push(name),
                Token::Sign('*') => return module.globs.push(path),
                Token::Sign('{') => return self.braces(module, &path),
                Token::Path => continue,
                _ => self.at -= 1,
            }
            if self.words.get(self.at) != Some(&Token::Path) && self.name(0) != Some("as") {
                if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                let alias = path.last().cloned().unwrap_or_default();
                return leaf(module, &path, alias);
            }
        }
    }

    fn braces(&mut self, module: &mut Module, above: &[String]) {
        while !self.is(0, '}') && self.at < self.words.len() {
            self.tree(module, above);
            if self.is(0, ',') {
                self.at += 1;
            }
        }
        self.at += 1;
    }
}

fn leaf(module: &mut Module, path: &[String], alias: String) {
    module.paths.push(path.to_vec());
    module.imports.insert(alias, path.to_vec());
}

/// Finds the file of a module that its parent declares without a body.
fn of_file(place: &Place, folder: PathBuf, path: Option<String>) -> Place {
    if let Some(path) = path {
        let file = place.file.parent().unwrap().join(path);
        let folder = file.parent().unwrap().to_owned();
        return Place { file, folder };
    }
    let beside = folder.with_extension("rs");
    let file = if beside.exists() { beside } else { folder.join("mod.rs") };
    Place { file, folder }
}
