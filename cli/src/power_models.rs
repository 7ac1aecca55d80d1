//! The power models of a site with all their parts: those that slurmctld passes over are read here.

use std::sync::Arc;

use power_study::Model;
use site_config::SiteConfig;

use crate::outcome::Failure;

/// Holds each model of a configuration once, beside what slurmctld reads of it.
#[derive(Default)]
pub(crate) struct PowerModels(Vec<(Arc<power::Model>, Arc<Model>)>);

impl PowerModels {
    /// Reads the models that a configuration names. Fails for the first that is not whole.
    pub(crate) fn of(config: &SiteConfig) -> Result<Self, Failure> {
        let mut all = Vec::new();
        for spec in &config.nodes {
            let Some(alone) = &spec.power.model else { continue };
            let whole = Model::from_json(alone.text()).map_err(|e| {
                let node = spec.names.first().map_or("", String::as_str);
                Failure::new(format!("power_model of {node}: {e}")).hint("`tessera lab power fit` writes one")
            })?;
            all.push((Arc::clone(alone), Arc::new(whole)));
        }
        Ok(Self(all))
    }

    /// Finds a model by what slurmctld reads of it.
    pub(crate) fn whole(&self, alone: &Arc<power::Model>) -> Option<Arc<Model>> {
        self.0.iter().find(|(known, _)| Arc::ptr_eq(known, alone)).map(|(_, whole)| Arc::clone(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::power::calibrated;

    fn site(model: &str) -> SiteConfig {
        let text =
            "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\npower_model = \"m.json\"\n";
        let (config, errors) = site_config::parse("t", text, &|_| Ok(model.to_owned()));
        assert_eq!(errors, []);
        config.unwrap()
    }

    #[test]
    fn the_planner_reads_what_slurmctld_passes_over() {
        let (counters, runs) = calibrated();
        let gpu = geometry::Model::find("a100-40gb").unwrap();
        let file = power_study::fit_best(gpu, &counters, &runs).unwrap().to_json();
        let config = site(&file.to_string());
        let alone = config.nodes[0].power.model.as_ref().unwrap();
        let whole = PowerModels::of(&config).unwrap().whole(alone).unwrap();
        assert_eq!(whole.caps(), alone.caps());
        assert!(!whole.states(2).is_empty());
        let mut without = file;
        without["corun"].as_array_mut().unwrap().pop();
        let failure = PowerModels::of(&site(&without.to_string())).err().unwrap();
        assert!(failure.what().starts_with("power_model of n1: corun has no row for "), "{}", failure.what());
    }
}
