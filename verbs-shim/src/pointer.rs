//! Pointers that cross the boundary to C.
//!
//! The types of this module represent C's pointers in signatures and structures. Every access
//! relies on what the man pages require of callers: a pointer is NULL or points to an object of its
//! type for the duration of the call. NULL is checked. Some programs pack their structures, which
//! works on x86-64 and aarch64, so reads and writes copy the value at any alignment. Only the
//! functions that return references fail with `EINVAL` at an address that is not aligned.

use crate::log::with_reason;
use nix::errno::Errno;
use roce_trust::fork;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// The part of an object that C sees. The module of the object implements this, so `abi` does not
/// depend on the objects' modules. Any thread may use any object. A child process may use only
/// objects that outlive a fork.
///
/// # Safety
/// `OFFSET` must be that of a field of type [`CPart<Self>`](CPart) in the object, or of the first
/// or last field of a [`CPart`]. Objects that outlive a fork must not be created with
/// [`Handle::into_raw`]; all others must.
pub(crate) unsafe trait Part: Sized {
    /// The object.
    type Object: Send + Sync;
    /// The offset of this part in the object, in bytes.
    const OFFSET: usize = 0;
    /// Whether a child may use its parent's objects.
    const OUTLIVES_FORK: bool = false;
}

/// Implements [`Part`] for the structure in the first field of an object.
macro_rules! first_part {
    ($part:ident => $object:ident.$field:ident) => {
        const _: () = assert!(std::mem::offset_of!($object, $field) == 0);
        const _: fn(&$object) -> &CPart<$part> = |object| &object.$field;

        // SAFETY: the field is the first, and of this type.
        unsafe impl Part for $part {
            type Object = $object;
        }
    };
}

pub(crate) use first_part;

/// The allocation of an object that C has a pointer to.
#[repr(C)]
struct Allocation<T> {
    /// The process that created the object: a value of [`fork::generation`].
    generation: u32,
    object: T,
}

/// The part of an object that C may read and write at any time. It is never borrowed.
#[repr(transparent)]
pub(crate) struct CPart<C>(UnsafeCell<C>);

// SAFETY: it is accessed through raw pointers only, as C does; the man pages say what
// several threads may do to an object at once.
unsafe impl<C> Send for CPart<C> {}
// SAFETY: as above.
unsafe impl<C> Sync for CPart<C> {}

impl<C> CPart<C> {
    pub(crate) fn new(c: C) -> Self {
        Self(UnsafeCell::new(c))
    }

    pub(crate) fn as_ptr(&self) -> *mut C {
        self.0.get()
    }

    /// A copy of its current value.
    pub(crate) fn get(&self) -> C
    where
        C: Copy,
    {
        // SAFETY: the pointer is valid, because it comes from `self`.
        unsafe { self.0.get().read() }
    }

    /// Adds `more` to the `u32` counter at `offset`, in bytes. C may read the counter concurrently.
    pub(crate) fn count(&self, offset: usize, more: u32) {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= size_of::<C>());
        let counter = self.0.get().cast::<u8>().wrapping_add(offset).cast::<u32>();
        // SAFETY: the caller passes the offset of a `u32` field of `C`, which is aligned.
        unsafe { AtomicU32::from_ptr(counter) }.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut C)) {
        // SAFETY: the object exists. While a call changes it, the program does not write to the
        // fields that it may write otherwise.
        change(unsafe { &mut *self.0.get() });
    }
}

/// Pointers are copied whatever they point to, which `derive` does not know.
macro_rules! copied {
    ($($pointer:ident)*) => {$(
        impl<T> Clone for $pointer<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $pointer<T> {}
    )*};
}

copied! { Handle In Out }

/// A C pointer to an object that this library created.
#[repr(transparent)]
pub(crate) struct Handle<C>(*mut C);

// SAFETY: a number until it is used, and any thread may use any object: see [`Part`].
unsafe impl<C> Send for Handle<C> {}
// SAFETY: as above.
unsafe impl<C> Sync for Handle<C> {}

impl<C> Handle<C> {
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    pub(crate) fn from_ptr(part: *mut C) -> Self {
        Self(part)
    }

    pub(crate) fn as_ptr(self) -> *mut C {
        self.0
    }
}

impl<C: Part> Handle<C> {
    pub(crate) fn of(object: &C::Object) -> Self {
        let base = std::ptr::from_ref(object).cast_mut().cast::<u8>();
        Self(base.wrapping_add(C::OFFSET).cast())
    }

    /// Moves an object to the heap, and returns the pointer for C. [`Handle::take`] undoes this.
    pub(crate) fn into_raw(object: C::Object) -> *mut C {
        let generation = fork::generation();
        let base = Box::into_raw(Box::new(Allocation { generation, object })).cast::<u8>();
        base.wrapping_add(Self::HEADER + C::OFFSET).cast()
    }

