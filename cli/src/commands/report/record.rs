//! A job as Slurm's accounting has it, with its steps.

use std::collections::HashMap;

use link_learning::{CountedRun, SentBytes};
use protocol::wire::parse_request;
use protocol::{AdminComment, Bandwidth, Started};

use crate::slurm::sacct::jobs::is_over;
use crate::slurm::step_use::{StepUse, mean_busy, most_memory};
use crate::slurm::tres::{bytes, mib, tres};

/// Columns of sacct behind the number of job or step, with their widths.
pub(super) const COLUMNS: [(&str, usize); 14] = [
    ("User", 64),
    ("State", 40),
    ("Submit", 20),
    ("Start", 20),
    ("ElapsedRaw", 12),
    ("ConsumedEnergyRaw", 24),
    ("AllocTRES", 256),
    ("TRESUsageInTot", 512),
    ("TRESUsageInMax", 512),
    ("TRESUsageOutMax", 512),
    ("NNodes", 12),
    ("AdminComment", 512),
    ("JobID", 64),
    ("TRESUsageOutTot", 512),
];

/// Energies above this are Slurm's way of saying that it knows none (`NO_VAL64` and its kin).
const MOST_JOULES: u64 = 1 << 60;

/// GPUs and use of a job.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) id: String,
    /// As Slurm's commands write it: `14_1` for a task of an array.
    pub(super) number: String,
    pub(super) user: String,
    pub(super) state: String,
    /// Seconds from its submission to its start.
    pub(super) waited_s: Option<u64>,
    /// Seconds since 1970; `None`: it has not started.
    pub(super) start: Option<u64>,
    pub(super) ran_s: u64,
    pub(super) started: Option<Started>,
    /// Memory that it asked for, MiB per instance or share.
    pub(super) asked_mib: Option<u64>,
    pub(super) gpus: Option<u64>,
    pub(super) slices: Option<u64>,
    pub(super) billing: Option<u64>,
    /// Energy of its GPUs, J; `None`: not accounted.
    pub(super) energy_j: Option<u64>,
    /// The most GPU memory that it used on all devices together, MiB.
    pub(super) memory_mib: Option<u64>,
    /// The most that it used on one device, MiB. Where Slurm itself records usage, this is the same.
    pub(super) device_mib: Option<u64>,
    /// The highest utilisation of GPUs by one task or on one node, percent.
    pub(super) busy_percent: Option<u64>,
    /// Mean utilisation over time, percent.
    pub(super) busy_mean_percent: Option<u64>,
    /// Bytes that its GPUs have sent over NVLink.
    pub(super) nvlink_sent: Option<u64>,
    /// Bytes that its GPUs have sent over PCIe, to each other and to the host: an estimate.
    pub(super) pcie_sent: Option<u64>,
    /// Label that the user gave by `--gpu-bandwidth`.
    pub(super) label: Option<Bandwidth>,
}

