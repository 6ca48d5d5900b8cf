use std::sync::{Arc, Mutex};

use super::*;

/// Records the commands, and answers with an empty page.
#[derive(Debug, Default, Clone)]
struct RecordingQueue(Arc<Mutex<Vec<Sent>>>);

type Sent = (Command, Vec<u8>);

impl AdminQueue for RecordingQueue {
    fn submit(&self, command: Command, data: &mut [u8]) -> Answered<u32> {
        self.0.lock().unwrap().push((command, data.to_vec()));
        Ok(5)
    }

    fn reset(&self) -> Answered<()> {
        Ok(())
    }
}

fn sent(ask: impl FnOnce(&Admin)) -> Sent {
    let queue = RecordingQueue::default();
    ask(&Admin::new(Box::new(queue.clone())));
    queue.0.lock().unwrap().pop().unwrap()
}

#[test]
fn commands_have_the_layout_of_the_specification() {
    let words = |ask: fn(&Admin)| {
        let (command, _) = sent(ask);
        (command.opcode, command.nsid, command.cdw10, command.cdw11)
    };
    assert_eq!(words(|admin| drop(admin.allocated())), (0x06, 0, 0x10, 0));
    assert_eq!(words(|admin| drop(admin.common())), (0x06, 0xffff_ffff, 0x00, 0));
    assert_eq!(words(|admin| drop(admin.attached_controllers(3))), (0x06, 3, 0x12, 0));
    assert_eq!(words(|admin| admin.delete(7).unwrap()), (0x0d, 7, 1, 0));
    assert_eq!(words(|admin| admin.attach(7, 2).unwrap()), (0x15, 7, 0, 0));
    assert_eq!(words(|admin| admin.detach(7, 2).unwrap()), (0x15, 7, 1, 0));
    assert_eq!(words(|admin| drop(admin.smart())), (0x02, u32::MAX, 0x007f_8002, 0));
    assert_eq!(words(|admin| drop(admin.supports(0x0d))), (0x02, u32::MAX, 0x03ff_8005, 0));
    let cryptographic: fn(&Admin) = |admin| admin.format(7, 4, Erase::Cryptographic).unwrap();
    assert_eq!(words(cryptographic), (0x80, 7, 0x404, 0));
    assert_eq!(words(|admin| admin.format(7, 4, Erase::UserData).unwrap()), (0x80, 7, 0x204, 0));
    let assign: fn(&Admin) =
        |admin| admin.virtualize(3, Virtualization::Assign(Resource::Interrupts, 2)).unwrap();
    assert_eq!(words(assign), (0x1c, 0, 0x0003_0108, 2));
    let online: fn(&Admin) = |admin| admin.virtualize(17, Virtualization::Online).unwrap();
    assert_eq!(words(online), (0x1c, 0, 0x0011_0009, 0));
    let primary: fn(&Admin) =
        |admin| admin.virtualize(0, Virtualization::Primary(Resource::Queues, 0)).unwrap();
    assert_eq!(words(primary), (0x1c, 0, 0x0000_0001, 0));
}

#[test]
fn an_erasure_has_the_longest_timeout() {
    let (format, _) = sent(|admin| admin.format(7, 4, Erase::UserData).unwrap());
    let (delete, _) = sent(|admin| admin.delete(7).unwrap());
    assert_eq!((format.timeout, delete.timeout), (ERASE, SLOW));
}

#[test]
fn create_allocates_all_blocks_and_lets_several_controllers_share_the_namespace() {
    let (command, data) = sent(|admin| assert_eq!(admin.create(131_072, 4).unwrap(), 5));
    assert_eq!((command.opcode, command.nsid, command.cdw10), (0x0d, 0, 0));
    assert_eq!(data[..16], [131_072_u64.to_le_bytes(), 131_072_u64.to_le_bytes()].concat());
    assert_eq!((data[26], data[29], data[30]), (4, 0, 1), "FLBAS, DPS, NMIC");
}

#[test]
fn attach_names_exactly_one_controller() {
    let (_, data) = sent(|admin| admin.attach(7, 0x1234).unwrap());
    assert_eq!((data.len(), &data[..6]), (4096, &[1, 0, 0x34, 0x12, 0, 0][..]));
}
