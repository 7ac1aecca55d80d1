//! A number by which slurmctld and a node find out that their files say the same of the node.

use crate::types::{NodeSpec, SiteConfig};

impl SiteConfig {
    /// Gives the fingerprint of one of the file's node sets: its GPUs, `[node]`, `[mps]`, `[tasks]`, the power limit and
    /// energy. Comments, the order of keys, limits and other nodes do not count.
    #[must_use]
    pub fn fingerprint_of(&self, spec: &NodeSpec) -> u64 {
        let models: Vec<&str> = spec.gpus.iter().map(|model| model.key.as_str()).collect();
        let of_gpus = (models, spec.mig, &spec.uses, spec.memory_fence, spec.power.cap_w);
        let of_node = (&self.node, &self.mps, &self.tasks, self.power.energy);
        fnv_1a(format!("{of_gpus:?} {of_node:?}").as_bytes())
    }
}

/// The 64-bit hash FNV-1a, the same on every machine.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, node: &str) -> Option<u64> {
        let (config, errors) = crate::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let config = config.unwrap();
        config.node(node).map(|spec| config.fingerprint_of(spec))
    }

    const FILE: &str = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n";

    #[test]
    fn what_the_nodes_programs_use_counts() {
        let same = of(FILE, "n1");
        assert!(same.is_some() && of(FILE, "n3").is_none());
        assert_eq!(of(FILE, "n2"), same);
        for other in [
            FILE.replace("= 2", "= 4"),
            FILE.replace("40gb", "80gb"),
            FILE.replace("dynamic", "off"),
            format!("[node]\nmanage_device_nodes = false\n{FILE}"),
            format!("[mps]\nmemory_limit = \"advisory\"\n{FILE}"),
        ] {
            assert_ne!(of(&other, "n1"), same, "{other}");
        }
    }

    #[test]
    fn what_slurmctld_alone_uses_does_not_count() {
        let same = of(FILE, "n1");
        for alike in [
            format!("# a comment\n{}", FILE.replace(" = ", "=")),
            FILE.replace("n[1-2]", "n[1-9]"),
            FILE.replace("mig = \"dynamic\"\n", ""),
            format!("{FILE}[[nodes]]\nnames = \"x\"\ngpu = \"h100-80gb-sxm\"\ncount = 8\n"),
            format!("{FILE}[[limits]]\npartition = \"gpu\"\nmax_mem = \"10G\"\n"),
        ] {
            assert_eq!(of(&alike, "n1"), same, "{alike}");
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!((fnv_1a(b""), fnv_1a(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }
}
