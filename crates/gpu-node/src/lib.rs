//! Makes a placement decision real on a node.
