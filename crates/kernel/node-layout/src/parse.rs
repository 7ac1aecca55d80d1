//! Reading a layout line.

use crate::line::{
    CUT, ComputeLayout, ConfigInForce, ENDING, GpuLayout, HolderLayout, InstanceLayout, Layout, LayoutError,
    MAX_LEN, PREFIX, Seats, ShareLayout, Shares, WATTS,
};
use geometry::{JobId, Slice};
use protocol::ComputeSpec;

/// Reads a layout line. Strict and bounded: the line may have been edited by hand.
///
/// # Errors
///
/// The line is not a layout, or too long.
pub fn parse_layout(line: &str) -> Result<Layout, LayoutError> {
    let mut p = Parser { line, at: 0 };
    if line.len() > MAX_LEN {
        return p.fail("too long a line");
    }
    p.expect(PREFIX)?;
    let mut layout = Layout::default();
    let kept = [ConfigInForce::LastGood, ConfigInForce::Bad].into_iter().find(|c| p.eat(c.word()));
    layout.config = kept.unwrap_or_default();
    if p.eat(ENDING) {
        layout.ending.push(p.job()?);
        while p.eat(",") {
            layout.ending.push(p.job()?);
        }
    }
    if p.eat(WATTS) {
        layout.watts = Some(p.number()?);
    }
    while p.at < line.len() {
        if p.rest() == CUT {
            layout.cut = true;
            return Ok(layout);
        }
        p.expect(" gpu")?;
        let first: usize = p.number()?;
        let last = if p.eat("-") { p.number()? } else { first };
        if first != layout.gpus.len() || last < first || last >= MAX_GPUS {
            return p.fail("GPUs out of order");
        }
        p.expect("=")?;
        let gpu = p.gpu()?;
        layout.gpus.resize(last + 1, gpu);
    }
    Ok(layout)
}

/// Most GPUs read from a line.
const MAX_GPUS: usize = 64;

struct Parser<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or("")
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, LayoutError> {
        Err(LayoutError { what, at: self.at })
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &'static str) -> Result<(), LayoutError> {
        if self.eat(token) { Ok(()) } else { self.fail("something unexpected") }
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, LayoutError> {
        let rest = self.rest();
        let digits = &rest[..rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()];
        let Ok(number) = digits.parse() else { return self.fail("not a number") };
        self.at += digits.len();
        Ok(number)
    }

    fn job(&mut self) -> Result<JobId, LayoutError> {
        self.expect("job")?;
        self.number().map(JobId)
    }

    fn gpu(&mut self) -> Result<GpuLayout, LayoutError> {
        if self.eat("free") {
            return Ok(GpuLayout::Free);
        }
        if self.eat("slurm") {
            return Ok(GpuLayout::Slurm);
        }
        if self.eat("whole[") {
            let job = self.job()?;
            self.expect("]")?;
            return Ok(GpuLayout::Whole(job));
        }
        if self.eat("mps[") {
            return self.shares().map(GpuLayout::Mps);
        }
        if self.eat("tasks[") {
            return self.seats().map(GpuLayout::Tasks);
        }
        self.expect("mig[")?;
        let mut instances = Vec::new();
        while !self.eat("]") {
            if !instances.is_empty() {
                self.expect(",")?;
            }
            instances.push(self.instance()?);
        }
        Ok(GpuLayout::Mig(instances))
    }

    fn instance(&mut self) -> Result<InstanceLayout, LayoutError> {
        let name = self.rest().split('@').next().unwrap_or("");
        if !protocol::is_profile_name(name) {
            return self.fail("not a profile");
        }
        self.at += name.len();
        self.expect("@")?;
        let start = Slice(self.number()?);
        self.expect(":")?;
        let holder = if self.eat("idle") {
            HolderLayout::Idle
        } else if self.eat("mps[") {
            HolderLayout::Mps(self.shares()?)
        } else if self.eat("ci[") {
            HolderLayout::Compute(self.compute()?)
        } else if self.eat("tasks[") {
            HolderLayout::Tasks(self.seats()?)
        } else {
            HolderLayout::Job(self.job()?)
        };
        Ok(InstanceLayout { profile: name.to_owned(), start, holder })
    }

    fn compute(&mut self) -> Result<Vec<ComputeLayout>, LayoutError> {
        let mut parts = Vec::new();
        loop {
            let slices = self.number()?;
            self.expect("c@")?;
            let part = ComputeSpec { slices, start: Slice(self.number()?) };
            self.expect(":")?;
            let job = self.job()?;
            self.expect(":")?;
            let mem_mib = self.number()?;
            self.expect("M")?;
            parts.push(ComputeLayout { part, job, mem_mib });
            if self.eat("]") {
                return Ok(parts);
            }
            self.expect(",")?;
        }
    }

    fn seats(&mut self) -> Result<Seats, LayoutError> {
        let mut seats = Seats::default();
        loop {
            let job = self.job()?;
            self.expect("*")?;
            seats.listed.push((job, self.number()?));
            if !self.eat(",") {
                break;
            }
        }
        if self.eat("+") {
            seats.more = self.number()?;
        }
        if self.eat(">") {
            seats.claimed = Some(self.job()?);
        }
        self.expect("]")?;
        Ok(seats)
    }

    fn shares(&mut self) -> Result<Shares, LayoutError> {
        let mut shares = Shares::default();
        loop {
            let job = self.job()?;
            self.expect(":")?;
            let mem_mib = self.number()?;
            self.expect("M/")?;
            let threads = self.number()?;
            self.expect("%")?;
            shares.listed.push(ShareLayout { job, mem_mib, threads });
            if self.eat("]") {
                return Ok(shares);
            }
            if self.eat("+") {
                shares.more = self.number()?;
                self.expect(":")?;
                let mem_mib = self.number()?;
                self.expect("M/")?;
                shares.rest = (mem_mib, self.number()?);
                self.expect("%]")?;
                return Ok(shares);
            }
            self.expect(",")?;
        }
    }
}
