//! The options of sbatch that make a request, as `tessera explain` takes them.

use clap::Args;
use job_options::{Opt, Refusal, Renames, Source, Typed};
use plugin_rt::read_file::{EDGE_LIST, read_small};
use protocol::Request;
use site_config::hostlist;
use site_limits::tres::Tres;

use crate::slurm::constraint::Constraint;

/// The options of Tessera, in the words of sbatch.
#[derive(Args)]
#[command(next_help_heading = "Request, as for sbatch")]
pub(crate) struct GpuOptions {
    /// auto, mig, mig:PROFILE, mig-shared:INSTANCE, mps, gpu-tasks, gpu-tasks:probes, whole or slurm
    ///
    /// Default: auto, or whole if only GPUs, a pattern or bandwidth are given.
    #[arg(long, value_name = "KIND", allow_hyphen_values = true)]
    gpu_isolation: Option<String>,
    /// Memory per instance or share, or per process of gpu-tasks, such as 10G
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    gpu_mem: Option<String>,
    /// MIG instances per node (2) or for each Slurm task (1/task)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    gpu_instances: Option<String>,
    /// Least percentage of the GPU's SMs; a share is limited to it as well
    #[arg(long, alias = "gpu-threads", value_name = "PERCENT", allow_hyphen_values = true)]
    gpu_sms: Option<String>,
    /// How whole GPUs talk to each other: ring, tree, chain, star, all, none or ring+tree
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    gpu_pattern: Option<String>,
    /// sensitive or insensitive to the bandwidth between whole GPUs
    #[arg(long, value_name = "NEED", allow_hyphen_values = true)]
    gpu_bandwidth: Option<String>,
    /// Policy that selects a set of whole GPUs: preserve, greedy, topo-aware or baseline
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    gpu_set_policy: Option<String>,
    /// Run time on each size, such as 1g:60s,2g:35s; a planner chooses among the sizes
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    gpu_times: Option<String>,
    /// Application: a planner learns run times from past jobs of this name
    #[arg(long, alias = "gpu-profile", value_name = "NAME", allow_hyphen_values = true)]
    gpu_app: Option<String>,
    /// Preferred place of the instance, GPU and first slice such as 3@4; another if it is taken
    #[arg(long, value_name = "GPU@START", allow_hyphen_values = true)]
    gpu_place: Option<String>,
    /// Wait for whole GPUs above a predicted bandwidth, such as 25GB/s,20:00, or none
    #[arg(long, value_name = "GBPS,TIME", allow_hyphen_values = true)]
    gpu_wait: Option<String>,
    /// Power cap of each GPU, such as 200
    #[arg(long, value_name = "WATTS", allow_hyphen_values = true)]
    gpu_power: Option<String>,
}

/// A request, in the words of sbatch.
#[derive(Args)]
#[command(next_help_heading = "Request, as for sbatch")]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    gpu: GpuOptions,
    /// Slurm tasks per node: a gpu-tasks job takes a seat for each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    ntasks_per_node: Option<u32>,
    /// Slurm tasks of the job
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535), conflicts_with = "ntasks_per_node")]
    ntasks: Option<u32>,
    /// Nodes of the job, such as 2 or 2-4: what is explained is its part on each of them
    #[arg(short = 'N', long, value_name = "N", value_parser = number_of_nodes)]
    nodes: Option<(u32, u32)>,
    /// Time limit, such as 2:00:00: it counts before reservations and under limits of GPU minutes
    #[arg(short = 't', long, value_name = "TIME", value_parser = time_limit)]
    time: Option<u64>,
    /// Whole GPUs of the job, on as many nodes as Slurm likes unless -N says how many
    #[arg(short = 'G', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpus: Option<u32>,
    /// Whole GPUs per node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with = "gpus")]
    gpus_per_node: Option<u32>,
    /// Whole GPUs for each Slurm task; --ntasks-per-node says how many tasks a node has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), conflicts_with_all = ["gpus", "gpus_per_node"])]
    gpus_per_task: Option<u32>,
    /// GPUs or shards that Slurm counts, per node, such as gpu:2 or shard:10
    #[arg(long, value_name = "LIST", conflicts_with_all = ["gpus", "gpus_per_node"])]
    gres: Option<String>,
    /// The job has its nodes for itself
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Only the nodes of this reservation; whether you may use it is not looked at
    #[arg(long, value_name = "NAME")]
    pub(crate) reservation: Option<String>,
    /// Only nodes with these features, such as a100&nvlink or (a100|h100)&nvlink
    #[arg(short = 'C', long, value_name = "LIST", value_parser = Constraint::parse)]
    pub(crate) constraint: Option<Constraint>,
    /// Not these nodes, a hostlist such as n[1-2]
    #[arg(short = 'x', long, value_name = "NODES", value_parser = nodes)]
    exclude: Option<Nodes>,
    #[command(flatten)]
    others: NotLookedAt,
}

