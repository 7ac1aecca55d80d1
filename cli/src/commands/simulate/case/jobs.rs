//! Files of jobs.

use std::collections::HashSet;

use case_study::sim::{Job, Phase};
use serde_json::{Value, json};
use task_sched::{Bytes, Need, WorkerId};

use super::fields::{Fields, objects};

const JOB: [&str; 5] = ["id", "arrival", "isolated", "mem", "phases"];
const HOST: [&str; 1] = ["host"];
const GPU: [&str; 6] = ["gpu", "mem", "managed", "blocks", "threads", "demand"];

/// Jobs as lines that [`parse`] reads.
pub(super) fn print(jobs: &[Job]) -> String {
    jobs.iter().map(|job| format!("{}\n", line(job))).collect()
}

fn line(job: &Job) -> Value {
    let phase = |phase: &Phase| match phase {
        Phase::Host(seconds) => json!({ "host": seconds }),
        Phase::Gpu { seconds, need, demand } => {
            let mut value = json!({
                "gpu": seconds, "mem": need.mem().0, "blocks": need.blocks(), "threads": need.threads(),
                "demand": demand,
            });
            if need.managed() > Bytes(0) {
                value["managed"] = json!(need.managed().0);
            }
            value
        }
    };
    let phases: Vec<Value> = job.phases.iter().map(phase).collect();
    json!({
        "id": job.id.0, "arrival": job.arrival, "isolated": job.isolated, "mem": job.mem.0, "phases": phases,
    })
}

/// Reads a file of jobs.
///
/// # Errors
///
/// Every bad line by file, line and field, one a line.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Job>, String> {
    let (mut jobs, mut errors, mut ids) = (Vec::new(), Vec::new(), HashSet::new());
    for object in objects(file, text) {
        let (place, map) = match object {
            Ok(found) => found,
            Err(e) => {
                errors.push(e);
                continue;
            }
        };
        let mut fields = Fields::new(&place, "", &map, &JOB);
        if let Some(job) = job(&place, &mut fields) {
            if !ids.insert(job.id) {
                fields.error("id", &format!("job {} comes twice", job.id.0));
            }
            jobs.push(job);
        }
        errors.append(&mut fields.errors);
    }
    if jobs.is_empty() && errors.is_empty() {
        errors.push(format!("{file}: no jobs"));
    }
    if errors.is_empty() { Ok(jobs) } else { Err(errors.join("\n")) }
}

fn job(place: &str, fields: &mut Fields<'_>) -> Option<Job> {
    let (id, arrival) = (fields.whole("id"), fields.seconds("arrival"));
    let (isolated, mem) = (fields.flag("isolated"), fields.whole("mem"));
    let mut phases = Vec::new();
    for (i, value) in fields.list("phases")?.iter().enumerate() {
        let prefix = format!("phases[{i}].");
        let Value::Object(map) = value else {
            fields.error(&format!("phases[{i}]"), "expected an object with host or gpu");
            continue;
        };
        let known: &[&str] = if map.contains_key("gpu") { &GPU } else { &HOST };
        let mut inner = Fields::new(place, &prefix, map, known);
        phases.extend(phase(&mut inner, mem));
        fields.errors.append(&mut inner.errors);
    }
    let id = WorkerId(id?);
    let name = id.0.to_string();
    let job = Job { id, name, arrival: arrival?, isolated: isolated?, mem: Bytes(mem?), phases };
    fields.errors.is_empty().then_some(job)
}

fn phase(fields: &mut Fields<'_>, job_mem: Option<u64>) -> Option<Phase> {
    if !fields.has("gpu") {
        return fields.seconds("host").map(Phase::Host);
    }
    let (seconds, demand) = (fields.seconds("gpu"), fields.share("demand"));
    let (mem, blocks, threads) = (fields.whole("mem"), fields.whole("blocks"), fields.whole("threads"));
    let managed = fields.managed();
    if let Some((mem, most)) = mem.zip(job_mem).filter(|(mem, most)| mem > most) {
        fields.error("mem", &format!("{mem} bytes, above the {most} bytes of the job"));
    }
    match Need::new(Bytes(mem?), blocks?, threads?) {
        Ok(need) => {
            Some(Phase::Gpu { seconds: seconds?, need: need.with_managed(managed?), demand: demand? })
        }
        Err(e) => {
            let field = if blocks == Some(0) { "blocks" } else { "threads" };
            fields.error(field, &e.to_string());
            None
        }
    }
}