    /// Offset of the object in `Allocation`, in bytes.
    const HEADER: usize = std::mem::offset_of!(Allocation<C::Object>, object);

    /// The allocation made by `into_raw`.
    fn allocation(self) -> *mut Allocation<C::Object> {
        self.base().cast::<u8>().wrapping_sub(Self::HEADER).cast()
    }

    fn base(self) -> *mut C::Object {
        self.0.cast::<u8>().wrapping_sub(C::OFFSET).cast()
    }

    /// The object.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is NULL or not aligned, `ENODEV` if a parent process created the
    /// object.
    pub(crate) fn get<'a>(self) -> Result<&'a C::Object, Errno> {
        self.opt()?.ok_or_else(|| {
            with_reason(Errno::EINVAL, || {
                "a pointer to an object is NULL".to_owned()
            })
        })
    }

    /// The object, if the pointer is not NULL.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is not aligned, `ENODEV` if a parent process created the object.
    pub(crate) fn opt<'a>(self) -> Result<Option<&'a C::Object>, Errno> {
        if self.0.is_null() {
            return Ok(None);
        }
        if !self.base().is_aligned() {
            return Err(Errno::EINVAL);
        }
        if !C::OUTLIVES_FORK {
            // SAFETY: C has it from `into_raw`, and promises not to have destroyed the object.
            let generation = unsafe { (*self.allocation()).generation };
            if generation != fork::generation() {
                return Err(Errno::ENODEV);
            }
        }
        // SAFETY: as above, or the object outlives forks and is never freed. Objects are shared by
        // reference only.
        Ok(Some(unsafe { &*self.base() }))
    }

    /// The object, even if a parent process created it, for uses that need neither the NIC nor a
    /// lock.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is NULL or not aligned.
    pub(crate) fn get_of_any_process<'a>(self) -> Result<&'a C::Object, Errno> {
        if self.0.is_null() || !self.base().is_aligned() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: as above.
        Ok(unsafe { &*self.base() })
    }

    /// Takes the object back from C, which no longer uses it.
    pub(crate) fn take(self) -> Result<C::Object, Errno> {
        self.get()?;
        // SAFETY: C has it from `into_raw`, which got it from a box, and destroys an object once.
        let allocation = unsafe { Box::from_raw(self.allocation()) };
        Ok(allocation.object)
    }
}

/// Plain C data: numbers and pointers.
///
/// # Safety
/// Any bytes that C may store there, including zeros, must be a valid value.
pub(crate) unsafe trait Zero: Copy {
    /// All bytes zero.
    fn zeroed() -> Self {
        // SAFETY: zeros are a valid value.
        unsafe { std::mem::zeroed() }
    }
}

/// A C structure that has grown at its end, with a mask that says which of the added fields exist.
pub(crate) trait Grown: Zero {
    /// A copy with zeros for the fields that don't.
    fn read(from: In<Self>) -> Result<Self, Errno>;
}

/// A pointer to the caller's data, for reading.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> In<T> {
    /// The program's memory at an address given as a number.
    pub(crate) fn at(addr: u64) -> Self {
        Self(addr as *const T)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }

    pub(crate) fn get<'a>(self) -> Result<&'a T, Errno> {
        self.slice(1)?.first().ok_or(Errno::EINVAL)
    }

    /// A copy of the value, at any alignment.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is NULL.
    pub(crate) fn read(self) -> Result<T, Errno>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise. Callers use plain C types only, of which every value is
        // valid.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// A copy of its first `len` bytes, with zero for the rest. Programs built with an older header
    /// have only the beginning of a structure that has grown.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is NULL.
    pub(crate) fn read_prefix(self, len: usize) -> Result<T, Errno>
    where
        T: Zero,
    {
        if self.0.is_null() {
            return Err(Errno::EINVAL);
        }
        let mut value = MaybeUninit::<T>::zeroed();
        let len = len.min(size_of::<T>());
        // SAFETY: the caller has at least `len` bytes, and there is room for them. What C wrote,
        // followed by zeros, is a valid `T`, as `Zero` says.
        Ok(unsafe {
            std::ptr::copy_nonoverlapping(self.0.cast::<u8>(), value.as_mut_ptr().cast(), len);
            value.assume_init()
        })
    }

    /// A copy of the fields that exist according to the structure's own mask, and zeros for the others.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is NULL.
    pub(crate) fn read_grown(self) -> Result<T, Errno>
    where
        T: Grown,
    {
        T::read(self)
    }

    /// A field of it, by its offset in bytes.
    pub(crate) fn field<F>(self, offset: usize) -> In<F> {
        In(self.0.cast::<u8>().wrapping_add(offset).cast())
    }

    /// Copies of `len` items, at any alignment.
    ///
    /// # Errors
    /// `EINVAL` if the pointer is NULL, or if the items would exceed the address space.
    pub(crate) fn items(self, len: usize) -> Result<impl Iterator<Item = T>, Errno>
    where
        T: Copy,
    {
        if len > 0 && self.0.is_null() || len > isize::MAX as usize / size_of::<T>() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise, which holds until the call is over.
        Ok((0..len).map(move |index| unsafe { self.0.add(index).read_unaligned() }))
    }

    pub(crate) fn slice<'a>(self, len: usize) -> Result<&'a [T], Errno> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || !self.0.is_aligned() || len > isize::MAX as usize / size_of::<T>() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise. Callers use plain C types only, of which every value is
        // valid.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

