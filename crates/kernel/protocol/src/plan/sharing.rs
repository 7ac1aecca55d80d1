//! The part of a plan about jobs that share a GPU under a power cap.

use std::fmt;

use crate::strict::{WireError, bad, number};
use crate::wire::MAX_CAP_W;

/// Most jobs beside one on a GPU: no model has more than seven parts.
const MOST_BESIDE: usize = 6;
/// Largest number of a Slurm job.
const MAX_JOB: u64 = u32::MAX as u64;

/// Predicted sharing of a job's GPU. The default is a plan that says nothing of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// The power cap of the GPU, W.
    pub cap_w: Option<u16>,
    /// The jobs beside it. With any, the plan holds on its own GPU only.
    pub with: Vec<u32>,
    /// Predicted speed, percent of that alone without cap.
    pub speed: Option<u8>,
    /// Speed that it keeps at least, percent, as far as the model can tell. Later partners must leave it that.
    pub low: Option<u8>,
    /// Why nobody is beside it.
    pub alone: Option<Alone>,
}

/// Why a job has no partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Nobody knows the counters of its application on this GPU model.
    Unprofiled,
    /// Has counters beyond those that the model was fitted to.
    Unlike,
    /// Does not state its memory.
    NoMemory,
    /// With none of the next jobs more is done than one after the other.
    NoPartner,
}

impl Alone {
    const ALL: [Self; 4] = [Self::Unprofiled, Self::Unlike, Self::NoMemory, Self::NoPartner];

    fn word(self) -> &'static str {
        match self {
            Self::Unprofiled => "unprofiled",
            Self::Unlike => "unlike",
            Self::NoMemory => "no-memory",
            Self::NoPartner => "no-partner",
        }
    }

    /// For the job's user.
    #[must_use]
    pub fn in_words(self, app: &str) -> String {
        match self {
            Self::Unprofiled => {
                format!("{app} has no counters on this GPU model: profile it, see tessera lab power import")
            }
            Self::Unlike => format!("the counters of {app} are unlike those that the power model knows"),
            Self::NoMemory => "it states no --gpu-mem".to_owned(),
            Self::NoPartner => "none of the next jobs goes well with it".to_owned(),
        }
    }
}

impl Sharing {
    /// The keys of a plan that are read here, in their order.
    pub(super) const KEYS: [&'static str; 5] = ["cap", "with", "speed", "low", "alone"];

    /// The fields as a plan has them.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let with: Vec<String> = self.with.iter().map(u32::to_string).collect();
        let values = [
            self.cap_w.map(|w| w.to_string()),
            (!with.is_empty()).then(|| with.join("+")),
            self.speed.map(|n| n.to_string()),
            self.low.map(|n| n.to_string()),
            self.alone.map(|why| why.word().to_owned()),
        ];
        Self::KEYS.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// Reads the value of one of [`Self::KEYS`].
    pub(super) fn read(&mut self, key: &str, value: &str) -> Result<(), WireError> {
        match key {
            "cap" => self.cap_w = Some(number(value, 1, MAX_CAP_W.into())?),
            "with" if value.split('+').count() > MOST_BESIDE => return bad("too many partners", value),
            "with" => {
                self.with = value.split('+').map(|id| number(id, 1, MAX_JOB)).collect::<Result<_, _>>()?;
            }
            "speed" => self.speed = Some(number(value, 0, u64::from(u8::MAX))?),
            "low" => self.low = Some(number(value, 0, u64::from(u8::MAX))?),
            _ => match Alone::ALL.into_iter().find(|why| why.word() == value) {
                Some(why) => self.alone = Some(why),
                None => return bad("unknown reason", value),
            },
        }
        Ok(())
    }

    /// The end of a sentence about the size of a job of application `app`; empty if there is nothing to say.
    #[must_use]
    pub fn in_words(&self, app: &str) -> String {
        let mut out = String::new();
        let with: Vec<String> = self.with.iter().map(|id| format!("job {id}")).collect();
        if !with.is_empty() {
            out.push_str(&format!(" to share a GPU with {}", with.join(", ")));
        }
        if let Some(watts) = self.cap_w {
            out.push_str(&format!(" at {watts} W"));
        }
        if let Some(speed) = self.speed {
            out.push_str(&format!("; predicted speed {speed} % of that alone"));
        }
        if let Some(why) = self.alone {
            out.push_str(&format!(" to run alone: {}", why.in_words(app)));
        }
        out
    }
}

/// Time limits of a job before and after the planner has raised it, minutes: `limit 10>36`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisedLimit {
    /// The job's own, to which it goes back.
    pub own_min: u32,
    /// The limit that the planner has set.
    pub raised_min: u32,
}

impl RaisedLimit {
    /// Reads the text; `None` if it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (own, raised) = text.strip_prefix("limit ")?.split_once('>')?;
        let minutes = |text| number(text, 1, u32::MAX.into()).ok();
        Some(Self { own_min: minutes(own)?, raised_min: minutes(raised)? })
    }
}

impl fmt::Display for RaisedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}>{}", self.own_min, self.raised_min)
    }
}
