//! Files that Rodinia's programs read, made here: what is in them does not matter for the tasks.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{TaskError, at, output};

/// Rows and columns of the image that srad_v1 reads.
const IMAGE: (usize, usize) = (502, 458);
/// Nodes of the graph of a run that is compared.
const NODES: u64 = 1000;

/// A network for Darknet, with a layer of each kind that its kernels compute.
const NETWORK: &str = "[net]
batch=1
width=32
height=32
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=1
pad=1
activation=logistic
[convolutional]
filters=8
size=3
stride=1
pad=1
activation=relu
[shortcut]
from=-2
activation=linear
[maxpool]
size=2
stride=2
[upsample]
stride=2
[route]
layers=-1,-3
[local]
filters=4
size=3
stride=2
pad=1
activation=leaky
[dropout]
probability=0.5
[connected]
output=32
activation=leaky
[softmax]
groups=1
[cost]
type=sse
";

/// Makes the files for a run below `dir`, and returns the directory in which the program is to run.
pub(crate) fn make(dir: &Path) -> Result<PathBuf, TaskError> {
    let _ = fs::remove_dir_all(dir);
    let here = dir.join("cuda/srad/program");
    for part in [here.join("data/bfs/inputGen"), here.join("data/darknet"), dir.join("data/srad")] {
        at(&part, fs::create_dir_all(&part))?;
    }
    let image = dir.join("data/srad/image.pgm");
    at(&image, fs::write(&image, pixels()))?;
    let bytes: Vec<u8> =
        (0..3 * 256 * 256_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    // Rodinia's own dwt2d looks for what it is given below ../../data/dwt2d, the artefact's where it is.
    for place in [here.join("data/dwt2d"), dir.join("cuda/data/dwt2d/data/dwt2d")] {
        let picture = place.join("rgb.bmp");
        at(&place, fs::create_dir_all(&place))?;
        at(&picture, fs::write(&picture, &bytes))?;
    }
    let network = here.join("data/darknet/net.cfg");
    at(&network, fs::write(&network, NETWORK))?;
    let graph = here.join("data/bfs/inputGen/graph1k.txt");
    at(&graph, fs::write(&graph, small_graph()))?;
    Ok(here)
}

fn pixels() -> String {
    let (rows, columns) = IMAGE;
    let mut text = format!("P2\n{columns} {rows}\n255\n");
    for n in 0..rows * columns {
        let _ = write!(text, "{} ", n * 7 % 251);
    }
    text
}

/// A graph in Rodinia's form: nodes with first edge and number of edges, the source, edges with their costs.
fn small_graph() -> String {
    let mut text = format!("{NODES}\n");
    for node in 0..NODES {
        let _ = writeln!(text, "{} 2", node * 2);
    }
    let _ = writeln!(text, "0\n{}", NODES * 2);
    for node in 0..NODES {
        let _ = writeln!(text, "{} 1\n{} 1", (node * 2 + 1) % NODES, (node * 3 + 2) % NODES);
    }
    text
}

/// Makes a pipe from which a program reads a graph of this many nodes and edges. As a file, it would take a gigabyte.
pub(crate) fn graph(path: &Path, nodes: u64, edges: u64) -> Result<(), TaskError> {
    output(Command::new("mkfifo").arg(path))?;
    let path = path.to_owned();
    std::thread::spawn(move || {
        // A program that ends before it has read all breaks the pipe.
        let _ = write_graph(&path, nodes, edges);
    });
    Ok(())
}

fn write_graph(path: &Path, nodes: u64, edges: u64) -> std::io::Result<()> {
    let mut pipe = BufWriter::with_capacity(1 << 20, fs::OpenOptions::new().write(true).open(path)?);
    writeln!(pipe, "{nodes}")?;
    for _ in 0..nodes {
        pipe.write_all(b"0 0\n")?;
    }
    writeln!(pipe, "0\n{edges}")?;
    for _ in 0..edges {
        pipe.write_all(b"0 0\n")?;
    }
    pipe.flush()
}
