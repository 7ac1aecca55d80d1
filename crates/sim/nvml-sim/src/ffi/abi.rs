//! What the C functions share: the process's session, its handles, and the library's status codes at the C edge.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, PoisonError, RwLock};

use c_edge::{Status, StatusOfRoom, guard};

use crate::engine::code::{Answer, Code};
use crate::engine::handle::Handle;
use crate::engine::session::Session;
use crate::engine::state::State;

/// The session and how often it was initialised.
static LIBRARY: RwLock<Option<(Arc<Session>, u32)>> = RwLock::new(None);

/// `nvmlInit`: opens the node, or counts one more user of it.
pub(super) fn init() -> Answer<()> {
    let mut library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
    match library.as_mut() {
        Some((_, count)) => *count = count.saturating_add(1),
        None => *library = Some((Arc::new(Session::open()?), 1)),
    }
    Ok(())
}

/// `nvmlShutdown`: one user less; the last one closes.
pub(super) fn shutdown() -> Answer<()> {
    let mut library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
    let (_, count) = library.as_mut().ok_or(Code::Uninitialized)?;
    *count -= 1;
    if *count == 0 {
        *library = None;
    }
    Ok(())
}

fn session() -> Answer<Arc<Session>> {
    let library = LIBRARY.read().unwrap_or_else(PoisonError::into_inner);
    library.as_ref().map(|(s, _)| Arc::clone(s)).ok_or(Code::Uninitialized)
}

impl Status for Code {
    const INVALID: Self = Self::InvalidArgument;
    const UNKNOWN: Self = Self::Unknown;

    fn number(self) -> c_uint {
        self as c_uint
    }
}

impl StatusOfRoom for Code {
    const TOO_SMALL: Self = Self::InsufficientSize;
}

/// A pointer argument.
pub(super) type Out<T> = c_edge::Out<T, Code>;
/// A `const char *` argument.
pub(super) type CText = c_edge::CText<Code>;

/// Runs the whole of one C function, with the session and the state of this moment.
pub(super) fn with_state(body: impl FnOnce(&Session, &State) -> Answer<()>) -> c_uint {
    guard(|| {
        let session = session()?;
        let state = session.state()?;
        body(&session, &state)
    })
}

/// Defines C functions and `NAMES`, the list of them. The body sees the session and the state under the two names given.
macro_rules! exports {
    ($(fn $name:ident($($arg:ident : $ty:ty),* $(,)?) |$session:ident, $state:ident| $body:block)*) => {
        /// The functions of this module.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
        c_edge::entries! { crate::ffi::abi::with_state; $(fn $name($($arg : $ty),*) ($session, $state) $body)* }
    };
}
pub(super) use exports;

/// A handle from the caller: `nvmlDevice_t`, `nvmlGpuInstance_t`, `nvmlComputeInstance_t`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Ref(*mut c_void);

impl Ref {
    /// What it stands for.
    pub(super) fn get(self) -> Answer<Handle> {
        Handle::from_bits(self.0.addr() as u64).ok_or(Code::InvalidArgument)
    }

    /// The physical GPU, where a MIG device will not do.
    pub(super) fn gpu(self, session: &Session, state: &State) -> Answer<u32> {
        session.gpu(state, self.get()?)
    }

    /// The physical GPU, for a GPU or one of its MIG devices.
    pub(super) fn gpu_of_any(self, session: &Session, state: &State) -> Answer<u32> {
        Ok(session.any_gpu(state, self.get()?)?.0)
    }
}

/// A handle as a pointer for the caller.
pub(super) fn pointer<T>(handle: Handle) -> *mut T {
    // 64-bit only: the bits are a user-space address that nothing is mapped at or will ever be read from.
    std::ptr::without_provenance_mut(usize::try_from(handle.to_bits()).unwrap_or(0))
}

/// A fixed buffer of a struct, filled with text, cut off where it does not fit.
pub(super) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (slot, byte) in out.iter_mut().zip(text.bytes().take(N.saturating_sub(1))) {
        *slot = c_char::from_ne_bytes([byte]);
    }
    out
}

/// The version word of a versioned struct: size and number.
pub(super) const fn version<T>(number: c_uint) -> c_uint {
    #[expect(clippy::cast_possible_truncation, reason = "NVML's structs are far below 16 MiB")]
    let size = size_of::<T>() as c_uint;
    size | number << 24
}
