//! placeholder

use super::abi::exports;

exports! {}
