//! Writes slurm.conf and gres.conf lines for the nodes that a tessera.toml describes.

use geometry::Model;

use crate::config::Templates;
use crate::error::HarnessError;
use crate::sim::value;

/// A DGX-1V named n1, MAPA's own machine, as a tessera.toml describes it: GPUs that differ in their links and have no MIG.
pub const DGX_1V: &str = "\
[[nodes]]
names = \"n1\"
gpu = \"v100-16gb\"
count = 8
interconnect = \"dgx-v\"

";

impl Templates {
    /// The shipped files, with this tessera.toml instead of the shipped one: one plain name and one model per `[[nodes]]`. It gets
    /// the shipped tables that it lacks, and the shipped keys of `[node]`, whose directories become the cluster's own.
    ///
    /// # Errors
    ///
    /// The key that is missing or not understood.
    pub fn for_nodes(tessera: &str) -> Result<Self, HarnessError> {
        let mut templates = Self::shipped()?;
        let mut slurm: String = templates
            .slurm
            .lines()
            .filter(|line| !line.starts_with("NodeName="))
            .fold(String::new(), |all, line| all + line + "\n");
        let mut gres = String::new();
        for table in tessera.split("[[nodes]]").skip(1) {
            let get = |key: &str| {
                let missing =
                    || HarnessError::Unexpected(format!("[[nodes]] has no `{key}` (one value, on one line)"));
                value(table, key).map(|text| text.trim_matches('"').to_owned()).ok_or_else(missing)
            };
            let (name, key, count) = (get("names")?, get("gpu")?, get("count")?);
            let bad = |what: &str| HarnessError::Unexpected(format!("node {name}: {what}"));
            if name.contains(['[', ',']) {
                return Err(bad("give each node its own [[nodes]] here"));
            }
            let model = Model::find(&key).ok_or_else(|| bad(&format!("no GPU model {key}")))?;
            let n_gpus: u32 = count.parse().map_err(|_| bad("count is not a number"))?;
            let kind = key.split('-').next().unwrap_or_default();
            let shards = model.shards() * n_gpus;
            slurm.push_str(&format!(
                "NodeName={name} NodeHostname={name} Port=6818 CPUs=64 RealMemory=64000 Gres=gpu:{kind}:{n_gpus},shard:{shards}\n"
            ));
            let last = n_gpus.saturating_sub(1);
            let dgx = value(table, "interconnect").is_some_and(|text| text.trim_matches('"') == "dgx-v");
            let gpus = if dgx && n_gpus == 8 {
                with_links(&templates.gres, &name, kind)
            } else {
                format!("NodeName={name} Name=gpu Type={kind} File=/dev/nvidia[0-{last}]\n")
            };
            gres.push_str(&format!("{gpus}NodeName={name} Name=shard Count={shards}\n"));
        }
        let whole = with_shipped(&templates.tessera, tessera);
        (templates.slurm, templates.gres, templates.tessera) = (slurm, gres, whole);
        Ok(templates)
    }
}

/// The text of a tessera.toml with the shipped tables that it lacks, `[[nodes]]` excepted, and the shipped keys of `[node]`.
fn with_shipped(shipped: &str, own: &str) -> String {
    let own = tables(own);
    let mut lacking = String::new();
    for (name, text) in tables(shipped).into_iter().filter(|(name, _)| !["", "nodes"].contains(name)) {
        if !own.iter().any(|(known, _)| *known == name) {
            lacking += &(text + "\n");
        }
    }
    let mut all = String::new();
    for (index, (name, text)) in own.into_iter().enumerate() {
        let keys = if name == "node" { keys_beside(shipped, &text) } else { String::new() };
        all += &(text + &keys);
        if index == 0 {
            all += &lacking;
        }
    }
    all
}

/// The shipped lines of `[node]` whose keys this table does not have.
fn keys_beside(shipped: &str, own: &str) -> String {
    let has = |line: &&str| line.split_once('=').is_some_and(|(key, _)| value(own, key.trim()).is_none());
    let node = tables(shipped).into_iter().find(|(name, _)| *name == "node").unwrap_or_default();
    node.1.lines().filter(has).fold("\n".to_owned(), |all, line| all + line + "\n")
}

/// The tables of a TOML file: each one's name and text, its head included. First, without a name, the text before any of them.
fn tables(text: &str) -> Vec<(&str, String)> {
    let mut found = vec![("", String::new())];
    for line in text.lines() {
        if let Some(name) = head(line) {
            found.push((name, String::new()));
        }
        if let Some((_, table)) = found.last_mut() {
            *table += &format!("{line}\n");
        }
    }
    found
}

/// The name in `[name]` or `[[name]]`. A row of a matrix begins with a bracket, too, but has no name in it.
fn head(line: &str) -> Option<&str> {
    let inner = line.split('#').next()?.trim().strip_prefix('[')?.strip_suffix(']')?;
    let name = inner.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(inner).trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain)).then_some(name)
}

/// The lines of a DGX-1V's GPUs, whose links the shipped gres.conf tells Slurm for its node n1.
fn with_links(shipped: &str, name: &str, kind: &str) -> String {
    let row = |line: &str| {
        let files = line.strip_prefix("NodeName=n1 Name=gpu ")?.split_once(" File=")?.1;
        Some(format!("NodeName={name} Name=gpu Type={kind} File={files}\n"))
    };
    shipped.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_all_its_tables_and_gets_the_shipped_ones_that_it_lacks() {
        let own = "# mine\n[tasks]\nworkers_per_slice = 2\n[[limits]]\nmax_mem = \"9G\"\n[node] # here\nmps_control = \"/x\"\n";
        let text = Templates::for_nodes(&format!("{own}{DGX_1V}[mps]\nmax_threads = 90\n")).unwrap().tessera;
        assert!(text.starts_with("# mine\n[defaults]\n"), "{text}");
        let is_table = |line: &&str| head(line).is_some();
        let heads: Vec<&str> = text.lines().filter(is_table).collect();
        assert_eq!(heads, ["[defaults]", "[tasks]", "[[limits]]", "[node] # here", "[[nodes]]", "[mps]"]);
        for (line, times) in [
            ("workers_per_slice = 2", 1),
            ("mps_control = ", 1),
            ("\nstate_dir = ", 1),
            ("max_threads = 90", 1),
            ("max_threads = 100", 0),
            ("names = \"n1\"", 1),
            ("names = \"n2\"", 0),
        ] {
            assert_eq!(text.matches(line).count(), times, "{line}\n{text}");
        }
        assert_eq!((head("[0, 1],"), head("  [\"NV4\"]"), head("[[ nodes ]]")), (None, None, Some("nodes")));
    }

    #[test]
    fn nodes_become_slurms_lines() {
        let text = "[[nodes]]\nnames = \"g1\"\ngpu = \"a30-24gb\"\ncount = 2\nmig = \"on\"\n";
        let templates = Templates::for_nodes(&format!("{DGX_1V}{text}")).unwrap();
        assert_eq!(templates.node_names(), ["n1", "g1"]);
        let linked = "NodeName=n1 Name=gpu Type=v100 File=/dev/nvidia0 Links=-1,1,1,2,2,0,0,0\n";
        assert!(templates.gres.starts_with(linked) && templates.gres.matches("Links=").count() == 8);
        assert!(templates.slurm.contains("Gres=gpu:a30:2,shard:48\n"), "{}", templates.slurm);
        assert!(
            templates.gres.contains("NodeName=g1 Name=gpu Type=a30 File=/dev/nvidia[0-1]\n"),
            "{}",
            templates.gres
        );
    }
}
