//! Records every command to the switches, with its reply, in a file that tests can replay.
//!
//! ```text
//! switchtec0 007c0081 - 4 = 00000000 01000000        device, word, request, bytes of the reply, code, reply
//! switchtec0 007c001c 0000000000000000 720 ! timed out
//! ```
//! The file contains serial numbers of drives, but no user data.

use std::{
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

#[cfg(test)]
use super::command::Command;
use super::transport::{Devices, Transport};

/// Devices that record their exchanges.
#[derive(Debug)]
pub(super) struct Recorded {
    devices: Box<dyn Devices>,
    record: Arc<Mutex<Record>>,
}

#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
    /// Whether the last line could not be written.
    has_gap: bool,
}

impl Recorded {
    /// Returns devices that record every exchange of `devices` in the file at `path`.
    pub(super) fn new(devices: Box<dyn Devices>, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let record = Record { path: path.to_owned(), file, has_gap: false };
        Ok(Self { devices, record: Arc::new(Mutex::new(record)) })
    }
}

impl Record {
    /// Appends a line. Warns about the first of several failed writes only, because the disk may be full for thousands
    /// of commands.
    fn add(&mut self, line: &str) {
        let written = self.file.write_all(line.as_bytes());
        if let (Err(error), false) = (&written, self.has_gap) {
            let path = self.path.display();
            log::warn!("{path}: exchanges with the switches are not recorded: {error}");
        }
        self.has_gap = written.is_err();
    }
}

