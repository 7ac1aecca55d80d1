//! Typed views of records that lie as a table says.

/// Declares a view of one of Slurm's records and the layout that it reads by.
///
/// `struct Job, JobLayout = "job_record", magic "JOB_MAGIC" { job_id: u32; start_time: i64, at start_time_at; }`: each field has a
/// function that reads it, and one that gives its address if it is to be written. `optional { … }` at the end has the fields that
/// not every release has: `None` where it has none. `job_id = "step_id.job_id": u32`: a field within a field.
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident, $Layout:ident = $c:literal $(, magic $magic:literal)? {
        $($field:ident $(= $row:literal)?: $ty:ty $(, at $slot:ident)?;)*
    } $(optional { $($may:ident: $may_ty:ty $(, at $may_slot:ident)?;)* })?) => {
        #[doc = concat!("Where the fields of `", $c, "` lie.")]
        #[derive(Debug)]
        $vis struct $Layout {
            check: $crate::Record,
            $($field: $crate::Field<$ty>,)*
            $($($may: Option<$crate::Field<$may_ty>>,)*)?
        }

        impl $Layout {
            /// Finds all fields.
            fn find(layout: &$crate::Layout) -> Result<Self, $crate::table::BadTable> {
                $(
                    let name = stringify!($field);
                    $(let name = { let _the_field = name; $row };)?
                    let $field = $crate::Field::<$ty>::required(layout, $c, name)?;
                )*
                $($(let $may = $crate::Field::<$may_ty>::optional(layout, $c, stringify!($may))?;)*)?
                #[allow(unused_mut, reason = "not every record has a mark")]
                let mut magic = None;
                $(
                    if let (Some((at, _)), Some(value)) =
                        (layout.field(concat!($c, ".magic"))?, layout.value($magic)?)
                    {
                        magic = u32::try_from(value).ok().map(|value| (at, value));
                    }
                )?
                #[allow(unused_mut, reason = "not every record has optional fields")]
                let mut fields = vec![
                    $((stringify!($field), $field.position, <$ty as $crate::Value>::KIND),)*
                ];
                $($(fields.extend(
                    $may.iter().map(|field| (stringify!($may), field.position, <$may_ty as $crate::Value>::KIND)),
                );)*)?
                let check = $crate::Record { structure: $c, size: layout.size($c)?, magic, fields };
                Ok(Self { check, $($field,)* $($($may,)*)? })
            }

            fn cell() -> &'static std::sync::OnceLock<Self> {
                static CELL: std::sync::OnceLock<$Layout> = std::sync::OnceLock::new();
                &CELL
            }
        }

        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $Name {
            at: std::ptr::NonNull<u8>,
            layout: &'static $Layout,
        }

        impl $crate::RecordView for $Name {
            unsafe fn behind(pointer: *mut std::ffi::c_void) -> Option<Self> {
                // SAFETY: the caller's promise.
                unsafe { Self::at(pointer) }
            }
        }

        #[allow(dead_code, reason = "not every record is written to or compared")]
        impl $Name {
            /// Learns once where the fields lie.
            ///
            /// # Errors
            ///
            /// The table lacks one, or has it with another number of bytes.
            $vis fn learn(layout: &$crate::Layout) -> Result<(), $crate::table::BadTable> {
                let found = $Layout::find(layout)?;
                $Layout::cell().get_or_init(|| found);
                Ok(())
            }

            /// Gives the structure's layout; `None` before it is learnt.
            $vis fn described() -> Option<&'static $crate::Record> {
                $Layout::cell().get().map(|layout| &layout.check)
            }

            /// Takes the record behind a pointer; `None` for null, and before the layout is learnt.
            ///
            /// # Safety
            ///
            /// As [`slurm_tables::RecordView::behind`].
            $vis unsafe fn at<P>(pointer: *const P) -> Option<Self> {
                let at = std::ptr::NonNull::new(pointer.cast_mut().cast::<u8>())?;
                Some(Self { at, layout: $Layout::cell().get()? })
            }

            /// Compares a record with the table; none fits.
            ///
            /// # Errors
            ///
            /// It is of another size, or has something else where the table says.
            $vis fn check(record: Option<Self>) -> Result<(), $crate::Misfit> {
                record.map_or(Ok(()), |record| record.layout.check.check(record.at.as_ptr().addr()))
            }

            /// Tells whether the record has its mark; true for a kind that has none.
            $vis fn is_marked(self) -> bool {
                self.layout.check.magic.is_none_or(|(position, magic)| {
                    // SAFETY: the promise of `at`: the mark is a field like others.
                    let place = unsafe { self.at.as_ptr().add(position) };
                    // SAFETY: as above.
                    magic == unsafe { place.cast::<u32>().read() }
                })
            }

            /// Gives the address of the record.
            $vis fn address(self) -> *mut std::ffi::c_void {
                self.at.as_ptr().cast()
            }

            $(
                #[doc = concat!("Reads `", stringify!($field), "`.")]
                $vis fn $field(self) -> <$ty as $crate::Value>::Given {
                    // SAFETY: the promise of `at`.
                    unsafe { self.layout.$field.read(self.at.as_ptr()) }
                }

                $(
                    #[doc = concat!("Gives the address of `", stringify!($field), "`.")]
                    $vis fn $slot(self) -> *mut <$ty as $crate::Value>::Raw {
                        // SAFETY: the promise of `at`.
                        unsafe { self.layout.$field.place(self.at.as_ptr()) }
                    }
                )?
            )*
            $($(
                #[doc = concat!("Reads `", stringify!($may), "`, where the release has it.")]
                $vis fn $may(self) -> Option<<$may_ty as $crate::Value>::Given> {
                    let field = self.layout.$may?;
                    // SAFETY: the promise of `at`.
                    Some(unsafe { field.read(self.at.as_ptr()) })
                }

                $(
                    #[doc = concat!("Gives the address of `", stringify!($may), "`, where the release has it.")]
                    $vis fn $may_slot(self) -> Option<*mut <$may_ty as $crate::Value>::Raw> {
                        let field = self.layout.$may?;
                        // SAFETY: the promise of `at`.
                        Some(unsafe { field.place(self.at.as_ptr()) })
                    }
                )?
            )*)?
        }
    };
}
