//! A SPANK of values for unit tests, with what was asked of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;

use job_options::Spec;

use crate::spank::{Errors, OptionsOfSrun, Spank, SpankError};

type Variables = RefCell<BTreeMap<String, String>>;

/// Job 12 of user 1000, with one task.
#[derive(Default)]
pub(crate) struct FakeSpank {
    pub(crate) step: Variables,
    pub(crate) control: Variables,
    pub(crate) process: Variables,
    pub(crate) is_quiet: bool,
    pub(crate) gpu_bind: Option<String>,
    /// Command lines that were started, with their environments.
    pub(crate) started: RefCell<Vec<(Vec<String>, Vec<String>)>>,
}

impl FakeSpank {
    pub(crate) fn with_gpu_bind(self, bind: Option<&str>) -> Self {
        Self { gpu_bind: bind.map(str::to_owned), ..self }
    }

    pub(crate) fn control(&self, name: &str) -> Option<String> {
        self.control.borrow().get(name).cloned()
    }
}

fn set(variables: &Variables, name: &str, value: &str) {
    variables.borrow_mut().insert(name.to_owned(), value.to_owned());
}

impl Spank for FakeSpank {
    fn job_id(&self) -> Result<u32, SpankError> {
        Ok(12)
    }
    fn job_uid(&self) -> Result<u32, SpankError> {
        Ok(1000)
    }
    fn job_gid(&self) -> Result<u32, SpankError> {
        Ok(1000)
    }
    fn step_id(&self) -> Result<u32, SpankError> {
        Ok(0)
    }
    fn job_cores(&self) -> Option<String> {
        None
    }
    fn step_cores(&self) -> Option<String> {
        None
    }
    fn restart_count(&self) -> u32 {
        0
    }
    fn local_task_count(&self) -> Result<u32, SpankError> {
        Ok(1)
    }
    fn local_task(&self) -> Result<u32, SpankError> {
        Ok(0)
    }
    fn getenv(&self, name: &CStr) -> Option<String> {
        self.step.borrow().get(name.to_str().unwrap()).cloned()
    }
    fn setenv(&self, name: &str, value: &str) -> Result<(), SpankError> {
        set(&self.step, name, value);
        Ok(())
    }
    fn unsetenv(&self, name: &str) {
        self.step.borrow_mut().remove(name);
    }
    fn control_setenv(&self, name: &str, value: &str) -> Result<(), SpankError> {
        set(&self.control, name, value);
        Ok(())
    }
    fn control_unsetenv(&self, name: &str) {
        self.control.borrow_mut().remove(name);
    }
    fn register(&self, _: &str, _: u8, _: &Spec) -> Result<(), SpankError> {
        Ok(())
    }
    fn options_of_srun(&self) -> OptionsOfSrun {
        OptionsOfSrun { is_quiet: self.is_quiet, gpu_bind: self.gpu_bind.clone(), takes_all_gres: false }
    }
    fn fences_devices(&self) -> Option<bool> {
        None
    }
    fn configured_node_name(&self) -> Option<String> {
        None
    }
    fn detects_gpus(&self) -> bool {
        false
    }
    fn slurm_number(&self) -> u32 {
        0
    }
    fn effective_uid(&self) -> u32 {
        0
    }
    fn set_env(&self, name: &str, value: &str) {
        set(&self.process, name, value);
    }
    fn forget_env(&self, name: &str) {
        self.process.borrow_mut().remove(name);
    }
    fn spawn_detached(&self, argv: &[String], env: &[String], _: Errors) -> io::Result<()> {
        self.started.borrow_mut().push((argv.to_vec(), env.to_vec()));
        Ok(())
    }
}