impl Devices for Recorded {
    fn names(&self) -> io::Result<Vec<String>> {
        self.devices.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Transport>> {
        let transport = self.devices.open(name)?;
        let record = Arc::clone(&self.record);
        Ok(Box::new(Recording { name: name.to_owned(), transport, record }))
    }
}

#[derive(Debug)]
struct Recording {
    name: String,
    transport: Box<dyn Transport>,
    record: Arc<Mutex<Record>>,
}

impl Transport for Recording {
    fn exchange(
        &mut self,
        word: u32,
        request: &[u8],
        reply: &mut [u8],
        within: Duration,
    ) -> io::Result<u32> {
        let answer = self.transport.exchange(word, request, reply, within);
        let command = line(&self.name, word, request, reply.len());
        let line = match &answer {
            Ok(code) => format!("{command} = {code:08x} {}\n", hex(reply)),
            Err(error) => format!("{command} ! {error}\n"),
        };
        self.record.lock().add(&line);
        answer
    }
}

fn line(device: &str, word: u32, request: &[u8], reply_length: usize) -> String {
    format!("{device} {word:08x} {} {reply_length}", hex(request))
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A write to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
pub(super) mod replay {
    //! Replays a record in place of the devices. Every command must be the next command of the record; any other
    //! command is an error. The only exception is the command that reads the PAX id: it is allowed at any time, because
    //! every search for a switch sends it to all devices.

    use std::collections::{BTreeMap, VecDeque};

    use super::*;

    #[derive(Debug, Clone)]
    pub(crate) struct Replayed(Arc<Mutex<BTreeMap<String, Lines>>>);

    #[derive(Debug, Default)]
    struct Lines {
        pax: Option<String>,
        rest: VecDeque<String>,
    }

    impl Replayed {
        pub(crate) fn new(record: &str) -> Self {
            let mut devices: BTreeMap<String, Lines> = BTreeMap::new();
            for line in record.lines() {
                let (name, exchange) = line.split_once(' ').unwrap();
                let lines = devices.entry(name.to_owned()).or_default();
                if exchange.starts_with(&format!("{:08x} ", Command::PaxId.word())) {
                    lines.pax = Some(line.to_owned());
                } else {
                    lines.rest.push_back(line.to_owned());
                }
            }
            Self(Arc::new(Mutex::new(devices)))
        }

        /// Returns the number of the record's exchanges that were not replayed.
        pub(crate) fn unreplayed(&self) -> usize {
            self.0.lock().values().map(|lines| lines.rest.len()).sum()
        }
    }

    impl Devices for Replayed {
        fn names(&self) -> io::Result<Vec<String>> {
            Ok(self.0.lock().keys().cloned().collect())
        }

        fn open(&self, name: &str) -> io::Result<Box<dyn Transport>> {
            Ok(Box::new(Replaying { name: name.to_owned(), record: self.clone() }))
        }
    }

    #[derive(Debug)]
    struct Replaying {
        name: String,
        record: Replayed,
    }

    impl Transport for Replaying {
        fn exchange(
            &mut self,
            word: u32,
            request: &[u8],
            reply: &mut [u8],
            _: Duration,
        ) -> io::Result<u32> {
            let command = line(&self.name, word, request, reply.len());
            let mut devices = self.record.0.lock();
            let is_pax_id = word == Command::PaxId.word();
            let next = devices.get_mut(&self.name);
            let next =
                next.and_then(
                    |lines| if is_pax_id { lines.pax.clone() } else { lines.rest.pop_front() },
                );
            let next = next.ok_or_else(|| deviates("the end of the record", &command))?;
            if let Some(answer) = next.strip_prefix(&format!("{command} = ")) {
                let (code, bytes) = answer.split_once(' ').unwrap();
                reply.copy_from_slice(&unhex(bytes));
                return Ok(u32::from_str_radix(code, 16).unwrap());
            }
            match next.strip_prefix(&format!("{command} ! ")) {
                Some(error) => Err(io::Error::other(error.to_owned())),
                None => Err(deviates(&next, &command)),
            }
        }
    }

    fn deviates(recorded: &str, command: &str) -> io::Error {
        let text = format!("the record has {recorded:?} here, not {command:?}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digits = text.trim_matches('-').as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{replay::Replayed, *};

    const RECORD: &str = "\
        switchtec0 007c0081 - 4 = 00000000 01000000\n\
        switchtec0 007c008e 0102 0 = 00064006 -\n\
        switchtec0 007c001c - 2 ! no answer within 5 s\n";

    fn exchange(
        device: &mut dyn Transport,
        word: u32,
        request: &[u8],
        reply: &mut [u8],
    ) -> io::Result<u32> {
        device.exchange(word, request, reply, Duration::ZERO)
    }

    #[test]
    fn recording_a_replay_writes_the_same_record_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switches");
        let replayed = Replayed::new(RECORD);
        let devices = Recorded::new(Box::new(replayed.clone()), &path).unwrap();
        let mut device = devices.open(&devices.names().unwrap()[0]).unwrap();
        let mut pax = [0; 4];
        assert_eq!(exchange(&mut *device, 0x007c_0081, &[], &mut pax).unwrap(), 0);
        assert_eq!(pax, [1, 0, 0, 0]);
        assert_eq!(exchange(&mut *device, 0x007c_008e, &[1, 2], &mut []).unwrap(), 0x64006);
        assert!(exchange(&mut *device, 0x007c_001c, &[], &mut [0; 2]).is_err());
        assert_eq!(replayed.unreplayed(), 0);
        assert_eq!(std::fs::read_to_string(path).unwrap(), RECORD);
    }

    #[test]
    fn a_deviating_command_fails_with_the_recorded_line() {
        for (word, request, reply_length) in [
            (0x007c_008f, &[1, 2][..], 0),
            (0x007c_008e, &[1][..], 0),
            (0x007c_008e, &[1, 2][..], 1),
        ] {
            let mut device = Replayed::new(RECORD).open("switchtec0").unwrap();
            let error =
                exchange(&mut *device, word, request, &mut vec![0; reply_length]).unwrap_err();
            assert!(error.to_string().contains("007c008e 0102 0 = "), "{error}");
        }
        let mut device = Replayed::new("").open("switchtec0").unwrap();
        assert!(exchange(&mut *device, 0x81, &[], &mut []).is_err(), "the record is at its end");
    }
}
