//! Writes slurm.conf and gres.conf lines for the nodes that a tessera.toml describes.

use geometry::Model;

use crate::config::Templates;
use crate::error::HarnessError;
use crate::sim::value;

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
            gres.push_str(&format!(
                "NodeName={name} Name=gpu Type={kind} File=/dev/nvidia[0-{last}]\nNodeName={name} Name=shard Count={shards}\n"
            ));
        }
        // What is not about nodes stays as shipped: the directories in it become the cluster's own.
        let head = templates.tessera.split("[[nodes]]").next().unwrap_or_default().to_owned();
        let own = tessera.find("[[nodes]]").map_or("", |begin| &tessera[begin..]);
        (templates.slurm, templates.gres, templates.tessera) = (slurm, gres, head + own);
        Ok(templates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_become_slurms_lines() {
        let text = "[[nodes]]\nnames = \"g1\"\ngpu = \"a30-24gb\"\ncount = 2\nmig = \"on\"\n";
        let templates = Templates::for_nodes(text).unwrap();
        assert_eq!(templates.node_names(), ["g1"]);
        assert!(templates.slurm.contains("Gres=gpu:a30:2,shard:48\n"), "{}", templates.slurm);
        assert!(
            templates.gres.contains("NodeName=g1 Name=gpu Type=a30 File=/dev/nvidia[0-1]\n"),
            "{}",
            templates.gres
        );
    }
}
