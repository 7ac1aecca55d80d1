//! A tree of control groups that behaves as the kernel's: `dmem` is enabled from the root down, and a `dmem.max` takes what the
//! kernel takes. [kernel 6.14 `kernel/cgroup/dmem.c`, `kernel/cgroup/cgroup.c`]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::tree::Tree;

const EINVAL: i32 = 22;
const EBUSY: i32 = 16;

#[derive(Default)]
struct Group {
    /// `dmem` is in its `cgroup.subtree_control`.
    passes_on: bool,
    has_processes: bool,
    /// Limits that are not `max`.
    max: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
}

/// The kernel, with these regions and sizes.
pub(super) struct Kernel {
    regions: Vec<(String, u64)>,
    /// Takes one region with each write, as kernels from 7.2 on may.
    one_line: bool,
    groups: RefCell<BTreeMap<PathBuf, Group>>,
    pub(super) writes: RefCell<Vec<String>>,
}

fn code(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn none() -> io::Error {
    ErrorKind::NotFound.into()
}

impl Kernel {
    /// A booted node on which slurmd has made its scope.
    pub(super) fn new(regions: &[(&str, u64)], one_line: bool) -> Self {
        let kernel = Self {
            regions: regions.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(),
            one_line,
            groups: RefCell::new(BTreeMap::from([(PathBuf::new(), Group::default())])),
            writes: RefCell::default(),
        };
        for dir in [
            "system.slice",
            "system.slice/slurmstepd.scope",
            "system.slice/slurmstepd.scope/system",
            "user.slice",
        ] {
            kernel.mkdir(dir).unwrap();
        }
        kernel.enter("system.slice/slurmstepd.scope/system");
        kernel
    }

    /// `mkdir`: a group that exists is an error.
    pub(super) fn mkdir(&self, dir: &str) -> io::Result<()> {
        let dir = PathBuf::from(dir);
        let mut groups = self.groups.borrow_mut();
        if !groups.contains_key(dir.parent().unwrap()) {
            return Err(none());
        }
        if groups.contains_key(&dir) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        groups.insert(dir, Group::default());
        Ok(())
    }

    pub(super) fn enter(&self, dir: &str) {
        self.groups.borrow_mut().get_mut(Path::new(dir)).unwrap().has_processes = true;
    }

    pub(super) fn leave(&self, dir: &str) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.get_mut(Path::new(dir)).unwrap();
        (group.has_processes, group.used) = (false, BTreeMap::new());
    }

    /// A process in a group allocates; false where a limit of the group or of one above it is in the way.
    pub(super) fn allocate(&self, dir: &str, region: &str, bytes: u64) -> bool {
        let mut groups = self.groups.borrow_mut();
        let has_files = |groups: &BTreeMap<PathBuf, Group>, dir: &Path| {
            dir.ancestors().skip(1).all(|above| groups[above].passes_on)
        };
        let all: Vec<PathBuf> = Path::new(dir).ancestors().map(Path::to_owned).collect();
        let counted: Vec<PathBuf> = all.into_iter().filter(|dir| has_files(&groups, dir)).collect();
        let used = |group: &Group| group.used.get(region).copied().unwrap_or(0);
        let fits =
            |dir: &PathBuf| groups[dir].max.get(region).is_none_or(|max| used(&groups[dir]) + bytes <= *max);
        if !counted.iter().all(fits) {
            return false;
        }
        for dir in &counted {
            *groups.get_mut(dir).unwrap().used.entry(region.to_owned()).or_default() += bytes;
        }
        true
    }

    fn set_max(&self, group: &mut Group, text: &str) -> io::Result<()> {
        let lines: Vec<&str> = text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect();
        if self.one_line && lines.len() != 1 {
            return Err(code(EINVAL));
        }
        for line in lines {
            let (region, limit) = line.split_once([' ', '\t']).ok_or_else(|| code(EINVAL))?;
            if !self.regions.iter().any(|(name, _)| name == region) {
                return Err(code(EINVAL));
            }
            if limit == "max" {
                group.max.remove(region);
                continue;
            }
            let bytes: u64 = limit.parse().map_err(|_| code(EINVAL))?;
            // page_counter_set_max() fails, and nobody looks.
            if group.used.get(region).copied().unwrap_or(0) <= bytes {
                group.max.insert(region.to_owned(), bytes);
            }
        }
        Ok(())
    }
}

/// A file's group and name.
fn split(path: &Path) -> (&Path, &str) {
    (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap())
}

impl Tree for Kernel {
    fn read(&self, path: &Path) -> io::Result<String> {
        let ((dir, file), groups) = (split(path), self.groups.borrow());
        let group = groups.get(dir).ok_or_else(none)?;
        let has_files = dir.parent().is_some_and(|parent| groups[parent].passes_on);
        match file {
            "dmem.capacity" if dir == Path::new("") && !self.regions.is_empty() => {
                Ok(self.regions.iter().map(|(name, size)| format!("{name} {size}\n")).collect())
            }
            "dmem.max" if has_files => {
                let max = |name: &String| group.max.get(name).map_or("max".to_owned(), u64::to_string);
                Ok(self.regions.iter().map(|(name, _)| format!("{name} {}\n", max(name))).collect())
            }
            "cgroup.subtree_control" => {
                Ok(if group.passes_on { "cpu memory dmem\n" } else { "cpu memory\n" }.into())
            }
            _ => Err(none()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.read(path)?;
        let ((dir, file), mut groups) = (split(path), self.groups.borrow_mut());
        let is_root = dir == Path::new("");
        let has_controller = dir.parent().is_none_or(|parent| groups[parent].passes_on);
        let group = groups.get_mut(dir).unwrap();
        self.writes.borrow_mut().push(format!("{} {}", path.display(), text.trim_end()));
        match (file, text) {
            ("dmem.max", text) => self.set_max(group, text),
            ("cgroup.subtree_control", "+dmem") if !has_controller => Err(none()),
            // No processes in a group that passes a controller on, but for the root.
            ("cgroup.subtree_control", "+dmem") if group.has_processes && !is_root => Err(code(EBUSY)),
            ("cgroup.subtree_control", "+dmem") => {
                group.passes_on = true;
                Ok(())
            }
            _ => Err(code(EINVAL)),
        }
    }

    fn make(&self, dir: &Path) -> io::Result<()> {
        match self.mkdir(dir.to_str().unwrap()) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn remove(&self, dir: &Path) -> io::Result<()> {
        let mut groups = self.groups.borrow_mut();
        let group = groups.get(dir).ok_or_else(none)?;
        if group.has_processes || groups.keys().any(|other| other.parent() == Some(dir)) {
            return Err(code(EBUSY));
        }
        groups.remove(dir);
        Ok(())
    }

    fn groups(&self, dir: &Path) -> io::Result<Vec<String>> {
        let groups = self.groups.borrow();
        let inside = groups.keys().filter(|other| other.parent() == Some(dir));
        Ok(inside.map(|other| other.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }
}
