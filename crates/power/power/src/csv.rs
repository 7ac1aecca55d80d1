//! Lines of a CSV file with errors that name file, line and field.
//!
//! The two files hold words and numbers, so there is no quoting. A library would know neither the field's name nor the
//! line of a duplicate; splitting at commas is all that it would save.

/// Says what is wrong with a file, and where: `runs.csv:7:cap_w: …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{field}: {what}")]
pub struct CsvError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column's name.
    pub field: &'static str,
    /// Description of the error, in words.
    pub what: String,
}

/// Holds one line below the header.
pub struct Line<'t> {
    file: &'t str,
    /// From 1.
    pub number: usize,
    columns: &'static [&'static str],
    fields: Vec<&'t str>,
}

impl<'t> Line<'t> {
    /// Makes an error about a field of this line.
    #[must_use]
    pub fn error(&self, column: usize, what: impl Into<String>) -> CsvError {
        let file = self.file.to_owned();
        CsvError { file, line: self.number, field: self.columns[column], what: what.into() }
    }

    /// Gives a field without the spaces around it.
    #[must_use]
    pub fn text(&self, column: usize) -> &'t str {
        self.fields[column]
    }

    /// Reads a field that is one name, or names joined by `+`.
    ///
    /// # Errors
    ///
    /// [`CsvError`] for the first word that is no name.
    pub fn names(&self, column: usize) -> Result<Vec<String>, CsvError> {
        let names: Vec<&str> = self.text(column).split('+').collect();
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => {
                Err(self.error(column, format!("`{name}` is not a name: use letters, digits, . _ - : /")))
            }
            None => Ok(names.into_iter().map(str::to_owned).collect()),
        }
    }

    /// Reads a finite number.
    ///
    /// # Errors
    ///
    /// [`CsvError`] if it is none.
    pub fn number(&self, column: usize, word: &str) -> Result<f64, CsvError> {
        let number = word.parse::<f64>().ok().filter(|n| n.is_finite());
        number.ok_or_else(|| self.error(column, format!("`{word}` is not a number")))
    }
}

/// Tells whether a word can name an application or a GPU.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "._-:/".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

/// Splits `text` into the lines below its header. Empty lines and lines that begin with `#` are left out.
///
/// `headers` are the column lists that are allowed; all have the same length. Returns which of them the file has.
///
/// # Errors
///
/// [`CsvError`] for another header, or the first line with more or fewer fields.
pub fn lines<'t>(
    file: &'t str,
    text: &'t str,
    headers: &'static [&'static [&'static str]],
) -> Result<(usize, Vec<Line<'t>>), CsvError> {
    // Spreadsheets write a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut rows = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (number, head) = rows.next().unwrap_or((1, ""));
    let fields = split(head);
    let Some(which) = headers.iter().position(|columns| *columns == fields) else {
        let field = headers[0].iter().zip(&fields).find(|(want, have)| want != have).map(|(want, _)| *want);
        let field = field.unwrap_or(headers[0][headers[0].len() - 1]);
        let expected = headers.iter().map(|h| h.join(",")).collect::<Vec<_>>().join(" or ");
        let what = format!("the first line must be the header {expected}");
        return Err(CsvError { file: file.to_owned(), line: number, field, what });
    };
    let columns = headers[which];
    let line = |(number, line): (usize, &'t str)| {
        let line = Line { file, number, columns, fields: split(line) };
        let (have, want) = (line.fields.len(), columns.len());
        if have == want {
            return Ok(line);
        }
        Err(line.error(
            have.min(want - 1),
            format!("the line has {}, expected {want}", geometry::counted(have, "field")),
        ))
    };
    Ok((which, rows.map(line).collect::<Result<_, _>>()?))
}

fn split(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}
