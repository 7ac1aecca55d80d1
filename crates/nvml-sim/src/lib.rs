//! A simulated GPU node behind the NVML ABI.
