//! Reads `[[models]]`: GPU models that Tessera's tables do not have.

use geometry::{Model, SiteModel};

use toml_tables::nearest;
use toml_tables::{At, TableReader};

/// Memory of a GPU, MiB: no machine has more than 16 TiB on one.
const MOST_MIB: u64 = 16 << 20;
/// Multiprocessors of a GPU.
const MOST_SMS: u64 = 4096;

/// Keys by which a site might try to describe MIG instances. sbatch and srun check a job's options without reading
/// tessera.toml, by the profiles of all models in Tessera's tables: a profile of the site's own would be refused before
/// slurmctld sees it.
const MIG_KEYS: [&str; 2] = ["mig", "profiles"];

/// The models that a file may name: its own, and those of the tables.
pub(crate) struct Models {
    own: Vec<&'static Model>,
    /// Keys whose description has errors.
    wrong: Vec<String>,
}

impl Models {
    pub(crate) fn read(root: &mut TableReader<'_, '_>) -> Self {
        let (mut own, mut wrong) = (Vec::new(), Vec::new());
        for table in root.tables("models") {
            let key = table.get("key").and_then(|key| key.get_ref().as_str()).map(str::to_owned);
            match described(table, &own) {
                Some(model) => own.push(model),
                None => wrong.extend(key),
            }
        }
        Self { own, wrong }
    }

    /// The model with this key or NVML name, or an error and a hint.
    pub(crate) fn find(&self, text: &str) -> Result<&'static Model, (String, Option<String>)> {
        let same = |s: &&String| s.eq_ignore_ascii_case(text);
        let own = self.own.iter().copied().find(|m| names(m).any(|name| same(&name)));
        own.or_else(|| Model::find(text)).ok_or_else(|| {
            if self.wrong.iter().any(|key| key == text) {
                return (format!("the [[models]] of {text} has errors"), None);
            }
            let all = self.own.iter().copied().chain(Model::all()).flat_map(names);
            let begin: Vec<&str> = Model::beginning_with(text).iter().map(|m| m.key.as_str()).collect();
            let meant = match &begin[..] {
                [] => nearest(text, all.map(String::as_str)).map(str::to_owned),
                several => Some(several.join(" or ")),
            };
            let meant = meant.map(|m| format!("did you mean {m}? ")).unwrap_or_default();
            let hint = format!("{meant}`tessera profiles` lists all models");
            (format!("unknown GPU model {text:?}"), Some(hint))
        })
    }
}

fn names(model: &Model) -> impl Iterator<Item = &String> {
    model.names.iter().chain([&model.key])
}

/// Reads one `[[models]]`. `None` if a necessary part is missing or wrong; the errors then name it.
fn described(table: TableReader<'_, '_>, before: &[&'static Model]) -> Option<&'static Model> {
    let key = table.parsed("key", |text| new_key(text, before));
    let names = table.strings("names");
    let total = table.number("memory_mib", 1..MOST_MIB);
    let usable = table.number("usable_mib", 1..MOST_MIB);
    let nominal = table.number("nominal_gb", 1..MOST_MIB / 1024);
    let sms = table.number("sms", 1..MOST_SMS);
    let arch = table.string("arch").map(|at| at.value).unwrap_or_default();
    for (name, hint) in [
        ("key", "add key = \"x1-96gb\", which gpu = in [[nodes]] then names"),
        ("names", "add names = [\"NVIDIA X1\"], as `nvidia-smi -L` prints them"),
        ("memory_mib", "add memory_mib, as `nvidia-smi --query-gpu=memory.total` prints it"),
        ("sms", "add sms, the number of multiprocessors as deviceQuery prints it"),
    ] {
        if !table.has(name) {
            table.errors.push(table.span.clone(), format!("[[models]] has no {name}"), Some(hint.to_owned()));
        }
    }
    let mut parts = false;
    for key in MIG_KEYS {
        // Asked for only where it is: it is no key to suggest.
        if table.has(key) && table.get(key).is_some() {
            parts = true;
            let what = "a [[models]] cannot describe MIG instances".to_owned();
            let hint = format!(
                "leave {key} out: the commands that check a job's options know only the profiles of `tessera profiles`; \
                 such a GPU serves whole GPUs and MPS shares"
            );
            table.errors.push(table.key_span(key), what, Some(hint));
        }
    }
    let names: Vec<String> = names?.into_iter().map(|at| at.value).collect();
    let no_name = table.has("names") && names.is_empty();
    if no_name {
        table.errors.push(table.key_span("names"), "names is empty", None);
    }
    if let (Some(total), Some(At { value, span })) = (&total, &usable)
        && *value > total.value
    {
        let what = format!("usable_mib = {value} is more than memory_mib = {}", total.value);
        table.errors.push(span.clone(), what, None);
    }
    table.finish();
    let (key, total, sms) = (key?.value, total?.value, sms?.value);
    (!no_name && !parts).then(|| {
        SiteModel {
            key,
            names,
            arch,
            total_memory_mib: total,
            usable_mib: usable.map(|at| at.value),
            nominal_gb: nominal.map_or_else(
                || SiteModel::nominal_gb(total),
                |at| u32::try_from(at.value).unwrap_or(u32::MAX),
            ),
            sm: u32::try_from(sms).unwrap_or(u32::MAX),
        }
        .model()
    })
}

fn new_key(text: &str, before: &[&'static Model]) -> Result<String, (String, Option<String>)> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() || !text.chars().all(word) {
        let hint = "use lower-case letters, digits and dashes, such as x1-96gb".to_owned();
        return Err((format!("key = {text:?} is not a model's key"), Some(hint)));
    }
    if before.iter().any(|m| m.key == text) {
        return Err((format!("model {text} is described twice"), None));
    }
    match Model::find(text) {
        Some(_) => Err((
            format!("Tessera knows the model {text}"),
            Some("leave this [[models]] out, or give it another key".to_owned()),
        )),
        None => Ok(text.to_owned()),
    }
}
