//! Reads what single GPUs of a node set are for: `gpu_use`, `static`, `keep_uncut`.

use geometry::{Model, Profile, ProfileId, Slice};
use gpu_rules::MigPolicy;

use crate::types::GpuUse;
use toml_tables::suggest;
use toml_tables::{At, TableReader, Value, pick};

/// The words that `gpu_use` takes, as in `--gpu-isolation`.
const WORDS: [(&str, GpuUse); 4] =
    [("mig", GpuUse::Instances), ("whole", GpuUse::Whole), ("mps", GpuUse::Shares), ("slurm", GpuUse::Slurm)];

/// Reads the purpose of each GPU of a node set; `None` after an error, or where the GPUs are not known.
pub(crate) fn read(table: &TableReader<'_, '_>, gpus: Option<&[&'static Model]>) -> Option<Vec<GpuUse>> {
    let (words, fixed) = (table.entries("gpu_use"), table.entries("static"));
    let gpus = gpus?;
    let mut uses = Uses { table, gpus, of: vec![None; gpus.len()], good: true };
    for (key, value) in words {
        let listed = uses.list("gpu_use", &key);
        match table.as_string(value, "gpu_use").map(|text| pick("gpu_use", &text, &WORDS)) {
            Some(Ok(GpuUse::Instances)) if listed.iter().any(|gpu| !gpus[*gpu].has_mig()) => {
                let hint = Some("use \"whole\", \"mps\" or \"slurm\"".to_owned());
                uses.error(value.span(), format!("not all of GPUs {} have MIG", key.value), hint);
            }
            Some(Ok(word)) => listed.into_iter().for_each(|gpu| uses.enter(gpu, word.clone(), &key)),
            Some(Err((what, hint))) => uses.error(value.span(), what, hint),
            None => uses.good = false,
        }
    }
    for (key, value) in fixed {
        for gpu in uses.list("static", &key) {
            match instances(table, value, gpus[gpu]) {
                Some(instances) => uses.enter(gpu, GpuUse::Static(instances), &key),
                None => {
                    uses.good = false;
                    // The same list has the same errors on the next GPU.
                    break;
                }
            }
        }
    }
    uses.good.then(|| uses.of.into_iter().map(Option::unwrap_or_default).collect())
}

struct Uses<'a, 'i> {
    table: &'a TableReader<'a, 'i>,
    gpus: &'a [&'static Model],
    of: Vec<Option<GpuUse>>,
    /// There was no error yet.
    good: bool,
}

impl Uses<'_, '_> {
    fn error(&mut self, span: std::ops::Range<usize>, what: String, hint: Option<String>) {
        self.table.errors.push(span, what, hint);
        self.good = false;
    }

    /// The GPUs of a list such as `0-1,3`; none after an error.
    fn list(&mut self, name: &str, key: &At<String>) -> Vec<usize> {
        let Some(listed) = numbers(&key.value) else {
            let hint = Some("write GPU numbers such as \"0-1,3\"".to_owned());
            self.error(key.span.clone(), format!("{name} cannot be for GPUs {:?}", key.value), hint);
            return Vec::new();
        };
        if let Some(gpu) = listed.iter().find(|gpu| **gpu >= self.gpus.len()) {
            let hint = format!("they have GPUs 0 to {}", self.gpus.len().saturating_sub(1));
            self.error(key.span.clone(), format!("these nodes have no GPU {gpu}"), Some(hint));
            return Vec::new();
        }
        listed
    }

    fn enter(&mut self, gpu: usize, word: GpuUse, key: &At<String>) {
        if self.of[gpu].replace(word).is_some() {
            self.error(key.span.clone(), format!("GPU {gpu} is given two uses"), None);
        }
    }
}

/// Most GPUs of a list: no node has more, and a range must not cost more.
const MOST: usize = 64;

fn numbers(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |n: &str| {
            let digits = !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
            n.parse().ok().filter(|n: &usize| digits && *n < 100_000)
        };
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        if last < first || last - first >= MOST || all.len() > MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// The instances of a static GPU, from `["3g.20gb@0", …]`; `None` after an error.
fn instances(
    table: &TableReader<'_, '_>,
    value: &Value<'_>,
    model: &'static Model,
) -> Option<Vec<(ProfileId, Slice)>> {
    let errors = table.errors;
    let Some(array) = value.get_ref().as_array() else {
        table.wrong_type(value, "static", "an array of instances such as \"3g.20gb@0\"");
        return None;
    };
    if array.is_empty() {
        let hint = "write PROFILE@START such as \"3g.20gb@0\", or leave the GPU out".to_owned();
        errors.push(value.span(), "static has no instances", Some(hint));
        return None;
    }
    let mut all: Vec<(&Profile, Slice)> = Vec::new();
    for item in array {
        let text = table.as_string(item, "static")?;
        match instance(&text, model) {
            Ok(placed) if model.has_place_beside(all.iter().copied(), placed) => all.push(placed),
            Ok(_) => {
                errors.push(item.span(), format!("{text} does not fit on one GPU with the others"), None);
                return None;
            }
            Err((what, hint)) => {
                errors.push(item.span(), what, Some(hint));
                return None;
            }
        }
    }
    all.sort_by_key(|(_, start)| *start);
    Some(all.into_iter().map(|(profile, start)| (profile.id, start)).collect())
}

fn instance(text: &str, model: &'static Model) -> Result<(&'static Profile, Slice), (String, String)> {
    let written = || "write PROFILE@START such as \"3g.20gb@0\"".to_owned();
    let (name, start) =
        text.split_once('@').ok_or_else(|| (format!("{text:?} names no start"), written()))?;
    let profile = model.profile(name).ok_or_else(|| {
        let names: Vec<&str> = model.profiles.iter().map(|p| p.name.as_str()).collect();
        (format!("profile {name} does not exist on {}", model.key), suggest(name, &names))
    })?;
    let starts: Vec<String> = profile.starts.iter().map(ToString::to_string).collect();
    match profile.starts.iter().find(|s| s.to_string() == start) {
        Some(start) => Ok((profile, *start)),
        None => {
            let what = format!("{name} cannot start at {start} of {}", model.key);
            Err((what, format!("it can start at {}", starts.join(", "))))
        }
    }
}

/// Reads `keep_uncut`. `None` after an error, or where it is not known what the GPUs are for.
pub(crate) fn keep_uncut(
    table: &TableReader<'_, '_>,
    uses: Option<&[GpuUse]>,
    mig: Option<MigPolicy>,
) -> Option<usize> {
    if !table.has("keep_uncut") {
        return Some(0);
    }
    let read = table.number("keep_uncut", 1..u64::try_from(MOST).unwrap_or(64) + 1)?;
    let (uses, mig) = (uses?, mig?);
    let flexible = |of: &&GpuUse| **of == GpuUse::AsMig && mig != MigPolicy::On;
    let most = uses.iter().filter(flexible).count();
    let n = usize::try_from(read.value).ok()?;
    if n > most {
        let what = format!(
            "keep_uncut is {n}, but only {} may be had both whole and in parts",
            geometry::counted(most, "GPU")
        );
        let hint = "count the GPUs without gpu_use and static, where mig is not \"on\"".to_owned();
        table.errors.push(read.span, what, Some(hint));
        return None;
    }
    Some(n)
}