/// Everyday options of sbatch that have no part in the choice of GPUs: a command line of sbatch's works with them.
#[derive(Args)]
struct NotLookedAt {
    /// Cores per Slurm task; not looked at
    #[arg(short = 'c', long, value_name = "N")]
    cpus_per_task: Option<String>,
    /// Host memory; not looked at
    #[arg(long, value_name = "SIZE")]
    mem: Option<String>,
    #[arg(short = 'J', long, value_name = "NAME", hide = true)]
    job_name: Option<String>,
    #[arg(short = 'o', long, value_name = "FILE", hide = true)]
    output: Option<String>,
    #[arg(short = 'e', long, value_name = "FILE", hide = true)]
    error: Option<String>,
    #[arg(short = 'a', long, value_name = "LIST", hide = true)]
    array: Option<String>,
}

/// `2` or `2-4`: the fewest and the most nodes.
fn number_of_nodes(text: &str) -> Result<(u32, u32), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let read = |digits: &str| digits.parse().ok().filter(|n| (1..=65_536).contains(n));
    match (read(least), read(most)) {
        (Some(least), Some(most)) if least <= most => Ok((least, most)),
        _ => Err("expected a number of nodes such as 2, or 2-4".to_owned()),
    }
}

/// Reads a time limit as sbatch does, in seconds: minutes, `MM:SS`, `H:MM:SS`, and each of them behind `DAYS-`, where hours come first.
fn time_limit(text: &str) -> Result<u64, String> {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let numbers: Option<Vec<u64>> =
        rest.split(':').map(|field| field.parse::<u32>().ok().map(u64::from)).collect();
    let days = days.map(|days| days.parse::<u32>().map(u64::from)).transpose().ok();
    let seconds = match (days, numbers.as_deref()) {
        (Some(None), Some([minutes])) => minutes * 60,
        (Some(None), Some([minutes, seconds])) => minutes * 60 + seconds,
        (Some(None), Some([hours, minutes, seconds])) => hours * 3600 + minutes * 60 + seconds,
        (Some(Some(days)), Some([hours, rest @ ..])) if rest.len() < 3 => {
            let [minutes, seconds] = [0, 1].map(|at| rest.get(at).copied().unwrap_or(0));
            days * 86_400 + hours * 3600 + minutes * 60 + seconds
        }
        _ => 0,
    };
    let expected = "expected a time as sbatch takes it: minutes, MM:SS, H:MM:SS or DAYS-HH:MM:SS";
    if seconds > 0 { Ok(seconds) } else { Err(expected.to_owned()) }
}

/// The nodes of a hostlist.
#[derive(Clone, Debug)]
struct Nodes(Vec<String>);

fn nodes(list: &str) -> Result<Nodes, String> {
    hostlist::expand(list).map(Nodes).map_err(|why| why.to_string())
}