/// A pointer to the caller's data, for writing.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The same pointer, for reading.
    pub(crate) fn input(self) -> In<T> {
        In(self.0)
    }

    /// A field of it, by its offset in bytes.
    pub(crate) fn field<F>(self, offset: usize) -> Out<F> {
        if self.0.is_null() {
            return Out(std::ptr::null_mut());
        }
        Out(self.0.cast::<u8>().wrapping_add(offset).cast())
    }

    /// The address `offset` bytes after `base`, in the caller's array.
    pub(crate) fn at(base: Self, offset: usize) -> Self {
        Self(base.0.cast::<u8>().wrapping_add(offset).cast())
    }

    /// Memory that was just allocated for C.
    pub(crate) fn allocated(memory: *mut T) -> Self {
        Self(memory)
    }

    pub(crate) fn put(self, value: T) -> Result<(), Errno> {
        self.put_at(0, value)
    }

    pub(crate) fn put_at(self, index: usize, value: T) -> Result<(), Errno> {
        if self.0.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }

    pub(crate) fn put_if_not_null(self, value: T) {
        let _ = self.put(value);
    }

    /// Writes the first `len` bytes of a value. The caller's structure may be shorter, or longer:
    /// then the rest is zeroed.
    pub(crate) fn put_prefix(self, value: &T, len: usize) -> Result<(), Errno> {
        if self.0.is_null() {
            return Err(Errno::EINVAL);
        }
        let known = len.min(size_of::<T>());
        // SAFETY: the caller says that there is room for `len` bytes.
        unsafe {
            let bytes = self.0.cast::<u8>();
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast(), bytes, known);
            bytes.add(known).write_bytes(0, len - known);
        }
        Ok(())
    }

    pub(crate) fn slice<'a>(self, len: usize) -> Result<&'a mut [T], Errno> {
        if len == 0 {
            return Ok(&mut []);
        }
        if self.0.is_null() || !self.0.is_aligned() || len > isize::MAX as usize / size_of::<T>() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise; the caller uses the memory again only after the call.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, len) })
    }

    /// The value, for reading and changing during one call.
    pub(crate) fn get<'a>(self) -> Result<&'a mut T, Errno> {
        self.slice(1)?.first_mut().ok_or(Errno::EINVAL)
    }
}

/// A string that C may keep.
pub(crate) type Text = *const std::ffi::c_char;

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that begin one after an aligned address.
    #[repr(C, align(8))]
    struct Packed {
        first: u8,
        rest: [u8; 24],
    }

    const BYTES: [u8; 24] = [
        1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn what_is_not_aligned_is_read_and_written_all_the_same() {
        let mut packed = Packed {
            first: 0,
            rest: BYTES,
        };
        let list = In::<u64>(packed.rest.as_ptr().cast());
        assert!(!list.as_ptr().is_aligned());
        assert_eq!(list.read().map(u64::to_le), Ok(1));
        let all: Vec<u64> = list
            .items(3)
            .expect("the pointer is not NULL")
            .map(u64::to_le)
            .collect();
        assert_eq!(all, [1, 2, 3]);
        let to = Out::<u64>(packed.rest.as_mut_ptr().cast());
        assert_eq!(to.put_at(1, 7_u64.to_le()), Ok(()));
        assert_eq!(to.field::<u32>(20).put(u32::MAX), Ok(()));
        assert_eq!(packed.rest[8..16], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packed.rest[16..], [3, 0, 0, 0, 255, 255, 255, 255]);
        assert_eq!(packed.first, 0);
    }

    #[test]
    fn what_is_not_there_is_neither_read_nor_written() {
        let none = In::<u64>(std::ptr::null());
        assert_eq!(none.read(), Err(Errno::EINVAL));
        assert!(none.items(1).is_err());
        assert_eq!(none.items(0).map(Iterator::count), Ok(0));
        let none = Out::<u64>(std::ptr::null_mut());
        assert_eq!(none.put(1), Err(Errno::EINVAL));
        assert_eq!(none.field::<u32>(4).put(1), Err(Errno::EINVAL));
    }
}
