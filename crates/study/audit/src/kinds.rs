//! Kinds of grants, and the kinds that a request may be given.

use node_state::{Ask, Kind, Policy};
use protocol::{Grant, Isolation};

/// The kind of a grant.
pub(crate) fn kind_of(grant: &Grant) -> Kind {
    match grant {
        Grant::Mig(_) | Grant::Compute { .. } => Kind::Mig,
        Grant::Mps { .. } => Kind::Mps,
        Grant::Tasks(_) => Kind::Tasks,
        Grant::Whole(_) => Kind::Whole,
    }
}

/// Kinds that the request may be given.
pub(crate) fn kinds<'a>(ask: &Ask, policy: &'a Policy) -> &'a [Kind] {
    match &ask.request.isolation {
        Isolation::Mig(_) => &[Kind::Mig],
        Isolation::Mps => &[Kind::Mps],
        Isolation::Tasks { .. } => &[Kind::Tasks],
        Isolation::Whole => &[Kind::Whole],
        Isolation::Auto => &policy.auto,
        Isolation::None => &[],
    }
}
