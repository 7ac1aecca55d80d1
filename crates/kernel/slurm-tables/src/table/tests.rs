use super::*;

const TWO: &str = "\
# A comment.
releases 22.05.8 24.11.5
job 22.05.8=24 24.11.5=32
job.magic 22.05.8=0:4
job.id 22.05.8=8:4 24.11.5=16:4
job.extra 22.05.8=- 24.11.5=24:8
MAGIC 22.05.8=77
";

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn layout(text: &str, of: &str) -> Result<Layout, String> {
    Tables::parse(text).unwrap().layout(version(of)).map_err(|why| why.to_string())
}

#[test]
fn a_row_holds_from_its_release_on() {
    let (old, new) = (layout(TWO, "22.05.8").unwrap(), layout(TWO, "24.11.5").unwrap());
    assert_eq!((old.size("job"), new.size("job")), (Ok(24), Ok(32)));
    assert_eq!((old.field("job.id"), new.field("job.id")), (Ok(Some((8, 4))), Ok(Some((16, 4)))));
    assert_eq!((old.field("job.extra"), new.field("job.extra")), (Ok(None), Ok(Some((24, 8)))));
    assert_eq!((old.value("MAGIC"), new.value("MAGIC")), (Ok(Some(77)), Ok(Some(77))));
}

#[test]
fn a_release_that_is_not_named_is_not_guessed() {
    for not_there in ["22.05.9", "24.11.4", "24.11.6", "21.08.8"] {
        assert_eq!(layout(TWO, not_there).unwrap_err(), format!("no table for Slurm {not_there}"));
    }
}

#[test]
fn a_line_that_is_no_row_is_named() {
    for (text, why) in [
        ("releases 22.05\n", "line 1 of the table: `22.05` is no version of Slurm: it looks like 24.11.5"),
        ("", "line 1 of the table: no row `releases` says which are known"),
        ("\njob 24\n", "line 2 of the table: `24` is no entry: it looks like 24.11.5=216:8"),
        ("job 22.05.8=x\n", "line 1 of the table: `22.05.8=x` is no entry: it looks like 24.11.5=216:8"),
        ("job 22.05.8=1\njob 22.05.8=2\n", "line 2 of the table: job is listed twice"),
    ] {
        assert_eq!(Tables::parse(text).unwrap_err().to_string(), why);
    }
}

#[test]
fn a_table_that_cannot_be_right_is_refused() {
    let with = |row: &str| {
        layout(&format!("releases 22.05.8\njob 22.05.8=24\njob.magic 22.05.8=0:4\n{row}\n"), "22.05.8")
    };
    assert!(with("job.id 22.05.8=4:4").is_ok());
    for (row, why) in [
        ("job.id 22.05.8=24:4", "job.id lies outside of job"),
        ("job.id 22.05.8=22:4", "job.id lies outside of job"),
        ("job.id 22.05.8=18446744073709551612:4", "job.id lies outside of job"),
        ("job.id 22.05.8=6:4", "job.id lies where C puts no field"),
        ("job.id 22.05.8=8:3", "job.id lies where C puts no field"),
        ("job.id 22.05.8=2:2", "job.id lies in job.magic"),
        ("node.id 22.05.8=0:4", "node is missing"),
    ] {
        let said = with(row).unwrap_err();
        assert_eq!(said, format!("the table for Slurm 22.05.8 cannot be right: {why}"));
    }
}

#[test]
fn rows_are_what_they_are_asked_for() {
    let layout = layout(TWO, "22.05.8").unwrap();
    let said = |why: Result<_, BadTable>| why.map(|_: Option<u64>| ()).unwrap_err().to_string();
    assert!(said(layout.value("job.id")).ends_with("job.id is a field"));
    assert!(said(layout.value("none")).ends_with("none is missing"));
    assert!(layout.field("job").unwrap_err().to_string().ends_with("job is no field"));
    assert!(layout.field("job.none").unwrap_err().to_string().ends_with("job.none is missing"));
}

#[test]
fn every_release_of_the_tables_has_a_layout() {
    for arch in ["x86_64", "aarch64"] {
        let table = Tables::known(arch).unwrap();
        assert!(table.releases.len() >= 71, "{}", table.releases.len());
        for release in &table.releases {
            table.layout(*release).unwrap();
        }
    }
}

#[test]
fn a_mutex_of_aarch64_moves_the_fields_after_it() {
    let field = |arch: &str, name: &str| {
        let layout = Tables::known(arch).unwrap().layout(Version::new(24, 11, 5)).unwrap();
        layout.field(name).unwrap().unwrap()
    };
    assert_eq!(field("x86_64", "stepd_step_rec.node_name"), (312, 8));
    assert_eq!(field("aarch64", "stepd_step_rec.node_name"), (320, 8));
    assert_eq!(field("aarch64", "job_record.details"), field("x86_64", "job_record.details"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_fail(text in "[a-z.=:#0-9 \n-]{0,200}") {
        if let Ok(table) = Tables::parse(&text) {
            for release in &table.releases {
                let _ = table.layout(*release);
            }
        }
    }
}
