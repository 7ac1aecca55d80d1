//! The driver during one operation: loaded when first needed, and unloaded for a GPU reset, which our handle would block.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use error_chain::Chain;
use geometry::Model;

use crate::command::{CommandError, ToolRun};
use crate::fault::Fault;
use crate::gpu_clients;
use crate::gpu_settings::GpuSettings;
use crate::power;
use crate::settings::Settings;
use node_driver::NvmlIndex;
use node_driver::deadline::{Backoff, Deadline};
use node_driver::nvml::{Code, Nvml, NvmlError};
use node_journal::GpuRecord;
use node_journal::lock::ResetLock;

/// Longest time that the site's command may take to stop or to start other programs.
const CLIENTS_LIMIT: Duration = Duration::from_secs(30);

/// Time that a reset has to have beyond twice that of the last one, or it is not tried again.
const RESET_SPARE: Duration = Duration::from_secs(1);

/// The driver's library, if it is loaded now.
pub struct Driver<'a> {
    settings: &'a Settings,
    nvml: Option<Nvml>,
    /// The site's command has stopped other clients of these GPUs: each GPU's UUID, and the process ids of the last ones.
    stopped: BTreeMap<NvmlIndex, (String, Vec<u32>)>,
    /// Sentences for the log.
    notes: Vec<String>,
}

impl<'a> Driver<'a> {
    /// A driver that is not loaded yet.
    #[must_use]
    pub fn new(settings: &'a Settings) -> Self {
        Self { settings, nvml: None, stopped: BTreeMap::new(), notes: Vec::new() }
    }

