//! Checks the log of a node's broker, from its lines alone.
//!
//! The books are by UUID, because a broker numbers its devices anew when some come or go. What a broker withholds for
//! contexts and for memory that nobody was promised is not in its lines: only what it promised is held against it. A section
//! that begins `anew`, after a broker died, names again what lives.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Violation;

/// Contents of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Rules that it breaks. `at` counts lines from 0.
    pub violations: Vec<Violation>,
    /// Tasks that began.
    pub begun: u64,
    /// Tasks that were granted a device.
    pub granted: u64,
    /// Tasks that were refused, at once or after they had waited.
    pub refused: u64,
    /// Tasks that neither ended nor were refused.
    pub live: u64,
    /// The longest time from a begin to its grant, seconds.
    pub longest_wait_s: f64,
}

#[derive(Clone, Debug)]
struct LoggedTask {
    job: u64,
    mem: u64,
    began: f64,
    uuid: Option<String>,
}

#[derive(Default)]
struct Books {
    account: Account,
    /// Memory and what of it is promised, bytes.
    devices: BTreeMap<String, (u64, u128)>,
    tasks: BTreeMap<u64, LoggedTask>,
    at: usize,
}

/// Reads a log, a JSON object a line. A last line without its end is not read: its writer was killed.
#[must_use]
pub fn daemon(log: &str) -> Account {
    let mut books = Books::default();
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    for (at, line) in whole.lines().enumerate() {
        books.at = at;
        match serde_json::from_str::<Value>(line) {
            Ok(value) => books.step(&value),
            Err(e) => books.report(format!("no JSON: {e}")),
        }
    }
    Account { live: books.tasks.len() as u64, ..books.account }
}

impl Books {
    fn report(&mut self, what: String) {
        self.account.violations.push(Violation { at: self.at, what });
    }

    fn step(&mut self, line: &Value) {
        let number = |key: &str| line[key].as_u64().unwrap_or(u64::MAX);
        let (task, t) = (number("task"), line["t"].as_f64().unwrap_or(0.0));
        match line["ev"].as_str().unwrap_or_default() {
            "node" => self.node(line),
            "begin" => {
                let new = LoggedTask { job: number("job"), mem: number("mem"), began: t, uuid: None };
                if self.tasks.insert(task, new).is_some() {
                    self.report(format!("task {task} begins twice"));
                }
                self.account.begun += 1;
            }
            "grant" => self.grant(task, line["uuid"].as_str().unwrap_or_default(), t),
            "refuse" => {
                self.account.refused += 1;
                self.end(task);
            }
            "free" => self.end(task),
            "end" => {
                let job = number("job");
                if self.tasks.values().any(|task| task.job == job) {
                    self.report(format!("job {job} ends with live tasks"));
                }
            }
            "job" | "wait" => {}
            other => self.report(format!("event \"{other}\" is not known")),
        }
    }

    fn node(&mut self, line: &Value) {
        let devices = line["devices"].as_array().into_iter().flatten();
        let sizes = devices.filter_map(|d| Some((d["uuid"].as_str()?.to_owned(), d["mem"].as_u64()?)));
        let sizes: Vec<(String, u64)> = sizes.collect();
        if line["anew"].as_bool() == Some(true) {
            self.account.begun -= self.tasks.len() as u64;
            self.account.granted -= self.tasks.values().filter(|task| task.uuid.is_some()).count() as u64;
            self.tasks.clear();
        }
        self.devices.clear();
        for (uuid, mem) in sizes {
            let here = self.tasks.values().filter(|task| task.uuid.as_deref() == Some(uuid.as_str()));
            let used = here.map(|task| u128::from(task.mem)).sum();
            self.devices.insert(uuid, (mem, used));
        }
        let lost =
            |task: &&LoggedTask| task.uuid.as_ref().is_some_and(|uuid| !self.devices.contains_key(uuid));
        if let Some(task) = self.tasks.values().find(lost) {
            self.report(format!("a device goes with a live task of job {}", task.job));
        }
    }

