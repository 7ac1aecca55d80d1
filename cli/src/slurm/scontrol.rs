//! `scontrol`: settings, nodes, and changes to jobs.

use std::collections::{HashMap, HashSet};

use protocol::node_word::split;
use protocol::{Extra, IdleWord, SickGpu, Standing, sick};

use super::command::{prepare, run};
use super::exclusive;
use crate::outcome::Failure;

/// A value in `scontrol show config`.
pub(crate) fn setting<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let pair = |line: &'a str| line.split_once('=').filter(|(k, _)| k.trim().eq_ignore_ascii_case(key));
    config.lines().find_map(pair).map(|(_, value)| value.trim())
}

/// The id of `SlurmUser` in the value of that setting: `slurm(64030)`.
pub(crate) fn user_id(setting: &str) -> Option<u32> {
    setting.strip_suffix(')')?.rsplit_once('(')?.1.parse().ok()
}

/// `StateSaveLocation` and the id of `SlurmUser` in `scontrol show config`.
pub(crate) fn state_and_user(config: &str) -> Option<(String, u32)> {
    let user = user_id(setting(config, "SlurmUser")?)?;
    Some((setting(config, "StateSaveLocation")?.to_owned(), user))
}

/// Asks scontrol for the configuration.
pub(crate) fn config() -> Result<String, Failure> {
    run("scontrol", &["show", "config"])
}

/// The fields of each partition.
pub(crate) fn partitions() -> Result<HashMap<String, HashMap<String, String>>, Failure> {
    Ok(partitions_in(&run("scontrol", &["-a", "-o", "show", "partition"])?))
}

