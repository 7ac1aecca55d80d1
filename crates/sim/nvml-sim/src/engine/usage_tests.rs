use super::*;

fn record(pid: u32, allocated: u64) -> Record {
    Record {
        pid,
        started: start_time(pid).unwrap_or(0),
        gpu: 1,
        instance: Some((3, 0)),
        mps_daemon: None,
        context: 2 * MIB,
        allocated,
        beat_ms: 1000,
    }
}

fn table() -> (tempfile::TempDir, Table) {
    let dir = tempfile::tempdir().unwrap();
    let table = Table::beside(&dir.path().join("state"));
    table.create().unwrap();
    (dir, table)
}

#[test]
fn records_survive_the_writer_and_slots_are_used_again() {
    let (_dir, table) = table();
    let me = std::process::id();
    let slots: Vec<usize> =
        (0..200).map(|i| table.lock().unwrap().insert(record(me, i * MIB)).unwrap()).collect();
    assert_eq!(slots, (0..200).collect::<Vec<_>>());
    assert_eq!(table.read().unwrap().len(), 200);
    table.lock().unwrap().put(7, None).unwrap();
    table.beat(&[8], 12_345).unwrap();
    let mut locked = table.lock().unwrap();
    assert_eq!(locked.get(8).unwrap().beat_ms, 12_345);
    assert_eq!(
        Record { beat_ms: 1000, ..*locked.get(8).unwrap() },
        record(me, 8 * MIB),
        "a beat changes nothing else"
    );
    assert_eq!(locked.insert(record(me, 1)).unwrap(), 7);
}

#[test]
fn the_dead_count_until_their_time_is_over() {
    let (_dir, table) = table();
    let mut locked = table.lock().unwrap();
    locked.insert(record(std::process::id(), MIB)).unwrap();
    let dead = Record { pid: u32::MAX - 1, started: 5, ..record(1, MIB) };
    locked.insert(dead).unwrap();
    assert_eq!(locked.sweep(1499, 500).unwrap(), []);
    assert_eq!(locked.sweep(1500, 500).unwrap(), [dead]);
    assert_eq!(locked.records().count(), 1, "the living one stays, however old its beat");
}

#[test]
fn a_record_is_on_its_gpu_and_its_instance() {
    let r = record(1, 0);
    assert!(r.is_on(1, None) && r.is_on(1, Some(3)) && !r.is_on(1, Some(4)) && !r.is_on(0, None));
}

#[test]
fn what_is_no_table_is_refused() {
    let (dir, table) = table();
    std::fs::write(dir.path().join("state.cuda"), b"hello, world").unwrap();
    assert!(table.read().is_err() && table.lock().is_err());
    std::fs::remove_file(dir.path().join("state.cuda")).unwrap();
    assert_eq!(table.read().unwrap(), [], "an older node has no table");
    assert!(table.lock().is_err());
}

/// A process may be stopped while it holds the lock.
#[test]
fn a_held_lock_keeps_no_reader_waiting() {
    let (_dir, table) = table();
    let mut holder = table.lock().unwrap();
    holder.insert(record(std::process::id(), MIB)).unwrap();
    assert_eq!(table.read().unwrap().len(), 1);
    assert_eq!(table.lock_within(Duration::from_millis(5)).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(holder);
    assert!(table.lock_within(Duration::ZERO).is_ok());
}
