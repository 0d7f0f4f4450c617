//! From events to pages: what the probes do, in user space. For tests, benches and synthetic
//! recordings; the counterpart of [`crate::decode`].

mod body;
mod page;
mod slot;

pub use page::{EncodeError, PageWriter, in_kernel, put_header, write_header};
pub use slot::write_slot;
