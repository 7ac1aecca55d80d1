//! The GPU models that the data files have.

use std::sync::OnceLock;

use crate::model::Model;
use crate::{tables, whole};

impl Model {
    /// Every known model: first those whose instances can be placed, then those without MIG, each in its file's order.
    #[must_use]
    pub fn all() -> &'static [Model] {
        static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
        MODELS.get_or_init(|| {
            let mut all = tables::load();
            all.extend(whole::load());
            all
        })
    }

    /// The model with this key or NVML name, in upper or lower case.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Model> {
        let same = |s: &String| s.eq_ignore_ascii_case(name);
        Model::all().iter().find(|m| same(&m.key) || m.names.iter().any(same))
    }

    /// The models whose key begins with this name, in upper or lower case: both V100s for `v100`.
    #[must_use]
    pub fn beginning_with(name: &str) -> Vec<&'static Model> {
        let begins = |m: &&Model| m.key.get(..name.len()).is_some_and(|k| k.eq_ignore_ascii_case(name));
        Model::all().iter().filter(|_| !name.is_empty()).filter(begins).collect()
    }
}
