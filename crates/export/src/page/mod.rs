//! A recording as one page that anyone can open: a file of HTML that fetches nothing.
//!
//! [`model`] is what a page tells; [`html()`] makes the file of it. [`lane`] keeps the stretches of
//! a timeline, and [`words`] its texts, in bounded memory: so a page of any window has a few
//! megabytes. Who reads the recording fills them (`flightctl page`).

mod html;
pub mod lane;
pub mod model;
pub mod words;

pub use self::html::html;
