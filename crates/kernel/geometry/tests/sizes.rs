//! Sizes as users write and read them.

use geometry::size::{display_gb, parse_mib};

#[test]
fn megabytes_are_shown_as_they_were_written() {
    for mb in (10..950).step_by(10) {
        let mib = parse_mib(&format!("{mb}M")).unwrap_or_default();
        assert_eq!(display_gb(mib), format!("{mb} MB"));
    }
}

#[test]
fn what_is_shown_is_read_as_the_same_size() {
    for mib in 1..906 {
        let shown = display_gb(mib).replace([' ', 'B'], "");
        assert_eq!(parse_mib(&shown), Ok(mib), "{shown}");
    }
}
