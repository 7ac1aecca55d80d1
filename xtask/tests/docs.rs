//! The book: every page is in its table of contents, and the tests, alerts and panels that pages name are there.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All Markdown files below `dir`.
fn pages(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.insert(path);
        }
    }
}

/// Lists the targets of a page's links: not those to the web, and without the part after `#`.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let local = ends.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace));
    local
        .map(|target| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|t| !t.is_empty())
        .collect()
}

#[test]
fn every_page_is_in_the_book() {
    let docs = root().join("docs");
    let mut all = BTreeSet::new();
    pages(&docs, &mut all);
    let summary = docs.join("SUMMARY.md");
    let listed = links(&fs::read_to_string(&summary).unwrap()).into_iter().map(|page| docs.join(page));
    let listed: BTreeSet<PathBuf> = listed.chain([summary]).collect();
    assert_eq!(all.difference(&listed).collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "not in docs/SUMMARY.md");
}

/// The source files below `dir`, without what was built.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_test_that_a_table_names_is_there() {
    let mut files = Vec::new();
    let parts = ["crates", "cli", "tests", "xtask", "spank-plugin", "select-plugin", "gres-helper"];
    parts.iter().for_each(|part| sources(&root().join(part), &mut files));
    let all: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for page in ["docs/figures/findings.md", "docs/when-it-fails.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.rsplit(" | ").next());
        let names = rows.flat_map(|tests| tests.split('`').skip(1).step_by(2));
        // A fault of chaos or a command has another form.
        let is_test =
            |name: &&str| name.contains('_') && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let mut names = names.filter(is_test).peekable();
        assert!(names.peek().is_some(), "{page}");
        let missing: Vec<&str> = names.filter(|name| !all.contains(&format!("fn {name}("))).collect();
        assert_eq!(missing, Vec::<&str>::new(), "named in {page}");
    }
}

/// Prometheus's own tool accepts the alerts, and each says what its test expects. It is large, so no set-up installs it.
#[test]
fn promtool_accepts_the_alerts() {
    let dir = root().join("contrib/prometheus");
    for args in [["check", "rules", "tessera.rules.yml"], ["test", "rules", "tessera.rules.test.yml"]] {
        let Ok(said) = Command::new("promtool").current_dir(&dir).args(args).output() else {
            let skipped = b"\nskipped: alerts for Prometheus: promtool is not installed\n";
            return std::io::stderr().write_all(skipped).unwrap();
        };
        assert!(
            said.status.success(),
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        );
    }
}

/// The panels of the dashboard for Grafana, without the headings of rows.
fn panels() -> Vec<serde_json::Value> {
    let text = fs::read_to_string(root().join("contrib/grafana/tessera.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = value["panels"].as_array().unwrap().clone();
    assert!(all.iter().filter(|panel| panel["type"] == "row").count() >= 4, "rows with headings");
    all.into_iter().filter(|panel| panel["type"] != "row").collect()
}

/// Gives the panels' expressions, with every node for the variable.
fn expressions(panels: &[serde_json::Value]) -> Vec<String> {
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().replace("$node", ".*")).collect()
}

#[test]
fn every_panel_of_the_dashboard_says_what_it_shows_and_stays_small() {
    let panels = panels();
    let (mut ids, mut cells) = (Vec::new(), std::collections::HashSet::new());
    for panel in &panels {
        let title = panel["title"].as_str().unwrap();
        assert!(
            panel["description"].as_str().is_some_and(|text| text.len() > 40 && text.ends_with('.')),
            "{title}"
        );
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}: no unit");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for cell in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(cell.0 < 24 && cells.insert(cell), "{title} lies on another panel");
        }
        ids.push(panel["id"].as_u64().unwrap());
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            // A line for each of 400 nodes, or for each of dozens of shapes, is a legend that nobody reads.
            let by_node = target["legendFormat"].as_str().unwrap().contains("{{node}}");
            let many = by_node || expr.contains("by (model, shape)");
            assert!(!many || expr.starts_with("topk("), "{title}: {expr} may draw hundreds of lines");
        }
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), panels.len());
}

/// Prometheus's own tool reads every expression of the dashboard, as rules that record it.
#[test]
fn promtool_reads_every_panel() {
    let dir = tempfile::tempdir().unwrap();
    let exprs = expressions(&panels());
    assert!(exprs.len() > 30);
    let rule = |(i, expr): (usize, &String)| {
        format!("      - record: panel:{i}\n        expr: |\n          {expr}\n")
    };
    let rules: String = exprs.iter().enumerate().map(rule).collect();
    fs::write(dir.path().join("rules.yml"), format!("groups:\n  - name: panels\n    rules:\n{rules}"))
        .unwrap();
    let Ok(said) = Command::new("promtool").current_dir(&dir).args(["check", "rules", "rules.yml"]).output()
    else {
        let skipped = b"\nskipped: expressions of the dashboard: promtool is not installed\n";
        return std::io::stderr().write_all(skipped).unwrap();
    };
    assert!(
        said.status.success(),
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
}

/// Each alert has a row that says what to do, and a test.
#[test]
fn every_alert_is_explained_and_tested() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let rules = read("contrib/prometheus/tessera.rules.yml");
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 8);
    let (page, tests) = (read("docs/monitoring.md"), read("contrib/prometheus/tessera.rules.test.yml"));
    for alert in alerts {
        assert!(page.contains(&format!("| {alert} |")), "{alert}: not in docs/monitoring.md");
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert}: not in tessera.rules.test.yml");
    }
}

#[test]
fn the_example_ends_every_process_of_a_job() {
    let example = fs::read_to_string(root().join("slurm.conf.example")).unwrap();
    let says = |key: &str| example.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    assert_eq!(says("ProctrackType="), "proctrack/cgroup");
    assert!(says("TaskPlugin=").split(',').any(|plugin| plugin == "task/cgroup"));
    assert!(example.contains("Without them (proctrack/linuxproc, task/none) a process"), "what is lost");
}
