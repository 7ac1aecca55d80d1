//! As much of the shell's grammar as the pages use.

/// Joins continued lines, and leaves out comments and empty lines. A here-document stays with its command.
#[must_use]
pub fn lines(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        let mut line = line.trim().to_owned();
        while let Some(begun) = line.strip_suffix('\\') {
            let more = rest.next().unwrap_or_default().trim();
            // `a,\` goes on without a blank.
            let blank = if begun.ends_with(' ') { " " } else { "" };
            line = format!("{}{blank}{more}", begun.trim_end());
        }
        if line.ends_with(['|', '{']) || line.ends_with("; do") {
            line = format!("{line} {}", rest.next().unwrap_or_default().trim());
        }
        let end = line.split_once("<<'").and_then(|(_, rest)| rest.split('\'').next()).map(str::to_owned);
        if let Some(end) = end {
            for more in rest.by_ref() {
                line = format!("{line}\n{more}");
                if more == end {
                    break;
                }
            }
        } else {
            line = without_comment(&line).to_owned();
        }
        if !line.is_empty() {
            all.push(line);
        }
    }
    all
}

/// The line before ` # `, outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, '#') if before == ' ' => return line[..at].trim_end(),
            _ => {}
        }
        before = c;
    }
    line
}

/// Splits a command line into simple commands and their words: at pipes, `;`, `&`, redirections and the shell's own words. A file that
/// a redirection names is no word. Variables stay as they are.
#[must_use]
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.split_once("<<'").map_or(line, |(command, _)| command);
    let line = without_comment(line);
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut quote, mut redirected) = (None, false);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if open == c => quote = None,
            (None, ' ' | '\n' | '|' | ';' | '&' | '>' | '<') => {
                if let Some(word) = word.take()
                    && !std::mem::take(&mut redirected)
                {
                    words.push(word);
                }
                redirected |= matches!(c, '>' | '<');
                if matches!(c, '|' | ';' | '&') {
                    all.push(std::mem::take(&mut words));
                }
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    all.push(words);
    all.into_iter().map(simple).filter(|words| !words.is_empty()).collect()
}

/// Leaves out what comes before a command's name: `do`, `sudo`, variables.
fn simple(words: Vec<String>) -> Vec<String> {
    let before = |word: &String| {
        matches!(word.as_str(), "do" | "then" | "sudo")
            || word
                .split_once('=')
                .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    words.into_iter().skip_while(before).collect()
}

/// Returns the words with values instead of placeholders (`N`, `JOBID`), without the brackets of what may be left out and with the first of
/// alternatives, and if the page shows the whole command: `…` ends it.
#[must_use]
pub fn filled(words: &[String]) -> (Vec<String>, bool) {
    let mut all = Vec::new();
    for word in words {
        let word = word.trim_start_matches('[');
        // Brackets of a list of hosts stay.
        let word = if word.contains('[') { word } else { word.trim_end_matches(']') };
        if word == "…" || word.ends_with("=…") {
            return (all, false);
        }
        let word = word.trim_end_matches('…');
        all.push(match word.split_once('=') {
            Some((option, value)) => format!("{option}={}", value_for(value)),
            None => value_for(word).to_owned(),
        });
    }
    (all, true)
}

fn value_for(word: &str) -> &str {
    match word {
        "N" | "M" | "S" | "ID" | "JOBID" => "4",
        "SIZE" => "10G",
        "V" => "24.11",
        "B" => "24.11.5",
        "GPU" => "0",
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        commands(line).into_iter().map(|words| words.join("/")).collect()
    }

    #[test]
    fn a_line_is_split_into_its_commands() {
        assert_eq!(split("sacct -X | awk '{ a; b }' > f # c"), ["sacct/-X", "awk/{ a; b }"]);
        assert_eq!(
            split("for i in 1 2; do sbatch --wrap 'a b'; done"),
            ["for/i/in/1/2", "sbatch/--wrap/a b", "done"]
        );
        assert_eq!(split("sudo A=b tessera tasks >> x && ls \"\""), ["tessera/tasks", "ls/"]);
        assert_eq!(split("cat > f <<'END'\na\nEND"), ["cat"]);
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(lines("a b, \\\n  c # d\n# e\n\nf \"# g\"\n"), ["a b, c", "f \"# g\""]);
        assert_eq!(lines("a,\\\nb\nx |\n  y\n"), ["a,b", "x | y"]);
        assert_eq!(lines("cat <<'END'\n# t\n\nEND\nb"), ["cat <<'END'\n# t\n\nEND", "b"]);
        assert_eq!(lines("for x; do\n  y\ndone"), ["for x; do y", "done"]);
    }
}
