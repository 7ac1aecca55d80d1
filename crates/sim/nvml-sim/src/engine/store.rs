//! The state file: one file, shared by every process of the node.
//!
//! Problem: any process may be killed (`kill -9`) between any two instructions, and readers must be fast, for a client asks hundreds of
//! questions.
//!
//! Approach: the file is never changed in place. A writer holds the lock, writes a whole new copy beside it and renames it over; a reader
//! therefore always finds either the old or the new state, complete. Locks are `flock`s, which the kernel releases with the process. The
//! first line carries a generation, so that a reader with a cached state reads 35 bytes and no JSON. There is no fsync: a kill loses
//! nothing that was written, and nothing has to survive a power failure of a simulated node.
//!
//! Files: `STATE`, `STATE.lock` (writers), `STATE.gpuN.lock` (one long operation per GPU at a time), `STATE.meter`
//! ([`super::meter`]), `STATE.work` ([`super::worker`]), `STATE.cuda` (the table of CUDA contexts, [`super::usage`]; locked
//! after `STATE.lock`, never before it), and, for a moment, `STATE.new`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::code::{Answer, Code};
use super::files::with_suffix;
use super::meter::{Meter, Reading};
use super::state::State;
use super::usage::{Locked, Record, Table};
use super::worker::{Folder, Registered, Worker};

const MAGIC: &str = "nvml-sim";
/// Magic, format version, generation, newline.
const HEADER: usize = 8 + 1 + 1 + 1 + 16 + 1;

/// How long a change of the state waits for the table of CUDA contexts.
const PATIENCE: Duration = Duration::from_secs(1);

/// A state file, and the last state read from it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    workers: Folder,
    meter: Meter,
    table: Table,
    cache: Mutex<Option<(u64, Arc<State>)>>,
}

impl Store {
    /// Names a state file; it is opened at each access.
    #[must_use]
    pub fn new(path: &Path) -> Store {
        Store {
            path: path.to_owned(),
            workers: Folder::new(with_suffix(path, ".work")),
            meter: Meter::new(with_suffix(path, ".meter")),
            table: Table::beside(path),
            cache: Mutex::new(None),
        }
    }