    fn grant(&mut self, id: u64, uuid: &str, t: f64) {
        let Some(task) = self.tasks.get_mut(&id) else {
            return self.report(format!("task {id} is granted and has not begun"));
        };
        if task.uuid.is_some() {
            return self.report(format!("task {id} is granted twice"));
        }
        let Some((mem, used)) = self.devices.get_mut(uuid) else {
            return self.report(format!("task {id} is granted device {uuid}, which is not there"));
        };
        task.uuid = Some(uuid.to_owned());
        let asked = task.mem;
        *used += u128::from(asked);
        self.account.granted += 1;
        self.account.longest_wait_s = self.account.longest_wait_s.max(t - task.began);
        let (mem, used) = (*mem, *used);
        // A device may have become smaller than what is promised: nothing more is too much then.
        if asked > 0 && used > u128::from(mem) {
            self.report(format!("device {uuid} promises {used} of its {mem} bytes"));
        }
    }

    fn end(&mut self, id: u64) {
        let Some(task) = self.tasks.remove(&id) else {
            return self.report(format!("task {id} ends and has not begun"));
        };
        if let Some((_, used)) = task.uuid.and_then(|uuid| self.devices.get_mut(&uuid)) {
            *used = used.saturating_sub(task.mem.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = r#"{"ev":"node","t":0,"anew":false,"devices":[{"dev":0,"mem":100,"uuid":"GPU-1"}]}"#;
    const ANEW: &str = r#"{"ev":"node","t":9,"anew":true,"devices":[{"dev":0,"mem":100,"uuid":"GPU-1"}]}"#;

    fn begin(task: u64, mem: u64) -> String {
        format!(r#"{{"ev":"begin","t":1,"task":{task},"job":1,"mem":{mem},"blocks":1,"threads":1,"pid":7}}"#)
    }

    fn ends(ev: &str, task: u64) -> String {
        format!(r#"{{"ev":"{ev}","t":3,"task":{task},"dev":0,"uuid":"GPU-1"}}"#)
    }

    fn check(lines: &[&str], expect: &[&str]) -> Account {
        let account = daemon(&format!("{}\n{{\"ev\":\"gr", lines.join("\n")));
        let found: Vec<&str> = account.violations.iter().map(|v| v.what.as_str()).collect();
        assert_eq!(found, expect, "{lines:?}");
        account
    }

    #[test]
    fn books_are_kept_by_device_and_task() {
        let (a, b) = (begin(1, 60), begin(2, 50));
        let (ga, gb, fa) = (ends("grant", 1), ends("grant", 2), ends("free", 1));
        let account = check(&[NODE, &a, &b, &ga, &fa, &gb], &[]);
        assert_eq!((account.begun, account.granted, account.live, account.longest_wait_s), (2, 2, 1, 2.0));
        check(&[NODE, &a, &b, &ga, &gb], &["device GPU-1 promises 110 of its 100 bytes"]);
        check(&[NODE, &a, &ga, &ga], &["task 1 is granted twice"]);
        check(&[NODE, &a, &a, &fa, &fa], &["task 1 begins twice", "task 1 ends and has not begun"]);
        check(&[NODE, &ga], &["task 1 is granted and has not begun"]);
        check(&[NODE, &a, r#"{"ev":"end","t":3,"job":1}"#], &["job 1 ends with live tasks"]);
        let (smaller, nothing) = (NODE.replace("100", "50"), begin(2, 0));
        check(&[NODE, &a, &ga, &smaller, &nothing, &gb], &[]);
        check(
            &[NODE, &a, &ga, r#"{"ev":"node","devices":[]}"#],
            &["a device goes with a live task of job 1"],
        );
    }

    #[test]
    fn a_section_that_begins_anew_names_what_lives() {
        let (a, ga) = (begin(1, 60), ends("grant", 1));
        let account = check(&[NODE, &a, &ga, ANEW, &a, &ga, &ends("free", 1)], &[]);
        assert_eq!((account.begun, account.granted, account.live), (1, 1, 0));
        check(&[NODE, &a, &ga, ANEW, &ends("free", 1)], &["task 1 ends and has not begun"]);
    }
}
