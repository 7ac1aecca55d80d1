//! Lines of slurm.conf and of the files that it includes, in the order in which Slurm reads them.

use std::path::Path;

use super::conf::{ConfFile, Logical};

/// Lines of some files, in order. Slurm reads an included file at the line that includes it [parse_config.c,
/// `_parse_include_directive`], so which value of a key is the last depends on the place of that line.
pub(super) struct Lines {
    files: Vec<Vec<Logical>>,
    /// For each line in order, its file and its number there.
    order: Vec<(usize, usize)>,
}

/// Line with its place: the file's index, and the line's index among the file's lines.
pub(super) struct At<'a> {
    pub(super) file: usize,
    pub(super) number: usize,
    pub(super) line: &'a Logical,
}

impl Lines {
    /// Orders the lines of `files`: the first is slurm.conf, the others are those that it includes, each once.
    pub(super) fn of(files: &[ConfFile]) -> Self {
        let mut lines = Self { files: files.iter().map(ConfFile::logical).collect(), order: Vec::new() };
        let dir = files.first().and_then(|main| main.path.parent()).unwrap_or(Path::new("/"));
        let mut is_read = vec![false; files.len()];
        lines.read(0, &mut is_read, &|name| files.iter().position(|file| file.path == dir.join(name)));
        lines
    }

    fn read(&mut self, file: usize, is_read: &mut [bool], find: &dyn Fn(&str) -> Option<usize>) {
        if is_read.get(file).is_none_or(|is_read| *is_read) {
            return;
        }
        is_read[file] = true;
        for number in 0..self.files[file].len() {
            self.order.push((file, number));
            if let Some(included) = self.files[file][number].include().and_then(find) {
                self.read(included, is_read, find);
            }
        }
    }

    /// Gives the lines in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = At<'_>> {
        self.order.iter().map(|&(file, number)| At { file, number, line: &self.files[file][number] })
    }

    /// Gives a line by its place.
    pub(super) fn at(&self, file: usize, number: usize) -> &Logical {
        &self.files[file][number]
    }

    /// Finds the line that sets a key: the last one.
    pub(super) fn line_of(&self, key: &str) -> Option<At<'_>> {
        self.iter().rfind(|at| at.line.fields.begins(key))
    }

    /// Gives the last value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.line_of(key).and_then(|at| at.line.fields.field(key))
    }

    /// Gives the `Gres=` of the `NodeName=DEFAULT` lines before a line of nodes. A later one without `Gres=` leaves it as it is
    /// [read_config.c, `_parse_nodename`].
    pub(super) fn default_gres(&self, before: (usize, usize)) -> Option<&str> {
        let earlier = self.iter().take_while(|at| (at.file, at.number) != before);
        let is_default = |name: &str| name.eq_ignore_ascii_case("DEFAULT");
        let defaults = earlier.filter(|at| at.line.fields.begins("NodeName"));
        let defaults = defaults.filter(|at| at.line.fields.field("NodeName").is_some_and(is_default));
        defaults.filter_map(|at| at.line.fields.field("Gres")).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Lines {
        let file = |(name, text): &(&str, &str)| ConfFile {
            path: Path::new("/etc/slurm").join(name),
            text: Some((*text).to_owned()),
        };
        Lines::of(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn an_included_file_counts_where_it_is_included() {
        let of = |main: &str| {
            let lines = lines(&[
                ("slurm.conf", main),
                ("parts/a.conf", "GresTypes=a\nInclude b.conf\nInclude parts/a.conf\n"),
                ("b.conf", "PluginDir=/b\n"),
            ]);
            ["GresTypes", "PluginDir"].map(|key| lines.value(key).unwrap_or_default().to_owned())
        };
        let own = "GresTypes=main\nPluginDir=/main\n";
        assert_eq!(of(&format!("Include parts/a.conf\n{own}")), ["main", "/main"]);
        assert_eq!(of(&format!("{own}include /etc/slurm/parts/a.conf\n")), ["a", "/b"]);
        assert_eq!(of(&format!("GresTypes=1\nInclude b.conf\nInclude gone.conf\n{own}")), ["main", "/main"]);
    }

    #[test]
    fn without_a_file_there_is_no_line() {
        assert!(Lines::of(&[]).iter().next().is_none());
    }
}
