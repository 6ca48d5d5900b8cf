//! Creates trees with all types of entries, and compares trees.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File, FileTimes},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::site::{PREFIX, USER};

/// Creates a tree with all types of entries and names, owned by the user.
pub(crate) fn plant(root: &Path) {
    let file = |name: &[u8], content: &[u8]| {
        fs::write(root.join(OsStr::from_bytes(name)), content).unwrap();
    };
    file(b"empty", b"");
    file(b"-rf", b"a leading hyphen");
    file(b"new\nline", b"1");
    file(b"no \xff utf-8", b"2");
    file(&[b'n'; 255], b"the longest name");
    for (directory, count) in [("many", 300), ("deep/er/est", 3)] {
        fs::create_dir_all(root.join(directory)).unwrap();
        (0..count).for_each(|number: usize| {
            file(format!("{directory}/{number}").as_bytes(), &vec![7; number * 100]);
        });
    }
    let mut sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(8 << 30).unwrap();
    for at in [0, 5 << 30, (8 << 30) - 3] {
        sparse.seek(SeekFrom::Start(at)).unwrap();
        sparse.write_all(b"end").unwrap();
    }
    for (name, data) in [("only a hole", 0..0), ("a hole at the end", 0..9)] {
        file(name.as_bytes(), &vec![1; data.len()]);
        let holed = File::options().write(true).open(root.join(name)).unwrap();
        holed.set_len(1 << 20).unwrap();
    }
    let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take((5 << 20) + 17).collect();
    file(b"large", &noise);
    fs::hard_link(root.join("large"), root.join("deep/large too")).unwrap();
    fs::hard_link(root.join("-rf"), root.join("many/also")).unwrap();
    symlink("deep/er", root.join("link")).unwrap();
    symlink("/etc/shadow", root.join("link out")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(root.join("closed")).unwrap();
    file(b"closed/file", b"in a directory without the right to write");
    own(root);
    for (name, mode) in
        [("closed", 0o555), ("closed/file", 0o400), ("empty", 0o6755), ("deep", 0o2750)]
    {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for name in ["deep/er", "large"] {
        File::open(root.join(name)).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
    }
}

/// Makes the user the owner of a directory and everything beneath it.
pub(crate) fn own(root: &Path) {
    lchown(root, Some(USER), Some(USER)).unwrap();
    for path in entries(root) {
        lchown(root.join(path), Some(USER), Some(USER)).unwrap();
    }
}

/// Returns the paths of all entries, relative to the root. Does not follow links.
pub(crate) fn entries(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let Ok(listed) = fs::read_dir(root.join(&directory)) else { continue };
        for entry in listed {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                directories.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

/// Returns the paths of temporary files beneath a directory.
pub(crate) fn temporary_files(root: &Path) -> Vec<PathBuf> {
    let is_temporary =
        |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(PREFIX.as_bytes());
    entries(root).into_iter().filter(is_temporary).collect()
}

/// The attributes of an entry that are compared.
#[derive(Debug, PartialEq)]
struct Attributes {
    mode: u32,
    owner: (u32, u32),
    modified: Option<(i64, i64)>,
    size: u64,
    names: Option<u64>,
    content: Vec<u8>,
}

fn read_attributes(path: &Path) -> Attributes {
    let metadata = fs::symlink_metadata(path).unwrap();
    let kind = metadata.file_type();
    let content = if kind.is_symlink() {
        fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()
    } else if kind.is_file() {
        digest(path)
    } else {
        Vec::new()
    };
    Attributes {
        mode: metadata.mode(),
        owner: (metadata.uid(), metadata.gid()),
        modified: Some((metadata.mtime(), metadata.mtime_nsec())),
        size: if kind.is_dir() { 0 } else { metadata.len() },
        names: (!kind.is_dir()).then(|| metadata.nlink()),
        content,
    }
}

/// Returns a file's data without holes: offset and content of each range of data.
fn digest(path: &Path) -> Vec<u8> {
    let mut file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let (mut at, mut digest) = (0, Vec::new());
    while at < size {
        let Ok(begin) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(begin)).unwrap();
        file.seek(SeekFrom::Start(begin)).unwrap();
        let mut data = Vec::new();
        (&mut file).take(end - begin).read_to_end(&mut data).unwrap();
        // Trailing zeroes are ignored: the file system may allocate more than was written.
        let significant = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if significant > 0 {
            digest.extend(begin.to_le_bytes());
            digest.extend(&data[..significant]);
        }
        at = end;
    }
    digest
}

fn attributes_by_path(root: &Path) -> BTreeMap<PathBuf, Attributes> {
    let with_attributes = |path: PathBuf| (path.clone(), read_attributes(&root.join(path)));
    entries(root).into_iter().map(with_attributes).collect()
}

/// Compares two trees by content, mode, owner, times and number of names.
pub(crate) fn assert_same(source: &Path, copy: &Path) {
    let (source, copy) = (attributes_by_path(source), attributes_by_path(copy));
    assert!(source.keys().eq(copy.keys()), "{:?}\n{:?}", source.keys(), copy.keys());
    for (path, attributes) in &source {
        let shown = |attributes: &Attributes| {
            format!(
                "{:o} {:?} {:?} {} {:?}",
                attributes.mode,
                attributes.owner,
                attributes.modified,
                attributes.size,
                attributes.names
            )
        };
        assert!(
            copy[path] == *attributes,
            "{}: {} became {}",
            path.display(),
            shown(attributes),
            shown(&copy[path])
        );
    }
}

/// Checks that every file that is not temporary is complete.
pub(crate) fn assert_files_complete(source: &Path, copy: &Path) {
    for path in entries(copy) {
        let name = path.file_name().unwrap().as_bytes();
        if name.starts_with(PREFIX.as_bytes()) || copy.join(&path).is_dir() {
            continue;
        }
        let (original, copied) =
            (read_attributes(&source.join(&path)), read_attributes(&copy.join(&path)));
        assert_eq!(copied.size, original.size, "{}", path.display());
        assert!(copied.content == original.content, "{} is incomplete", path.display());
    }
}
