//! The arguments of `tessera node`.

use clap::Subcommand;

use crate::render::colour::ColorWhen;

/// Actions on the node.
#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// Free everything that no live job owns
    ///
    /// Finishes interrupted releases, ends MPS daemons and destroys half-made instances that belong to no job, and corrects
    /// the owners of device nodes. Jobs that Slurm runs on the node keep what they have, and so do jobs with a step or
    /// process here; if Slurm does not answer, all journalled jobs do. Also compares the GPUs with tessera.toml, and reports
    /// to slurmctld whether the node can take jobs with GPUs. Tessera runs this whenever slurmd starts, with --until-ended.
    Reconcile {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Act only if something has changed: a job has left, a GPU is missing, a daemon has died, tessera.toml is another
        #[arg(long)]
        if_dead: bool,
        /// Then wait up to 10 minutes for jobs that Slurm has ended and that still live here, and free what they have
        #[arg(long, conflicts_with = "if_dead")]
        until_ended: bool,
    },
    /// Leave the node's GPUs to Slurm alone, before Tessera is uninstalled
    ///
    /// Destroys all instances, switches MIG mode off if tessera.toml lets Tessera switch it, and opens the GPUs' device nodes
    /// to all users, as the driver makes them. Nothing is changed while a job has an instance or a share here. Jobs with
    /// whole GPUs keep them.
    HandOver {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
    },
    /// Show what driver and journal say of the node
    ///
    /// Draws the GPUs, lists the journalled jobs with what they hold, and names each disagreement between driver, journal,
    /// device nodes and MPS. A job that Slurm has ended and whose steps still live is shown as ending. Exit status 1 if there
    /// is a disagreement.
    Status {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Use colour
        #[arg(long, value_name = "WHEN", default_value = "auto")]
        color: ColorWhen,
    },
    /// Find unhealthy GPUs, and keep new jobs off them
    ///
    /// Reads the driver's counters and the kernel's log, acts by the rules for each event ([[health]] in tessera.toml),
    /// reports to slurmctld, and lists what it found. The node's other GPUs go on. Use it in HealthCheckProgram. Exit status
    /// 1 if a GPU is left out.
    Health {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Find jobs that have GPUs without using them
    ///
    /// Asks the driver once what each job's GPUs, instances and shares do, remembers it in state_dir, and reports to
    /// slurmctld which of them were idle for at least 10 minutes. `tessera idle` shows that for the whole cluster. Use it in
    /// HealthCheckProgram, once a minute. Does nothing unless tessera.toml has [idle].
    Idle {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep new jobs off a GPU, for a reason of yours
    ///
    /// For a health check of your own. The jobs that are on the GPU stay, unless a rule for `told` says otherwise. --over
    /// takes only this back; findings of `tessera node health` stay.
    Sick {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Slurm's number of the GPU, or its UUID
        gpu: String,
        /// Why, in a few words
        #[arg(long, value_name = "TEXT", required_unless_present = "over")]
        reason: Option<String>,
        /// Take that back
        #[arg(long, conflicts_with = "reason")]
        over: bool,
    },
    /// Let GPUs that were left out take jobs again, once they are well
    ///
    /// After a reset or a repair. If an error is still there, such as a failed remapping of memory, the GPU is left out again
    /// at once.
    Accept {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Slurm's number of the GPU, or its UUID; all GPUs without it
        gpu: Option<String>,
    },
    /// Create what an allocation names, as the prolog does
    #[command(visible_alias = "realize")]
    Realise {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// In the form of TESSERA_PLACEMENT: v1 job=12;n1=mig:3/2g.10gb@4
        #[arg(long, value_name = "TEXT")]
        placement: String,
        /// The job's user
        #[arg(long)]
        uid: u32,
        /// The user's group
        #[arg(long)]
        gid: u32,
    },
    /// Free what a job has, as the epilog does
    Release {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// The id of the job
        #[arg(long, value_name = "ID")]
        job: u32,
    },
}

impl NodeCommand {
    /// As it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Reconcile { .. } => "reconcile",
            Self::HandOver { .. } => "hand-over",
            Self::Status { .. } => "status",
            Self::Health { .. } => "health",
            Self::Idle { .. } => "idle",
            Self::Sick { .. } => "sick",
            Self::Accept { .. } => "accept",
            Self::Realise { .. } => "realise",
            Self::Release { .. } => "release",
        }
    }

    /// The node that was named.
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            Self::Reconcile { node, .. }
            | Self::HandOver { node }
            | Self::Status { node, .. }
            | Self::Health { node, .. }
            | Self::Idle { node, .. }
            | Self::Sick { node, .. }
            | Self::Accept { node, .. }
            | Self::Realise { node, .. }
            | Self::Release { node, .. } => node.as_deref(),
        }
    }
}
