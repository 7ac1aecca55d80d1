//! The lists of trackable resources in a job description: `gres:gpu:a100:2,gres:nic:1`.

use std::collections::BTreeSet;

/// A job's four lists as it was submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tres {
    /// From `--gpus`: the job's total.
    pub per_job: Option<String>,
    /// From `--gres` and `--gpus-per-node`.
    pub per_node: Option<String>,
    /// From `--gpus-per-socket`.
    pub per_socket: Option<String>,
    /// From `--gpus-per-task`.
    pub per_task: Option<String>,
    /// From `--ntasks-per-gpu`: without a list that names GPUs, Slurm counts one for so many tasks.
    pub tasks_per_gpu: Option<u16>,
}

/// An entry for `gpu` or `shard`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `gpu` or `shard`.
    pub name: String,
    /// Number of them; 1 if no number is given.
    pub count: u64,
    /// The option that it most likely came from, for messages.
    pub option: &'static str,
    /// True if `count` is per node.
    pub per_node: bool,
    /// As the option takes it, without `gres:`, cut to 60 characters.
    pub text: String,
}

impl Entry {
    /// Number of them on so many nodes.
    #[must_use]
    pub fn on(&self, nodes: u64) -> u64 {
        if self.per_node { self.count.saturating_mul(nodes) } else { self.count }
    }
}

impl Tres {
    /// The entries for `gpu` and `shard`, and one for the GPUs that Slurm counts by the job's tasks.
    #[must_use]
    pub fn gpu_entries(&self) -> Vec<Entry> {
        let lists = [
            (&self.per_job, "--gpus", false),
            (&self.per_node, "--gres", true),
            (&self.per_socket, "--gpus-per-socket", false),
            (&self.per_task, "--gpus-per-task", false),
        ];
        let mut all: Vec<Entry> = lists
            .into_iter()
            .flat_map(|(list, option, per_node)| entries(list.as_deref(), option, per_node))
            .collect();
        let named = all.iter().any(|entry| entry.name == "gpu" && entry.count > 0);
        if let Some(tasks) = self.tasks_per_gpu.filter(|_| !named) {
            let (option, text) = ("--ntasks-per-gpu", tasks.to_string());
            all.push(Entry { name: "gpu".to_owned(), count: 1, option, per_node: false, text });
        }
        all
    }
}

impl Entry {
    /// So many of a GRES per node, as `--gres` asks for them.
    #[must_use]
    pub fn per_node(name: &str, count: u64) -> Self {
        let text = format!("{name}:{count}");
        Self { name: name.to_owned(), count, option: "--gres", per_node: true, text }
    }

    /// Returns the type that it names: `a100` of `gpu:a100:2`, of `gpu:a100`, and of `a100:2` for `--gpus`.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        let counted = self.text.strip_prefix(&*self.name);
        let counted = counted.filter(|rest| rest.is_empty() || rest.starts_with([':', '=']));
        let fields = counted.unwrap_or(&self.text).split([':', '=']);
        let mut fields = fields.filter(|field| !field.is_empty() && *field != "no_consume");
        let named = fields.next()?;
        (fields.next().is_some() || !is_count(named)).then_some(named)
    }
}

