//! The applications to measure: `apps.csv`.

use power::csv::is_name;

/// An application that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    /// Its name in `counters.csv`.
    pub name: String,
    /// About how long a run takes alone on a whole GPU, seconds. Estimates and time limits rest on it, results do not.
    pub seconds: f64,
    /// The shell command of one run.
    pub command: String,
}

/// What is wrong with the file, and where: `apps.csv:3:8: …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct AppsError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong, in words.
    pub what: String,
}

const HEADER: &str = "app,seconds,command";

/// The longest run that is meant, seconds.
const MOST_SECONDS: f64 = 86_400.0;

/// Reads `text`; `file` is its name in errors. Empty lines and lines that begin with `#` are left out. A command goes to the
/// end of its line.
///
/// # Errors
///
/// [`AppsError`] for the first bad line: another header, a name with other characters than those of `counters.csv` or one
/// that came before, seconds that are no number above 0 and up to a day, no command.
pub fn parse_apps(file: &str, text: &str) -> Result<Vec<App>, AppsError> {
    let text = text.trim_start_matches('\u{feff}');
    let error = |line, column, what: String| AppsError { file: file.to_owned(), line, column, what };
    let numbered = (1..).zip(text.lines());
    let mut lines = numbered.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (number, head) = lines.next().unwrap_or((1, ""));
    if head.split(',').map(str::trim).collect::<Vec<_>>().join(",") != HEADER {
        return Err(error(number, 1, format!("the first line must be the header {HEADER}")));
    }
    let mut apps: Vec<App> = Vec::new();
    for (number, line) in lines {
        let app = app(line).map_err(|(column, what)| error(number, column, what))?;
        if apps.iter().any(|other| other.name == app.name) {
            return Err(error(number, 1, format!("`{}` is there already", app.name)));
        }
        apps.push(app);
    }
    if apps.is_empty() {
        return Err(error(number, 1, "no application after the header".to_owned()));
    }
    Ok(apps)
}

/// An error is the column and what is wrong there.
fn app(line: &str) -> Result<App, (usize, String)> {
    let fields: Vec<&str> = line.splitn(3, ',').collect();
    // Where a field begins, without the blanks before it.
    let column = |at: usize| {
        let before: usize = fields.iter().take(at).map(|field| field.chars().count() + 1).sum();
        let blanks = fields.get(at).map_or(0, |f| f.chars().take_while(|c| c.is_whitespace()).count());
        before + blanks + 1
    };
    let [name, seconds, command] = fields[..] else {
        let end = line.chars().count() + 1;
        return Err((
            end,
            format!("the line has {}, expected {HEADER}", geometry::counted(fields.len(), "field")),
        ));
    };
    let (name, word, command) = (name.trim(), seconds.trim(), command.trim());
    if !is_name(name) {
        return Err((column(0), format!("`{name}` is not a name: use letters, digits, . _ - : /")));
    }
    let seconds = word.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= MOST_SECONDS);
    let seconds = seconds
        .ok_or_else(|| (column(1), format!("`{word}` is not a number of seconds above 0 and up to a day")))?;
    if command.is_empty() {
        return Err((column(2), format!("`{name}` has no command")));
    }
    if let Some(at) = command.chars().position(char::is_control) {
        return Err((column(2) + at, "the command has a control character".to_owned()));
    }
    Ok(App { name: name.to_owned(), seconds, command: command.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_to_the_end_of_its_line() {
        let text = "\u{feff}# mine\napp, seconds ,command\n\nstream,30,./stream -n 5,6\n bfs , 1.5 , sh -c 'a; b'\r\n";
        let apps = parse_apps("apps.csv", text).unwrap();
        assert_eq!(apps[0].command, "./stream -n 5,6");
        let bfs = App { name: "bfs".to_owned(), seconds: 1.5, command: "sh -c 'a; b'".to_owned() };
        assert_eq!(apps[1..], [bfs]);
    }

    #[test]
    fn errors_name_line_and_column() {
        let said = |lines: &str| {
            parse_apps("a.csv", &format!("app,seconds,command\n{lines}")).unwrap_err().to_string()
        };
        for (lines, want) in [
            ("", "a.csv:1:1: no application after the header"),
            ("a,3", "a.csv:2:4: the line has 2 fields, expected app,seconds,command"),
            ("a+b,3,x", "a.csv:2:1: `a+b` is not a name: use letters, digits, . _ - : /"),
            ("ä,  0,x", "a.csv:2:5: `0` is not a number of seconds above 0 and up to a day"),
            ("a,NaN,x", "a.csv:2:3: `NaN` is not a number of seconds above 0 and up to a day"),
            ("a,1e9,x", "a.csv:2:3: `1e9` is not a number of seconds above 0 and up to a day"),
            ("a,3, ", "a.csv:2:6: `a` has no command"),
            ("a,3,x\u{1b}y", "a.csv:2:6: the command has a control character"),
            ("a,3,x\n\na,4,y", "a.csv:4:1: `a` is there already"),
        ] {
            assert_eq!(said(lines), want, "{lines:?}");
        }
        let head = parse_apps("a.csv", "name,command\n").unwrap_err().to_string();
        assert_eq!(head, "a.csv:1:1: the first line must be the header app,seconds,command");
    }
}
