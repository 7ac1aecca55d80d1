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
            let kind = key.split('-').next().unwrap_or_default().to_owned();
            let shards = model.shards() * n_gpus;
            slurm.push_str(&format!(
                "NodeName={name} NodeHostname={name} Port=6818 CPUs=64 RealMemory=64000 Gres=gpu:{kind}:{n_gpus},shard:{shards}\n"
            ));
            let last = n_gpus.saturating_sub(1);
            let linked = value(table, "interconnect") == Some("\"dgx-v\"") && n_gpus == 8;
            let gpus = if linked {
                dgx_v(&templates.gres, &name, &kind)
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

/// The lines of a node's GPUs with the links of a DGX-1V, which the shipped gres.conf has.
fn dgx_v(shipped: &str, node: &str, kind: &str) -> String {
    let gpu = |line: &str| {
        let (_, rest) = line.split_once(" File=")?;
        rest.contains(" Links=").then(|| format!("NodeName={node} Name=gpu Type={kind} File={rest}\n"))
    };
    shipped.lines().filter_map(gpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_DGX: &str =
        "[[nodes]]\nnames = \"d1\"\ngpu = \"v100-16gb\"\ncount = COUNT\ninterconnect = \"dgx-v\"\n";

    #[test]
    fn nodes_become_slurms_lines() {
        let text = "[[nodes]]\nnames = \"g1\"\ngpu = \"a30-24gb\"\ncount = 2\nmig = \"on\"\n";
        let templates = Templates::for_nodes(text).unwrap();
        assert_eq!(templates.node_names(), ["g1"]);
        assert!(templates.slurm.contains("Gres=gpu:a30:2,shard:48\n"), "{}", templates.slurm);
        let linked = ONE_DGX.replace("COUNT", "8");
        let gres = Templates::for_nodes(&linked).unwrap().gres;
        let first = "NodeName=d1 Name=gpu Type=v100 File=/dev/nvidia0 Links=-1,1,1,2,2,0,0,0\n";
        assert!(gres.starts_with(first) && gres.matches("Links=").count() == 8, "{gres}");
        let fewer = Templates::for_nodes(&ONE_DGX.replace("COUNT", "4")).unwrap().gres;
        assert!(!fewer.contains("Links="), "{fewer}");
        assert!(
            templates.gres.contains("NodeName=g1 Name=gpu Type=a30 File=/dev/nvidia[0-1]\n"),
            "{}",
            templates.gres
        );
    }
}
