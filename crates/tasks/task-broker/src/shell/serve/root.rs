//! Requests of root.

use std::time::Instant;

use task_control::message::{Answer, Request};

use super::{Broker, IDLE, SOON, Source, now};
use crate::shell::connection;
use crate::shell::files::AddedJob;

impl Broker {
    pub(super) fn send_control(&mut self, token: u64, answer: &Answer) {
        if let Some(Source::Control(control)) = self.sources.get_mut(&token)
            && !control.send(answer)
        {
            self.sources.remove(&token);
        }
    }

    pub(super) fn answer(&mut self, token: u64, request: &Request) {
        let answer = match request {
            Request::Add(job) => self.add(job).map_or_else(|why| Answer::Refused { why }, |()| Answer::Done),
            Request::End { job } => self.end(*job),
            Request::Status => {
                let child = std::process::id();
                let parent =
                    rustix::process::getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
                // Init takes the place of a parent that was killed.
                let parent = parent.filter(|pid| *pid > 1).unwrap_or(child);
                Answer::Status(task_control::Status { parent, child, ..self.core.status(now()) })
            }
            Request::Hold { uuid, why } => match self.core.hold(uuid, why.as_deref(), now()) {
                Some(effects) => {
                    self.carry_out(effects);
                    Answer::Done
                }
                None => Answer::Refused { why: format!("no job shares device {uuid}") },
            },
            Request::Stop => match self.core.jobs().count() {
                0 => {
                    self.is_stopping = true;
                    Answer::Done
                }
                1 => Answer::Refused { why: "a job shares its devices: end it first".to_owned() },
                n => Answer::Refused { why: format!("{n} jobs share its devices: end them first") },
            },
        };
        self.send_control(token, &answer);
    }

    pub(super) fn add(&mut self, job: &task_control::Job) -> Result<(), String> {
        let new: Vec<String> = self.core.unopened(job).into_iter().map(str::to_owned).collect();
        let opened = new.iter().map(|uuid| self.looker.opened(uuid)).collect::<Result<Vec<_>, String>>();
        let is_new = self.core.job(job.job).is_none();
        let added = opened.and_then(|all| self.core.add_job(job, &all, now()).map_err(|e| e.to_string()));
        let effects = added.inspect_err(|_| self.let_go())?;
        self.carry_out(effects);
        if !is_new {
            return Ok(());
        }
        let opened = job.devices.iter().filter_map(|device| self.core.opened(&device.uuid)).collect();
        let noted = self.folder.note(&AddedJob { job: job.clone(), opened });
        let listens = noted.and_then(|()| self.listen(job.job));
        if self.next_look.is_none() {
            self.next_look = Some(Instant::now() + IDLE);
        }
        listens.map_err(|e| {
            self.end(job.job);
            format!("job {} cannot be listened for: {e}", job.job)
        })
    }

    pub(super) fn listen(&mut self, job: u32) -> std::io::Result<()> {
        let uid = self.core.job(job).map_or(0, |(uid, _)| uid);
        let fd = connection::listen(&self.folder.socket(&format!("{job}.sock")), uid)?;
        self.watch(Source::Job(job, fd))?;
        Ok(())
    }

    pub(super) fn end(&mut self, job: u32) -> Answer {
        self.folder.forget(job);
        let of_job = |source: &Source| match source {
            Source::Job(of, _) => *of == job,
            Source::Connection(connection) => connection.job == job,
            _ => false,
        };
        let effects = self.core.end_job(job, now());
        self.carry_out(effects);
        let tokens: Vec<u64> =
            self.sources.iter().filter(|(_, source)| of_job(source)).map(|(token, _)| *token).collect();
        for token in tokens {
            match self.sources.get(&token) {
                Some(Source::Connection(_)) => self.hang_up(token),
                _ => drop(self.sources.remove(&token)),
            }
        }
        self.per_job.remove(&job);
        self.look_after = SOON;
        self.look();
        Answer::Ended(self.core.left(job))
    }
}
