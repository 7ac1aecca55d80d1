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

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells whether a GPU of this model that has all but the last of these instances can have that, too.
    fn has_place(model: &str, instances: &[(&str, u8)]) -> bool {
        let model = Model::find(model).unwrap();
        let all: Vec<_> =
            instances.iter().map(|(name, at)| (model.profile(name).unwrap(), Slice(*at))).collect();
        let (last, others) = all.split_last().unwrap();
        model.has_place_beside(others.iter().copied(), *last)
    }

    #[test]
    fn instances_keep_out_of_each_others_slices() {
        assert!(has_place("a100-40gb", &[("3g.20gb", 0), ("3g.20gb", 4)]));
        assert!(has_place("a100-40gb", &[("2g.10gb", 0), ("1g.5gb", 2)]));
        assert!(!has_place("a100-40gb", &[("2g.10gb", 0), ("1g.5gb", 1)]));
        assert!(!has_place("a100-40gb", &[("3g.20gb", 0), ("1g.5gb", 4), ("2g.10gb", 4)]));
    }

    #[test]
    fn a_profile_has_its_most_instances_and_media_engines_exclude_others() {
        let model = Model::find("a100-40gb").unwrap();
        assert_eq!(model.profile("1g.5gb+me").unwrap().max_instances, 1);
        assert!(has_place("a100-40gb", &[("1g.5gb", 0), ("1g.5gb+me", 1)]));
        assert!(!has_place("a100-40gb", &[("1g.5gb+me", 0), ("1g.5gb+me", 1)]));
        assert!(has_place("rtx-pro-6000-96gb", &[("1g.24gb+me.all", 0), ("1g.24gb-me", 3)]));
        assert!(!has_place("rtx-pro-6000-96gb", &[("1g.24gb+me.all", 0), ("1g.24gb", 3)]));
    }
}
