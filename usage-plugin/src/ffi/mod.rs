//! Everything C: the symbols that Slurm looks up, and what is read from and written to its structs.

mod records;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;

use job_sample::TrafficWanted;
use plugin_rt::{Chain, guard_ok, log, symbol};
use slurm_tables::Version;
use step_accounting::ServedStep;

use self::records::{Data, SlurmdConf, Tres};
use crate::peaks::TresValue;
use crate::step::SampledJob;
use crate::turn::{Turn, own_step};

step_accounting::accounting_plugin!(
    "Tessera: GPU memory, utilisation and traffic of jobs",
    "acct_gather_interconnect/tessera",
    STEP
);

const SUCCESS: c_int = 0;

/// The job that this process answers for; none in other steps, and none if the node is not Tessera's.
static STEP: ServedStep<SampledJob> = ServedStep::new();

/// Profiles of the network are other plugins'.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_node_update() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn acct_gather_interconnect_p_get_data(data: *mut c_void) -> c_int {
    guard_ok("get_data", (), || {
        STEP.with(begin, |step| {
            let over = step.turn.writes_over();
            for (entry, (position, value)) in look(step).into_iter().flatten().enumerate() {
                let Some(position) = position else { continue };
                // SAFETY: common_jag.c: `data` has an element for every TRES that assoc_mgr knows, in its order.
                let Some(element) = (unsafe { element(data, position) }) else { continue };
                let may_fill = step.slurms.may_fill(entry, element.size_read() == EMPTY, over);
                if let Some(value) = value.filter(|_| may_fill) {
                    fill(element, value);
                }
            }
        });
    });
    SUCCESS
}

/// Samples the job's devices, and returns what the samples add up to, each value with its position in Slurm's array. `None`: nothing is to be
/// answered here.
fn look(step: &mut SampledJob) -> Option<[(Option<usize>, Option<TresValue>); 4]> {
    let [nvlink, pcie] = [c"nvlink", c"pcie"].map(|name| position(c"ic", name));
    // The driver is asked for nothing that the site does not account.
    let wanted = TrafficWanted { nvlink: nvlink.is_some(), pcie: pcie.is_some() };
    let here = step.look(wanted).unwrap_or_else(|why| {
        // Once for each job: after that the numbers are missing, or the driver answers again.
        let line = format!("job {}: GPU usage was not sampled: {}", step.job, Chain(&why));
        if mem::replace(&mut step.failed, true) {
            log::debug(line)
        } else {
            log::error(line)
        }
        true
    });
    here.then(|| {
        [
            (position(c"gres", c"gpumem"), step.peaks.memory()),
            (position(c"gres", c"gpuutil"), step.peaks.busy()),
            (nvlink, step.traffic.nvlink()),
            (pcie, step.traffic.pcie()),
        ]
    })
}

/// Slurm's word for an entry that nobody has filled in yet: `INFINITE64`.
const EMPTY: u64 = u64::MAX;

/// Gives the entry at a position.
///
/// # Safety
///
/// `data` is null or has more than `position` elements, which nobody else uses meanwhile.
unsafe fn element(data: *mut c_void, position: usize) -> Option<Data> {
    let known = Data::described().filter(|_| !data.is_null())?;
    // SAFETY: the caller's promise: inside the array.
    let element = unsafe { data.cast::<u8>().add(position * known.size) };
    // SAFETY: as above, and nobody else has it.
    unsafe { Data::at(element) }
}

fn fill(element: Data, value: TresValue) {
    // SAFETY: a field of it.
    unsafe { element.size_read_at().write(value.usage_in) };
    // SAFETY: as above.
    unsafe { element.size_write_at().write(value.usage_out) };
}

/// Finds out whose daemon this is.
fn begin() -> Option<SampledJob> {
    let command_line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let (job, step) = own_step(&String::from_utf8_lossy(&command_line))?;
    let layout = own_layout()?;
    if let Err(why) = records::learn(&layout) {
        log::error(format_args!("GPU usage is not accounted: {why}"));
        return None;
    }
    let Some(node) = node_name() else {
        log::error("GPU usage is not accounted: this Slurm does not give the node's name");
        return None;
    };
    let turn = Turn::of(Version(stamped()), job, step, &node)?;
    SampledJob::new(job, turn, &node).map_err(|why| why.log(job, "GPU usage")).ok()
}

/// This node's name in Slurm, as slurmstepd has it from slurmd.
fn node_name() -> Option<String> {
    let conf = symbol(c"conf")?.cast::<*const c_void>();
    // SAFETY: slurmd.h: `extern slurmd_conf_t *conf`, which slurmstepd sets before it loads plugins and never changes.
    let conf = unsafe { conf.read() };
    if conf.is_null() {
        return None;
    }
    // SAFETY: slurmd.h: null, or the struct, which lives as long as the process.
    unsafe { SlurmdConf::at(conf) }?.node_name()
}

type FindTres = unsafe extern "C" fn(*mut u64, bool) -> c_int;

/// Finds Slurm's position of `KIND/NAME`; `None` where AccountingStorageTRES does not name it.
fn position(kind: &'static CStr, name: &'static CStr) -> Option<usize> {
    let find = symbol(c"assoc_mgr_find_tres_pos")?;
    // SAFETY: assoc_mgr.h: `int assoc_mgr_find_tres_pos(slurmdb_tres_rec_t *tres_rec, bool locked)`.
    let find = unsafe { mem::transmute::<*mut c_void, FindTres>(find.as_ptr()) };
    let text = |text: &'static CStr| text.as_ptr().cast_mut().cast::<c_char>();
    // Numbers and pointers, for which zeros are 0 and null.
    let mut record = vec![0_u64; Tres::described()?.size.div_ceil(8)];
    let record = record.as_mut_ptr();
    // SAFETY: a zeroed struct of that size, which lives to the end of this function.
    let tres = unsafe { Tres::at(record) }?;
    // SAFETY: a field of it.
    unsafe { tres.name_at().write(text(name)) };
    // SAFETY: as above.
    unsafe { tres.kind_at().write(text(kind)) };
    // SAFETY: as above: it compares the record's strings and keeps nothing; jobacct_gather holds none of its locks here.
    let position = unsafe { find(record, false) };
    usize::try_from(position).ok()
}

/// There is nothing to configure in acct_gather.conf.
#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_conf_options(_options: *mut *mut c_void, _count: *mut c_int) {}

#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_conf_set(_table: *mut c_void) {}

#[unsafe(no_mangle)]
extern "C" fn acct_gather_interconnect_p_conf_values(_list: *mut c_void) {}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    #[test]
    fn every_symbol_that_slurm_looks_up_is_here() {
        let table = slurm_tables::Tables::parse(slurm_tables::TABLES).unwrap();
        for release in &table.releases {
            let layout = table.layout(*release).unwrap();
            records::learn(&layout).unwrap();
            let asked = layout.asked("acct_gather_interconnect_p_");
            assert_eq!(asked.len(), 5, "{asked:?}");
            assert_eq!(step_accounting::missing_symbols(&asked, include_str!("mod.rs")), [""; 0]);
        }
    }

    #[test]
    fn outside_slurm_nothing_is_found_and_nothing_written() {
        assert_eq!(position(c"gres", c"gpumem"), None);
        // SAFETY: null is allowed.
        assert!(unsafe { element(null_mut(), 3) }.is_none());
        // SAFETY: as above.
        assert_eq!(unsafe { acct_gather_interconnect_p_get_data(null_mut()) }, SUCCESS);
    }
}
