//! Nodes by name: `v100-16gb,4`, `a100-40gb,1/2g.10gb*2+1g.5gb*3`, `a100-40gb,1`.

use geometry::{Model, Profile, coexist};

use crate::devices::{V100, unmanaged, whole};
use crate::mix::Machine;
use task_sched::Device;
use task_sched::Gpus;
use task_sched::Pool;

/// GPUs of one kind, whole or cut into instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// As it was written.
    pub name: String,
    /// GPU by GPU.
    pub devices: Vec<Device>,
    /// The GPUs, where the model has MIG and no layout was given: `devices` are then whole GPUs.
    pub gpus: Option<Gpus>,
    /// Whose run times the papers' mixes have here.
    pub machine: Machine,
}

/// Most GPUs of a node.
const MAX_GPUS: usize = 64;

/// Why a text names no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Not `MODEL,N` or `MODEL,N/PROFILE*N+…`.
    #[error("{0}: expected MODEL,N or MODEL,N/PROFILE*N+PROFILE*N, such as v100-16gb,4")]
    Form(String),
    /// Not p100-16gb, v100-16gb or a model with MIG.
    #[error(
        "{0} is not a known GPU model; `tessera profiles` lists those with MIG, p100-16gb and v100-16gb have none"
    )]
    Model(String),
    /// None, or too many.
    #[error("{0} GPUs: a node has 1 to {MAX_GPUS}")]
    Gpus(usize),
    /// A model without MIG.
    #[error("{0} has no MIG: leave out the layout")]
    NoMig(String),
    /// Not one of the model's.
    #[error("{model} has no profile {profile}")]
    Profile {
        /// The model.
        model: String,
        /// The profile's name.
        profile: String,
    },
    /// The instances cannot exist together on one GPU.
    #[error("{layout} does not fit on one {model}")]
    Layout {
        /// The model.
        model: String,
        /// The layout of one GPU.
        layout: String,
    },
}

impl Node {
    /// Reads a node's name. A layout holds for each GPU.
    ///
    /// # Errors
    ///
    /// Where the name has another form, or no such node can exist.
    pub fn parse(text: &str) -> Result<Node, NodeError> {
        let form = || NodeError::Form(text.to_owned());
        let (gpus, layout) = text.split_once('/').map_or((text, None), |(gpus, layout)| (gpus, Some(layout)));
        let (model, n) = gpus.split_once(',').ok_or_else(form)?;
        let n: usize = n.parse().map_err(|_| form())?;
        if n == 0 || n > MAX_GPUS {
            return Err(NodeError::Gpus(n));
        }
        let (machine, gpu, open) = match (model, layout) {
            ("p100-16gb", None) => (Machine::P100, vec![Device::P100], None),
            ("v100-16gb", None) => (Machine::V100, vec![V100], None),
            ("p100-16gb" | "v100-16gb", Some(_)) => return Err(NodeError::NoMig(model.to_owned())),
            _ => {
                let model = Model::find(model).ok_or_else(|| NodeError::Model(model.to_owned()))?;
                match layout {
                    Some(layout) => (Machine::V100, instances(model, layout).ok_or_else(form)??, None),
                    None => (Machine::V100, vec![whole(model)], Some(Gpus::new(model, n))),
                }
            }
        };
        Ok(Node { name: text.to_owned(), devices: gpu.repeat(n), gpus: open, machine })
    }

    /// The papers' workers: the sum over MIG instances; else 5 per P100 and 4 per V100. Policies that give a job a whole
    /// device have one per device.
    #[must_use]
    pub fn workers(&self, policy: &str) -> usize {
        let per_gpu = match self.machine {
            Machine::P100 | Machine::K80 => 5,
            Machine::V100 => 4,
        };
        match policy {
            "sa" | "slurm" => self.devices.len(),
            _ => self.devices.iter().map(|d| d.max_workers.unwrap_or(per_gpu) as usize).sum(),
        }
    }

