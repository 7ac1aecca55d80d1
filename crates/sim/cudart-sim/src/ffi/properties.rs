//! `cudaDeviceProp` of CUDA 12.

use std::ffi::{c_char, c_int, c_uint};

use super::driver;
use crate::error::Answer;

/// The size of `struct cudaDeviceProp`, bytes.
pub const PROPERTIES_SIZE: usize = size_of::<Properties>();

/// `struct cudaDeviceProp`: fields that this runtime fills by name, runs of others as arrays.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Properties {
    name: [c_char; 256],
    uuid: [c_char; 16],
    luid: [c_char; 8],
    luid_device_node_mask: c_uint,
    total_global_mem: u64,
    shared_mem_per_block: u64,
    regs_per_block: c_int,
    warp_size: c_int,
    mem_pitch: u64,
    max_threads_per_block: c_int,
    max_threads_dim: [c_int; 3],
    max_grid_size: [c_int; 3],
    clock_rate: c_int,
    total_const_mem: u64,
    major: c_int,
    minor: c_int,
    texture_alignment: u64,
    texture_pitch_alignment: u64,
    device_overlap: c_int,
    multi_processor_count: c_int,
    kernel_exec_timeout_enabled: c_int,
    integrated: c_int,
    can_map_host_memory: c_int,
    compute_mode: c_int,
    texture_and_surface_sizes: [c_int; 39],
    surface_alignment: u64,
    concurrent_kernels: c_int,
    ecc_enabled: c_int,
    pci_bus_id: c_int,
    pci_device_id: c_int,
    pci_domain_id: c_int,
    tcc_driver: c_int,
    async_engine_count: c_int,
    unified_addressing: c_int,
    memory_clock_rate: c_int,
    memory_bus_width: c_int,
    l2_cache_size: c_int,
    persisting_l2_cache_max_size: c_int,
    max_threads_per_multi_processor: c_int,
    stream_priorities_supported: c_int,
    l1_cache_supported: [c_int; 2],
    shared_mem_per_multiprocessor: u64,
    regs_per_multiprocessor: c_int,
    managed_memory: c_int,
    multi_gpu_board: [c_int; 2],
    host_native_atomic_supported: c_int,
    single_to_double_precision_perf_ratio: c_int,
    pageable_memory_access: c_int,
    concurrent_managed_access: c_int,
    compute_preemption_supported: c_int,
    can_use_host_pointer_for_registered_mem: c_int,
    cooperative_launch: [c_int; 2],
    shared_mem_per_block_optin: u64,
    host_page_tables_and_direct_managed_access: [c_int; 2],
    max_blocks_per_multi_processor: c_int,
    access_policy_max_window_size: c_int,
    reserved_shared_mem_per_block: u64,
    host_register_supported: c_int,
    sparse_to_timeline: [c_int; 3],
    memory_pools_supported: c_int,
    rdma_to_unified_function_pointers: [c_int; 8],
    reserved: [c_int; 63],
}

/// The properties of a device.
pub(super) fn read(device: c_int) -> Answer<Properties> {
    let int = |attribute: c_int| -> Answer<c_int> {
        let mut value = 0;
        driver::device_attribute(&mut value, attribute, device)?;
        Ok(value)
    };
    let long = |attribute: c_int| int(attribute).map(|n| u64::try_from(n).unwrap_or(0));
    let (mut name, mut uuid, mut total) = ([0; 256], [0; 16], 0);
    driver::device_name(name.as_mut_ptr(), 256, device)?;
    driver::device_uuid(&mut uuid, device)?;
    driver::device_total(&mut total, device)?;
    Ok(Properties {
        name,
        uuid,
        luid: [0; 8],
        luid_device_node_mask: 0,
        total_global_mem: total,
        shared_mem_per_block: long(8)?,
        regs_per_block: int(12)?,
        warp_size: int(10)?,
        mem_pitch: long(11)?,
        max_threads_per_block: int(1)?,
        max_threads_dim: [int(2)?, int(3)?, int(4)?],
        max_grid_size: [int(5)?, int(6)?, int(7)?],
        clock_rate: int(13)?,
        total_const_mem: long(9)?,
        major: int(75)?,
        minor: int(76)?,
        texture_alignment: long(14)?,
        texture_pitch_alignment: long(51)?,
        device_overlap: int(15)?,
        multi_processor_count: int(16)?,
        kernel_exec_timeout_enabled: 0,
        integrated: 0,
        can_map_host_memory: int(19)?,
        compute_mode: int(20)?,
        texture_and_surface_sizes: [0; 39],
        surface_alignment: long(30)?,
        concurrent_kernels: int(31)?,
        ecc_enabled: int(32)?,
        pci_bus_id: int(33)?,
        pci_device_id: int(34)?,
        pci_domain_id: int(50)?,
        tcc_driver: 0,
        async_engine_count: int(40)?,
        unified_addressing: int(41)?,
        memory_clock_rate: int(36)?,
        memory_bus_width: int(37)?,
        l2_cache_size: int(38)?,
        persisting_l2_cache_max_size: 0,
        max_threads_per_multi_processor: int(39)?,
        stream_priorities_supported: int(78)?,
        l1_cache_supported: [int(79)?, int(80)?],
        shared_mem_per_multiprocessor: long(81)?,
        regs_per_multiprocessor: int(82)?,
        managed_memory: int(83)?,
        multi_gpu_board: [0; 2],
        host_native_atomic_supported: 0,
        single_to_double_precision_perf_ratio: int(87)?,
        pageable_memory_access: int(88)?,
        concurrent_managed_access: int(89)?,
        compute_preemption_supported: int(90)?,
        can_use_host_pointer_for_registered_mem: int(91)?,
        cooperative_launch: [int(95)?, 0],
        shared_mem_per_block_optin: long(97)?,
        host_page_tables_and_direct_managed_access: [0; 2],
        max_blocks_per_multi_processor: int(106)?,
        access_policy_max_window_size: 0,
        reserved_shared_mem_per_block: long(111)?,
        host_register_supported: int(99)?,
        sparse_to_timeline: [0; 3],
        memory_pools_supported: int(115)?,
        rdma_to_unified_function_pointers: [0; 8],
        reserved: [0; 63],
    })
}
