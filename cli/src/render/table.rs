//! Text tables: columns that line up.

use super::printable;

/// Lays rows out in columns two spaces apart; columns whose index is in `right` are flush right. Control characters in cells become
/// spaces.
pub(crate) fn render(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cell = |(c, text): (usize, &String)| {
            let (pad, text) = (" ".repeat(widths[c] - text.chars().count()), printable(text));
            if right.contains(&c) { format!("{pad}{text}") } else { format!("{text}{pad}") }
        };
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        out.push_str(line.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up_without_control_characters() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(super::render(&[row("a", "1"), row("bb", "20")], &[1]), "a    1\nbb  20\n");
        assert_eq!(super::render(&[row("\u{1b}[1ma", "x\ny")], &[]), " [1ma  x y\n");
    }
}