    /// Takes the sentences for the log.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The library, loaded if it was not.
    ///
    /// # Errors
    ///
    /// It cannot be loaded.
    pub fn nvml(&mut self) -> Result<&Nvml, NvmlError> {
        match &mut self.nvml {
            Some(nvml) => Ok(nvml),
            none => Ok(none.insert(Nvml::load(&self.settings.node.nvml_library)?)),
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
    ///
    /// If other programs have the GPU open, the site's command stops them; see [`Self::start_clients`].
    pub fn set_mode(&mut self, gpu: NvmlIndex, on: bool, deadline: &Deadline) -> Result<(), Fault> {
        let mut backoff = Backoff::driver();
        while !self.switch(gpu, on, deadline)? {
            if !backoff.pause(deadline) {
                let clients = self.in_the_way(gpu)?.0;
                let what =
                    format!("the GPU, whose MIG mode must be {},{clients}", if on { "on" } else { "off" });
                return Err(Fault::Busy { gpu, what, timeout: deadline.timeout });
            }
        }
        Ok(())
    }

    /// Has the site's command start again whatever it has stopped. The caller has given back the GPUs' locks: the command takes as long as
    /// it likes, and other jobs' prologs wait for those locks.
    pub fn start_clients(&mut self) {
        self.nvml = None;
        for (gpu, (uuid, _)) in std::mem::take(&mut self.stopped) {
            let deadline = Deadline::after(CLIENTS_LIMIT);
            let started = gpu_clients::tell(self.settings, "start", &gpu.to_string(), &uuid, &deadline);
            self.note_clients(gpu, "started", started);
        }
    }

    /// Has the site's command stop other programs that have the GPU open, unless it was to stop these before: another job's prolog may
    /// have started them again meanwhile. True: it may help to try again.
    fn stop_clients(&mut self, gpu: NvmlIndex, deadline: &Deadline) -> Result<bool, Fault> {
        if self.settings.node.gpu_clients_command.is_empty() {
            return Ok(false);
        }
        let minor = self.nvml()?.minor(gpu)?;
        let clients = gpu_clients::holding(&self.settings.node.dev_root, minor);
        let clients: Vec<u32> = clients.into_iter().map(|client| client.pid).collect();
        let before = self.stopped.get(&gpu).map_or(&[][..], |(_, clients)| clients);
        if clients.iter().all(|pid| before.contains(pid)) {
            return Ok(false);
        }
        let uuid = self.nvml()?.uuid(gpu)?;
        let limit = deadline.at_most(CLIENTS_LIMIT);
        let done = gpu_clients::tell(self.settings, "stop", &gpu.to_string(), &uuid, &limit);
        self.stopped.insert(gpu, (uuid, clients));
        self.note_clients(gpu, "stopped", done);
        Ok(true)
    }

    fn note_clients(&mut self, gpu: NvmlIndex, verb: &str, done: Result<(), CommandError>) {
        self.notes.push(match done {
            Ok(()) => {
                format!("GPU {gpu}: gpu_clients_command has {verb} other programs, for a change of MIG mode")
            }
            Err(e) => format!("GPU {gpu}: other programs could not be {verb}: {}", Chain(&e)),
        });
    }

    /// Tries once to bring the GPU into the mode. False: it is not there yet, and another try may help.
    fn switch(&mut self, gpu: NvmlIndex, on: bool, deadline: &Deadline) -> Result<bool, Fault> {
        let mode = self.nvml()?.mig_mode(gpu)?;
        if mode.current == on && mode.pending == on {
            return Ok(true);
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
            Ok(()) | Err(Code::RESET_REQUIRED) if mode.current == on && mode.pending == on => Ok(true),
            Ok(()) | Err(Code::RESET_REQUIRED) if mode.pending == on => self.reset_or_wait(gpu, deadline),
            Ok(()) | Err(Code::NOT_READY | Code::RESET_REQUIRED) => Ok(false),
            Err(Code::IN_USE) => self.stop_clients(gpu, deadline).map(|_| false),
            Err(code) => {
                Err(NvmlError::Gpu { gpu, what: "cannot activate its MIG mode".to_owned(), code }.into())
            }
        }
    }

    /// Resets a GPU whose change of mode is pending. False if programs that had the GPU open may be gone at the next try, and there is
    /// time for another: a command that counts GPUs, Tessera's own ones among them, has each of them open for a moment.
    fn reset_or_wait(&mut self, gpu: NvmlIndex, deadline: &Deadline) -> Result<bool, Fault> {
        let begun = Instant::now();
        let fault = match self.reset(gpu, deadline) {
            Ok(()) => return Ok(false),
            Err(fault) => fault,
        };
        let stopped = matches!(fault, Fault::Reset { .. }) && self.stop_clients(gpu, deadline)?;
        // A reset that the deadline ends says nothing, and leaves the GPU in the middle of it.
        if stopped || fault.may_pass() && deadline.left() > begun.elapsed() * 2 + RESET_SPARE {
            return Ok(false);
        }
        Err(fault)
    }

    /// Checks that the GPU's number still means that GPU. A reset may lose a GPU, and those behind it move up: they may be other jobs'.
    pub(crate) fn has_its_number(&mut self, gpu: &GpuRecord) -> Result<(), NvmlError> {
        if self.nvml()?.uuid(gpu.index)? == gpu.uuid {
            return Ok(());
        }
        let what = "its number means another GPU since a reset";
        Err(NvmlError::Device { uuid: gpu.uuid.clone(), what, code: Code::NOT_FOUND })
    }

    /// See [`gpu_clients::in_the_way`].
    fn in_the_way(&mut self, gpu: NvmlIndex) -> Result<(String, bool), NvmlError> {
        let minor = self.nvml()?.minor(gpu)?;
        Ok(gpu_clients::in_the_way(self.settings, minor))
    }

    /// Resets a GPU by the site's command. Our own handle would keep the GPU in use. The power limit is what it was before.
    fn reset(&mut self, gpu: NvmlIndex, deadline: &Deadline) -> Result<(), Fault> {
        let settings = self.settings;
        let nvml = self.nvml()?;
        let record = power::record(nvml, gpu)?;
        let uuid = record.uuid.clone();
        let _power = power::before_reset(settings, nvml, &record, deadline)?;
        let _reset = ResetLock::take(&settings.node.state_dir, gpu, deadline)?;
        self.nvml = None;
        let fill = |s: &String| s.replace("%i", &gpu.to_string()).replace("%u", &uuid);
        let mut words = self.settings.node.gpu_reset_command.iter().map(fill);
        let program = words.next().unwrap_or_default().into();
        let run = ToolRun { program, args: words.collect(), env: Vec::new(), input: "", user: None };
        node_journal::crash::point("before a reset");
        let done = run.output(deadline);
        self.has_its_number(&record)?;
        if let Err(source) = done {
            let (clients, may_be_people) = self.in_the_way(gpu)?;
            // No user can have been in the way of a command that did not run.
            let may_be_people = may_be_people && !matches!(source, CommandError::Start { .. });
            return Err(Fault::Reset { gpu, clients, may_be_people, source: source.into() });
        }
        node_journal::crash::point("after a reset");
        power::after_reset(settings, self.nvml()?, &record)
    }
}
