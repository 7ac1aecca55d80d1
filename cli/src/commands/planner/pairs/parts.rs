//! The parts of a state as sizes that jobs can have, and where they lie on a GPU.

use geometry::{Model, Profile, Slice};
use power::{Memory, Part};

/// A part that has its place on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lies {
    /// As a job would name it: `4g.20gb`, `4c.7g.40gb`.
    pub(super) size: String,
    /// First memory slice of its GPU instance.
    pub(super) start: Slice,
    /// Memory of its GPU instance, MiB.
    pub(super) memory_mib: u64,
}

/// A part that has yet to find its place: starts to choose from, and the slices that each takes.
struct Piece {
    starts: Vec<(Slice, u16)>,
}

/// The full-size instance of a model.
pub(in super::super) fn full_size(model: &'static Model) -> Option<&'static Profile> {
    plain(model, model.compute_slices)
}

/// The smallest plain profile with so many compute slices.
fn plain(model: &'static Model, slices: u8) -> Option<&'static Profile> {
    let plain = model.profiles.iter().filter(|p| !p.is_variant() && p.compute_slices == slices);
    plain.min_by_key(|p| p.size)
}

/// Lays out all parts of a state. `fixed` has the start of each part that has a job already: the first memory slice of a GPU
/// instance, the first compute slice of a compute instance. `None`: the parts do not fit beside each other.
pub(super) fn lay_out(model: &'static Model, parts: &[Part], fixed: &[Option<Slice>]) -> Option<Vec<Lies>> {
    let whole = full_size(model)?;
    let piece = |(part, fixed): (&Part, &Option<Slice>)| {
        let starts: Vec<(Slice, u16)> = match part.memory {
            Memory::Private => {
                let profile = plain(model, part.slices)?;
                profile.starts.iter().map(|start| (*start, profile.at(*start).mask())).collect()
            }
            Memory::Shared => {
                let size = whole.compute(part.slices)?;
                size.starts.iter().map(|start| (*start, size.mask_at(*start))).collect()
            }
        };
        let may = |(start, _): &(Slice, u16)| fixed.is_none_or(|at| at == *start);
        Some(Piece { starts: starts.into_iter().filter(may).collect() })
    };
    let pieces: Vec<Piece> = parts.iter().zip(fixed).map(piece).collect::<Option<_>>()?;
    let starts = place(&pieces, 0)?;
    let lies = |(part, start): (&Part, Slice)| match part.memory {
        Memory::Private => {
            let profile = plain(model, part.slices)?;
            Some(Lies { size: profile.name.clone(), start, memory_mib: profile.memory_mib })
        }
        Memory::Shared => Some(Lies {
            size: whole.compute_name(part.slices),
            start: *whole.starts.first()?,
            memory_mib: whole.memory_mib,
        }),
    };
    parts.iter().zip(starts).map(lies).collect()
}

/// A start for each piece beside what `taken` holds, the first of each that works.
fn place(pieces: &[Piece], taken: u16) -> Option<Vec<Slice>> {
    let Some((first, rest)) = pieces.split_first() else { return Some(Vec::new()) };
    let free = first.starts.iter().filter(|(_, mask)| mask & taken == 0);
    free.clone().find_map(|(start, mask)| {
        let mut starts = place(rest, taken | mask)?;
        starts.insert(0, *start);
        Some(starts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(state: &str, fixed: &[Option<u8>]) -> Option<String> {
        let model = Model::find("a100-40gb").unwrap();
        let state: power_study::State = state.parse().unwrap();
        let fixed: Vec<Option<Slice>> = fixed.iter().map(|at| at.map(Slice)).collect();
        let lies = lay_out(model, state.parts(), &fixed)?;
        Some(lies.iter().map(|l| format!("{}@{}", l.size, l.start)).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn parts_lie_beside_each_other_and_around_those_that_are_there() {
        assert_eq!(laid("4g+3g", &[None, None]).as_deref(), Some("4g.20gb@0 3g.20gb@4"));
        assert_eq!(laid("3g+4g", &[None, None]).as_deref(), Some("3g.20gb@4 4g.20gb@0"));
        assert_eq!(laid("3g+4g", &[Some(0), None]), None, "4g has no other start");
        assert_eq!(laid("3g+3g", &[Some(0), None]).as_deref(), Some("3g.20gb@0 3g.20gb@4"));
        assert_eq!(laid("4c+3c", &[None, None]).as_deref(), Some("4c.7g.40gb@0 3c.7g.40gb@0"));
        assert_eq!(laid("3c+4c", &[Some(0), None]), None, "4c has no other start");
        assert_eq!(laid("5g+2g", &[None, None]), None);
    }
}