impl Record {
    /// The jobs of these lines, the first cell of each being its number or its step's.
    pub(super) fn all(lines: Vec<[String; 15]>) -> Vec<Self> {
        let (jobs, steps): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| !line[0].contains('.'));
        let mut of_job: HashMap<String, Vec<[String; 15]>> = HashMap::new();
        for step in steps {
            let job = step[0].split('.').next().unwrap_or_default().to_owned();
            of_job.entry(job).or_default().push(step);
        }
        jobs.into_iter()
            .map(|job| {
                let steps = of_job.remove(&job[0]).unwrap_or_default();
                Self::of(job, &steps)
            })
            .collect()
    }

    fn of(job: [String; 15], steps: &[[String; 15]]) -> Self {
        let each = |cell: usize, name: &'static str, unit: fn(&str) -> Option<u64>| {
            steps.iter().filter_map(move |step| unit(tres(&step[cell], name)?))
        };
        let most = |cell, name, unit| each(cell, name, unit).max();
        // Steps that count do so one after the other, or on different nodes.
        let sum = |name| each(14, name, bytes).reduce(u64::saturating_add);
        // What acct_gather_interconnect/tessera writes: see docs/decisions/0028. Then even none is something that was seen.
        let device_mib = most(10, "gres/gpumem", mib);
        let uses: Vec<StepUse> = steps.iter().map(step_use).collect();
        let [id, user, state, submit, start, elapsed, energy, allocated, _, _, _, nodes, comment, number, _] =
            job;
        let nodes = nodes.parse().unwrap_or(1);
        let memory_mib = most_memory(&uses, nodes).filter(|m| *m > 0 || device_mib.is_some());
        let start: Option<u64> = start.parse().ok();
        let submit: Option<u64> = submit.parse().ok();
        let counted = |name: &str| tres(&allocated, name)?.parse().ok();
        let mut record = Self {
            id,
            number,
            user,
            // `CANCELLED by 1000`
            state: state.split_whitespace().next().unwrap_or_default().to_owned(),
            waited_s: start.zip(submit).map(|(start, submit)| start.saturating_sub(submit)),
            start,
            ran_s: elapsed.parse().unwrap_or(0),
            asked_mib: None,
            label: None,
            started: None,
            gpus: counted("gres/gpu"),
            slices: counted("license/slice"),
            billing: counted("billing"),
            energy_j: energy.parse().ok().filter(|j| (1..MOST_JOULES).contains(j)),
            memory_mib,
            device_mib: device_mib.or(memory_mib),
            busy_percent: most(9, "gres/gpuutil", |text| text.parse().ok()),
            busy_mean_percent: mean_busy(&uses, nodes),
            nvlink_sent: sum("ic/nvlink"),
            pcie_sent: sum("ic/pcie"),
        };
        record.name(&comment);
        record
    }

    /// Takes what the job's AdminComment says of it.
    pub(super) fn name(&mut self, comment: &str) {
        let comment = AdminComment::parse(comment);
        let request = comment.asks.as_deref().and_then(|asks| parse_request(asks).ok());
        self.asked_mib = request.as_ref().and_then(|request| request.mem_mib);
        self.label = request.and_then(|request| request.bandwidth);
        self.started = comment.started().cloned();
    }

    /// True if its end is still to come: much of it is in the accounting only then.
    pub(super) fn goes_on(&self) -> bool {
        !is_over(&self.state)
    }

    /// True if it goes on and the accounting does not say what it got.
    pub(super) fn is_unnamed(&self) -> bool {
        self.goes_on() && self.started.is_none()
    }
}

fn step_use(line: &[String; 15]) -> StepUse<'_> {
    StepUse { id: &line[0], nodes: &line[11], elapsed_s: &line[5], total_in: &line[8], total_out: &line[14] }
}

impl Record {
    /// The job as a run from which its need for bandwidth can be learnt; `None`: its traffic was not counted.
    pub(super) fn run(&self) -> Option<CountedRun> {
        let sent = SentBytes::of(self.nvlink_sent, self.pcie_sent)?;
        Some(CountedRun { gpus: self.gpus?, seconds: self.ran_s, sent })
    }

    /// The label that this traffic contradicts.
    pub(super) fn wrong_label(&self) -> Option<Bandwidth> {
        let says = self.run()?.says()?;
        self.label.filter(|label| *label != says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_its_steps() {
        let line = |id: &str, usage: &str| {
            let mut cells: [String; 15] = Default::default();
            cells[0] = id.to_owned();
            cells[8] = usage.to_owned();
            cells
        };
        let lines = vec![
            line("7", ""),
            line("7.batch", "gres/gpumem=9M"),
            line("8", ""),
            line("8.0", "gres/gpumem=5M"),
        ];
        let jobs = Record::all(lines);
        let told: Vec<_> = jobs.iter().map(|job| (job.id.as_str(), job.memory_mib)).collect();
        assert_eq!(told, [("7", Some(9)), ("8", Some(5))]);
        assert_eq!(Record::all(Vec::new()), []);
    }

    #[test]
    fn bytes_of_steps_add_up_and_so_does_memory_of_nodes() {
        let step = |id: &str, nodes: &str| {
            let mut cells: [String; 15] = Default::default();
            cells[0] = id.to_owned();
            cells[8] = "gres/gpumem=9M".to_owned();
            cells[11] = nodes.to_owned();
            cells[14] = "gres/gpuutil=80,ic/nvlink=5".to_owned();
            cells
        };
        let jobs = Record::all(vec![step("7", "2"), step("7.batch", "1"), step("7.0", "2")]);
        let [job] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((job.nvlink_sent, job.pcie_sent), (Some(10), None));
        assert_eq!((job.memory_mib, job.busy_mean_percent), (Some(18), Some(80)));
    }
}
