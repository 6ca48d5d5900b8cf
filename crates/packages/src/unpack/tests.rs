use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
};

use flate2::{Compression, write::GzEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;

/// An archive to which a test can add any entries, also invalid ones.
struct Hostile(Builder<Vec<u8>>);

impl Hostile {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds an entry. Does not check the entry's names.
    fn entry(mut self, kind: EntryType, path: &str, target: &str, data: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o6777);
        header.set_mtime(1_000_000_000);
        header.set_size(data.len() as u64);
        header.set_cksum();
        self.0.append(&header, data).unwrap();
        self
    }

    fn file(self, path: &str, data: &str) -> Self {
        self.entry(EntryType::Regular, path, "", data.as_bytes())
    }

    fn link(self, kind: EntryType, path: &str, target: &str) -> Self {
        self.entry(kind, path, target, &[])
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

struct Unpacked {
    directory: TempDir,
    done: Result<(), UnpackError>,
}

impl Unpacked {
    fn new(bytes: &[u8], limit: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let archive = directory.path().join("archive");
        fs::write(&archive, bytes).unwrap();
        let stop = watch::channel(false).1;
        let done = unpack(&archive, &directory.path().join("content"), limit, stop);
        Self { directory, done }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join("content").join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// Returns the number of files beside the archive and its directory, where no file should be.
    fn outside(&self) -> usize {
        fs::read_dir(self.directory.path()).unwrap().count() - 2
    }
}

const LARGE: u64 = 1 << 24;

fn good() -> Vec<u8> {
    Hostile::new()
        .link(EntryType::Directory, "./bin/", "")
        .file("./bin/run", "program")
        .file("lib/deep/data", "data")
        .link(EntryType::Symlink, "lib/link", "deep/data")
        .link(EntryType::Link, "again", "lib/deep/data")
        .bytes()
}

#[test]
fn plain_and_compressed_archives_become_the_same_directory() {
    let plain = good();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&plain).unwrap();
    // Two frames, and a skippable frame between the two.
    let (first, second) = plain.split_at(700);
    let frame = |part: &[u8]| compress_to_vec(part, CompressionLevel::Fastest);
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let zstd = [&frame(first)[..], &skipped, &frame(second)].concat();
    for archive in [&plain, &gzip.finish().unwrap(), &zstd] {
        let unpacked = Unpacked::new(archive, LARGE);
        unpacked.done.as_ref().unwrap();
        assert_eq!(unpacked.text("bin/run"), "program");
        assert_eq!(unpacked.text("lib/link"), "data");
        assert_eq!(unpacked.text("again"), "data");
        let program = fs::metadata(unpacked.at("bin/run")).unwrap();
        assert_eq!(
            program.permissions().mode() & 0o7777,
            0o755,
            "the setuid bit is dropped, and every user may read"
        );
        assert_eq!((program.mtime(), program.uid()), (1_000_000_000, 0));
    }
}

#[test]
fn entries_that_may_lead_out_of_the_archives_directory_are_refused_and_create_nothing_outside() {
    let none = Hostile::new;
    let archives = [
        none().file("/tmp/x", ""),
        none().file("../outside", ""),
        none().file("a/../../outside", ""),
        none().link(EntryType::Symlink, "l", "/etc"),
        none().link(EntryType::Symlink, "l", "../outside"),
        none().link(EntryType::Link, "l", "../archive"),
        none().link(EntryType::Link, "l", "/etc/passwd"),
        // `l` links to the directory `d`, so the later entry `l/y` would be created through a link.
        none().file("d/x", "").link(EntryType::Symlink, "l", "d").file("l/y", ""),
        none().file("d/x", "").link(EntryType::Symlink, "l", "d").link(
            EntryType::Directory,
            "l/y",
            "",
        ),
        none().file("f", "").file("f/y", ""),
        // The symbolic link `d/l` to `..` stays inside the archive's directory. A hard link `l` to it would lead
        // outside.
        none().link(EntryType::Symlink, "d/l", "..").link(EntryType::Link, "l", "d/l"),
        none().link(EntryType::Link, "l", "not/there"),
        none().file("x", "first").file("x", "second"),
        none().link(EntryType::Symlink, "x", "y").file("x", "through"),
        none().link(EntryType::Char, "null", ""),
        none().link(EntryType::Block, "disk", ""),
        none().link(EntryType::Fifo, "pipe", ""),
    ];
    for (index, archive) in archives.into_iter().enumerate() {
        let unpacked = Unpacked::new(&archive.bytes(), LARGE);
        let error = unpacked.done.as_ref().unwrap_err();
        assert!(matches!(error, UnpackError::Entry(_)), "{index}: {error:?}");
        assert!(error.is_final() && unpacked.outside() == 0, "{index}: {error}");
    }
}

#[test]
fn an_archive_that_exceeds_its_limit_is_refused() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 8 << 20];
    gzip.write_all(&Hostile::new().entry(EntryType::Regular, "zeros", "", &zeros).bytes()).unwrap();
    let bomb = gzip.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let refused = Unpacked::new(&bomb, 1 << 20);
    assert!(matches!(refused.done, Err(UnpackError::TooLarge(1_048_576))), "{:?}", refused.done);
    assert!(fs::metadata(refused.at("zeros")).unwrap().len() <= 1 << 20);
    Unpacked::new(&bomb, 9 << 20).done.unwrap();
}

#[test]
fn an_entry_with_a_name_of_megabytes_is_refused() {
    let name = vec![b'x'; 8 << 20];
    let archive = Hostile::new().entry(EntryType::GNULongName, "././@LongLink", "", &name);
    let refused = Unpacked::new(&archive.file("x", "").bytes(), LARGE);
    let Err(UnpackError::Archive(why)) = &refused.done else { panic!("{:?}", refused.done) };
    assert!(why.to_string().contains("1 MiB") || format!("{why:?}").contains("1 MiB"), "{why:?}");
    // Long names alone are allowed.
    let path = format!("{}/x", "long".repeat(50));
    let mut archive = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    archive.append_data(&mut header, &path, &b"x"[..]).unwrap();
    let unpacked = Unpacked::new(&archive.into_inner().unwrap(), LARGE);
    unpacked.done.as_ref().unwrap();
    assert_eq!(unpacked.text(&path), "x");
}

#[test]
fn a_broken_archive_is_refused() {
    let half = &good()[..1500];
    for broken in [
        &b"#!/bin/sh\necho no archive\n"[..],
        half,
        &[0x1f, 0x8b, 8, 0],
        &[0x28, 0xb5, 0x2f, 0xfd, 1],
    ] {
        let error = Unpacked::new(broken, LARGE).done.unwrap_err();
        assert!(matches!(error, UnpackError::Archive(_)), "{error:?}");
    }
}

#[test]
fn unpacking_ends_when_it_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("archive");
    fs::write(&archive, good()).unwrap();
    let stop = watch::channel(true).1;
    let done = unpack(&archive, &directory.path().join("content"), LARGE, stop);
    assert!(matches!(done, Err(UnpackError::Stopped)), "{done:?}");
}
