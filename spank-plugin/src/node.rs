//! This node as `tessera.toml` describes it.

use std::io;
use std::path::{Path, PathBuf};

use gpu_node::Settings;
use plugin_rt::log;
use site_config::SiteConfig;

use crate::args::Args;

/// The site's description and what follows from it for this node.
pub(crate) struct ThisNode {
    /// Its name in Slurm.
    pub(crate) name: String,
    /// The whole site: a placement names the job's other nodes too.
    pub(crate) site: SiteConfig,
    /// Paths, programs and GPUs of this node.
    pub(crate) settings: Settings,
}

/// Why there is no description.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoNode {
    /// The node is not ours to manage.
    #[error("{path} does not exist")]
    NoFile {
        /// Looked for here.
        path: PathBuf,
    },
    /// Not ours either.
    #[error("{path} has no [[nodes]] with {node} in it")]
    NotListed {
        /// The file.
        path: PathBuf,
        /// This node.
        node: String,
    },
    /// The file cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file has errors, which have been logged one by one.
    #[error("{path} has {errors} errors, see above")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// How many.
        errors: usize,
    },
    /// Slurm has not said which node this is.
    #[error("SLURMD_NODENAME is not set")]
    Nameless,
}

impl NoNode {
    /// True where Tessera simply does not manage this node, rather than being unable to.
    pub(crate) fn unmanaged(&self) -> bool {
        matches!(self, Self::NoFile { .. } | Self::NotListed { .. })
    }
}

impl ThisNode {
    /// Reads `tessera.toml` for the node that Slurm names in `SLURMD_NODENAME`.
    ///
    /// `env` is the environment of slurmd's own process, never the job's.
    pub(crate) fn load(args: &Args, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, NoNode> {
        let name = env("SLURMD_NODENAME").filter(|n| !n.is_empty()).ok_or(NoNode::Nameless)?;
        let path = args.config.clone().unwrap_or_else(|| site_config::config_path(env));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(NoNode::NoFile { path }),
            Err(source) => return Err(NoNode::Unreadable { path, source }),
        };
        let beside = path.parent().unwrap_or(Path::new("/"));
        let read_file = |file: &str| std::fs::read_to_string(beside.join(file));
        let (site, errors) = site_config::parse(&path.display().to_string(), &text, &read_file);
        errors.iter().for_each(log::error);
        let Some(site) = site else { return Err(NoNode::Invalid { path, errors: errors.len() }) };
        let Some(spec) = site.node(&name) else { return Err(NoNode::NotListed { path, node: name }) };
        let settings = Settings::new(&site.node.for_node(&name), &site.mps, &spec.to_node());
        Ok(Self { name, settings, site })
    }
}
