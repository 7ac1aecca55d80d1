//! `tessera usage`: what jobs held of GPUs, and what they used of that.

mod sum;
mod text;

use clap::Args;

use crate::clock::since;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::sacct::{self, Whose};
use crate::slurm::{caller, sacctmgr};
use crate::unknown_name::meant;
use sum::Sums;

/// Show which GPUs jobs had, and how much of them they used
///
/// Reads Slurm's accounting. Without options, a line for each of your own jobs of the last 30 days, an array as one line:
/// hours of GPUs, compute slices times hours, and how many of these slice hours were used. With --account, a line for each user of
/// the account. Slices are known if the site counts them (Licenses=slice:N in slurm.conf); without them nobody knows what was used. Use is the mean utilisation of the
/// GPUs over time, if the site has AcctGatherInterconnectType=acct_gather_interconnect/tessera or Slurm records it. Jobs
/// whose use is not recorded count neither as used nor as wasted. A job that ran at any time since then counts with all of its time, and
/// one that was requeued with its last run.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera usage
  tessera usage --since 7d --user alice
  tessera usage --account bio --json")]
pub(crate) struct UsageArgs {
    /// The jobs of this user
    #[arg(long, value_name = "NAME", conflicts_with = "account", value_parser = name)]
    pub(crate) user: Option<String>,
    /// The users of this account
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) account: Option<String>,
    /// How far back to look: 7d or 12h; a number alone is minutes
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = since)]
    pub(crate) since: u64,
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
        (None, Some(user)) => {
            known_user(user)?;
            (Whose::User(user.clone()), user.clone())
        }
        (None, None) => {
            let user = caller::caller(false).user;
            (Whose::User(user.clone()), user)
        }
    };
    let lines = sacct::jobs_and_steps(&whose, args.since, sum::COLUMNS)?;
    let sums = Sums::of(lines, args.account.is_some());
    if let Some(account) = args.account.as_deref().filter(|_| sums.rows.is_empty()) {
        known_account(account)?;
    }
    if args.json {
        return Ok(Outcome::json(&text::json(&sums, &of, args.since), 0));
    }
    Ok(Outcome::ok(text::of(&sums, &of, args.since)))
}

/// Refuses a user whom this machine does not know: sacct would say that alone. It takes any number.
fn known_user(user: &str) -> Result<(), Failure> {
    if caller::is_user(user) || user.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    let known = sacctmgr::users().unwrap_or_default();
    let hint = match &known[..] {
        [] => "jobs of a user who was removed are found by the number: --user 1234".to_owned(),
        known => meant(user, known.iter().map(String::as_str)),
    };
    Err(Failure::new(format!("this machine knows no user {user}")).hint(hint))
}

/// Refuses an account that Slurm's accounting does not show, if it shows any.
fn known_account(account: &str) -> Result<(), Failure> {
    let known = sacctmgr::accounts().unwrap_or_default();
    // Slurm's accounting keeps names in lower case.
    if known.is_empty() || known.iter().any(|name| name.eq_ignore_ascii_case(account)) {
        return Ok(());
    }
    let hint = meant(account, known.iter().map(String::as_str));
    Err(Failure::new(format!("Slurm's accounting shows you no account {account}")).hint(hint))
}
