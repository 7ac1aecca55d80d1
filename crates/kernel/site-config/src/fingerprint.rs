//! A number by which slurmctld and a node find out that their files say the same of the node.

use std::fmt::{Debug, Write as _};

use gpu_rules::{MigPolicy, PoolPolicy};

use crate::types::{GpuUse, Mps, NodeSettings, NodeSpec, Overuse, SiteConfig, TaskPolicy, Tasks};

/// The keys whose values are not the default ones, one in a line.
#[derive(Default)]
struct Changed(String);

impl Changed {
    fn add<T: Debug + PartialEq>(&mut self, key: &str, value: &T, default: &T) {
        if value != default {
            let _infallible = writeln!(self.0, "{key}={value:?}");
        }
    }
}

/// Adds all keys of a section. Every field of the type has to be named, so that none is forgotten.
macro_rules! add_section {
    ($changed:ident, $section:literal, $type:ident { $($key:ident),+ $(,)? }, $of:expr) => {
        let ($type { $($key),+ }, default) = ($of, $type::default());
        $($changed.add(concat!($section, ".", stringify!($key)), $key, &default.$key);)+
    };
}

impl SiteConfig {
    /// Gives the fingerprint of one of the file's node sets: its GPUs, `[node]`, `[mps]`, `[tasks]`, the power limit and
    /// energy. Comments, the order of keys, limits and other nodes do not count.
    ///
    /// A key counts by its name, and only if its value is not the default one. So a key that a later version adds changes no fingerprint
    /// until a file sets it, and nodes and slurmctld can be upgraded one after the other.
    #[must_use]
    pub fn fingerprint_of(&self, spec: &NodeSpec) -> u64 {
        let mut changed = Changed::default();
        changed.add("gpus", &spec.gpus.iter().map(|model| model.key.as_str()).collect(), &Vec::new());
        changed.add("mig", &spec.mig, &MigPolicy::Dynamic);
        changed.add("gpu_use", &spec.uses, &vec![GpuUse::default(); spec.uses.len()]);
        changed.add("memory_fence", &spec.memory_fence, &false);
        changed.add("power.cap", &spec.power.cap_w, &None);
        changed.add("power.energy", &self.power.energy, &false);
        add_section!(changed, "mps", Mps { share_between_users, max_threads, memory_limit }, &self.mps);
        if let Some(Tasks { policy, pool, overuse, log }) = &self.tasks {
            changed.add("tasks", &true, &false);
            changed.add("tasks.policy", policy, &TaskPolicy::Tessera);
            changed.add("tasks.overuse", overuse, &Overuse::Charge);
            changed.add("tasks.log", log, &None);
            add_section!(changed, "tasks", PoolPolicy { workers_per_slice, context_mib, gpus_per_job }, pool);
        }
        self.add_node(&mut changed);
        fnv_1a(changed.0.as_bytes())
    }

    fn add_node(&self, changed: &mut Changed) {
        add_section!(
            changed,
            "node",
            NodeSettings {
                dev_root,
                proc_root,
                cgroup_root,
                state_dir,
                run_dir,
                nvml_library,
                mps_control,
                task_broker,
                task_library,
                gpu_reset_command,
                gpu_clients_command,
                operation_timeout_ms,
                manage_device_nodes,
                visible_devices,
                plain_notice,
                leftover_processes,
            },
            &self.node
        );
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

    /// Other versions of Tessera have other keys, and upgrades need the same fingerprint of the same files.
    #[test]
    fn only_keys_that_are_set_count_and_by_their_names() {
        let gpus = "gpus=[\"a100-40gb\", \"a100-40gb\"]\n";
        for (section, lines) in [
            ("", ""),
            ("[node]\nplain_notice = true\n", ""),
            ("[mps]\nmemory_limit = \"advisory\"\n", "mps.memory_limit=Advisory\n"),
            ("[tasks]\ncontext_mib = 300\n", "tasks=true\ntasks.context_mib=300\n"),
            ("[node]\nstate_dir = \"/s/%n\"\n", "node.state_dir=\"/s/%n\"\n"),
        ] {
            let said = of(&format!("{section}{FILE}"), "n1");
            assert_eq!(said, Some(fnv_1a(format!("{gpus}{lines}").as_bytes())), "{section}");
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!((fnv_1a(b""), fnv_1a(b"a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }
}
