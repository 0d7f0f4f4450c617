//! Addresses of sockets that the kernel tells a program: how much of one it wrote.
//!
//! The program gives room for an address; the kernel writes no more than that, and returns how long
//! the address is, which may be more. What follows the room in the program's memory is no address.
//! So the address that an exit has is cut to the room that the entry gave; where the entry was not
//! read, the address is left out.

use flightrec_format::abi::pointee::{HEAD, Shape};
use flightrec_format::decode::{Call, Text};

/// The room that an entry gives; `None`: not recorded, or there is none to give.
#[inline]
pub(super) fn room(entry: &Call) -> Option<u32> {
    let mut pointees = entry.strings.iter().filter_map(Text::pointee);
    let is_room = |shape: Shape| matches!(shape, Shape::Room | Shape::MessageRoom);
    let (_, _, bytes) = pointees.find(|(shape, told, _)| !told && is_room(*shape))?;
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Cuts the address that an exit tells to the room that its entry gave for it.
pub(super) fn cut(exit: &mut Call, room: Option<u32>) {
    exit.strings.retain_mut(|text| {
        let Some((Shape::SocketAddress, true, bytes)) = text.pointee() else { return true };
        let Some(room) = room.and_then(|room| usize::try_from(room).ok()) else { return false };
        if room < bytes.len() {
            text.bytes = text.bytes.iter().take(HEAD + room).copied().collect();
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::pointee::{INDEX, head};
    use flightrec_format::abi::record::StringStatus;

    use super::*;
    use crate::pipeline::testing::call;

    fn text(index: u8, shape: Shape, told: bool, bytes: &[u8]) -> Text {
        let bytes = [&head(shape as u32, told).to_le_bytes()[..], bytes].concat();
        Text { index: INDEX + index, status: StringStatus::Whole, bytes: bytes.into() }
    }

    fn with(strings: Vec<Text>) -> Call {
        Call { strings, ..call(1) }
    }

    #[test]
    fn an_entry_gives_room() {
        let of = |text| room(&with(vec![text]));
        assert_eq!(of(text(2, Shape::Room, false, &[8, 0, 0, 0])), Some(8));
        assert_eq!(of(text(1, Shape::MessageRoom, false, &[0, 1, 0, 0])), Some(256));
        assert_eq!(of(text(2, Shape::Room, false, &[8])), None, "forged");
        assert_eq!(of(text(2, Shape::Int, true, &[8, 0, 0, 0])), None);
    }

    #[test]
    fn what_the_kernel_did_not_write_is_no_address() {
        let address = |bytes: &[u8]| text(1, Shape::SocketAddress, true, bytes);
        let left = |room| {
            let mut exit = with(vec![address(&[1; 28]), text(2, Shape::Int, true, &[28, 0, 0, 0])]);
            cut(&mut exit, room);
            exit.strings.iter().map(|text| text.pointee().unwrap().2.len()).collect::<Vec<_>>()
        };
        assert_eq!(left(Some(128)), [28, 4]);
        assert_eq!(left(Some(8)), [8, 4]);
        assert_eq!(left(Some(0)), [0, 4]);
        assert_eq!(left(None), [4], "nobody knows how much of it was written");
        let mut given = with(vec![text(1, Shape::SocketAddress, false, &[1; 28])]);
        cut(&mut given, None);
        assert_eq!(given.strings.len(), 1, "the program's own");
    }
}
