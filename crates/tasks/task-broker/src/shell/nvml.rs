//! Reads devices and processes from NVML.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use error_chain::Chain;
use node_driver::NvmlIndex;
use node_driver::nvml::{Nvml, NvmlError, Usage};
use node_driver::process::start_and_parent_of;

use super::mps::Daemons;
use crate::core::{Opened, Process, Sample, Seen};

/// NVML, loaded when it is first needed: a broker without devices needs none. A GPU whose handle was asked for stays open, and others can
/// neither reset it nor change its MIG mode, until NVML is unloaded: so no GPU is asked for but those of the devices.
pub(super) struct Looker {
    library: PathBuf,
    nvml: Option<Nvml>,
    /// The GPU of each device.
    places: BTreeMap<String, NvmlIndex>,
}

impl Looker {
    pub(super) fn new(library: PathBuf) -> Looker {
        Looker { library, nvml: None, places: BTreeMap::new() }
    }

    fn nvml(&mut self) -> Result<&Nvml, NvmlError> {
        match &mut self.nvml {
            Some(nvml) => Ok(nvml),
            none => Ok(none.insert(Nvml::load(&self.library)?)),
        }
    }

    fn usage(&mut self, uuid: &str) -> Result<Usage, NvmlError> {
        if let Some(gpu) = self.places.get(uuid).copied()
            && let Some(usage) = self.nvml()?.usage_on(gpu, uuid)?
        {
            return Ok(usage);
        }
        let found = self.nvml()?.gpu_with(uuid);
        // The search may have opened any GPU.
        self.nvml = None;
        let gpu = found?;
        self.places.insert(uuid.to_owned(), gpu);
        self.nvml()?.usage(Some(gpu), uuid)
    }

    /// A device before anybody is let in.
    pub(super) fn opened(&mut self, uuid: &str) -> Result<Opened, String> {
        let usage = self.usage(uuid).map_err(|e| Chain(&e).to_string())?;
        Ok(Opened { uuid: uuid.to_owned(), free: usage.total.saturating_sub(usage.used), used: usage.used })
    }

    /// A device now. A process that ended between NVML's answer and ours is left out. `daemons` learn of their servers.
    pub(super) fn look(&mut self, uuid: &str, daemons: &mut Daemons) -> Result<Sample, String> {
        let usage = self.usage(uuid).map_err(|e| Chain(&e).to_string())?;
        let seen = |(pid, used)| {
            let (start, parent) = start_and_parent_of(pid)?;
            let process = Process { pid, start };
            Some(Seen { process, used, is_server: daemons.is_server(process, parent) })
        };
        Ok(Sample { used: usage.used, processes: usage.processes.into_iter().filter_map(seen).collect() })
    }

    /// Lets go of the GPUs that have none of these devices.
    pub(super) fn keep<'a>(&mut self, uuids: impl Iterator<Item = &'a str>) {
        let (uuids, before): (BTreeSet<&str>, usize) = (uuids.collect(), self.places.len());
        self.places.retain(|uuid, _| uuids.contains(uuid.as_str()));
        if self.places.len() < before {
            self.nvml = None;
        }
    }
}
