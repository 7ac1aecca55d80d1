//! `tessera usage`: what jobs held of GPUs, and what they used of that.

mod sum;
mod text;

use clap::Args;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::caller;
use crate::slurm::sacct::{self, Whose};
use sum::Sums;

/// Longest time to look back, days.
const MOST_DAYS: i64 = 3660;

/// Show what jobs held of GPUs, and what they used of that
///
/// Reads Slurm's accounting. Without options, a line for each of your own jobs of the last 30 days, an array as one line: hours of
/// GPUs, compute slices times hours, and how much of that was used. With --account, a line for each user of the account. Slices
/// are known where the site counts them (Licenses=slice:N in slurm.conf). Use is the mean utilisation of the GPUs over time, where
/// the site has AcctGatherInterconnectType=acct_gather_interconnect/tessera or Slurm records it. Jobs whose use is not recorded
/// count as held, and neither as used nor as wasted.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera usage
  tessera usage --since 7 --user alice
  tessera usage --account bio --json")]
pub(crate) struct UsageArgs {
    /// The jobs of this user
    #[arg(long, value_name = "NAME", conflicts_with = "account", value_parser = name)]
    pub(crate) user: Option<String>,
    /// The users of this account
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) account: Option<String>,
    /// How far back to look, in days
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=MOST_DAYS))]
    pub(crate) since: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A name as Slurm takes it; a comma would name several.
fn name(text: &str) -> Result<String, String> {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ',';
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err("one name, without blanks and commas".to_owned())
}

pub(crate) fn run(args: &UsageArgs, _globals: &Globals) -> Result<Outcome, Failure> {
    let (whose, of) = match (&args.account, &args.user) {
        (Some(account), _) => (Whose::Account(account.clone()), format!("account {account}")),
        (None, Some(user)) => (Whose::User(user.clone()), user.clone()),
        (None, None) => {
            let user = caller::caller(false).user;
            (Whose::User(user.clone()), user)
        }
    };
    let lines = sacct::jobs_and_steps(&whose, args.since, sum::COLUMNS)?;
    let sums = Sums::of(lines, args.account.is_some());
    if args.json {
        return Ok(Outcome::json(&text::json(&sums, &of, args.since), 0));
    }
    Ok(Outcome::ok(text::of(&sums, &of, args.since)))
}