impl GpuOptions {
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
            (Opt::Sms, &self.gpu_sms),
            (Opt::Pattern, &self.gpu_pattern),
            (Opt::Bandwidth, &self.gpu_bandwidth),
            (Opt::SetPolicy, &self.gpu_set_policy),
            (Opt::Wait, &self.gpu_wait),
            (Opt::Times, &self.gpu_times),
            (Opt::App, &self.gpu_app),
            (Opt::Place, &self.gpu_place),
            (Opt::Power, &self.gpu_power),
        ] {
            if let Some(text) = text {
                typed.push(opt, text, Source::CommandLine);
            }
        }
        let read =
            |path: &str| read_small(path.as_ref(), EDGE_LIST).map_err(|e| format!("cannot be read: {e}"));
        typed.request(&Renames::new(), &read)
    }
}

impl RequestArgs {
    /// The request, as [`GpuOptions::request`].
    ///
    /// # Errors
    ///
    /// The lines with which sbatch refuses the options.
    pub(crate) fn request(&self) -> Result<Option<Request>, Vec<Refusal>> {
        self.gpu.request()
    }

    /// Returns the resources that the options ask of Slurm itself.
    pub(crate) fn tres(&self) -> Tres {
        let of = |gpus: Option<u32>| gpus.map(|n| format!("gres:gpu:{n}"));
        let of_job = || of(self.gpus.map(|n| n.div_ceil(self.fewest_nodes())));
        let per_node = self.gres.clone().or_else(|| of(self.gpus_per_node)).or_else(of_job);
        Tres { per_node, per_task: of(self.gpus_per_task), ..Tres::default() }
    }

    /// The fewest nodes that the job starts on.
    pub(crate) fn fewest_nodes(&self) -> u32 {
        self.nodes.map_or(1, |(least, _)| least)
    }

    /// Slurm tasks on a node, where the options say so.
    pub(crate) fn tasks_per_node(&self) -> Option<u32> {
        self.ntasks_per_node.or_else(|| self.ntasks.map(|n| n.div_ceil(self.fewest_nodes())))
    }

    /// Gives the option that counts GPUs for the job as a whole, if Slurm may take them from several nodes.
    pub(crate) fn spread(&self) -> Option<String> {
        let several = self.nodes.is_none_or(|(_, most)| most > 1);
        self.gpus.filter(|n| several && *n > 1).map(|n| format!("--gpus={n}"))
    }

    /// Tells whether Slurm gives the job one node, unless it asks for more GPUs than that has.
    pub(crate) fn gets_one_node(&self) -> bool {
        let tasks = self.ntasks.or(self.ntasks_per_node).unwrap_or(1);
        match self.nodes {
            Some((_, 1)) => true,
            Some((least, _)) if least > 1 => false,
            _ => tasks <= 1,
        }
    }

    /// The time limit, s.
    pub(crate) fn runs_s(&self) -> Option<u64> {
        self.time
    }

    /// Names an option that says which nodes may run the job, or that it has them alone.
    pub(crate) fn of_nodes(&self) -> Option<&'static str> {
        let given = [
            ("--exclusive", self.exclusive),
            ("--reservation", self.reservation.is_some()),
            ("--constraint", self.constraint.is_some()),
            ("--exclude", self.exclude.is_some()),
            ("--nodes", self.nodes.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The nodes that the job does not want.
    pub(crate) fn excluded(&self) -> &[String] {
        self.exclude.as_ref().map_or(&[], |nodes| &nodes.0)
    }

    /// True if only Slurm knows which nodes the job means.
    pub(crate) fn needs_slurm(&self) -> bool {
        self.reservation.is_some() || self.constraint.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_are_sbatchs() {
        let read =
            ["90", "90:30", "2:00:00", "1-12", "1-0:30", "2-00:00:10"].map(|text| time_limit(text).unwrap());
        assert_eq!(read, [5400, 5430, 7200, 129_600, 88_200, 172_810]);
        for bad in ["", "0", "x", "1:2:3:4", "-5", "1-", "1-1:2:3:4", "99999999999", "UNLIMITED"] {
            assert!(time_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_nodes_are_sbatchs() {
        assert_eq!([number_of_nodes("2"), number_of_nodes("2-4")], [Ok((2, 2)), Ok((2, 4))]);
        for bad in ["", "0", "4-2", "2-", "-2", "x", "1-99999999"] {
            assert!(number_of_nodes(bad).is_err(), "{bad}");
        }
    }
}
