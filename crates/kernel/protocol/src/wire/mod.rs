//! The strings that travel with a job in its SPANK environment: its request, its placement, and why it got that.
//!
//! The environment is the user's to fill. So the parsers are strict ([`WireError`]), and a placement is believed only
//! where slurmctld wrote it.

mod change;
mod placement;
mod request;
mod why;

pub use crate::strict::{MAX_LEN, WireError};
pub use change::{CHANGE_ENV, encode_as_gres, encode_change, request_in_gres, request_of_change};
pub(crate) use placement::parse_nodes;
pub use placement::{
    JobPlacement, MAX_CAP_W, ModelOf, PLACEMENT_ENV, encode_grant, encode_placement, parse_grant,
    parse_placement,
};
pub use request::{REQUEST_ENV, encode_request, parse_request};
pub use why::{MAX_WHY, WHY_ENV, plain_why, split_node, with_node};
