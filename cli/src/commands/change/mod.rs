//! `tessera change`: another GPU request for a pending job.

mod records;

use clap::Args;
use protocol::wire::{encode_as_gres, parse_request};
use protocol::{AdminComment, CommentBody, Isolation, Request};

use records::{Number, Waiting, number, records};

use crate::commands::explain::GpuOptions;
use crate::commands::why;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::site;
use crate::slurm::scontrol;

/// Change the GPU request of a waiting job
///
/// The new request is that of these options, as if the job had been submitted with them: repeat all --gpu options that it
/// should have. The job keeps its number, its place in the queue and its other requests to Slurm. Limits apply as to a
/// submission. If the new request is refused, the job stays as it was.
///
/// Whole GPUs keep their number, unless --gpu-isolation names mig or mps. For another number of whole GPUs use
/// `scontrol update JobId=4711 Gres=gpu:2`. Only the job's user and root can change it. A job that has started keeps its GPUs.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera change 4711 --gpu-mem=20G
  tessera change 4711_3 --gpu-isolation=mig:3g.20gb    one task of an array
  tessera change 4711+1 --gpu-isolation=mps            a component of a het job

By the number of an array, 4711, all of its tasks that wait are changed.")]
pub(crate) struct ChangeArgs {
    /// The job's number, such as 4711; of a task of an array 4711_2, of a component 4711+1
    #[arg(value_name = "JOBID", value_parser = number)]
    job: Number,
    #[command(flatten)]
    request: GpuOptions,
    #[command(flatten)]
    slurms: SlurmsOwn,
}

/// Options of sbatch that count whole GPUs. scontrol changes these; they are taken here only to say so.
#[derive(Args)]
struct SlurmsOwn {
    #[arg(long, short = 'G', hide = true, value_name = "N")]
    gpus: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    gpus_per_node: Option<String>,
    #[arg(long, hide = true, value_name = "N")]
    gpus_per_task: Option<String>,
    #[arg(long, hide = true, value_name = "LIST")]
    gres: Option<String>,
}

impl SlurmsOwn {
    /// Says how the number of whole GPUs is changed, if the user has given one of these options.
    fn refused(&self) -> Option<Failure> {
        let Self { gpus, gpus_per_node, gpus_per_task, gres } = self;
        let given = [
            ("--gpus", gpus),
            ("--gpus-per-node", gpus_per_node),
            ("--gpus-per-task", gpus_per_task),
            ("--gres", gres),
        ];
        let (name, _) = given.into_iter().find(|(_, value)| value.is_some())?;
        Some(
            Failure::new(format!("{name} is an option of Slurm's, which this command does not change"))
                .hint("for another number of whole GPUs: scontrol update JobId=4711 Gres=gpu:2"),
        )
    }
}

pub(crate) fn run(args: &ChangeArgs, globals: &Globals) -> Result<Outcome, Failure> {
    if let Some(refused) = args.slurms.refused() {
        return Err(refused);
    }
    let request = args.request.request().map_err(|refusals| {
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        Failure::new(lines.join("\n"))
    })?;
    let Some(request) = request else {
        return Err(Failure::new("no request given").hint("for example: tessera change 4711 --gpu-mem=20G"));
    };
    let found = records(args.job)?;
    let mut text = String::new();
    let mut refused = Vec::new();
    let mut one_changed = None;
    for record in &found.pending {
        match changed(record, &request) {
            Ok(line) => {
                text += &line;
                one_changed.get_or_insert(record);
            }
            Err(why) => refused.push(why),
        }
    }
    if let Some(record) = one_changed {
        text += &told_limit(record, globals);
    }
    if found.started > 0 {
        text += &format!("{} of the array's tasks have started and keep their GPUs.\n", found.started);
    }
    match refused.split_first() {
        None => Ok(Outcome::ok(text)),
        Some((first, _)) if text.is_empty() && refused.len() == 1 => Err(first.failure()),
        Some(_) => {
            refused.iter().for_each(|why| text += &format!("{}\n", why.failure().in_a_line()));
            Ok(Outcome { text, status: 1 })
        }
    }
}

/// Says which limit never lets the job start now, in a line; empty if none does. At a submission slurmctld's plugin says so, but slurmctld
/// shows users no message about a change that it accepts.
fn told_limit(record: &Waiting, globals: &Globals) -> String {
    let config = site::load(globals.config.as_deref()).ok();
    let told = config.and_then(|config| why::never_by_limit(record.in_queue(), &config));
    told.map_or_else(String::new, |told| format!("{told}\n"))
}

