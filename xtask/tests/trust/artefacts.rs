//! Files that slurmctld and root run, and their crates.

/// A plugin or program that slurmctld, slurmd, slurmstepd or root loads or runs.
pub(crate) struct Artefact {
    /// Name for a site.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// Every crate of ours that is linked into it, beside itself.
    pub(crate) crates: &'static [&'static str],
    /// The most product lines of it and of `crates`, in thousands: what it has now. It only goes down. It went up once by 0.2 to 1.4,
    /// for the reader of tables: before that, bindgen generated 3.3 thousand lines for each of two plugins, which were not counted.
    /// It went up by 0.1 to 0.5 for unhealthy GPUs: a node's word about them, `[[health]]`, and NVML's counters of errors.
    /// It went up by 0.1 for AutoDetect: a node's word about it, and the name of a slurmd's node, which two plugins need.
    /// It went up by 0.2 to 1.2 for another request of a pending job, for limits that add up running jobs, and for programs that keep a MIG mode
    /// as it is.
    /// It went up by 0.1 to 0.4 for the histogram of slurmctld's calls, and for reading only the nodes that have changed.
    /// job_submit went up by 0.8 for Slurm's own limits, which it reads in slurmctld's accounting, and by 0.3 for heterogeneous jobs above a
    /// limit, for `MinTRES`, and for jobs with too many nodes. All went up by at most 0.1 for a last good version that every user may read.
    /// select went up by 0.1 for slices on Slurm 25.05 and later.
    /// job_submit went up by 0.35 for the table of what jobs' traffic says, usage by 0.25 for counting it, and each of the others by 0.1 for NVML's
    /// counters or for what was learnt in the AdminComment. spank went up by 0.1 for control groups that Slurm 26.05 names by a job's SLUID, and for
    /// jobs that slurmctld took without Tessera. usage went up by 0.35, energy and spank by 0.1, for steps that answer for their job from Slurm 25.05 on.
    /// select went up by 0.2 for a state that a change of a partition leaves as it is.
    /// All but energy and usage went up by 0.1 to 0.3 for what two rounds of reviews found missing: bounds on what a user can size, keep or
    /// hold, limits on an instance or kind that a job does not name, and files that are known by device and not by name.
    /// spank went up by 0.2 for variables that a job inherits from another, and for steps of srun on a node that has lost its file.
    /// select and job_submit went up by 0.15 for bounds: shares where MPS serves no more clients, sets with quotas whose orders cannot all be
    /// tried, and a user's list of nodes.
    /// spank, the broker, energy and usage went down by 0.3 to 0.7 when what the command line alone asks NVML (`gpu-survey`), the simulator's events
    /// (`case-study`) and the node as a whole (`gpu-node`) went out.
    /// select and job_submit went down by 1.0, gpu_nvml by 0.2 and spank by 0.1 when what only others use went out: lines of Slurm's own files
    /// (`slurm-files`), every candidate in words (`decision-text`), the reader of the shared pages (`decision-pages`), slurm.conf and a slurmd's
    /// name (`node-slurm`), a slurmd's note, memory levels and NVML's numbers (`node-jobs`), edge lists (`job-options`), a neighbour's counters
    /// (`power-study`), and rules that were written twice.
    /// select went down by 0.85 when the rulings on submissions went out, which it never asks for (`admission`; `site-limits` stays). job_submit went up by
    /// 0.05 for the GRES of a running job, whose owner may not give up its nodes then.
    /// spank went down by 1.7, gpu_nvml by 1.3, the broker and energy by 0.2 when the engine's state of a node and what limits and policies mean
    /// (`gpu-rules` and `site-limits`), the edges of a job's pattern (`mapa`), and NVML's counters (`job-sample`) went out of what they link.
    /// All but the broker went up by 0.05 to 0.1 for types of fields that say what is behind a pointer, and select for parts in a reservation of GPUs.
    /// job_submit, spank and gpu_nvml went down by 0.1 when the choice of a power cap went out (`power-cap`), and all by at most 0.05 when what only
    /// tests and the command line use did.
    pub(crate) thousands: f64,
}

pub(crate) const ARTEFACTS: [Artefact; 7] = [
    Artefact {
        name: "select_cons_tres.so (slurmctld)",
        package: "select-plugin",
        crates: &[
            "cluster-rank",
            "decision-counts",
            "decision-report",
            "error-chain",
            "geometry",
            "gpu-rules",
            "mapa",
            "node-layout",
            "node-state",
            "placement",
            "plugin-front",
            "plugin-rt",
            "power",
            "power-cap",
            "protocol",
            "shared-pages",
            "site-config",
            "site-files",
            "site-limits",
            "slurm-numbers",
            "slurm-tables",
            "slurmctld-rt",
            "toml-tables",
            "topology",
        ],
        thousands: 33.08,
    },
    Artefact {
        name: "job_submit_tessera.so (slurmctld)",
        package: "gres-helper",
        crates: &[
            "admission",
            "decision-counts",
            "decision-report",
            "error-chain",
            "geometry",
            "gpu-rules",
            "learnt-bandwidth",
            "mapa",
            "node-state",
            "placement",
            "plugin-rt",
            "power",
            "protocol",
            "shared-pages",
            "site-config",
            "site-files",
            "site-limits",
            "slurm-limits",
            "slurm-names",
            "slurm-numbers",
            "slurm-tables",
            "slurmctld-rt",
            "toml-tables",
            "topology",
        ],
        thousands: 26.56,
    },
    Artefact {
        name: "spank_tessera.so",
        package: "spank-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "gpu-rules",
            "job-options",
            "job-usage",
            "node-driver",
            "node-jobs",
            "node-journal",
            "node-slurm",
            "plugin-rt",
            "power",
            "protocol",
            "site-config",
            "site-files",
            "slurm-files",
            "slurm-numbers",
            "task-control",
            "toml-tables",
            "topology",
        ],
        thousands: 26.87,
    },
    Artefact {
        name: "gpu_nvml.so",
        package: "gpu-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "gpu-rules",
            "node-slurm",
            "plugin-front",
            "plugin-rt",
            "power",
            "protocol",
            "site-config",
            "site-files",
            "slurm-numbers",
            "slurm-tables",
            "slurmctld-rt",
            "toml-tables",
            "topology",
        ],
        thousands: 13.47,
    },
    Artefact {
        name: "acct_gather_energy_tessera.so",
        package: "energy-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "job-usage",
            "node-driver",
            "node-journal",
            "node-slurm",
            "plugin-rt",
            "slurm-numbers",
            "slurm-tables",
            "step-accounting",
        ],
        thousands: 7.17,
    },
    Artefact {
        name: "acct_gather_interconnect_tessera.so",
        package: "usage-plugin",
        crates: &[
            "error-chain",
            "geometry",
            "job-sample",
            "job-usage",
            "node-driver",
            "node-journal",
            "node-slurm",
            "plugin-rt",
            "slurm-numbers",
            "slurm-tables",
            "step-accounting",
        ],
        thousands: 7.99,
    },
    Artefact {
        name: "tessera-broker",
        package: "task-broker",
        crates: &["error-chain", "geometry", "node-driver", "task-control", "task-sched", "task-wire"],
        thousands: 9.72,
    },
];
