//! A cluster with several nodes that are alike, so that there is a choice between nodes.

use lab::config::Templates;

/// The example files with n1 to n3, each with 8 A100 as a DGX-1V links them, and n4 with 4 H100 behind switches.
pub(crate) fn four_nodes() -> Templates {
    let mut templates = Templates::shipped().unwrap();
    let like_n1 = |text: &str, name: &str| -> String {
        let lines = text.lines().filter(|line| line.starts_with("NodeName=n1 "));
        lines.map(|line| line.replace("n1", name) + "\n").collect()
    };
    for text in [&mut templates.slurm, &mut templates.gres] {
        *text = text.replace("NodeName=n2 ", "NodeName=n4 ").replace("NodeHostname=n2", "NodeHostname=n4");
        let alike = ["n2", "n3"].map(|name| like_n1(text, name)).concat();
        text.push('\n');
        text.push_str(&alike);
    }
    let (before, sets) = templates.tessera.split_once("[[nodes]]").unwrap();
    let (first, last) = sets.split_once("[[nodes]]").unwrap();
    let sets = [
        first.to_owned(),
        first.replace("\"n1\"", "\"n2\""),
        first.replace("\"n1\"", "\"n3\""),
        last.replace("\"n2\"", "\"n4\"") + "interconnect = \"hgx-a100-4\"\n",
    ];
    templates.tessera = [before.to_owned(), sets.map(|set| format!("[[nodes]]{set}")).concat()].concat();
    templates
}
