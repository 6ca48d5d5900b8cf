//! Searches a running program's memory, environment, arguments and open files for secrets, and
//! lists the program's connections.

use std::{
    collections::BTreeSet,
    fmt, fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use anyhow::{Context, ensure};
use regex::bytes::Regex;

/// Number of bytes of memory that are read and searched at once.
const WINDOW: u64 = 4 << 20;

/// A text that only certain processes may have. Error messages show the secret's name, never the text.
#[derive(Clone)]
pub struct Secret {
    what: String,
    length: u64,
    pattern: Regex,
}

impl Secret {
    /// Creates a secret with the name `what`.
    ///
    /// # Panics
    /// When the text is so short that it would be found by chance.
    #[must_use]
    pub fn new(what: &str, text: &str) -> Self {
        assert!(text.len() >= 16, "{what} has {} bytes: any process holds that", text.len());
        let pattern = Regex::new(&regex::escape(text)).expect("an escaped text is a pattern");
        Self { what: what.to_owned(), length: text.len() as u64, pattern }
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("what", &self.what).finish_non_exhaustive()
    }
}

/// Returns every place in the process where the secret is.
///
/// # Errors
/// When the process cannot be inspected, since a failed search would prove nothing.
pub fn found_in(pid: u32, secret: &Secret) -> anyhow::Result<Vec<String>> {
    let mut places = Vec::new();
    for name in ["environ", "cmdline"] {
        let path = format!("/proc/{pid}/{name}");
        if secret.pattern.is_match(&fs::read(&path).with_context(|| path.clone())?) {
            places.push(path);
        }
    }
    for file in open_files(pid)? {
        // Skips open files that cannot be opened again by a path, such as sockets and pipes.
        if file.is_file() && secret.pattern.is_match(&fs::read(&file).unwrap_or_default()) {
            places.push(file.display().to_string());
        }
    }
    places.extend(in_memory(pid, secret)?);
    Ok(places)
}

fn in_memory(pid: u32, secret: &Secret) -> anyhow::Result<Vec<String>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("read the memory map")?;
    let memory = fs::File::open(format!("/proc/{pid}/mem")).context("open the memory")?;
    let (mut places, mut bytes_read) = (Vec::new(), 0);
    for region in maps.lines().filter_map(Region::read) {
        let mut at = region.start;
        while at < region.end {
            let length = usize::try_from(WINDOW.min(region.end - at))?;
            let mut window = vec![0; length];
            // Skips pages that cannot be read: the kernel's own pages, and pages beyond the end of a mapped file.
            let read = memory.read_at(&mut window, at).unwrap_or_default();
            bytes_read += read;
            if secret.pattern.is_match(&window[..read]) {
                places.push(format!("{at:x} {}", region.name));
            }
            // Windows overlap, so that a secret on the border between two windows is found.
            at += if region.end - at > WINDOW { WINDOW - secret.length } else { WINDOW };
        }
    }
    ensure!(bytes_read > 1 << 20, "of the memory of {pid} only {bytes_read} bytes could be read");
    Ok(places)
}

/// A readable part of a process's memory.
struct Region<'a> {
    start: u64,
    end: u64,
    name: &'a str,
}

impl<'a> Region<'a> {
    /// Parses a line of /proc/PID/maps: `start-end perms offset dev inode name`.
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let readable = fields.next()?.starts_with('r');
        let name = fields.nth(3).unwrap_or("anonymous");
        let number = |text| u64::from_str_radix(text, 16).ok();
        readable.then_some(Self { start: number(start)?, end: number(end)?, name })
    }
}

fn open_files(pid: u32) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).context("list the open files")?;
    // Skips a file that was closed after the directory was read.
    Ok(entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect())
}

/// Returns the peers of a process's TCP connections.
///
/// # Errors
/// When the process cannot be inspected.
pub fn connections(pid: u32) -> anyhow::Result<Vec<SocketAddr>> {
    let inodes: BTreeSet<String> = open_files(pid)?
        .iter()
        .filter_map(|file| {
            file.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)
        })
        .collect();
    let mut peers = Vec::new();
    for table in ["tcp", "tcp6"] {
        let path = format!("/proc/{pid}/net/{table}");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let own = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let own = own.filter(|fields| fields.get(9).is_some_and(|inode| inodes.contains(*inode)));
        peers.extend(own.filter_map(|fields| address(fields[2])).filter(|peer| peer.port() != 0));
    }
    Ok(peers)
}

/// Parses an address such as `0100007F:1F90`: the IP address as words in this machine's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let word = |at: usize| {
        u32::from_str_radix(words.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes)
    };
    let ip: IpAddr = if words.len() == 8 {
        Ipv4Addr::from(word(0)?).into()
    } else {
        let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
        Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_memory_is_found() {
        let held = format!("{}-{}", uuid::Uuid::new_v4(), std::process::id());
        let found = found_in(std::process::id(), &Secret::new("ours", &held)).unwrap();
        assert!(!found.is_empty());
        drop(held);
    }

    /// Searches another process: the searching process itself holds the secret.
    #[test]
    fn a_secret_in_the_environment_is_found_and_an_absent_one_is_not() {
        let held = uuid::Uuid::new_v4().to_string();
        let mut other =
            crate::program::command("sleep").arg("60").env("HELD", &held).spawn().unwrap();
        let look = |text: &str| found_in(other.id(), &Secret::new("a secret", text));
        // Waits until the program has started: before that, the child process still has the environment of its parent.
        let found = crate::program::until("sleep", std::time::Duration::from_secs(60), || {
            let found = look(&held)?;
            ensure!(found.iter().any(|place| place.ends_with("/environ")), "not yet");
            Ok(found)
        });
        let absent = look(&uuid::Uuid::new_v4().to_string());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(found.unwrap().iter().any(|place| place.contains("[stack]")));
        assert_eq!(absent.unwrap(), Vec::<String>::new());
    }

    #[test]
    fn lines_of_proc_maps_are_parsed_and_unreadable_regions_are_left_out() {
        let region = Region::read("7f00-8f00 r--p 00000000 00:00 0 /a/b").unwrap();
        assert_eq!((region.start, region.end, region.name), (0x7f00, 0x8f00, "/a/b"));
        assert!(Region::read("7f00-8f00 ---p 00000000 00:00 0").is_none());
    }

    #[test]
    fn addresses_of_proc_net_tcp_are_parsed() {
        let written = format!("{:08X}:1F90", u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(address(&written), Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(address("nonsense"), None);
    }

    #[test]
    fn a_connection_is_found_with_the_address_of_its_peer() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let found = connections(std::process::id()).unwrap();
        assert!(found.contains(&client.peer_addr().unwrap()), "{found:?}");
    }
}
