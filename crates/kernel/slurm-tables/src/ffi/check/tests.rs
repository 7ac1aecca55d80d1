use std::ffi::{c_char, c_void};

use super::*;
use crate::{Bitmap, Layout, Tables, Wide};

crate::record! {
    /// A record of a test.
    struct Job, JobLayout = "job", magic "MAGIC" {
        magic: u32;
        id: u32;
        name: *mut c_char, at name_at;
        nodes: Bitmap;
        flags: Wide;
    } optional {
        extra: *mut c_void;
    }
}

const ROWS: &str = "\
releases 1.0.0
job 1.0.0=40
job.magic 1.0.0=0:4
job.id 1.0.0=4:4
job.name 1.0.0=8:8
job.nodes 1.0.0=16:8
job.flags 1.0.0=26:2
job.extra 1.0.0=-
MAGIC 1.0.0=77
";

fn layout(rows: &str) -> Layout {
    Tables::parse(rows).unwrap().layout("1.0.0".parse().unwrap()).unwrap()
}

/// A block as Slurm allocates it: its mark and its bytes before what is returned.
struct Block(Vec<u64>);

impl Block {
    fn of(bytes: u64, words: [u64; 5]) -> Self {
        Self([BLOCK_MAGIC, bytes].into_iter().chain(words).collect())
    }

    fn address(&self) -> usize {
        self.0.as_ptr().addr() + 16
    }

    fn job(&self) -> Job {
        Job::learn(&layout(ROWS)).unwrap();
        // SAFETY: a live block of this layout.
        unsafe { Job::at(self.0.as_ptr().wrapping_add(2)) }.unwrap()
    }
}

fn check(block: &Block, rows: &str) -> Result<(), String> {
    JobLayout::find(&layout(rows)).unwrap().check.check(block.address()).map_err(|why| why.to_string())
}

#[test]
fn fields_are_read_and_written_where_the_table_says() {
    let block = Block::of(40, [5 << 32 | 77, 0, 0, 0x7003_0000, 9]);
    let job = block.job();
    assert_eq!((job.magic(), job.id(), job.flags(), job.extra()), (77, 5, Wide(0x7003), None));
    assert!(job.name().is_null() && job.nodes().address().is_null());
    assert_eq!(job.name_at().addr(), block.address() + 8);
    assert_eq!(job.address().addr(), block.address());
    // SAFETY: null is allowed.
    let none = unsafe { Job::at(std::ptr::null::<u8>()) };
    assert!(none.is_none());
}

#[test]
fn a_record_that_is_as_it_should_be_fits() {
    let (name, nodes) = (c"n1", [BITS_MAGIC, 8, 0]);
    let block = Block::of(40, [77, name.as_ptr().addr() as u64, nodes.as_ptr().addr() as u64, 0, 0]);
    assert_eq!(check(&block, ROWS), Ok(()));
}

#[test]
fn a_record_of_another_layout_is_named_and_not_followed() {
    let (name, nodes) = (c"n1", [BITS_MAGIC, 8, 0]);
    let (name, nodes) = (name.as_ptr().addr() as u64, nodes.as_ptr().addr() as u64);
    let said = |bytes, words| check(&Block::of(bytes, words), ROWS).unwrap_err();
    assert_eq!(said(48, [77, name, nodes, 0, 0]), "a job has 48 bytes here, and 40 by the table");
    assert_eq!(said(40, [78, name, nodes, 0, 0]), "job.magic has no mark here, at byte 0");
    for odd in [1, 0x4242_4242_4242_4242, u64::MAX] {
        assert_eq!(said(40, [77, odd, nodes, 0, 0]), "job.name has no text here, at byte 8", "{odd:x}");
    }
    for odd in [1, name, u64::MAX] {
        assert_eq!(
            said(40, [77, name, odd, 0, 0]),
            "job.nodes has no bit string here, at byte 16",
            "{odd:x}"
        );
    }
    // What is no block of Slurm's, and what is no memory at all.
    let check = JobLayout::find(&layout(ROWS)).unwrap().check;
    for nowhere in [0, 64, usize::MAX - 7] {
        let why = check.check(nowhere).unwrap_err();
        assert_eq!(why, Misfit::Size { structure: "job", has: 0, expected: 40 }, "{nowhere:x}");
    }
}

#[test]
fn fields_that_are_shifted_are_found() {
    let (name, nodes) = (c"n1", [BITS_MAGIC, 8, 0]);
    let block = Block::of(40, [77, name.as_ptr().addr() as u64, nodes.as_ptr().addr() as u64, 0, 3]);
    let shifted = ROWS.replace("job.nodes 1.0.0=16:8", "job.nodes 1.0.0=32:8");
    assert_eq!(check(&block, &shifted).unwrap_err(), "job.nodes has no bit string here, at byte 32");
    let swapped =
        ROWS.replace("name 1.0.0=8:8", "name 1.0.0=16:8").replace("nodes 1.0.0=16:8", "nodes 1.0.0=8:8");
    assert_eq!(check(&block, &swapped).unwrap_err(), "job.nodes has no bit string here, at byte 8");
}

#[test]
fn a_table_without_a_field_or_with_another_width_is_refused() {
    let find = |rows: &str| JobLayout::find(&layout(rows)).map(drop).map_err(|why| why.to_string());
    let said = |why: &str| Err(format!("the table for Slurm 01.00.0 cannot be right: {why}"));
    assert_eq!(find(ROWS), Ok(()));
    assert_eq!(find(&ROWS.replace("job.id 1.0.0=4:4", "")), said("job.id is missing"));
    assert_eq!(find(&ROWS.replace("job.id 1.0.0=4:4", "job.id 1.0.0=-")), said("job.id is missing"));
    assert_eq!(
        find(&ROWS.replace("job.id 1.0.0=4:4", "job.id 1.0.0=4:2")),
        said("job.id has 2 bytes, not 4")
    );
}
