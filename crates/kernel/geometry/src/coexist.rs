//! Sets of instances that may exist on one GPU at the same time.

use crate::ids::Slice;
use crate::model::Model;
use crate::profile::Profile;

/// The media engines of a profile, as far as they exclude other profiles. `+me.all` has all of them, `+me` the single
/// JPEG and OFA engine, `-me` none (comments in nvml.h). `max_instances` alone would allow `1g+me` beside `2g+me`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Plain,
    Single,
    All,
    None,
}

fn media(profile: &Profile) -> Media {
    let name = &profile.name;
    if !profile.is_variant() {
        Media::Plain
    } else if name.ends_with("+me.all") {
        Media::All
    } else if name.ends_with("+me") {
        Media::Single
    } else if name.ends_with("-me") {
        Media::None
    } else {
        Media::Plain
    }
}

/// Tells whether instances of these profiles can exist on one GPU at the same time if their places do not overlap.
#[must_use]
#[inline]
pub fn coexist(a: &Profile, b: &Profile) -> bool {
    match (media(a), media(b)) {
        (Media::All, Media::None) | (Media::None, Media::All) => true,
        (Media::All, _) | (_, Media::All) | (Media::Single, Media::Single) => false,
        _ => true,
    }
}

impl Profile {
    /// Tells whether an instance of this profile has every media engine, so that no base profile can be on the same GPU.
    #[must_use]
    #[inline]
    pub fn has_all_media(&self) -> bool {
        media(self) == Media::All
    }
}

impl Model {
    /// Tells whether a GPU that has these instances, profile and start each, can have another one.
    #[must_use]
    pub fn has_place_beside<'p>(
        &self,
        others: impl IntoIterator<Item = (&'p Profile, Slice)>,
        (profile, start): (&Profile, Slice),
    ) -> bool {
        let (mut same, mut compute) = (1, u32::from(profile.compute_slices));
        for (other, at) in others {
            let is_same = other.id == profile.id;
            let overlaps = other.at(at).mask() & profile.at(start).mask() != 0;
            if overlaps || !(is_same || coexist(profile, other)) {
                return false;
            }
            same += u32::from(is_same);
            compute += u32::from(other.compute_slices);
        }
        same <= profile.max_instances && compute <= u32::from(self.compute_slices)
    }
}
