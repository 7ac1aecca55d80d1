//! Answers of the broker.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::text::Text;

/// Bytes of a reply.
pub const REPLY_LEN: usize = 1024;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a reply is a packet of one size; nobody keeps many")]
pub enum Reply {
    /// To `Hello`.
    Welcome(Welcome),
    /// To `Begin`.
    Granted(Grant),
    /// To `Begin` or `Free`: nothing changed.
    Refused(Refused),
    /// To `Free`.
    Freed {
        /// The task's nonce.
        nonce: u64,
    },
}

/// The job that the process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Slurm's job id.
    pub job: u64,
    /// Need that the job declared for programs that say nothing themselves, bytes; 0 where it declared nothing.
    pub declared: u64,
}

/// A device for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The task's nonce.
    pub nonce: u64,
    /// The broker's number of the task.
    pub task: u64,
    /// Bytes that the task may take. More than it asked for where sizes were rounded up.
    pub mem: u64,
    /// Index in `visible`, from 0.
    pub ordinal: u64,
    /// The device's UUID.
    pub uuid: Text<64>,
    /// `CUDA_MPS_PIPE_DIRECTORY`; empty without MPS.
    pub mps_pipe: Text<128>,
    /// `CUDA_VISIBLE_DEVICES`: all that the process will ever see.
    pub visible: Text<704>,
}

/// Why nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The task's nonce; 0 where the request could not be read.
    pub nonce: u64,
    /// Why, for programs.
    pub code: Code,
    /// Memory that was asked for, bytes, where memory is the reason.
    pub need: u64,
    /// The most that could be had, bytes, where memory is the reason.
    pub most: u64,
    /// Why, for people.
    pub why: Text<704>,
}

/// Why nothing changed, for programs. Numbers are never used again for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// No device of the job could ever hold the task.
    TooLarge = 1,
    /// No GPU launches such a grid: no blocks, or no or more than 1,024 threads per block.
    BadLaunch = 2,
    /// The process holds memory, asked for more, and another process like it waits already.
    Growth = 3,
    /// The task neither lives nor waits.
    Unknown = 4,
    /// The job, its user or all jobs have as many tasks as the broker remembers of them.
    TableFull = 5,
    /// The process is bound to a device that the job does not have.
    NotItsDevice = 6,
    /// The request is of another version or cannot be read.
    Unreadable = 7,
    /// The job ended.
    JobEnded = 8,
    /// The memory that the process had on its device is lost, because the device's MPS daemon or server ended.
    DeviceLost = 9,
}

impl Code {
    const ALL: [Code; 9] = [
        Code::TooLarge,
        Code::BadLaunch,
        Code::Growth,
        Code::Unknown,
        Code::TableFull,
        Code::NotItsDevice,
        Code::Unreadable,
        Code::JobEnded,
        Code::DeviceLost,
    ];
}

const WELCOME: u16 = 0x81;
const GRANTED: u16 = 0x82;
const REFUSED: u16 = 0x83;
const FREED: u16 = 0x84;

impl Reply {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; REPLY_LEN] {
        match self {
            Reply::Welcome(w) => Writer::new(WELCOME).u64(w.job).u64(w.declared).done(),
            // 8 + 4 * 8 + 64 + 128 + 704 bytes.
            Reply::Granted(g) => Writer::new(GRANTED)
                .u64(g.nonce)
                .u64(g.task)
                .u64(g.mem)
                .u64(g.ordinal)
                .text(&g.uuid)
                .text(&g.mps_pipe)
                .text(&g.visible)
                .done(),
            Reply::Refused(r) => Writer::new(REFUSED)
                .u64(r.nonce)
                .u64(r.code as u64)
                .u64(r.need)
                .u64(r.most)
                .text(&r.why)
                .done(),
            Reply::Freed { nonce } => Writer::new(FREED).u64(*nonce).done(),
        }
    }

    /// From a packet.
    ///
    /// # Errors
    ///
    /// It is no reply of this version.
    pub fn decode(bytes: &[u8]) -> Result<Reply, WireError> {
        let (kind, mut r) = Reader::new(bytes, REPLY_LEN)?;
        match kind {
            WELCOME => {
                let welcome = Welcome { job: r.u64()?, declared: r.u64()? };
                r.end(Reply::Welcome(welcome))
            }
            GRANTED => {
                let [nonce, task, mem, ordinal] = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
                let grant = Grant {
                    nonce,
                    task,
                    mem,
                    ordinal,
                    uuid: r.text()?,
                    mps_pipe: r.text()?,
                    visible: r.text()?,
                };
                r.end(Reply::Granted(grant))
            }
            REFUSED => {
                let [nonce, code, need, most] = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
                let code = Code::ALL.into_iter().find(|c| *c as u64 == code).ok_or(WireError::Malformed)?;
                let why = r.text()?;
                r.end(Reply::Refused(Refused { nonce, code, need, most, why }))
            }
            FREED => {
                let nonce = r.u64()?;
                r.end(Reply::Freed { nonce })
            }
            _ => Err(WireError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_sent_is_read() {
        let long = "G".repeat(704);
        let grant = Grant {
            nonce: 1,
            task: u64::MAX,
            mem: 3,
            ordinal: 15,
            uuid: Text::new("GPU-1").unwrap(),
            mps_pipe: Text::EMPTY,
            visible: Text::new(&long).unwrap(),
        };
        let refused = Refused { nonce: 1, code: Code::JobEnded, need: 2, most: 3, why: Text::cut("ended") };
        let welcome = Welcome { job: 12, declared: 3 << 30 };
        for reply in [
            Reply::Granted(grant),
            Reply::Refused(refused),
            Reply::Freed { nonce: 7 },
            Reply::Welcome(welcome),
        ] {
            assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_reply_or_an_error(kind in 0x80..0x86u8, body in prop::collection::vec(0..3u8, 60)) {
            let mut bytes = [0; REPLY_LEN];
            bytes[..8].copy_from_slice(&[b'T', b's', b'T', b'k', 1, 0, kind, 0]);
            bytes[8..68].copy_from_slice(&body);
            if let Ok(reply) = Reply::decode(&bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }
}
