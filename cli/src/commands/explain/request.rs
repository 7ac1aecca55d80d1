//! The options of sbatch that make a request, as `tessera explain` takes them.

use admission::gres_list::Tres;
use clap::Args;
use job_options::{Opt, Refusal, Renames, Source, Typed};
use plugin_rt::read_file::{EDGE_LIST, read_small};
use protocol::Request;
use site_config::hostlist;

use crate::outcome::status;
use crate::slurm::constraint::Constraint;

/// A request, in the words of sbatch.
#[derive(Args)]
#[command(next_help_heading = "Request, as for sbatch")]
pub(crate) struct RequestArgs {
    /// auto, mig, mig:PROFILE, mps, tasks, tasks:probes, whole or none
    ///
    /// Default: auto, or whole if only GPUs, a pattern or bandwidth are given.
    #[arg(long, value_name = "KIND", allow_hyphen_values = true)]
    gpu_isolation: Option<String>,
    /// Memory per instance or share, or per process for tasks, such as 10G
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    gpu_mem: Option<String>,
    /// MIG instances per node (2) or for each Slurm task (1/task)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    gpu_instances: Option<String>,
    /// Percentage of the SMs: the most that an mps job gets, the least that a mig job gets
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    gpu_threads: Option<String>,
    /// How whole GPUs talk to each other: ring, tree, chain, star, all, none or ring+tree
    #[arg(long, value_name = "SHAPE", allow_hyphen_values = true)]
    gpu_pattern: Option<String>,
    /// sensitive or insensitive to the bandwidth between whole GPUs
    #[arg(long, value_name = "NEED", allow_hyphen_values = true)]
    gpu_bandwidth: Option<String>,
    /// Policy that selects a set of whole GPUs: preserve, greedy, topo-aware or baseline
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    gpu_set_policy: Option<String>,
    /// Run time on each size, such as 1g:60,2g:35 for seconds; a planner chooses among the sizes
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    gpu_times: Option<String>,
    /// Job profile: a planner learns run times from past jobs of this name
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    gpu_profile: Option<String>,
    /// Preferred place of the instance, GPU and first slice such as 3@4; another if it is taken
    #[arg(long, value_name = "GPU@START", allow_hyphen_values = true)]
    gpu_place: Option<String>,
    /// Wait up to TIME for whole GPUs that are predicted to exceed GBPS, or none
    #[arg(long, value_name = "GBPS:TIME", allow_hyphen_values = true)]
    gpu_wait: Option<String>,
    /// Slurm tasks per node: a job of kind tasks takes a seat for each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) ntasks_per_node: Option<u32>,
    /// Power cap of each GPU, such as 200
    #[arg(long, value_name = "WATTS", allow_hyphen_values = true)]
    gpu_power: Option<String>,
    /// Whole GPUs per node
    #[arg(long, visible_alias = "gpus-per-node", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus: Option<u32>,
    /// Whole GPUs for each Slurm task; --ntasks-per-node says how many tasks a node has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "gpus")]
    gpus_per_task: Option<u32>,
    /// GPUs or shards that Slurm counts, per node, such as gpu:2 or shard:10
    #[arg(long, value_name = "LIST", conflicts_with = "gpus")]
    gres: Option<String>,
    /// The job has its nodes for itself
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Only the nodes of this reservation; whether you may use it is not looked at
    #[arg(long, value_name = "NAME")]
    pub(crate) reservation: Option<String>,
    /// Only nodes with these features, such as a100&nvlink or (a100|h100)&nvlink
    #[arg(long, value_name = "LIST", value_parser = Constraint::parse)]
    pub(crate) constraint: Option<Constraint>,
    /// Not these nodes, a hostlist such as n[1-2]
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    exclude: Option<Nodes>,
}

/// The nodes of a hostlist.
#[derive(Clone, Debug)]
struct Nodes(Vec<String>);

fn nodes(list: &str) -> Result<Nodes, String> {
    hostlist::expand(list).map(Nodes).map_err(|why| why.to_string())
}

impl RequestArgs {
    /// The request, as sbatch makes it of these options; `None`: none of them was given.
    ///
    /// # Errors
    ///
    /// The lines with which sbatch refuses them.
    pub(crate) fn request(&self) -> Result<Option<Request>, Vec<Refusal>> {
        let mut typed = Typed::default();
        for (opt, text) in [
            (Opt::Isolation, &self.gpu_isolation),
            (Opt::Mem, &self.gpu_mem),
            (Opt::Instances, &self.gpu_instances),
            (Opt::Threads, &self.gpu_threads),
            (Opt::Pattern, &self.gpu_pattern),
            (Opt::Bandwidth, &self.gpu_bandwidth),
            (Opt::SetPolicy, &self.gpu_set_policy),
            (Opt::Wait, &self.gpu_wait),
            (Opt::Times, &self.gpu_times),
            (Opt::Profile, &self.gpu_profile),
            (Opt::Place, &self.gpu_place),
            (Opt::Power, &self.gpu_power),
        ] {
            if let Some(text) = text {
                typed.push(opt, text, Source::CommandLine);
            }
        }
        let read =
            |path: &str| read_small(path.as_ref(), EDGE_LIST).map_err(|e| format!("cannot be read: {e}"));
        for warning in typed.warnings(&Renames::new()) {
            status(&format!("tessera: {warning}\n"));
        }
        typed.request(&Renames::new(), &read)
    }

    /// What the options ask of Slurm itself.
    pub(crate) fn tres(&self) -> Tres {
        let of = |gpus: Option<u32>| gpus.map(|n| format!("gres:gpu:{n}"));
        let per_node = self.gres.clone().or_else(|| of(self.gpus));
        Tres { per_node, per_task: of(self.gpus_per_task), ..Tres::default() }
    }

    /// Names an option that says which nodes may run the job, or that it has them alone.
    pub(crate) fn of_nodes(&self) -> Option<&'static str> {
        let given = [
            ("--exclusive", self.exclusive),
            ("--reservation", self.reservation.is_some()),
            ("--constraint", self.constraint.is_some()),
            ("--exclude", self.exclude.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The nodes that the job does not want.
    pub(crate) fn excluded(&self) -> &[String] {
        self.exclude.as_ref().map_or(&[], |nodes| &nodes.0)
    }

    /// Whether only Slurm knows which nodes the job means.
    pub(crate) fn needs_slurm(&self) -> bool {
        self.reservation.is_some() || self.constraint.is_some()
    }
}
