//! The list of devices.

use crate::prelude::*;
use roce_verbs::device::devices;
use roce_verbs::settings::report_environment;
use std::ffi::c_char;

/// A device. It is never freed: programs keep devices longer than the list that contained them, and
/// compare them by address.
#[repr(C)]
pub(crate) struct Device {
    c: CPart<IbvDevice>,
    /// The field that vendor libraries use to recognise their devices.
    _driver: CPart<*const c_void>,
    pub(crate) name: String,
    /// The index of its interface.
    pub(crate) index: u32,
    pub(crate) guid: u64,
}

// SAFETY: `c` is the first field.
unsafe impl Part for IbvDevice {
    type Object = Device;
    const OUTLIVES_FORK: bool = true;
}

/// All devices listed since the process started.
static KNOWN: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

/// A text as a C array, truncated if it is too long.
pub(crate) fn c_text<const N: usize>(text: &str) -> [c_char; N] {
    let mut to = [0; N];
    for (to, from) in to.iter_mut().zip(text.bytes().take(N - 1)) {
        *to = c_char::from_ne_bytes([from]);
    }
    to
}

impl Device {
    fn new(device: &roce_verbs::Device) -> Self {
        let name = device.name();
        let index = device.interface().index;
        let uverbs = format!("uverbs{index}");
        Self {
            c: CPart::new(IbvDevice {
                _ops: [std::ptr::null(); 2],
                node_type: int(NODE_CA),
                transport_type: int(TRANSPORT_IB),
                name: c_text(&name),
                dev_name: c_text(&uverbs),
                dev_path: c_text(&format!("/sys/class/infiniband_verbs/{uverbs}")),
                ibdev_path: c_text(&format!("/sys/class/infiniband/{name}")),
            }),
            _driver: CPart::new(std::ptr::null()),
            index,
            guid: device.guid(),
            name,
        }
    }

    /// The object of a device. It is created when the device is listed for the first time.
    pub(crate) fn find_or_create(device: &roce_verbs::Device) -> &'static Self {
        let mut known = KNOWN.lock();
        let (name, index) = (device.name(), device.interface().index);
        let before = known.iter().find(|d| d.index == index && d.name == name);
        if let Some(found) = before {
            return found;
        }
        let new: &'static Self = Box::leak(Box::new(Self::new(device)));
        known.push(new);
        new
    }
}

/// `ibv_get_device_list`: an array that ends with NULL.
pub(crate) extern "C" fn get_device_list(count: Out<c_int>) -> *mut Handle<IbvDevice> {
    guard::pointer("ibv_get_device_list", || {
        count.put_if_not_null(0);
        report_environment();
        let devices = devices().or_errno()?;
        let found = devices.iter().map(Device::find_or_create);
        null_terminated(found.map(Handle::of).collect(), count)
    })
}

/// An array of handles that ends with NULL, and `count` of them. C frees it by `free`.
pub(crate) fn null_terminated<C>(
    handles: Vec<Handle<C>>,
    count: Out<c_int>,
) -> Result<*mut Handle<C>, Errno> {
    // SAFETY: calloc may be called at any time.
    let array = unsafe { libc::calloc(handles.len() + 1, size_of::<Handle<C>>()) };
    if array.is_null() {
        return Err(Errno::ENOMEM);
    }
    count.put_if_not_null(int(handles.len()));
    let list = Out::allocated(array.cast());
    for (index, handle) in handles.into_iter().enumerate() {
        list.put_at(index, handle)?;
    }
    Ok(array.cast())
}

pub(crate) extern "C" fn free_device_list(list: *mut c_void) {
    // SAFETY: the list is NULL, or `get_device_list` allocated it with `calloc`.
    unsafe { libc::free(list) };
}

pub(crate) extern "C" fn get_device_name(device: Handle<IbvDevice>) -> Text {
    guard::pointer("ibv_get_device_name", || {
        let part = device.get()?.c.as_ptr();
        // SAFETY: devices are never freed.
        Ok(unsafe { &raw mut (*part).name }.cast::<c_char>())
    })
}

/// `ibv_get_device_guid`, in network byte order.
pub(crate) extern "C" fn get_device_guid(device: Handle<IbvDevice>) -> u64 {
    guard::value("ibv_get_device_guid", 0, || Ok(device.get()?.guid.to_be()))
}

pub(crate) extern "C" fn get_device_index(device: Handle<IbvDevice>) -> c_int {
    guard::value("ibv_get_device_index", -1, || Ok(int(device.get()?.index)))
}
