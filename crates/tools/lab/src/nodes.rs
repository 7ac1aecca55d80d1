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
    /// The shipped files, with the `[[nodes]]` of this tessera.toml instead: one plain name and one model per `[[nodes]]`.
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
        // What is not about nodes stays as shipped: the directories in it become the cluster's own.
        let head = templates.tessera.split("[[nodes]]").next().unwrap_or_default().to_owned();
        let own = tessera.find("[[nodes]]").map_or("", |begin| &tessera[begin..]);
        (templates.slurm, templates.gres, templates.tessera) = (slurm, gres, head + own);
        Ok(templates)
    }
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
