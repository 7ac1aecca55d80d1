//! Clocks, voltage and power of a board.

/// A GPU board.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// GPCs of the whole chip; with MIG one of them is off.
    pub gpcs: u8,
    /// L2 and DRAM modules.
    pub modules: u8,
    /// The lowest and the highest clock, MHz.
    pub clocks_mhz: (u32, u32),
    /// The highest power cap, which is also the default, W.
    pub limit_w: u32,
    /// What it draws.
    pub draw: Draw,
}

/// The causes of a board's draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Without work, W.
    pub idle_w: f64,
    /// A GPC in use, before its units do anything, at the highest clock, W.
    pub gpc_w: f64,
    /// All vector units at the highest clock, W.
    pub vector_w: f64,
    /// All tensor cores at the highest clock, W.
    pub tensor_w: f64,
    /// DRAM and L2 at the highest bandwidth, W.
    pub dram_w: f64,
}

/// The driver sets clocks in these steps, MHz.
const STEP_MHZ: u32 = 15;

/// Below this share of the highest clock, the voltage falls no further.
const KNEE: f64 = 0.55;

/// The lowest voltage, relative to that of the highest clock.
const LOWEST_VOLTAGE: f64 = 0.72;

/// How much an application switches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    /// GPCs that hold it.
    pub(crate) gpcs: f64,
    /// Work of the vector units per time, 1 is all of them at the highest clock.
    pub(crate) vector: f64,
    /// Work of the tensor cores, likewise.
    pub(crate) tensor: f64,
    /// Traffic of DRAM, 1 is its bandwidth.
    pub(crate) dram: f64,
}

impl Board {
    /// The A100 40GB PCIe of the paper: 8 GPCs, 8 modules, 1410 MHz, 250 W.
    #[must_use]
    pub fn a100_pcie() -> Self {
        Self {
            gpcs: 8,
            modules: 8,
            clocks_mhz: (210, 1410),
            limit_w: 250,
            draw: Draw { idle_w: 36.0, gpc_w: 5.0, vector_w: 195.0, tensor_w: 240.0, dram_w: 60.0 },
        }
    }

    /// The number of clocks above the lowest.
    pub(crate) fn steps(&self) -> u32 {
        (self.clocks_mhz.1 - self.clocks_mhz.0) / STEP_MHZ
    }

    /// A clock by its number, MHz: the steps go down from the highest clock.
    pub(crate) fn clock_mhz(&self, step: u32) -> u32 {
        self.clocks_mhz.1 - STEP_MHZ * (self.steps() - step)
    }

    /// A clock relative to the highest.
    pub(crate) fn relative(&self, mhz: u32) -> f64 {
        f64::from(mhz) / f64::from(self.clocks_mhz.1)
    }

    /// Modules of a GPU instance with so many GPCs: 1, 2, 3, 4, 7 have 1, 2, 4, 4, 8 of 8.
    ///
    /// Source: Arima et al., section 3.
    #[must_use]
    pub fn modules_of(&self, gpcs: u8) -> u8 {
        match gpcs {
            0..=2 => gpcs,
            3 | 4 => 4,
            _ => self.modules,
        }
    }

    /// Draw at a relative clock, W.
    pub(crate) fn watts(&self, clock: f64, all: impl Iterator<Item = Activity>) -> f64 {
        let above = ((clock - KNEE) / (1.0 - KNEE)).max(0.0);
        let voltage = LOWEST_VOLTAGE + (1.0 - LOWEST_VOLTAGE) * above;
        let of = |a: Activity| {
            let Draw { gpc_w, vector_w, tensor_w, dram_w, .. } = self.draw;
            let switching = gpc_w * a.gpcs * clock + vector_w * a.vector + tensor_w * a.tensor;
            switching * voltage * voltage + dram_w * a.dram
        };
        self.draw.idle_w + all.map(of).sum::<f64>()
    }
}
