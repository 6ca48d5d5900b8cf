//! Compares the sizes of the structures and the offsets of their fields with the sources of the layouts.

use std::mem::{offset_of, size_of};

use zerocopy::FromZeros;

use super::{super::wire_dump::*, *};

#[test]
fn every_structure_has_the_size_that_the_sources_send() {
    for (found, expected) in [
        (size_of::<PaxIdReply>(), 4),
        (size_of::<LinkStatusRequest>(), 8),
        (size_of::<LinkEntry>(), 12),
        (size_of::<LinkStatusReply>(), 720),
        (size_of::<DumpRequest>(), 8),
        (size_of::<DumpStarted>(), 8),
        (size_of::<DumpGet>(), 12),
        (size_of::<DumpPiece>(), PAYLOAD),
        (size_of::<SectionHead>(), 12),
        (size_of::<PortHead>(), 8),
        (size_of::<AttachmentHead>(), 8),
        (size_of::<FunctionEntry>(), 36),
        (size_of::<BindRequest>(), 36),
        (size_of::<UnbindRequest>(), 8),
        (size_of::<TunnelRequest>(), 8),
        (size_of::<TunnelReply>(), 8),
        (size_of::<RegisterRequest>(), 8),
        (size_of::<RegisterWrite>(), 12),
        (size_of::<PassStart>(), PAYLOAD),
        (size_of::<PassStarted>(), 4),
        (size_of::<PassNext>(), 8),
        (size_of::<PassPiece>(), PAYLOAD),
        (size_of::<Submission>(), 64),
        (size_of::<Completion>(), 16),
        (PASS_MOST, 4160),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn every_field_has_the_offset_that_the_sources_give() {
    for (found, expected) in [
        (offset_of!(LinkEntry, configured_width), 4),
        (offset_of!(LinkEntry, rate), 7),
        (offset_of!(LinkEntry, ltssm), 8),
        (offset_of!(DumpPiece, data), 12),
        (offset_of!(SectionHead, dwords), 4),
        (offset_of!(PortHead, dwords), 4),
        (offset_of!(AttachmentHead, dwords), 4),
        (offset_of!(FunctionEntry, kind), 4),
        (offset_of!(FunctionEntry, bound), 8),
        (offset_of!(FunctionEntry, bound_logical), 11),
        (offset_of!(FunctionEntry, class), 20),
        (offset_of!(BindRequest, functions), 4),
        (offset_of!(UnbindRequest, option), 6),
        (offset_of!(TunnelRequest, expected), 4),
        (offset_of!(RegisterRequest, address), 4),
        (offset_of!(RegisterRequest, length), 6),
        (offset_of!(PassStart, pdfid), 4),
        (offset_of!(PassStart, expected), 6),
        (offset_of!(PassStart, more), 8),
        (offset_of!(PassStart, offset), 12),
        (offset_of!(PassStart, length), 14),
        (offset_of!(PassNext, pdfid), 4),
        (offset_of!(PassNext, offset), 6),
        (offset_of!(PassPiece, data), 4),
        (offset_of!(Submission, nsid), 4),
        (offset_of!(Submission, cdw10), 40),
        (offset_of!(Completion, status), 14),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn numbers_are_little_endian() {
    let mut request = TunnelRequest::new_zeroed();
    request.subcommand = TUNNEL_STATUS.into();
    request.pdfid = 0x1200.into();
    request.expected = 4.into();
    assert_eq!(request.as_bytes(), [2, 0, 0x00, 0x12, 4, 0, 0, 0]);
    assert_eq!(of_24([0xa9, 0x01, 0]), 0x1a9);
}
