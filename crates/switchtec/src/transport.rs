//! Accesses a switch through `/dev/switchtecN`: writes a command to the device and reads the answer
//! from it (Linux, `drivers/pci/switch/switchtec.c`).

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::fd::AsFd,
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::wire::PAYLOAD;

/// Access to one switch. Between a command and its answer, no other command is sent.
pub(super) trait Transport: Debug + Send {
    /// Sends a command word with `request`, reads the reply into `reply` and returns the return code. Unless the code
    /// is 0, `reply` has no meaning.
    fn exchange(
        &mut self,
        word: u32,
        request: &[u8],
        reply: &mut [u8],
        within: Duration,
    ) -> io::Result<u32>;
}

/// The devices of the switches. The kernel numbers the devices in the order in which it finds them, so a
/// name identifies no switch.
pub(super) trait Devices: Debug + Send + Sync {
    fn names(&self) -> io::Result<Vec<String>>;

    fn open(&self, name: &str) -> io::Result<Box<dyn Transport>>;
}

/// The devices of this node.
#[derive(Debug)]
pub(super) struct DeviceFiles(PathBuf);

impl DeviceFiles {
    /// Refers to the devices in `directory`, usually `/dev`.
    pub(super) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }
}

impl Devices for DeviceFiles {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("switchtec");
            if number.is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            }) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Transport>> {
        let file = OpenOptions::new().read(true).write(true).open(self.0.join(name))?;
        Ok(Box::new(DeviceFile(file)))
    }
}

#[derive(Debug)]
struct DeviceFile(File);

impl Transport for DeviceFile {
    fn exchange(
        &mut self,
        word: u32,
        request: &[u8],
        reply: &mut [u8],
        within: Duration,
    ) -> io::Result<u32> {
        let mut buffer = [0; PAYLOAD + 4];
        let sent = frame(&mut buffer, word, request)?;
        check_complete(self.0.write(sent)?, sent.len())?;
        // Wait here, with a deadline: the read below alone would wait for the switch without end.
        wait(&self.0, within)?;
        let received = buffer
            .get_mut(..reply.len() + 4)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        check_complete(self.0.read(received)?, received.len())?;
        let (code, data) = received.split_at(4);
        reply.copy_from_slice(data);
        Ok(u32::from_le_bytes([code[0], code[1], code[2], code[3]]))
    }
}

fn frame<'a>(buffer: &'a mut [u8], word: u32, request: &[u8]) -> io::Result<&'a [u8]> {
    let sent = buffer
        .get_mut(..request.len() + 4)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    sent[..4].copy_from_slice(&word.to_le_bytes());
    sent[4..].copy_from_slice(request);
    Ok(sent)
}

fn check_complete(done: usize, wanted: usize) -> io::Result<()> {
    if done == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn wait(file: &File, within: Duration) -> io::Result<()> {
    let until = Instant::now() + within;
    loop {
        let remaining = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(remaining).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) if remaining.is_zero() => {
                let text = format!("no answer within {} s", within.as_secs_f32());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixDatagram, thread};

    use super::*;

    /// A datagram socket takes the place of the device. As on the device, each read and each write transfers a whole
    /// message.
    fn pair() -> (DeviceFile, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        (DeviceFile(File::from(std::os::fd::OwnedFd::from(ours))), theirs)
    }

    #[test]
    fn exchange_writes_word_and_request_and_reads_code_and_reply() {
        let (mut device, switch) = pair();
        let answer = thread::spawn(move || {
            let mut got = [0; 64];
            let length = switch.recv(&mut got).unwrap();
            switch.send(&[0x06, 0x40, 0x06, 0x00, 7, 8]).unwrap();
            got[..length].to_vec()
        });
        let mut reply = [0; 2];
        let code = device.exchange(0x007c_0081, &[1, 2], &mut reply, Duration::from_secs(60));
        assert_eq!((code.unwrap(), reply), (0x64006, [7, 8]));
        assert_eq!(answer.join().unwrap(), [0x81, 0, 0x7c, 0, 1, 2]);
    }

    #[test]
    fn exchange_times_out_when_the_switch_does_not_answer() {
        let (mut device, _silent) = pair();
        let error = device.exchange(0x81, &[], &mut [], Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "no answer within 0.005 s");
    }

    #[test]
    fn exchange_rejects_a_request_that_is_too_long() {
        let (mut device, _switch) = pair();
        let sent = device.exchange(0x81, &[0; PAYLOAD + 1], &mut [], Duration::ZERO);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn only_device_names_with_a_number_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["switchtec1", "switchtec0", "switchtec", "switchtec-user", "sda"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let devices = DeviceFiles::new(directory.path().to_owned());
        assert_eq!(devices.names().unwrap(), ["switchtec0", "switchtec1"]);
        assert!(DeviceFiles::new("/nowhere".into()).names().is_err());
    }
}
