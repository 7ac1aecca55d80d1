//! Samples of `tessera.toml` on the pages.

use lab::pages::{Place, shown};

/// Returns the errors of a sample of tessera.toml, but for other files that it names. A sample may leave out nodes.
fn errors(text: &str) -> Vec<String> {
    let nodes = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n";
    let text = if text.contains("[[nodes]]") { text.to_owned() } else { format!("{text}\n{nodes}") };
    let beside = |_: &str| Err(std::io::Error::other("not on the page"));
    let (_, errors) = site_config::parse("tessera.toml", &text, &beside);
    errors.iter().map(site_problems::shown).filter(|error| !error.contains("not on the page")).collect()
}

#[test]
fn tessera_takes_every_sample_of_its_configuration() {
    let (mut wrong, mut samples) = (Vec::new(), 0);
    for shown in shown().unwrap() {
        let text = match &shown.place {
            Place::Sample(language) if language == "toml" => Some(shown.text.as_str()),
            // A here-document.
            Place::Command { .. } => {
                shown.text.split_once("<<'END'\n").and_then(|(_, text)| text.strip_suffix("END"))
            }
            _ => None,
        };
        if let Some(text) = text {
            samples += 1;
            wrong.extend(
                errors(text).into_iter().map(|error| format!("{}:{}: {error}", shown.page, shown.line)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(samples > 8, "{samples}");
}
