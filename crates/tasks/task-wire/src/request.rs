//! Questions of a program.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::text::Text;

/// Bytes of a request.
pub const REQUEST_LEN: usize = 128;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for the job's declaration. Answered by `Welcome`.
    Hello {
        /// See [`Begin::image`].
        image: u64,
    },
    /// A task begins. Answered by `Granted`, at once or later, or by `Refused`.
    Begin(Begin),
    /// A task is over, or no longer wanted. Answered by `Freed` or `Refused`.
    Free {
        /// See [`Begin::image`].
        image: u64,
        /// The task's nonce.
        nonce: u64,
    },
}

/// A task that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The program image that asks: a number that the kernel draws at each `exec` and that a fork keeps.
    pub image: u64,
    /// The task's name.
    pub nonce: u64,
    /// Bytes of device memory without managed memory. 0 if `whole`.
    pub mem: u64,
    /// Bytes of managed memory.
    pub managed: u64,
    /// Blocks of the largest grid.
    pub blocks: u64,
    /// Threads per block of the largest block.
    pub threads: u64,
    /// The task is the whole process, which says nothing about what it needs: it gets what its job declared
    /// (`--gpu-mem`), or a device alone.
    pub whole: bool,
    /// All tasks of the process from now on go to one device, because something outside tasks lives there.
    pub sticky: bool,
    /// The UUID of a device that the process sees already, because CUDA is initialised; empty where it may still choose.
    pub bound: Text<64>,
}

const HELLO: u16 = 1;
const BEGIN: u16 = 2;
const FREE: u16 = 3;

impl Request {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        match self {
            Request::Hello { image } => Writer::new(HELLO).u64(*image).done(),
            Request::Free { image, nonce } => Writer::new(FREE).u64(*image).u64(*nonce).done(),
            // 8 + 7 * 8 + 64 bytes.
            Request::Begin(b) => Writer::new(BEGIN)
                .u64(b.image)
                .u64(b.nonce)
                .u64(b.mem)
                .u64(b.managed)
                .u64(b.blocks)
                .u64(b.threads | if b.whole { WHOLE } else { 0 } | if b.sticky { STICKY } else { 0 })
                .text(&b.bound)
                .done(),
        }
    }

    /// From a packet.
    ///
    /// # Errors
    ///
    /// It is no request of this version.
    pub fn decode(bytes: &[u8]) -> Result<Request, WireError> {
        let (kind, mut r) = Reader::new(bytes, REQUEST_LEN)?;
        match kind {
            HELLO => {
                let image = r.u64()?;
                r.end(Request::Hello { image })
            }
            FREE => {
                let (image, nonce) = (r.u64()?, r.u64()?);
                r.end(Request::Free { image, nonce })
            }
            BEGIN => {
                let [image, nonce, mem, managed, blocks, threads] =
                    [r.u64()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?];
                let (whole, sticky) = (threads & WHOLE != 0, threads & STICKY != 0);
                let (threads, bound) = (threads & !WHOLE & !STICKY, r.text()?);
                r.end(Request::Begin(Begin {
                    image,
                    nonce,
                    mem,
                    managed,
                    blocks,
                    threads,
                    whole,
                    sticky,
                    bound,
                }))
            }
            _ => Err(WireError::Malformed),
        }
    }
}

/// The bit beside the number of threads that says [`Begin::whole`].
const WHOLE: u64 = 1 << 63;
/// The one for [`Begin::sticky`].
const STICKY: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::VERSION;

    fn begin() -> Begin {
        let bound = Text::new("MIG-4d9e…").unwrap();
        Begin {
            image: 1,
            nonce: 2,
            mem: 1 << 63,
            managed: 4,
            blocks: 5,
            threads: 1025,
            whole: true,
            sticky: false,
            bound,
        }
    }

    #[test]
    fn another_version_is_told_from_noise() {
        let mut bytes = Request::Begin(begin()).encode();
        bytes[4] = 9;
        assert_eq!(Request::decode(&bytes), Err(WireError::Version(9)));
        assert_eq!(Request::decode(&bytes[..40]), Err(WireError::Version(9)), "whatever its length");
        assert_eq!(Request::decode(&Request::Begin(begin()).encode()[..127]), Err(WireError::NotOurs));
        assert_eq!(Request::decode(b"GET / HTTP/1.1"), Err(WireError::NotOurs));
        assert_eq!(Request::decode(b"TsTk\x01\x00"), Err(WireError::NotOurs));
        assert_eq!(VERSION, 1, "a new version needs these bytes again");
    }

    proptest! {
        #[test]
        fn what_is_sent_is_read(image: u64, nonce: u64, mem: u64, threads in 0..=u64::from(u32::MAX), kind in 0..4u8) {
            let request = match kind {
                0 => Request::Hello { image },
                1 => Request::Free { image, nonce },
                _ => Request::Begin(Begin { image, nonce, mem, threads, whole: kind == 2, sticky: nonce % 2 == 0, ..begin() }),
            };
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }

        #[test]
        fn any_bytes_are_a_request_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..300), is_ours: bool) {
            if is_ours && bytes.len() >= 8 {
                bytes[..6].copy_from_slice(b"TsTk\x01\x00");
                bytes[7] = 0;
                bytes.resize(REQUEST_LEN, 0);
            }
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(&request.encode()[..], &bytes[..]);
            }
        }
    }
}
