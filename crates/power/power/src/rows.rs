//! Rows of a model file: one for each cap of each thing that they are about.

use std::collections::BTreeMap;

use crate::cap::Cap;
use crate::error::ModelError;

/// Orders rows by what they are about and then by the cap, W. Each has `terms` coefficients; `rows` is the field's name and
/// `words` names a key in errors.
///
/// # Errors
///
/// [`ModelError::Row`] and [`ModelError::Missing`]: a row at another cap, one that is there twice, has more or fewer coefficients,
/// or is missing.
pub fn table<K: Ord + Clone, R: AsRef<[f64]>>(
    rows: &'static str,
    terms: usize,
    caps: &[Cap],
    all: Vec<(K, u32, R)>,
    words: impl Fn(&K) -> String,
) -> Result<BTreeMap<K, Vec<R>>, ModelError> {
    let mut cells: BTreeMap<K, BTreeMap<u32, R>> = BTreeMap::new();
    for (key, watts, row) in all {
        let wrong = |what: String| {
            let what = format!("{} at {watts} W {what}", words(&key));
            Err(ModelError::Row { rows, what })
        };
        if !caps.iter().any(|cap| cap.watts() == watts) {
            return wrong("is not a cap of caps_w".to_owned());
        }
        if row.as_ref().len() != terms {
            return wrong(format!("has {} coefficients, expected {terms}", row.as_ref().len()));
        }
        if cells.entry(key.clone()).or_default().insert(watts, row).is_some() {
            return wrong("is listed twice".to_owned());
        }
    }
    let row = |(key, mut of_caps): (K, BTreeMap<u32, R>)| {
        let missing = |cap: &Cap| ModelError::Missing { rows, what: format!("{} at {cap}", words(&key)) };
        let in_order = caps.iter().map(|cap| of_caps.remove(&cap.watts()).ok_or_else(|| missing(cap)));
        let in_order = in_order.collect::<Result<Vec<_>, _>>()?;
        Ok((key, in_order))
    };
    cells.into_iter().map(row).collect()
}
