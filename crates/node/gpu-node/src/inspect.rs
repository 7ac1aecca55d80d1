//! Shows the node as it is, for `tessera layout`, `tessera node status` and `tessera doctor`.

use std::collections::HashSet;
use std::fmt;

use error_chain::Chain;
use geometry::{JobId, Model, ProfileId, Slice};
use node_state::{MigPolicy, Node, Purpose};

use crate::broker_jobs;
use crate::device_nodes::{GpuFacts, device_nodes};
use crate::driver_params::complaint;
use crate::engine_view::{GpuView, engine_view, view};
use crate::fences;
use crate::power_limits as power;
use crate::reconcile::is_live;
use node_driver::NvmlIndex;
use node_driver::nvml::{GpuInstance, Nvml};
use node_jobs::Fault;
use node_jobs::access::{Devices, gpu_node};
use node_jobs::lifecycle::require_root;
use node_jobs::mps;
use node_jobs::stale_processes::{self, Leftover, OpenNodes};
use node_jobs::{GpuSettings, Settings};
use node_journal::{DamagedFile, Entry, GrantKind, InstanceRecord, Journal, Phase};

/// Two sources that say different things about one GPU or job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// About this GPU, if about one.
    pub gpu: Option<NvmlIndex>,
    /// About this job, if about one.
    pub job: Option<JobId>,
    /// The difference, as `tessera doctor` shows it.
    pub what: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(gpu) = self.gpu {
            write!(f, "GPU {gpu}: ")?;
        }
        if let Some(job) = self.job {
            write!(f, "job {job}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// The node as it is.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// As the engine sees it. A GPU that does not answer, or whose model is unknown, is left out together with all after
    /// it: a GPU's place is its number.
    pub node: Node,
    /// As the driver says.
    pub gpus: Vec<GpuView>,
    /// As the journal says, by job id.
    pub entries: Vec<Entry>,
    /// Differences between journal and driver; empty on a healthy node.
    pub disagreements: Vec<Disagreement>,
}

/// Looks at everything and changes nothing. `live` are the jobs on the
/// node, where known.
///
/// # Errors
///
/// Not root, the journal cannot be read, or the driver does not answer at all.
pub fn inspect(settings: &Settings, live: Option<&HashSet<JobId>>) -> Result<Inspection, Fault> {
    require_root()?;
    let journal = Journal::open(&settings.node.state_dir)?;
    let (entries, damaged) = journal.jobs()?.into_parts();
    let nvml = Nvml::load(&settings.node.nvml_library)?;
    let mut found = Disagreements { list: Vec::new() };
    found.damaged(&damaged);
    let mut gpus = Vec::new();
    for gpu in (0..nvml.count()?).map(NvmlIndex) {
        match view(&nvml, gpu) {
            Ok(v) => gpus.push(v),
            Err(e) => found.gpu(gpu, Chain(&e).to_string()),
        }
    }
    found.jobs(&journal, &entries, live);
    found.gpus(settings, &gpus, &entries);
    found.instances(settings, &gpus, &entries);
    found.daemons(settings, &journal, &entries)?;
    let complaints = broker_jobs::complaints(settings, &journal, &entries).into_iter();
    found.list.extend(complaints.map(|what| Disagreement { gpu: None, job: None, what }));
    found.limits(settings, &journal, &nvml, &entries)?;
    found.fences(settings, &entries);
    found.leftovers(settings, &nvml, &gpus, &entries);
    if let Err(e) = found.nodes(settings, &gpus, &entries) {
        found.list.push(Disagreement { gpu: None, job: None, what: Chain(&e).to_string() });
    }
    let node = engine_view(settings, &gpus, &entries);
    Ok(Inspection { node, gpus, entries, disagreements: found.list })
}

/// True where the record and the instance, of one GPU, are the same one.
fn same(record: &InstanceRecord, instance: &GpuInstance) -> bool {
    record.placement() == instance.placement
        && record.live.as_ref().is_some_and(|l| {
            l.gi == instance.id && instance.compute.iter().any(|c| c.id == l.ci && c.uuid == l.uuid)
        })
}

struct Disagreements {
    list: Vec<Disagreement>,
}

impl Disagreements {
    fn gpu(&mut self, gpu: NvmlIndex, what: String) {
        self.list.push(Disagreement { gpu: Some(gpu), job: None, what });
    }

    fn job(&mut self, entry: &Entry, gpu: Option<NvmlIndex>, what: String) {
        self.list.push(Disagreement { gpu, job: Some(entry.job()), what });
    }

    fn damaged(&mut self, files: &[DamagedFile]) {
        for file in files {
            self.list.push(Disagreement { gpu: None, job: None, what: file.to_string() });
        }
    }

    fn jobs(&mut self, journal: &Journal, entries: &[Entry], live: Option<&HashSet<JobId>>) {
        for entry in entries {
            if !is_live(entry, journal.boot(), live) {
                self.job(entry, None, "is journalled but not on this node any more".to_owned());
            }
        }
    }

    fn gpus(&mut self, settings: &Settings, gpus: &[GpuView], entries: &[Entry]) {
        let (described, present) = (settings.gpus.len(), gpus.len());
        if described != present + settings.numbering.may_be_missing(settings, present) {
            let what = format!(
                "the site describes {}, the driver shows {present}",
                geometry::counted(described, "GPU")
            );
            self.list.push(Disagreement { gpu: None, job: None, what });
        }
        for view in gpus {
            let gpu = view.info.index;
            if view.mode.current != view.mode.pending {
                self.gpu(gpu, "a change of MIG mode is pending until the GPU is reset".to_owned());
            }
            let Some(GpuSettings { model, policy, purpose, fixed }) = settings.described(gpu) else {
                continue;
            };
            if view.info.model().is_some_and(|m| m.key != model.key) {
                self.gpu(gpu, format!("is {}, the site says {}", view.info.name, model.key));
            }
            match purpose {
                Purpose::Slurm => continue,
                Purpose::Static => self.fixed(view, model, &fixed),
                Purpose::Whole | Purpose::Shares if view.mode.current => {
                    self.gpu(gpu, format!("MIG mode is on, the site says {}", purpose.words()));
                }
                Purpose::Any if policy == MigPolicy::Off && view.mode.current => {
                    self.gpu(gpu, "MIG mode is on, the site says off".to_owned());
                }
                Purpose::Any | Purpose::Whole | Purpose::Shares => {}
            }
            if let Some(entry) = whole_holder(entries, &view.info.uuid)
                && view.mode.current
            {
                self.job(entry, Some(gpu), "has the GPU whole, but MIG mode is on".to_owned());
            }
        }
    }

    /// The instances of a static GPU beside those that the site describes.
    fn fixed(&mut self, view: &GpuView, model: &'static Model, fixed: &[(ProfileId, Slice)]) {
        let gpu = view.info.index;
        let named =
            |id: ProfileId| model.profile_by_id(id).map_or_else(|| id.to_string(), |p| p.name.clone());
        let stands = |(id, start): &(ProfileId, Slice)| {
            let size = model.profile_by_id(*id).map(|p| p.size);
            let same = |i: &GpuInstance| i.profile == *id && i.placement.start == *start;
            let full = |i: &GpuInstance| Some(i.placement.size) == size && i.compute.len() == 1;
            view.instances.iter().any(|i| same(i) && full(i))
        };
        for (id, start) in fixed.iter().filter(|f| !stands(f)) {
            let what =
                format!("the site says that it has {}@{start} (static), the driver shows none", named(*id));
            self.gpu(gpu, what);
        }
        let described = |i: &&GpuInstance| !fixed.contains(&(i.profile, i.placement.start));
        for i in view.instances.iter().filter(described) {
            let what = format!(
                "has {}@{}, which the site does not describe (static)",
                named(i.profile),
                i.placement.start
            );
            self.gpu(gpu, what);
        }
    }

    fn instances(&mut self, settings: &Settings, gpus: &[GpuView], entries: &[Entry]) {
        for view in gpus.iter().filter(|v| !settings.is_fixed(v.info.index)) {
            for instance in view.instances.iter().filter(|i| i.compute.is_empty()) {
                let what = format!("GPU instance {} has no compute instance", instance.id);
                self.gpu(view.info.index, what);
            }
        }
        for entry in entries.iter().filter(|e| e.phase == Phase::Ready) {
            for record in &entry.instances {
                let view = entry.gpu_of(record).and_then(|g| gpus.iter().find(|v| v.info.uuid == g.uuid));
                if !view.is_some_and(|v| v.instances.iter().any(|i| same(record, i))) {
                    let what = format!("its {} at {} does not exist", record.name, record.start);
                    self.job(entry, Some(view.map_or(record.gpu, |v| v.info.index)), what);
                }
            }
        }
    }

    fn daemons(&mut self, settings: &Settings, journal: &Journal, entries: &[Entry]) -> Result<(), Fault> {
        let (daemons, damaged) = journal.daemons()?.into_parts();
        self.damaged(&damaged);
        let uses = |e: &Entry, key: &str| e.holds() && e.daemons().contains(&key);
        for daemon in &daemons {
            if !entries.iter().any(|e| uses(e, &daemon.key)) {
                let what = format!("MPS daemon {} serves no job", daemon.key);
                self.list.push(Disagreement { gpu: None, job: None, what });
            }
        }
        for key in mps::left_dirs(settings) {
            if !daemons.iter().any(|d| d.key == key) {
                let what = format!("MPS directory {key} belongs to no daemon");
                self.list.push(Disagreement { gpu: None, job: None, what });
            }
        }
        for entry in entries.iter().filter(|e| e.phase == Phase::Ready) {
            for key in entry.daemons() {
                if !daemons.iter().any(|d| d.key == key && mps::runs(d)) {
                    self.job(entry, None, format!("its MPS daemon {key} does not run"));
                }
            }
        }
        Ok(())
    }

    /// Power limits that were changed for jobs.
    fn limits(
        &mut self,
        settings: &Settings,
        journal: &Journal,
        nvml: &Nvml,
        entries: &[Entry],
    ) -> Result<(), Fault> {
        // A job that is just being started may not have its limit yet.
        if entries.iter().any(|e| e.phase == Phase::Intent) {
            return Ok(());
        }
        for (gpu, what) in power::disagreements(settings, journal, nvml)? {
            self.gpu(gpu, what);
        }
        Ok(())
    }

    /// Limits of control groups for GPU memory.
    fn fences(&mut self, settings: &Settings, entries: &[Entry]) {
        for entry in entries.iter().filter(|e| e.phase == Phase::Ready) {
            for what in fences::disagreements(settings, entry) {
                self.job(entry, None, what);
            }
        }
    }

    /// Processes on a GPU or instance that no job of their user has.
    fn leftovers(&mut self, settings: &Settings, nvml: &Nvml, gpus: &[GpuView], entries: &[Entry]) {
        let open = OpenNodes::look(settings, entries);
        for view in gpus {
            let gpu = view.info.index;
            let node = settings.node.dev_root.join(gpu_node(view.info.minor));
            let found = match stale_processes::on(nvml, (gpu, None), &node, &open, entries) {
                Ok(found) => found,
                Err(e) => {
                    self.gpu(gpu, Chain(&e).to_string());
                    continue;
                }
            };
            for left in found.leftovers {
                if !entries.iter().any(|e| may_be_of(&left, &view.info.uuid, e, settings.share_between_users))
                {
                    self.gpu(gpu, format!("{left} is on it, but no job of that user has it"));
                }
            }
        }
    }

    fn nodes(&mut self, settings: &Settings, gpus: &[GpuView], entries: &[Entry]) -> Result<(), Fault> {
        if !settings.node.manage_device_nodes {
            return Ok(());
        }
        if let Some(what) = complaint(settings) {
            self.list.push(Disagreement { gpu: None, job: None, what });
        }
        let devices = Devices::open(settings)?;
        let fact =
            |v: &GpuView| GpuFacts { gpu: v.info.index, uuid: v.info.uuid.clone(), minor: v.info.minor };
        let facts: Vec<GpuFacts> = gpus.iter().map(fact).collect();
        // A job that is just being started has some of its nodes.
        let changing = entries.iter().any(|e| e.phase == Phase::Intent);
        for (name, want) in device_nodes(settings, &devices, &facts, entries)? {
            let gpu = facts.iter().find(|f| gpu_node(f.minor) == name).map(|f| f.gpu);
            let what = match devices.get(&name) {
                Ok(Some(is)) if is == want || changing => continue,
                Ok(Some(is)) => format!(
                    "device node {name} belongs to uid {} with mode {:04o}: should be uid {}, {:04o}",
                    is.uid, is.mode, want.uid, want.mode
                ),
                Ok(None) => format!("device node {name} is missing"),
                Err(e) => Chain(&e).to_string(),
            };
            self.list.push(Disagreement { gpu, job: None, what });
        }
        Ok(())
    }
}

/// Tells whether this job explains a process on a GPU, which has this UUID, or on an instance of the GPU.
fn may_be_of(left: &Leftover, uuid: &str, entry: &Entry, share_between_users: bool) -> bool {
    let for_all = entry.kind == GrantKind::Shards || (share_between_users && entry.shares_device());
    let same_user = left.uid == Some(entry.uid) || for_all;
    let has_instance =
        |gi: u32| entry.instances_on(uuid).any(|i| i.live.as_ref().is_some_and(|l| l.gi == gi));
    entry.holds() && entry.uses(uuid) && same_user && left.gi.is_none_or(has_instance)
}

/// The entry that has all of this GPU, if any.
fn whole_holder<'e>(entries: &'e [Entry], uuid: &str) -> Option<&'e Entry> {
    entries.iter().find(|e| e.holds() && e.uses(uuid) && e.has_whole_gpus())
}
