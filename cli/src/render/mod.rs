//! What a person or a program reads: tables, pictures, colour.

pub(crate) mod colour;
pub(crate) mod hosts;
pub(crate) mod layout;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod terminal;
