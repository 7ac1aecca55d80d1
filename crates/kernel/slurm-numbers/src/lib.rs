//! Slurm's numbers that are the same in every release of the tables, by Slurm's names.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

macro_rules! numbers {
    ($($name:ident: $ty:ty = $value:literal;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $name: $ty = $value;
        )*

        /// Each with its name, for the comparison with the tables.
        #[cfg(test)]
        const ALL: &[(&str, u64)] = &[$((stringify!($name), $value)),*];
    };
}

numbers! {
    ACCOUNTING_ENFORCE_LIMITS: u16 = 2;
    ACCOUNTING_ENFORCE_SAFE: u16 = 16;
    BACKFILL_TEST: u64 = 0x8;
    ENERGY_DATA_JOULES_TASK: u32 = 0;
    ENERGY_DATA_LAST_POLL: u32 = 4;
    ENERGY_DATA_NODE_ENERGY_UP: u32 = 7;
    ENERGY_DATA_SENSOR_CNT: u32 = 5;
    ENERGY_DATA_STEP_PTR: u32 = 8;
    ESLURM_INVALID_GRES: i32 = 2072;
    ESPANK_ENV_NOEXIST: u32 = 3004;
    ESPANK_NOSPACE: u32 = 3005;
    ESPANK_SUCCESS: u32 = 0;
    GRES_ENFORCE_BIND: u64 = 0x10;
    INFINITE: u32 = 0xffff_ffff;
    JOB_COMPLETING: u32 = 0x8000;
    JOB_PENDING: u32 = 0;
    JOB_RUNNING: u32 = 1;
    JOB_SHARED_NONE: u16 = 0;
    JOB_STATE_BASE: u32 = 0xff;
    JOB_SUSPENDED: u32 = 2;
    NO_VAL16: u16 = 0xfffe;
    NO_VAL: u32 = 0xffff_fffe;
    PART_FLAG_LLN: u64 = 0x20;
    PREEMPT_MODE_CANCEL: u16 = 8;
    PREEMPT_MODE_REQUEUE: u16 = 2;
    QOS_FLAG_OVER_PART_QOS: u32 = 0x80;
    READ_LOCK: u32 = 1;
    SELECT_LLN: u16 = 0x4000;
    SELECT_MODE_BASE: u16 = 0xff;
    SELECT_MODE_RUN_NOW: u16 = 0;
    SELECT_MODE_TEST_ONLY: u16 = 1;
    SELECT_MODE_WILL_RUN: u16 = 2;
    SELECT_PLUGIN_CONS_TRES: u32 = 109;
    SLURM_EXTERN_CONT: u32 = 0xffff_fffc;
    SPREAD_JOB: u64 = 0x100;
    S_CTX_ALLOCATOR: u32 = 3;
    S_CTX_JOB_SCRIPT: u32 = 5;
    S_CTX_LOCAL: u32 = 1;
    S_CTX_REMOTE: u32 = 2;
    S_CTX_SLURMD: u32 = 4;
    S_JOB_ALLOC_CORES: u32 = 25;
    S_JOB_GID: u32 = 1;
    S_JOB_ID: u32 = 2;
    S_JOB_LOCAL_TASK_COUNT: u32 = 6;
    S_JOB_STEPID: u32 = 3;
    S_JOB_UID: u32 = 0;
    S_SLURM_RESTART_COUNT: u32 = 29;
    S_STEP_ALLOC_CORES: u32 = 27;
    S_TASK_ID: u32 = 11;
    WHOLE_NODE_REQUIRED: u8 = 1;
}

/// `IS_SLURMCTLD`, from 25.05 on.
pub const IS_SLURMCTLD: u32 = 8;
/// `NO_VAL64`: of larger numbers Slurm has one, `INFINITE64`.
pub const NO_VAL64: u64 = 0xffff_ffff_ffff_fffe;
/// `RESET_LIC_JOB`, from 23.02 on.
pub const RESET_LIC_JOB: u64 = 1 << 37;
/// `RESET_LIC_TASK`, from 23.02 on.
pub const RESET_LIC_TASK: u64 = 1 << 36;

#[cfg(test)]
mod tests {
    use slurm_tables::{TABLES, Tables};

    use super::*;

    #[test]
    fn every_release_has_these_numbers() {
        let table = Tables::parse(TABLES).unwrap();
        for release in &table.releases {
            let layout = table.layout(*release).unwrap();
            for (name, value) in ALL {
                assert_eq!(layout.value(name), Ok(Some(*value)), "{name} in {release}");
            }
            let bit = release.since(25, 5).then_some(u64::from(IS_SLURMCTLD));
            assert_eq!(layout.value("IS_SLURMCTLD"), Ok(bit), "{release}");
            for (name, value) in [("RESET_LIC_JOB", RESET_LIC_JOB), ("RESET_LIC_TASK", RESET_LIC_TASK)] {
                assert_eq!(
                    layout.value(name),
                    Ok(release.since(23, 2).then_some(value)),
                    "{name} in {release}"
                );
            }
        }
    }
}
