//! A Chromium that is told what to do over two pipes: the DevTools protocol, messages of JSON with a zero byte after each.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a page may take for what it is to show.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Browser {
    _dir: TempDir,
    child: Child,
    commands: File,
    answers: BufReader<File>,
    last: u64,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// `None`, and a line that says so: there is no Chromium on this machine.
    pub(crate) fn start() -> Option<Self> {
        let known =
            Command::new("chromium").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !known.is_ok_and(|status| status.success()) {
            // libtest keeps what a test that passed writes by `eprintln!`.
            std::io::stderr()
                .write_all(b"\nskipped: the exporter's page in a browser: no chromium here\n")
                .unwrap();
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let (commands, answers) = (dir.path().join("commands"), dir.path().join("answers"));
        assert!(Command::new("mkfifo").args([&commands, &answers]).status().unwrap().success());
        // The browser reads commands from descriptor 3 and answers on 4. Its sandbox does not work for root, and a small
        // /dev/shm does not end it.
        let begin = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                     --disable-background-networking --remote-debugging-pipe --user-data-dir=\"$1/data\" \
                     3<\"$1/commands\" 4>\"$1/answers\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", begin, "sh"]).arg(dir.path()).env("HOME", dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let commands = OpenOptions::new().write(true).open(commands).unwrap();
        let answers = BufReader::new(File::open(answers).unwrap());
        Some(Self { _dir: dir, child, commands, answers, last: 0 })
    }

    /// Asks for something and awaits the answer to it; what else is told meanwhile is passed over.
    fn ask(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "the browser ended");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    pub(crate) fn open(&mut self, url: &str) -> Page<'_> {
        let target = self.ask(None, "Target.createTarget", &json!({ "url": url }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.ask(None, "Target.attachToTarget", &attach);
        let session = session["sessionId"].as_str().unwrap().to_owned();
        Page { browser: self, session }
    }
}

pub(crate) struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Page<'_> {
    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        let answer = self.browser.ask(Some(&self.session), "Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.value(&format!("Boolean({expression})")) != Value::Bool(true) {
            // A page that has only begun to load has no body.
            let text = self.value("document.body?.innerText ?? null");
            assert!(begin.elapsed() < PATIENCE, "{expression} is not true; the page shows {text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Clicks the first element of this selector, once it is there and the page's script has run: before that, a click on a link
    /// would leave the page.
    pub(crate) fn click(&mut self, selector: &str) {
        self.until(&format!("document.readyState === 'complete' && document.querySelector({selector:?})"));
        self.value(&format!("document.querySelector({selector:?}).click()"));
    }

    /// Makes the window as large as a phone's, and dark.
    pub(crate) fn phone(&mut self) {
        let size = json!({ "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true });
        self.browser.ask(Some(&self.session), "Emulation.setDeviceMetricsOverride", &size);
        let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        self.browser.ask(Some(&self.session), "Emulation.setEmulatedMedia", &dark);
    }
}
