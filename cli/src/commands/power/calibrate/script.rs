//! Scripts and options that a calibration gives to sbatch.

use std::path::Path;

use power::{Memory, Part};
use power_study::calibration::{LAPS, Setting};
use protocol::Isolation;

use super::campaign::Campaign;

/// Who measures what where.
pub(super) struct Place<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) setting: &'a Setting,
    /// Index of the application in the setting.
    pub(super) side: usize,
    /// Slurm's number of the GPU. A whole GPU may be any.
    pub(super) gpu: u16,
    /// Directory of the logs.
    pub(super) dir: &'a Path,
}

/// Variables that would change such a job.
pub(super) const WITHOUT: [&str; 7] = [
    "SBATCH_ARRAY_INX",
    "SBATCH_WAIT",
    "TESSERA_GPU_INSTANCES",
    "TESSERA_GPU_APP",
    "TESSERA_GPU_PROFILE",
    "TESSERA_GPU_TIMES",
    "TESSERA_GPU_WAIT",
];

/// The arguments of sbatch.
pub(super) fn words(place: &Place<'_>) -> Vec<String> {
    let Place { campaign, setting, side, gpu, dir } = place;
    let mut words = vec![
        "--parsable".to_owned(),
        "--job-name=tessera-calibrate".to_owned(),
        "--no-requeue".to_owned(),
        "--exclusive=user".to_owned(),
        "--nodes=1".to_owned(),
        format!("--nodelist={}", campaign.node),
        format!("--time={}", setting.limit_minutes(&campaign.apps, campaign.gpu)),
        format!("--output={}", dir.join(format!("{side}.out")).display()),
    ];
    match setting.state.parts().get(*side) {
        None => words.extend(["--gpu-isolation=whole", "--gpus-per-node=1"].map(str::to_owned)),
        Some(part) => {
            words.push(format!("--gpu-isolation={}", Isolation::Mig(Some(instance(campaign, *part)))));
            words.push(format!("--gpu-place={gpu}@{}", start(campaign, setting, *side)));
            if part.memory == Memory::Shared {
                words.push(format!("--gpu-mem={}Mi", campaign.shared_mib()));
            }
            words.push(format!("--gpu-power={}", setting.cap.watts()));
        }
    }
    words.extend(campaign.sbatch.iter().cloned());
    words
}

/// The name of a part for `--gpu-isolation`: `4g.20gb`, `4c.7g.40gb`.
fn instance(campaign: &Campaign, part: Part) -> String {
    match part.memory {
        Memory::Private => campaign.profile(part.slices).to_owned(),
        Memory::Shared => {
            format!("{}c.{}", part.slices, campaign.profile(campaign.gpu.compute_slices))
        }
    }
}

/// The memory slice at which a part's GPU instance begins: the first one that leaves the others a place.
fn start(campaign: &Campaign, setting: &Setting, side: usize) -> u8 {
    let parts = setting.state.parts();
    // Compute instances are in the GPU instance of the whole GPU.
    if parts[side].memory == Memory::Shared {
        return 0;
    }
    let mut order: Vec<usize> = (0..parts.len()).collect();
    // The largest has the fewest places. 4g of an A100 is at slice 0, and 3g then at 4.
    order.sort_by_key(|at| std::cmp::Reverse(parts[*at].slices));
    let mut taken = 0_u16;
    for at in order {
        let Some(profile) = campaign.gpu.profile(campaign.profile(parts[at].slices)) else { continue };
        let free = profile.starts.iter().find(|start| profile.at(**start).mask() & taken == 0);
        let Some(start) = free else { continue };
        if at == side {
            return start.0;
        }
        taken |= profile.at(*start).mask();
    }
    0
}

/// The batch script of one application: it runs again and again, and writes begin, end, status and its own seconds of each
/// run. Alone it ends by itself, beside others when told.
pub(super) fn text(place: &Place<'_>) -> String {
    let Place { campaign, setting, side, dir, .. } = place;
    let laps = if setting.apps.len() > 1 { -1 } else { i64::try_from(LAPS).unwrap_or(i64::MAX) };
    let command = setting.apps.get(*side).and_then(|at| campaign.apps.get(*at)).map(|app| &app.command);
    let driver = if setting.state.is_full() {
        "nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 >\"$here/driver\"\n"
    } else {
        ""
    };
    format!(
        "#!/bin/sh\n\
         # Made by tessera lab power calibrate, which reads the laps.\n\
         here={}\n\
         side={side}\n\
         left={laps}\n\
         export TESSERA_SECONDS=\"$here/$side.seconds\"\n\
         {driver}\
         until [ -e \"$here/stop\" ] || [ \"$left\" = 0 ]; do\n\
         \x20   rm -f \"$TESSERA_SECONDS\"\n\
         \x20   begin=$(date +%s%3N)\n\
         \x20   sh -c {}\n\
         \x20   status=$?\n\
         \x20   end=$(date +%s%3N)\n\
         \x20   said=$(head -n 1 \"$TESSERA_SECONDS\" 2>/dev/null | head -c 40)\n\
         \x20   echo \"$begin $end $status $said\" >>\"$here/$side.laps\"\n\
         \x20   [ \"$status\" = 0 ] || exit \"$status\"\n\
         \x20   left=$((left - 1))\n\
         done\n",
        quoted(&dir.display().to_string()),
        quoted(command.map_or("", String::as_str)),
    )
}

/// A word as the shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use job_options::{Opt, Spec};

    use super::*;

    #[test]
    fn no_variable_of_the_user_gives_an_option_that_the_calibration_decides() {
        let decided = |spec: &&Spec| matches!(spec.opt, Opt::Instances | Opt::App | Opt::Times | Opt::Wait);
        let missing: Vec<&str> = Spec::all_and_old()
            .filter(decided)
            .map(|spec| spec.env)
            .filter(|name| !WITHOUT.contains(name))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