/// Tells whether it is a number as Slurm reads it, with K for 1024.
fn is_count(text: &str) -> bool {
    let digits = text.strip_suffix(['k', 'K']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Characters that are kept of a text that a user wrote.
pub const MOST_TEXT: usize = 60;

/// Reads the entries of one list. Of several with the same GRES and type Slurm takes the last one with a count
/// [24.11: `_get_next_job_gres`], so `gres/gpu:4,gres/gpu:2` stands for 2 GPUs.
#[must_use]
pub fn entries(list: Option<&str>, option: &'static str, per_node: bool) -> Vec<Entry> {
    let parts = list.unwrap_or_default().split([',', ';']).map(str::trim);
    let mut seen = BTreeSet::new();
    let mut all: Vec<Entry> = parts
        .rev()
        .filter_map(|part| {
            let text = named(part);
            let name = text.split([':', '=']).next().filter(|n| *n == "gpu" || *n == "shard")?;
            let counted = text.rsplit_once([':', '=']).and_then(|(kind, n)| Some((kind, number(n)?)));
            let (kind, count) = counted.unwrap_or((text, 1));
            if count > 0 && !seen.insert(kind) {
                return None;
            }
            let option = if name == "shard" { of_shards(option) } else { option };
            // `--gpus` and its like do not name the GRES.
            let nameless = text.strip_prefix("gpu").and_then(|rest| rest.strip_prefix([':', '=']));
            let text = nameless.filter(|_| option.starts_with("--gpus")).unwrap_or(text);
            let text = text.chars().take(MOST_TEXT).collect();
            Some(Entry { name: name.to_owned(), count, option, per_node, text })
        })
        .collect();
    all.reverse();
    all
}

/// An entry from the name of its GRES on. Slurm looks for `gres` anywhere, with or without a separator behind it [24.11:
/// `slurm_get_next_tres`]: what a user puts before it hides nothing from Slurm.
#[must_use]
pub fn named(part: &str) -> &str {
    let behind = part.match_indices("gres").filter_map(|(at, word)| part.get(at + word.len()..));
    let behind = behind.map(|text| text.strip_prefix([':', '/']).unwrap_or(text));
    let is_ours =
        |text: &&str| text.split([':', '=']).next().is_some_and(|name| name == "gpu" || name == "shard");
    let usual = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
    behind.into_iter().find(is_ours).unwrap_or(usual)
}

/// Names the source of shards in the list of an option for GPUs: `scontrol update` has a name for each list.
fn of_shards(option: &'static str) -> &'static str {
    match option {
        "--gpus" => "TresPerJob",
        "--gpus-per-socket" => "TresPerSocket",
        "--gpus-per-task" => "--tres-per-task",
        other => other,
    }
}

/// A count as Slurm reads it: a number, with K for 1024.
fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slurm 24.11 reads 4 GPUs in each of the first three, and stops there.
    #[test]
    fn what_stands_before_gres_hides_nothing() {
        let names = |list: &str| -> Vec<(String, u64)> {
            let tres = Tres { per_node: Some(list.to_owned()), ..Tres::default() };
            tres.gpu_entries().into_iter().map(|entry| (entry.name, entry.count)).collect()
        };
        for hidden in ["xgres/gpu:4", "gresgpu:4", "gres/xgres:gpu:4"] {
            assert_eq!(
                names(&format!("{hidden},shard:5")),
                [("gpu".to_owned(), 4), ("shard".to_owned(), 5)],
                "{hidden}"
            );
        }
        assert_eq!(names("gres/nic:1,congress:2,gres:shardlike:3"), []);
    }

    fn check(per_node: &str, expect: &[(&str, u64)]) {
        let tres = Tres { per_node: Some(per_node.to_owned()), ..Tres::default() };
        let found = tres.gpu_entries();
        let found: Vec<(&str, u64)> = found.iter().map(|e| (e.name.as_str(), e.count)).collect();
        assert_eq!(found, expect, "{per_node}");
    }

    #[test]
    fn both_spellings_and_types() {
        check("gres:gpu:2", &[("gpu", 2)]);
        check("gres/gpu:a100:3", &[("gpu", 3)]);
        check("gres/gpu=4", &[("gpu", 4)]);
        check("gres:gpu", &[("gpu", 1)]);
        check("gres:gpu:a100", &[("gpu", 1)]);
        check("gres:nic:1,gres:shard:2K", &[("shard", 2048)]);
        check("gres:nic:1;license:gpu:2", &[]);
        check("", &[]);
    }

    /// `sbatch --gpus-per-node=4` with `--gres=gpu:4` in the script sends both in one list.
    #[test]
    fn the_last_entry_of_a_gres_and_type_counts() {
        check("gres/gpu:4,gres/gpu:4", &[("gpu", 4)]);
        check("gres/gpu:8,gres:gpu=2,gres:nic:1", &[("gpu", 2)]);
        check("gres/gpu:a100:2,gres/gpu:h100:3,gres/gpu:a100", &[("gpu", 3), ("gpu", 1)]);
        check("gres/shard:5,gres/gpu:1,shard:7", &[("gpu", 1), ("shard", 7)]);
        // Slurm passes over a count of 0.
        check("gres/gpu:4,gres/gpu:0", &[("gpu", 4), ("gpu", 0)]);
        let both = || Some("gres/gpu:4".to_owned());
        let tres = Tres { per_job: both(), per_node: both(), ..Tres::default() };
        assert_eq!(tres.gpu_entries().len(), 2, "each list counts something else");
    }

    #[test]
    fn tasks_per_gpu_ask_for_gpus_where_no_list_does() {
        let found = |per_node: Option<&str>| {
            let tres =
                Tres { per_node: per_node.map(str::to_owned), tasks_per_gpu: Some(2), ..Tres::default() };
            let entries = tres.gpu_entries();
            entries.iter().map(|e| format!("{}={} {}", e.option, e.text, e.name)).collect::<Vec<_>>()
        };
        assert_eq!(found(None), ["--ntasks-per-gpu=2 gpu"]);
        assert_eq!(found(Some("gres:gpu:4")), ["--gres=gpu:4 gpu"]);
        assert_eq!(found(Some("gres:nic:4")), ["--ntasks-per-gpu=2 gpu"]);
        // Slurm passes over a count of 0.
        assert_eq!(found(Some("gres/gpu:0")), ["--gres=gpu:0 gpu", "--ntasks-per-gpu=2 gpu"]);
    }
}