/// A change that did not come about.
struct Refused {
    /// The job's number.
    job: String,
    /// slurmctld's reason; `None`: Slurm says only that it does not know the GRES.
    why: Option<String>,
}

impl Refused {
    fn failure(&self) -> Failure {
        let Self { job, why } = self;
        match why {
            Some(why) => Failure::new(format!("job {job} stays as it was: {why}")),
            None => Failure::new(format!("job {job} stays as it was: Slurm refused the change without a reason"))
                .hint("is the job yours, and does slurmctld load this version of Tessera? `tessera doctor` on its machine says so"),
        }
    }
}

/// Changes one record; the line that says what it asks now.
fn changed(record: &Waiting, request: &Request) -> Result<String, Refused> {
    let outcome = scontrol::update(&record.to_update, &[format!("Gres={}", encode_as_gres(request))]);
    let after = record.comment_now();
    if let Err(said) = outcome {
        return Err(Refused { job: record.number.clone(), why: reason(&said, after.as_ref()) });
    }
    // slurmctld has filled in the site's defaults. Where the AdminComment is the site's own, it does not show them.
    let asks = after.and_then(|comment| comment.asks).and_then(|asks| parse_request(&asks).ok());
    let asks = asks.unwrap_or_else(|| request.clone());
    let note = if stays_whole(request, &asks) { STAYS_WHOLE } else { "" };
    let asks = asks.in_words();
    let before = record.asked.as_deref().and_then(|asked| parse_request(asked).ok());
    let before = before.map_or_else(String::new, |before| format!("; before: {}", before.in_words()));
    Ok(format!("job {} asks for {asks} now{before}\n{note}", record.number))
}

const STAYS_WHOLE: &str = "It counts whole GPUs, so it gets more than the request says. For a part of a GPU add --gpu-isolation=mig or mps.\n";

/// Tells whether the user said how much of a GPU the job needs, and the job still gets whole ones because Slurm counts these for it.
fn stays_whole(request: &Request, asks: &Request) -> bool {
    let part = request.mem_mib.is_some() || request.threads.is_some();
    part && request.isolation == Isolation::Auto && asks.isolation == Isolation::Whole
}

/// Tessera's reason in what scontrol said. Before 23.02 slurmctld has no place for it in its answer, and the job's AdminComment has it.
fn reason(said: &str, after: Option<&AdminComment>) -> Option<String> {
    let told = said.rsplit_once("tessera: ").map(|(_, why)| why);
    let noted = || match &after?.says {
        CommentBody::Unchanged(why) => Some(why.clone()),
        _ => None,
    };
    let of_slurm = || Some(said.to_owned()).filter(|said| !said.contains("Invalid generic resource"));
    told.map(|why| without_slurms_words(why).to_owned()).or_else(noted).or_else(of_slurm)
}

/// scontrol ends its line with the text of its error code.
fn without_slurms_words(why: &str) -> &str {
    why.find(": Invalid generic resource").map_or(why, |end| &why[..end]).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_stays_with_whole_gpus_says_so() {
        let of = |text| parse_request(text).unwrap();
        let (part, whole) = (of("v1 iso=auto mem=9537"), of("v1 iso=whole mem=9537 gpus=2"));
        assert!(stays_whole(&part, &whole));
        assert!(!stays_whole(&part, &part), "it gets a part");
        assert!(!stays_whole(&whole, &whole), "the user named whole GPUs");
        assert!(!stays_whole(&of("v1 iso=auto"), &whole), "the user named no part");
    }

    #[test]
    fn the_reason_is_tesseras_or_that_of_slurm() {
        let none = AdminComment::parse("tessera: asks v1 iso=mig");
        let noted = AdminComment::parse("tessera: change refused: no node has it; asks v1 iso=mig");
        let of = |said: &str, comment| reason(said, comment);
        let spoken = "tessera: no node has it: Invalid generic resource (gres) specification for job 4";
        assert_eq!(of(spoken, Some(&none)).as_deref(), Some("no node has it"));
        let silent = "Invalid generic resource (gres) specification for job 4";
        assert_eq!(of(silent, Some(&noted)).as_deref(), Some("no node has it"));
        assert_eq!(of(silent, Some(&none)), None);
        let other = "Access/permission denied for job 4";
        assert_eq!(of(other, None).as_deref(), Some(other));
    }
}
