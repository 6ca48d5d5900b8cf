use std::mem::{offset_of, size_of};

use super::*;

/// Size of every Identify data structure, in bytes.
const PAGE: usize = 4096;

/// Returns a page that has these bytes at these offsets, which are taken from the figures of the specification.
fn page(bytes: &[(usize, &[u8])]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    for (at, bytes) in bytes {
        page[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    page
}

#[test]
fn every_structure_has_its_specified_size() {
    assert_eq!(size_of::<IdentifyController>(), PAGE);
    assert_eq!(size_of::<IdentifyNamespace>(), PAGE);
    assert_eq!(size_of::<NamespaceList>(), PAGE);
    assert_eq!(size_of::<ControllerList>(), PAGE);
    assert_eq!(size_of::<PrimaryCapabilities>(), PAGE);
    assert_eq!(size_of::<SecondaryList>(), PAGE);
    assert_eq!(size_of::<CommandEffects>(), PAGE);
    assert_eq!(size_of::<SmartLog>(), 512);
    assert_eq!(offset_of!(SmartLog, used), 5);
    assert_eq!(offset_of!(SmartLog, spare), 3);
    assert_eq!(offset_of!(SmartLog, unsafe_shutdowns), 144);
    assert_eq!(offset_of!(SmartLog, media_errors), 160);
    assert_eq!(size_of::<PassthroughCommand>(), 72);
    assert_eq!(offset_of!(PassthroughCommand, cdw10), 40);
    assert_eq!(offset_of!(PassthroughCommand, result), 68);
}

#[test]
fn identify_controller_has_the_layout_of_figure_275() {
    let page = page(&[
        (4, b"S4XBNX0R700042      "),
        (24, b"SAMSUNG MZ3LO1T9HCJR"),
        (64, b"1TCRS104"),
        (78, &[0x41, 0x00]),
        (256, &[0x1e, 0x00]),
        (266, &[0x57, 0x01, 0x61, 0x01]),
        (280, &1_920_383_410_176_u128.to_le_bytes()),
        (296, &4096_u128.to_le_bytes()),
        (516, &[0x20, 0, 0, 0]),
        (524, &[0x04]),
        (768, b"nqn.2019-08.org.qemu:drive0\0"),
    ]);
    let read = IdentifyController::ref_from_bytes(&page).unwrap();
    assert_eq!(text(&read.serial), "S4XBNX0R700042");
    assert_eq!(text(&read.model), "SAMSUNG MZ3LO1T9HCJR");
    assert_eq!(text(&read.firmware), "1TCRS104");
    assert_eq!(text(&read.nqn), "nqn.2019-08.org.qemu:drive0");
    assert_eq!((read.controller.get(), read.limit()), (0x41, Some(32)));
    assert_eq!((read.warm.get(), read.too_warm.get()), (273 + 70, 273 + 80));
    assert_eq!((read.total.get(), read.unallocated.get()), (1_920_383_410_176, 4096));
    assert_eq!(read.admin_commands.get() & NAMESPACE_MANAGEMENT, NAMESPACE_MANAGEMENT);
    assert_eq!(read.format & CRYPTOGRAPHIC_ERASE, CRYPTOGRAPHIC_ERASE);
}

#[test]
fn limit_returns_mnan_or_if_mnan_is_zero_nn() {
    let limit = |nn: u8, mnan: u8| {
        let page = page(&[(516, &[nn, 1, 0, 0]), (540, &[mnan, 0, 0, 0])]);
        IdentifyController::ref_from_bytes(&page).unwrap().limit()
    };
    assert_eq!((limit(0x20, 16), limit(0x20, 0)), (Some(16), Some(0x120)));
    assert_eq!(IdentifyController::ref_from_bytes(&page(&[])).unwrap().limit(), None);
}

#[test]
fn identify_namespace_has_the_layout_of_figure_97() {
    let nguid = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
    let page = page(&[
        (0, &131_072_u64.to_le_bytes()),
        (8, &131_072_u64.to_le_bytes()),
        (16, &7_u64.to_le_bytes()),
        (25, &[7]),
        (26, &[4]),
        (30, &[1]),
        (33, &[0b1001]),
        (104, &nguid),
        (128, &[0, 0, 9, 2]),
        (128 + 4 * 4, &[0, 0, 12, 0]),
        (128 + 4 * 5, &[8, 0, 12, 1]),
    ]);
    let read = IdentifyNamespace::ref_from_bytes(&page).unwrap();
    let sizes = (read.size.get(), read.capacity.get(), read.used.get());
    assert_eq!(sizes, (131_072, 131_072, 7));
    assert_eq!((read.formats, read.format, read.sharing & SHARED), (7, 4, 1));
    assert_eq!(read.deallocation & DEALLOCATED_READ, DEALLOCATED_IS_ZERO);
    assert_eq!(read.nguid, nguid);
    let formats = [0, 4, 5].map(|at: usize| {
        let format = read.format_list[at];
        (format.metadata.get(), format.power, format.performance)
    });
    assert_eq!(formats, [(0, 9, 2), (0, 12, 0), (8, 12, 1)]);
}

#[test]
fn lists_of_namespaces_and_controllers_are_read() {
    let list = page(&[(0, &[1, 0, 0, 0]), (4, &[0, 1, 0, 0])]);
    let NamespaceList(ids) = NamespaceList::ref_from_bytes(&list).unwrap();
    assert_eq!([ids[0].get(), ids[1].get(), ids[2].get()], [1, 256, 0]);

    let list = page(&[(0, &[2, 0]), (2, &[1, 0]), (4, &[0x11, 1])]);
    let read = ControllerList::ref_from_bytes(&list).unwrap();
    assert_eq!(read.count.get(), 2);
    assert_eq!([read.controllers[0].get(), read.controllers[1].get()], [1, 0x111]);
}

#[test]
fn secondary_controllers_and_their_primary_are_read() {
    let list = page(&[(0, &[17]), (32 + 32, &[2, 0, 0x41, 0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0])]);
    let read = SecondaryList::ref_from_bytes(&list).unwrap();
    let second = read.entries[1];
    assert_eq!(read.count, 17);
    assert_eq!((second.controller.get(), second.primary.get(), second.state), (2, 0x41, 1));
    let resources = (second.queues.get(), second.interrupts.get());
    assert_eq!((second.function.get(), resources), (2, (3, 4)));

    let capabilities = page(&[(0, &[0x41, 0]), (40, &[34, 0]), (72, &[33, 0])]);
    let read = PrimaryCapabilities::ref_from_bytes(&capabilities).unwrap();
    assert_eq!(read.controller.get(), 0x41);
    assert_eq!((read.queues_at_primary.get(), read.interrupts_at_primary.get()), (34, 33));
}
