//! Files that nobody means: slurmctld and slurmd read them too, and must not end.

use std::io;

/// How many errors a text has, on a stack of the size that slurmctld gives its threads.
fn errors(text: String) -> usize {
    let parse = move || {
        let (config, errors) = site_config::parse("t", &text, &|_| Err(io::ErrorKind::NotFound.into()));
        assert!(config.is_none());
        errors.iter().map(|e| site_problems::shown(e).len() + e.to_string().len()).for_each(drop);
        errors.len()
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(parse).unwrap().join().unwrap()
}

#[test]
fn nothing_is_too_deep_or_too_odd() {
    let many = 20_000;
    let mixed = format!("a = {}", format!("{{{}b = ", "a.".repeat(78)).repeat(79));
    for text in [
        format!("a = {}", "[".repeat(many)),
        format!("a = {}{}", "[".repeat(many), "]".repeat(many)),
        format!("a = {}", "{b=".repeat(many)),
        format!("{}a = 1", "a.".repeat(many)),
        format!("[{}a]", "a.".repeat(many)),
        format!("[[{}a]]\n", "a.".repeat(many)),
        format!("{mixed}1{}", "}".repeat(79)),
        "\u{0}\u{feff}\r\r\n=".to_owned(),
        "[[nodes]]\nnames = \"\u{202e}n[1-2]\"\ngpu = 3\ncount = -1\n".repeat(50),
        "[[nodes]]\nnames = \"n[1-70000]\"\n".to_owned(),
    ] {
        let start: String = text.chars().take(20).collect();
        assert!(errors(text) > 0, "{start}");
    }
}
