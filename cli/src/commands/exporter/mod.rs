//! `tessera exporter`: metrics for Prometheus, and the cluster as a page.

mod args;
mod changes;
mod counted;
mod crowd;
mod listen;
mod metrics;
mod page;
mod registered;
mod serve;
mod told;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

pub(crate) use args::ExporterArgs;
use changes::Changes;
use counted::Counted;
use metrics::Waits;

use crate::cluster_snapshot::{self, ClusterSnapshot};
use crate::commands::why::Facts;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome, status};
use crate::site;
use site_config::SiteConfig;

/// The exporter's latest sample.
struct Now {
    /// How often Slurm was looked at, in vain or not.
    looks: u64,
    /// The last look that succeeded.
    seen: Option<ClusterSnapshot>,
    /// Why the last look failed, if it did.
    trouble: Option<String>,
    failures: u64,
    /// tessera.toml as it was read last while it was good.
    config: SiteConfig,
    /// tessera.toml was good when it was read last.
    file_is_good: bool,
    changes: Changes,
    waits: Waits,
    /// slurmctld's counts, if it runs on this machine.
    counted: Counted,
}

/// The exporter as its threads share it.
struct Exporter {
    state: serve::Shared,
    config: Option<PathBuf>,
    every: Duration,
    page: bool,
    users: bool,
}

pub(crate) fn run(args: &ExporterArgs, globals: &Globals) -> Result<Outcome, Failure> {
    // Said at once, not in a metric an hour later.
    let (config, file_is_good) = site::load_with_state(globals.config.as_deref())?;
    let now = Now {
        config,
        file_is_good,
        looks: 0,
        seen: None,
        trouble: None,
        failures: 0,
        changes: Changes::default(),
        waits: Waits::default(),
        counted: Counted::default(),
    };
    let exporter = Arc::new(Exporter {
        state: serve::Shared::new(now),
        config: globals.config.clone(),
        every: args.every,
        page: args.page,
        users: args.users,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|e| Failure::new(format!("cannot begin to serve: {e}")))?;
    let (listener, at) = runtime.block_on(bind(args.listen))?;
    let looking = Arc::clone(&exporter);
    thread::spawn(move || {
        loop {
            // It would end this thread alone, and what is old would pass for new.
            if catch_unwind(AssertUnwindSafe(|| looking.look())).is_err() {
                looking.failed("internal error in tessera; see its log".to_owned());
            }
            thread::sleep(looking.every);
        }
    });
    let page = if args.page { format!(", the page on http://{at}/") } else { String::new() };
    status(&format!("tessera exporter: metrics on http://{at}/metrics{page}\n"));
    Ok(runtime.block_on(listen::serve(&listener, &serve::router(exporter))))
}

/// The listening socket, and its address: the port may have been 0.
async fn bind(listen: SocketAddr) -> Result<(tokio::net::TcpListener, SocketAddr), Failure> {
    let failed = |e| {
        Failure::new(format!("cannot listen on {listen}: {e}"))
            .hint("--listen takes another address and port")
    };
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    Ok((listener, at))
}

impl Exporter {
    /// Looks at the cluster. tessera.toml is read anew: what the site changed shows at once.
    fn look(&self) {
        let seen = cluster_snapshot::look(&self.read_config());
        // Slurm is asked while nobody has to wait for the lock.
        let mut counted = self.state.lock().unwrap_or_else(PoisonError::into_inner).counted.clone();
        counted.look();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counted = counted;
        state.looks += 1;
        match seen {
            Ok(seen) => {
                let started = state.changes.add(&seen);
                state.waits.add(&started);
                state.seen = Some(seen);
                state.trouble = None;
            }
            Err(failure) => {
                if state.trouble.is_none() {
                    status(&failure.to_string());
                }
                drop(state);
                self.failed(failure.what().to_owned());
            }
        }
    }

    /// Reads tessera.toml. While it has errors, and no copy of its last good version can be read, what was read before stays: Slurm is
    /// asked all the same.
    fn read_config(&self) -> SiteConfig {
        let read = site::load_with_state(self.config.as_deref());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok((config, is_good)) => (state.config, state.file_is_good) = (config, is_good),
            Err(failure) => {
                if state.file_is_good {
                    status(&failure.to_string());
                }
                state.file_is_good = false;
            }
        }
        state.config.clone()
    }

    /// A look failed: what was seen last stays, and everybody who asks is told that it is old.
    fn failed(&self, why: String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.trouble = Some(why);
        state.failures += 1;
    }

    /// Asks Slurm about all jobs, in addition to the last sample; the error says why that failed.
    fn facts(&self) -> Result<Facts, String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = state.seen.as_ref().map(|seen| seen.jobs.clone());
        let trouble = state.trouble.clone();
        drop(state);
        let Some(jobs) = jobs else {
            return Err(trouble.unwrap_or_else(|| "Slurm is being asked for the first time".to_owned()));
        };
        Facts::ask(self.read_config(), jobs, self.users).map_err(|failure| failure.what().to_owned())
    }
}