    /// Writes the first state, over whatever was there.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn create(path: &Path, state: &State) -> io::Result<Store> {
        if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        let store = Store::new(path);
        let _lock = store.lock(".lock")?;
        // Starting from the clock, a new state in an old place never has a generation that some process has cached.
        store.write(super::fault::now_ms() << 16, state)?;
        store.workers.create()?;
        store.meter.create(state.gpus.len())?;
        store.table.create()?;
        Ok(store)
    }

    /// The state now, with the programs that compute and CUDA programs among the processes.
    ///
    /// # Errors
    ///
    /// [`Code::DriverNotLoaded`] without a readable state file; [`Code::Unknown`] without a readable table of CUDA contexts.
    pub fn read(&self) -> Answer<Arc<State>> {
        let state = self.load()?.1;
        let workers = self.workers.read();
        let records = self.table.read().map_err(|_| Code::Unknown)?;
        if workers.is_empty() && records.is_empty() {
            return Ok(state);
        }
        let mut state = State::clone(&state);
        add(&mut state, workers);
        add_cuda(&mut state, records.iter());
        Ok(Arc::new(state))
    }

    /// Counts this process among the programs that compute, until the answer is dropped.
    ///
    /// # Errors
    ///
    /// [`Code::OperatingSystem`] if that cannot be written.
    pub fn register(&self, workers: &[Worker]) -> Answer<Registered> {
        self.integrate(&*self.read()?)?;
        Registered::new(&self.workers, workers).map_err(|_| Code::OperatingSystem)
    }

    /// Energy and throttled time of every GPU until now.
    ///
    /// # Errors
    ///
    /// [`Code::Unknown`] if the node's sums cannot be read and written.
    pub fn integrate(&self, state: &State) -> Answer<Vec<Reading>> {
        let gpus = 0..u32::try_from(state.gpus.len()).unwrap_or(0);
        let loads = gpus.map(|gpu| Ok((gpu, state.load(gpu)?))).collect::<Answer<Vec<_>>>()?;
        self.meter.advance(loads.into_iter()).map_err(|_| Code::Unknown)
    }

    /// Runs `f` on the state without CUDA programs and the table of them, which nobody else changes meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Store::read`], and what `f` gives.
    pub fn account<T>(&self, f: impl FnOnce(&State, &mut Locked) -> Answer<T>) -> Answer<T> {
        let mut locked = self.table.lock().map_err(|_| Code::Unknown)?;
        let state = self.load()?.1;
        f(&state, &mut locked)
    }

    /// The table of CUDA contexts.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn load(&self) -> Answer<(u64, Arc<State>)> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = File::open(&self.path).map_err(|_| Code::DriverNotLoaded)?;
        let generation = read_header(&mut file)?;
        if let Some((_, state)) = cache.as_ref().filter(|c| c.0 == generation) {
            return Ok((generation, Arc::clone(state)));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|_| Code::DriverNotLoaded)?;
        let state: Arc<State> = Arc::new(serde_json::from_slice(&text).map_err(|_| Code::DriverNotLoaded)?);
        *cache = Some((generation, Arc::clone(&state)));
        Ok((generation, state))
    }

    /// Changes the state: all of `change`, or nothing if it fails or the process dies. Instances that changed are followed by the
    /// files under the root, also when an earlier writer died before it could do that.
    ///
    /// # Errors
    ///
    /// What `change` gives; [`Code::NoPermission`] if the caller may not write the state file; [`Code::Unknown`] if it cannot be written.
    pub fn update<T>(&self, change: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
        let _lock = self.lock(".lock").map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => Code::NoPermission,
            _ => Code::Unknown,
        })?;
        // No context may come to an instance that is being destroyed. A program that is stopped with the lock cannot prevent the change.
        let table = self.table.lock_within(PATIENCE);
        let (generation, old) = self.load()?;
        if old.tree_dirty {
            // An earlier writer died between the state and the files: finish its work before changing anything.
            super::tree::follow(&old, None).map_err(|_| Code::OperatingSystem)?;
        }
        let mut state = State::clone(&old);
        add(&mut state, self.workers.read());
        match &table {
            Ok(table) => add_cuda(&mut state, table.records().map(|(_, record)| record)),
            Err(_) => add_cuda(&mut state, self.table.read().unwrap_or_default().iter()),
        }
        // What a GPU did until now, it did in the state before the change.
        self.integrate(&state)?;
        let answer = change(&mut state)?;
        let workers = std::mem::take(&mut state.workers);
        let computes = |pid: u32| workers.iter().any(|worker| worker.process.pid == pid);
        for gpu in &mut state.gpus {
            gpu.processes.retain(|p| p.cuda_until_ms.is_none() && p.is_alive() && !computes(p.pid));
        }
        self.workers.clean();
        state.tree_dirty = state.gpus.iter().zip(&old.gpus).any(|(a, b)| a.instances != b.instances);
        if state != *old {
            self.write(generation + 1, &state).map_err(|_| Code::Unknown)?;
        }
        if state.tree_dirty {
            super::tree::follow(&state, Some(&old)).map_err(|_| Code::OperatingSystem)?;
            state.tree_dirty = false;
            self.write(generation + 2, &state).map_err(|_| Code::Unknown)?;
        }
        Ok(answer)
    }

    /// Waits until no other process changes GPU `index`, and keeps others out until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`Code::NoPermission`] if the caller may not write beside the state file.
    pub fn lock_gpu(&self, index: u32) -> Answer<File> {
        self.lock(&format!(".gpu{index}.lock")).map_err(|_| Code::NoPermission)
    }

    fn lock(&self, suffix: &str) -> io::Result<File> {
        let path = with_suffix(&self.path, suffix);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    fn write(&self, generation: u64, state: &State) -> io::Result<()> {
        let mut text = format!("{MAGIC} 1 {generation:016x}\n").into_bytes();
        serde_json::to_writer(&mut text, state)?;
        let new = with_suffix(&self.path, ".new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&new)?;
        // Jobs of any user read it, whatever the umask of the daemon that wrote it.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(&text)?;
        fs::rename(&new, &self.path)?;
        // The writer is often the next reader.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = Some((generation, Arc::new(state.clone())));
        Ok(())
    }
}

fn add(state: &mut State, workers: Vec<Worker>) {
    for worker in &workers {
        if let Some(gpu) = state.gpus.get_mut(worker.gpu as usize) {
            gpu.processes.push(worker.process.clone());
        }
    }
    state.workers = workers;
}

fn add_cuda<'a>(state: &mut State, records: impl Iterator<Item = &'a Record>) {
    let late_free_ms = state.node.late_free_ms;
    for record in records {
        if let Some(gpu) = state.gpus.get_mut(record.gpu as usize) {
            gpu.processes.push(record.to_process(late_free_ms));
        }
    }
}

fn read_header(file: &mut File) -> Answer<u64> {
    let mut header = [0u8; HEADER];
    file.read_exact(&mut header).map_err(|_| Code::DriverNotLoaded)?;
    let text = str::from_utf8(&header).map_err(|_| Code::DriverNotLoaded)?;
    let hex = text.strip_prefix(MAGIC).and_then(|t| t.strip_prefix(" 1 ")).map(str::trim_end);
    hex.and_then(|h| u64::from_str_radix(h, 16).ok()).ok_or(Code::DriverNotLoaded)
}
