//! Reads `[power]`.

use node_state::SharedMemory;

use crate::reader::TableReader;
use crate::types::Power;

const SHARED_MEMORY: [(&str, SharedMemory); 3] =
    [("never", SharedMemory::Never), ("same-user", SharedMemory::SameUser), ("any", SharedMemory::Any)];

pub(crate) fn read(root: &mut TableReader<'_, '_>) -> Power {
    let unset = Power::default();
    let Some(table) = root.table("power") else { return unset };
    let read =
        Power { shared_memory: table.word("shared_memory", &SHARED_MEMORY).unwrap_or(unset.shared_memory) };
    table.finish();
    read
}
