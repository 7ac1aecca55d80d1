//! Select plugin in front of cons_tres.
