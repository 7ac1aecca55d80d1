//! The user's hardware counters of the application that a job names, from `~/.config/tessera/counters.csv`.

use std::io;
use std::path::PathBuf;

use plugin_rt::read_file::read_small;
use power::CounterTable;
use protocol::{AppCounters, MAX_COUNTERS, Request};

/// Most bytes of the file: 8000 applications on one GPU model.
const MOST_BYTES: u64 = 1 << 20;

/// The counters of the request's application; none for a request that no cap is chosen for and that no planner pairs, or
/// without the file.
///
/// # Errors
///
/// The file cannot be read or has an error, or too many of its lines are about the application: a line for the user. Only for
/// `--gpu-power=auto`, which is about them: another job runs without.
pub(crate) fn of_user(
    request: &Request,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<AppCounters>, String> {
    let read = read(request, env);
    if request.auto_cap { read } else { Ok(read.unwrap_or_default()) }
}

fn read(request: &Request, env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<AppCounters>, String> {
    let Some(app) = request.job_profile.as_ref().filter(|_| request.auto_cap || request.is_moldable()) else {
        return Ok(Vec::new());
    };
    let Some(home) = env("HOME").filter(|home| !home.is_empty()) else { return Ok(Vec::new()) };
    let path = PathBuf::from(home).join(".config/tessera/counters.csv");
    let text = match read_small(&path, MOST_BYTES) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("--gpu-power=auto: {} cannot be read: {e}", path.display())),
    };
    let table = CounterTable::parse(&path.display().to_string(), &text)
        .map_err(|e| format!("--gpu-power=auto: {e}"))?;
    let lines = table.of_app(app).map(|(gpu, source, counters)| {
        AppCounters::new(gpu, source, counters).ok_or_else(|| {
            format!("--gpu-power=auto: {}: no counters of {app} on {gpu:?} from {source:?}", path.display())
        })
    });
    let counters: Vec<AppCounters> = lines.collect::<Result<_, _>>()?;
    if counters.len() > MAX_COUNTERS {
        return Err(format!(
            "--gpu-power=auto: {} has counters of {app} from {} GPUs and tools: keep at most {MAX_COUNTERS}",
            path.display(),
            counters.len()
        ));
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use protocol::Isolation;

    use super::*;

    fn ask(file: Option<&str>, auto_cap: bool) -> Result<Vec<String>, String> {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join(".config/tessera");
        std::fs::create_dir_all(&dir).unwrap();
        if let Some(text) = file {
            std::fs::write(dir.join("counters.csv"), text).unwrap();
        }
        let request =
            Request { auto_cap, job_profile: Some("bert".to_owned()), ..Request::new(Isolation::Mig(None)) };
        let at = home.path().display().to_string();
        let read = of_user(&request, &|name| (name == "HOME").then(|| at.clone()));
        let text = read.map(|all| all.iter().map(ToString::to_string).collect());
        text.map_err(|why: String| why.replace(&at, "~"))
    }

    const HEADER: &str = "app,gpu,source,f1,f2,f3,f4,f5,f6,f7,f8\n";

    #[test]
    fn the_applications_own_lines_travel() {
        let file = format!(
            "{HEADER}bert,a100-40gb,ncu,45.1,12,3,80,50,0,0,0\nother,a100-40gb,ncu,1,2,3,4,5,6,7,8\n"
        );
        let line = "a100-40gb:ncu:45100:12000:3000:80000:50000:0:0:0".to_owned();
        // A planner may pair a job that only names its application.
        assert_eq!(ask(Some(&file), true), Ok(vec![line.clone()]));
        assert_eq!(ask(Some(&file), false), Ok(vec![line]));
        assert_eq!(ask(None, true), Ok(vec![]));
        assert_eq!(ask(Some(HEADER), true), Ok(vec![]));
    }

    #[test]
    fn a_bad_file_is_named() {
        let text = format!("{HEADER}bert,a100-40gb,ncu,145,12,3,80,50,0,0,0\n");
        assert_eq!(ask(Some(&text), false), Ok(vec![]), "it runs without");
        let bad = ask(Some(&text), true).unwrap_err();
        assert!(bad.starts_with("--gpu-power=auto: ~/.config/tessera/counters.csv:2"), "{bad}");
        let many: String = (0..9).map(|n| format!("bert,gpu{n},ncu,45,12,3,80,50,0,0,0\n")).collect();
        let bad = ask(Some(&format!("{HEADER}{many}")), true).unwrap_err();
        assert!(bad.ends_with("has counters of bert from 9 GPUs and tools: keep at most 8"), "{bad}");
    }
}