    /// The devices as `policy` finds them. Where no layout was given, `tessera` makes instances and the others have whole
    /// GPUs. Nobody keeps memory of 16 GB GPUs back for `cg`.
    #[must_use]
    pub fn pool(&self, policy: &str) -> Pool {
        let unmanaged =
            |device: &Device| if device.max_workers.is_none() { unmanaged(device) } else { *device };
        match (policy, &self.gpus) {
            ("tessera", Some(gpus)) => Pool::of_gpus(gpus.clone()),
            ("cg", _) => Pool::new(&self.devices.iter().map(unmanaged).collect::<Vec<_>>()),
            _ => Pool::new(&self.devices),
        }
    }
}

/// The instances of one GPU; `None` for a layout of another form.
fn instances(model: &Model, layout: &str) -> Option<Result<Vec<Device>, NodeError>> {
    let mut profiles = Vec::new();
    for part in layout.split('+') {
        let (name, n) = part.split_once('*').unwrap_or((part, "1"));
        let n: usize = n.parse().ok().filter(|n| (1..=16).contains(n))?;
        let Some(profile) = model.profile(name) else {
            return Some(Err(NodeError::Profile { model: model.key.clone(), profile: name.to_owned() }));
        };
        profiles.extend([profile].repeat(n));
    }
    let devices = profiles.iter().filter_map(|p| Device::instance(&model.key, &p.name)).collect();
    profiles.sort_by_key(|profile| std::cmp::Reverse(profile.size));
    let fits = profiles.iter().enumerate().all(|(i, a)| profiles[..i].iter().all(|b| coexist(a, b)))
        && have_places(&profiles, 0);
    Some(if fits {
        Ok(devices)
    } else {
        Err(NodeError::Layout { model: model.key.clone(), layout: layout.to_owned() })
    })
}

/// True if instances of these profiles find places beside the units in `taken`.
fn have_places(profiles: &[&Profile], taken: u16) -> bool {
    let Some((first, rest)) = profiles.split_first() else { return true };
    let mut masks = first.starts.iter().map(|start| first.at(*start).mask());
    masks.any(|mask| mask & taken == 0 && have_places(rest, taken | mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(usize, usize), &str>) {
        let found = Node::parse(text).map(|node| (node.devices.len(), node.workers("tessera")));
        assert_eq!(found.map_err(|e| e.to_string()), expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn a_node_has_its_devices_and_refuses_what_does_not_fit() {
        check("v100-16gb,4", Ok((4, 16)));
        check("p100-16gb,2", Ok((2, 10)));
        check("a30-24gb,4/1g.6gb*4", Ok((16, 64)));
        check("a100-40gb,1/2g.10gb*2+1g.5gb*3", Ok((5, 28)));
        check("a100-40gb,1/3g.20gb+3g.20gb", Ok((2, 32)));
        check("a100-40gb,1/3g.20gb*2+1g.5gb", Err("3g.20gb*2+1g.5gb does not fit on one a100-40gb"));
        check("a100-40gb,1/1g.6gb", Err("a100-40gb has no profile 1g.6gb"));
        check("a100-40gb,2", Ok((2, 64)));
        check("v100-16gb,0", Err("0 GPUs: a node has 1 to 64"));
        check("v100-16gb,1/1g.5gb", Err("v100-16gb has no MIG: leave out the layout"));
        assert!(
            Node::parse("k80,2").is_err() && Node::parse("v100-16gb").is_err() && Node::parse("").is_err()
        );
        assert!(Node::parse("a100-40gb,1/1g.5gb*").is_err() && Node::parse("a100-40gb,1/").is_err());
        let node = Node::parse("v100-16gb,4").unwrap();
        assert_eq!(node.workers("sa"), 4);
        let mem = |node: &Node, policy| node.pool(policy).devices().map(|held| held.device().mem.0).last();
        assert_eq!((mem(&node, "cg"), mem(&node, "alg3")), (Some(16_000_000_000), Some(14_680_064_000)));
        let node = Node::parse("a100-40gb,1").unwrap();
        assert_eq!((mem(&node, "alg3"), mem(&node, "tessera")), (Some(40_000_000_000), None));
    }
}
