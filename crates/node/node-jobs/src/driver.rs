//! The driver during one operation: loaded when first needed, and unloaded for a GPU reset, which our handle would block.

use geometry::Model;

use crate::command::ToolRun;
use crate::fault::Fault;
use crate::gpu_settings::GpuSettings;
use crate::power;
use crate::settings::Settings;
use node_driver::NvmlIndex;
use node_driver::deadline::{Backoff, Deadline};
use node_driver::nvml::{Code, Nvml, NvmlError};
use node_journal::lock::ResetLock;

/// The driver's library, if it is loaded now.
pub struct Driver<'a> {
    settings: &'a Settings,
    nvml: Option<Nvml>,
}

impl<'a> Driver<'a> {
    /// A driver that is not loaded yet.
    #[must_use]
    pub fn new(settings: &'a Settings) -> Self {
        Self { settings, nvml: None }
    }

    /// The library, loaded if it was not.
    ///
    /// # Errors
    ///
    /// It cannot be loaded.
    pub fn nvml(&mut self) -> Result<&Nvml, NvmlError> {
        match &mut self.nvml {
            Some(nvml) => Ok(nvml),
            none => Ok(none.insert(Nvml::load(&self.settings.nvml_library)?)),
        }
    }

    /// The geometry of a GPU: as NVML names it, else as the site says.
    pub(crate) fn model(
        &mut self,
        gpu: NvmlIndex,
        described: Option<GpuSettings>,
    ) -> Result<&'static Model, Fault> {
        let name = self.nvml()?.name(gpu)?;
        Model::find(&name).or(described.map(|d| d.model)).ok_or(Fault::UnknownModel { gpu, name })
    }

    /// Brings a GPU into a MIG mode. The caller has made sure that nobody uses the GPU and, for switching it off,
    /// that no instance is left.
    pub fn set_mode(&mut self, gpu: NvmlIndex, on: bool, deadline: &Deadline) -> Result<(), Fault> {
        let busy = || Fault::Busy {
            gpu,
            what: format!("the GPU, whose MIG mode must be {},", if on { "on" } else { "off" }),
            timeout: deadline.timeout,
        };
        let mut backoff = Backoff::driver();
        loop {
            let mode = self.nvml()?.mig_mode(gpu)?;
            if mode.current == on && mode.pending == on {
                return Ok(());
            }
            node_journal::crash::point("before MIG mode");
            let activation = match self.nvml()?.set_mig_mode(gpu, on) {
                Ok(activation) => activation,
                Err(e) if e.code() == Some(Code::IN_USE) => Err(Code::IN_USE),
                Err(e) => return Err(e.into()),
            };
            node_journal::crash::point("after MIG mode");
            let mode = self.nvml()?.mig_mode(gpu)?;
            match activation {
                Ok(()) | Err(Code::RESET_REQUIRED) if mode.current == on && mode.pending == on => {
                    return Ok(());
                }
                Ok(()) | Err(Code::RESET_REQUIRED) if mode.pending == on => self.reset(gpu, deadline)?,
                Ok(()) | Err(Code::IN_USE | Code::NOT_READY | Code::RESET_REQUIRED) => {}
                Err(code) => {
                    return Err(NvmlError::Gpu {
                        gpu,
                        what: "cannot activate its MIG mode".to_owned(),
                        code,
                    }
                    .into());
                }
            }
            if !backoff.pause(deadline) {
                return Err(busy());
            }
        }
    }

    /// Resets a GPU by the site's command. Our own handle would keep the GPU in use. The power limit is what it was before.
    fn reset(&mut self, gpu: NvmlIndex, deadline: &Deadline) -> Result<(), Fault> {
        let settings = self.settings;
        let nvml = self.nvml()?;
        let record = power::record(nvml, gpu)?;
        let uuid = record.uuid.clone();
        let _power = power::before_reset(settings, nvml, &record, deadline)?;
        let _reset = ResetLock::take(&settings.state_dir, gpu, deadline)?;
        self.nvml = None;
        let fill = |s: &String| s.replace("%i", &gpu.to_string()).replace("%u", &uuid);
        let mut words = self.settings.gpu_reset_command.iter().map(fill);
        let program = words.next().unwrap_or_default().into();
        let run = ToolRun { program, args: words.collect(), env: Vec::new(), input: "", user: None };
        node_journal::crash::point("before a reset");
        run.output(deadline).map_err(|source| Fault::Reset { gpu, source })?;
        node_journal::crash::point("after a reset");
        power::after_reset(settings, self.nvml()?, &record)
    }
}
