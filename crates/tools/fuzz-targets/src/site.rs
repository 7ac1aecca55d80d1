//! Files of sites, and edge lists.

use std::io;

use site_config::{links_of_file, parse};
use slurm_files::gpu_order;

use crate::text;

pub(crate) fn edge_list(input: &[u8]) {
    let text = text(input);
    if let Ok(pattern) = job_options::parse_edges(&text) {
        let _ = pattern.name();
    }
    let _ = geometry::size::parse_mib(&text);
}

/// The file, and any file that it names beside it.
pub(crate) fn tessera_toml(input: &[u8]) {
    let text = text(input);
    let named =
        |name: &str| if name == "links" { Ok(text.clone()) } else { Err(io::ErrorKind::NotFound.into()) };
    let (config, errors) = parse("tessera.toml", &text, &named);
    assert_ne!(config.is_some(), !errors.is_empty());
    for error in &errors {
        assert!(!site_problems::shown(error).is_empty() && !error.to_string().contains('\n'), "{error}");
    }
    for spec in config.iter().flat_map(|config| &config.nodes).take(4) {
        assert_eq!(site_limits::node_of(spec).gpus.len(), spec.gpus.len());
    }
}

pub(crate) fn links(input: &[u8]) {
    let (matrix, errors) = links_of_file("links", &text(input));
    assert!(matrix.is_none() || errors.is_empty());
}

pub(crate) fn gres_conf(input: &[u8]) {
    let _ = gpu_order(&text(input), "n1");
}
