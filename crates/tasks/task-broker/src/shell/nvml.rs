//! Reads devices and processes from NVML.

use std::path::PathBuf;

use error_chain::Chain;
use node_driver::nvml::{Nvml, Usage};
use node_driver::process::start_and_parent_of;

use super::mps::Daemons;
use crate::core::{Opened, Process, Sample, Seen};

/// NVML, loaded when it is first needed: a broker without devices needs none.
pub(super) struct Looker {
    library: PathBuf,
    nvml: Option<Nvml>,
}

impl Looker {
    pub(super) fn new(library: PathBuf) -> Looker {
        Looker { library, nvml: None }
    }

    fn usage(&mut self, uuid: &str) -> Result<Usage, String> {
        let nvml = match &self.nvml {
            Some(nvml) => nvml,
            None => self.nvml.insert(Nvml::load(&self.library).map_err(|e| Chain(&e).to_string())?),
        };
        nvml.usage(uuid).map_err(|e| Chain(&e).to_string())
    }

    /// A device before anybody is let in.
    pub(super) fn opened(&mut self, uuid: &str) -> Result<Opened, String> {
        let usage = self.usage(uuid)?;
        Ok(Opened { uuid: uuid.to_owned(), free: usage.total.saturating_sub(usage.used), used: usage.used })
    }

    /// A device now. A process that ended between NVML's answer and ours is left out. `daemons` learn of their servers.
    pub(super) fn look(&mut self, uuid: &str, daemons: &mut Daemons) -> Result<Sample, String> {
        let usage = self.usage(uuid)?;
        let seen = |(pid, used)| {
            let (start, parent) = start_and_parent_of(pid)?;
            let process = Process { pid, start };
            Some(Seen { process, used, is_server: daemons.is_server(process, parent) })
        };
        Ok(Sample { used: usage.used, processes: usage.processes.into_iter().filter_map(seen).collect() })
    }

    /// Lets go of the driver, so that others may reset a GPU or change MIG mode.
    pub(super) fn unload(&mut self) {
        self.nvml = None;
    }
}