/// The fields in lines as `PartitionName=gpu AllowQos=ALL … QoS=N/A …`.
fn partitions_in(text: &str) -> HashMap<String, HashMap<String, String>> {
    let fields = |line: &str| -> HashMap<String, String> {
        let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let named = |fields: HashMap<String, String>| Some((fields.get("PartitionName")?.clone(), fields));
    text.lines().filter_map(|line| named(fields(line))).collect()
}

/// Runs `scontrol show nodes`, with the nodes of hidden partitions as sinfo and squeue are asked.
pub(crate) fn nodes() -> Result<String, Failure> {
    run("scontrol", &["-a", "show", "nodes"])
}

/// The layouts that the controller publishes, by node.
pub(crate) fn layouts() -> Result<HashMap<String, String>, Failure> {
    Ok(layouts_in(&nodes()?))
}

/// The layouts in `scontrol show nodes`, without the nodes' words.
pub(crate) fn layouts_in(text: &str) -> HashMap<String, String> {
    let mut found = field_by_node(text, "Extra=");
    found.values_mut().for_each(|extra| *extra = split(extra).0.to_owned());
    found.retain(|_, extra| extra.starts_with("tessera"));
    found
}

/// How slurmctld judges what the nodes say of themselves, in `scontrol show nodes`.
pub(crate) fn standings_in(text: &str) -> HashMap<String, Standing> {
    let judged = |(node, extra): (String, String)| Some((node, split(&extra).1?.standing()?));
    field_by_node(text, "Extra=").into_iter().filter_map(judged).collect()
}

/// The partitions that give jobs whole nodes, as Slurm shows them from 26.05 on.
pub(crate) fn whole_partitions() -> Result<HashSet<String>, Failure> {
    Ok(whole_in(&run("scontrol", &["-a", "-o", "show", "partition"])?))
}

/// The names in lines as `PartitionName=gpu … Exclusive=NODE …`.
fn whole_in(text: &str) -> HashSet<String> {
    let value = |line: &str, key: &str| {
        let mut found = line.split_whitespace().filter_map(|word| word.strip_prefix(key));
        found.next().map(str::to_owned)
    };
    let whole = |line: &&str| value(line, "Exclusive=").is_some_and(|value| exclusive::is_whole(&value));
    text.lines().filter(whole).filter_map(|line| value(line, "PartitionName=")).collect()
}

/// The unhealthy GPUs that nodes name, in `scontrol show nodes`; nodes without any are left out.
pub(crate) fn sick_in(text: &str) -> HashMap<String, Vec<SickGpu>> {
    let named = |(node, extra): (String, String)| Some((node, sick::parse(Extra::read(&extra).sick)?));
    field_by_node(text, "Extra=").into_iter().filter_map(named).filter(|(_, sick)| !sick.is_empty()).collect()
}

/// Reads from `scontrol show nodes` the jobs that nodes call idle.
pub(crate) fn idle_in(text: &str) -> HashMap<String, IdleWord> {
    let said = |(node, extra): (String, String)| Some((node, IdleWord::parse(Extra::read(&extra).idle)?));
    field_by_node(text, "Extra=").into_iter().filter_map(said).collect()
}

/// Reads from `scontrol show nodes` the watts that nodes draw, of those whose slurmds measure them.
pub(crate) fn watts_in(text: &str) -> HashMap<String, u32> {
    let number = |(node, line): (String, String)| {
        Some((node, line.split(' ').next()?.parse().ok().filter(|watts| *watts > 0)?))
    };
    field_by_node(text, "CurrentWatts=").into_iter().filter_map(number).collect()
}

/// Reads each node's `Weight` from `scontrol show nodes`.
pub(crate) fn weights_in(text: &str) -> HashMap<String, u64> {
    let weight = |(node, line): (String, String)| {
        let weight = line.split(' ').find_map(|word| word.strip_prefix("Weight="));
        Some((node, weight?.parse().ok()?))
    };
    field_by_node(text, "State=").into_iter().filter_map(weight).collect()
}

/// A field at the beginning of a line of `scontrol show nodes`, with the rest of the line, by node.
pub(crate) fn field_by_node(text: &str, field: &str) -> HashMap<String, String> {
    let (mut found, mut name) = (HashMap::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("NodeName=") {
            name = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(value) = line.trim_start().strip_prefix(field) {
            found.insert(name.clone(), value.to_owned());
        }
    }
    found
}

/// slurmctld's record of a job: of an array, several tasks that wait can share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobRecord {
    /// Number of the record itself.
    pub(crate) id: u32,
    /// Number of its array, and the tasks as `3` or `4-7,9`.
    pub(crate) array: Option<(u32, String)>,
    /// Component of a heterogeneous job.
    pub(crate) component: Option<u32>,
    pub(crate) state: String,
    /// AdminComment.
    pub(crate) comment: String,
}

/// The records of a job, of all tasks of an array and of all components; none if Slurm does not know the job.
pub(crate) fn job_records(job: u32) -> Result<Vec<JobRecord>, Failure> {
    // Without it, a long list of tasks is cut.
    let out =
        prepare("scontrol").env("SLURM_BITSTR_LEN", "0").args(["show", "job", &job.to_string()]).output();
    let out =
        out.map_err(|e| Failure::new(format!("cannot run scontrol: {e}")).hint("is Slurm installed here?"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() && !said.contains("Invalid job id specified") {
        return Err(Failure::new(format!("scontrol failed: {}", said.trim())));
    }
    Ok(job_records_in(&String::from_utf8_lossy(&out.stdout)))
}

/// Records in `scontrol show job`. A job's name can end its first line, which has the numbers before it.
fn job_records_in(text: &str) -> Vec<JobRecord> {
    let mut found: Vec<JobRecord> = Vec::new();
    for line in text.lines() {
        if line.starts_with("JobId=") {
            let numbers = line.split(" JobName=").next().unwrap_or_default();
            let field = |key| numbers.split(' ').find_map(|word| word.strip_prefix(key));
            let tasks =
                field("ArrayTaskId=").map(|tasks| tasks.split('%').next().unwrap_or_default().to_owned());
            let array = field("ArrayJobId=").and_then(|array| array.parse().ok());
            let component = field("HetJobOffset=").and_then(|n| n.parse().ok());
            let id = field("JobId=").and_then(|id| id.parse().ok()).unwrap_or(0);
            found.push(JobRecord { id, array: array.zip(tasks), component, ..JobRecord::default() });
        } else if let Some(record) = found.last_mut() {
            let line = line.trim_start();
            if let Some(state) = line.strip_prefix("JobState=").filter(|_| record.state.is_empty()) {
                record.state = state.split(' ').next().unwrap_or_default().to_owned();
            } else if let Some(comment) = line.strip_prefix("AdminComment=") {
                comment.clone_into(&mut record.comment);
            }
        }
    }
    found
}

/// Sets fields of a job, all or none; what Slurm says if it refuses. `job`: its number, `12` or `12_[3-5]`.
pub(crate) fn update(job: &str, fields: &[String]) -> Result<(), String> {
    let out = prepare("scontrol").args(["update", &format!("JobId={job}")]).args(fields).output();
    match out {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => {
            let said =
                format!("{}{}", String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
            Err(said.trim().replace('\n', ": "))
        }
        Err(e) => Err(format!("cannot run scontrol: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_whole_nodes_are_told_apart() {
        let text = "PartitionName=gpu AllowGroups=ALL Default=YES Exclusive=NO Nodes=n[1-2] OverSubscribe=FORCE:4\n\
                    PartitionName=alone AllowGroups=ALL Exclusive=NODE OverSubscribe=NO\nPartitionName=rack Exclusive=TOPO\n\
                    PartitionName=mine Exclusive=USER\nPartitionName=old ExclusiveUser=NO OverSubscribe=NO\n";
        let found = whole_in(text);
        assert_eq!(found, ["alone", "rack"].map(str::to_owned).into());
    }

    #[test]
    fn records_of_jobs_are_read() {
        let text = "JobId=8 ArrayJobId=8 ArrayTaskId=0,2-5%2 JobName=x ArrayTaskId=9\n   UserId=a(1) GroupId=a(1) MCS_label=N/A\n   \
                    JobState=PENDING Reason=JobHeldUser Dependency=(null)\n   AdminComment=tessera: asks v1 iso=mig\n\n\
                    JobId=9 HetJobId=9 HetJobOffset=1 JobName=wrap\n   JobState=RUNNING Reason=None\n";
        let found = job_records_in(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].array, Some((8, "0,2-5".to_owned())));
        assert_eq!((found[0].state.as_str(), found[0].component), ("PENDING", None));
        assert_eq!(found[0].comment, "tessera: asks v1 iso=mig");
        assert_eq!((found[1].state.as_str(), found[1].component), ("RUNNING", Some(1)));
    }

    #[test]
    fn a_partitions_fields_are_read() {
        let text = "PartitionName=gpu AllowQos=ALL QoS=part-gpu Nodes=n1\nPartitionName=open AllowQos=a,b QoS=N/A\n\n";
        let found = partitions_in(text);
        assert_eq!((found.len(), found["gpu"]["QoS"].as_str()), (2, "part-gpu"));
        assert_eq!(found["open"]["AllowQos"], "a,b");
    }

    #[test]
    fn slurms_user_has_an_id() {
        assert_eq!(["slurm(64030)", "root(0)"].map(user_id), [Some(64030), Some(0)]);
        assert_eq!(["", "slurm", "slurm()", "64030"].map(user_id), [None; 4]);
    }

    #[test]
    fn slurmctlds_state_and_user_are_found() {
        let config =
            "SlurmUser               = slurm(64030)\nStateSaveLocation       = /var/spool/slurmctld\n";
        assert_eq!(state_and_user(config), Some(("/var/spool/slurmctld".to_owned(), 64030)));
        assert_eq!(state_and_user("NodeName=n1"), None);
    }

    #[test]
    fn extra_is_found_by_node() {
        let text = "NodeName=n1 Arch=x86_64 CoresPerSocket=1\n   Gres=gpu:8\n   Extra=tessera gpu0=free\n\n\
                    NodeName=n2 Arch=x86_64\n   Comment=x\n   Extra=somebody else's\n\n";
        let found = layouts_in(text);
        assert_eq!(found.get("n1").map(String::as_str), Some("tessera gpu0=free"));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn watts_are_known_of_nodes_that_measure() {
        let text = "NodeName=n1 A=x\n   CurrentWatts=1250 AveWatts=0\n\nNodeName=n2 A=x\n   CurrentWatts=n/s AveWatts=n/s\n\n\
                    NodeName=n3 A=x\n   CurrentWatts=0 AveWatts=0\n";
        assert_eq!(watts_in(text), HashMap::from([("n1".to_owned(), 1250)]));
    }

    #[test]
    fn weights_are_read_from_the_line_of_states() {
        let text = "NodeName=n1 A=x\n   State=MIXED+PLANNED ThreadsPerCore=2 TmpDisk=0 Weight=10 Owner=N/A\n   \
                    Comment=Weight=3\n\nNodeName=n2 A=x\n   Comment=State=IDLE Weight=3\n";
        assert_eq!(weights_in(text), HashMap::from([("n1".to_owned(), 10)]));
    }

    #[test]
    fn unhealthy_gpus_are_found_by_node() {
        let text = "NodeName=n1 Arch=x86_64\n   Extra=tessera gpu0-1=free sick=1:7:xid_79 node=silent\n\n\
                    NodeName=n2 Arch=x86_64\n   Extra=tessera gpu0=free sick=none\n";
        let found = sick_in(text);
        assert_eq!((found.len(), found["n1"][0].why.as_str()), (1, "xid 79"));
        assert_eq!(layouts_in(text)["n1"], "tessera gpu0-1=free");
    }

    #[test]
    fn words_of_nodes_are_told_from_layouts() {
        let text = "NodeName=n1 Arch=x86_64\n   Extra=tessera gpu0=free node=other:5:00000000000000ab\n\n\
                    NodeName=n2 Arch=x86_64\n   Extra=rack 7 node=silent\n\n\
                    NodeName=n3 Arch=x86_64\n   Extra=tessera node=says:5:00000000000000ab\n";
        assert_eq!(layouts_in(text), HashMap::from([("n1".to_owned(), "tessera gpu0=free".to_owned())]));
        let judged = [("n1", Standing::Other), ("n2", Standing::Silent)];
        assert_eq!(standings_in(text), HashMap::from(judged.map(|(node, word)| (node.to_owned(), word))));
    }
}
