//! The pass's report on a program, a line per task.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::command::TaskError;

/// A task that the pass found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedTask {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) kernels: usize,
    pub(crate) objects: usize,
    /// Why it is lazy; nothing if it is static.
    pub(crate) lazy: Option<String>,
}

/// The tasks of a report, each once: a function that is inlined into another keeps its own copy, which does not run if only
/// that other function calls it. The outermost one counts: the pass reports it last, and `main` is never inlined.
pub(crate) fn tasks(report: &str) -> Result<Vec<ReportedTask>, TaskError> {
    let mut order = Vec::new();
    let mut found: BTreeMap<String, ReportedTask> = BTreeMap::new();
    for line in report.lines() {
        let function: Value = serde_json::from_str(line)
            .map_err(|why| TaskError::Other(format!("the pass' report: {why}: {line}")))?;
        for task in list(&function["tasks"]) {
            let key = list(&task["launches"])
                .iter()
                .map(|launch| format!("{} {};", text(&launch["kernel"]), text(&launch["at"])))
                .collect::<String>();
            let new = ReportedTask {
                file: text(&function["file"]),
                function: text(&function["function"]),
                kernels: list(&task["launches"]).len(),
                objects: list(&task["objects"]).len(),
                lazy: (task["bound"] == "lazy").then(|| text(&task["why"])),
            };
            if found.get(&key).is_some_and(|old| old.function == "main") {
                continue;
            }
            if found.insert(key.clone(), new).is_none() {
                order.push(key);
            }
        }
    }
    Ok(order.iter().filter_map(|key| found.remove(key)).collect())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(function: &str, bound: &str, why: &str) -> String {
        format!(
            r#"{{"file":"a.cu","function":"{function}","tasks":[{{"launches":[{{"kernel":"k","at":"a.cu:7"}}],"objects":[{{}}],"bound":"{bound}","why":{why}}}]}}"#
        )
    }

    #[test]
    fn a_task_of_an_inlined_function_counts_where_it_runs() {
        let helper = line("run", "lazy", "\"it says so\"");
        let main = line("main", "static", "null");
        for text in [format!("{helper}\n{main}"), format!("{main}\n{helper}")] {
            let tasks = tasks(&text).unwrap();
            assert_eq!(tasks.len(), 1);
            assert_eq!((tasks[0].function.as_str(), &tasks[0].lazy), ("main", &None));
        }
        assert_eq!(tasks(&helper).unwrap()[0].lazy.as_deref(), Some("it says so"));
        assert!(tasks("x").is_err());
        assert!(tasks("").unwrap().is_empty());
    }
}
