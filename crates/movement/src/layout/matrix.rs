//! The paths of the Go data movement. The tests of `datamover` carry out the same cases on a real file system.

/// The test matrix of the Go data movement. Columns: id; source beneath the storage; destination beneath the parent of
/// `dest`; path of the source's `job/data.out` or `job/job2/data3.out` after the copy. `*` stands for the index
/// directory.
pub(crate) const MATRIX: [(&str, &str, &str, &str); 29] = [
    ("file1", "/job/data.out", "dest", "dest/*/data.out"),
    ("file2", "/job/data.out", "dest/", "dest/*/data.out"),
    ("file2a", "/job/data.out", "dest/data.out", "dest/*/data.out"),
    ("file3", "/job/data.out", "dest/component", "dest/*/component"),
    ("file4", "/job/data.out", "dest/newdir/", "dest/newdir/*/data.out"),
    ("file5", "/job/data.out", "dest/newdir/component", "dest/newdir/*/component"),
    ("file6", "/job/data.out", "dest/newdir/newdir2/", "dest/newdir/newdir2/*/data.out"),
    ("file7", "/job/data.out", "dest/newdir/newdir2/component", "dest/newdir/newdir2/*/component"),
    ("dir1", "/job", "dest", "dest/*/job/data.out"),
    ("dir2", "/job/job2", "dest", "dest/*/job2/data3.out"),
    ("dir3", "/job", "dest/", "dest/*/job/data.out"),
    ("dir4", "/job/", "dest", "dest/*/data.out"),
    ("dir5", "/job/", "dest/", "dest/*/data.out"),
    ("dir6", "/job", "dest/newdir", "dest/newdir/*/job/data.out"),
    ("dir7", "/job", "dest/newdir/", "dest/newdir/*/job/data.out"),
    ("dir8", "/job/", "dest/newdir", "dest/newdir/*/data.out"),
    ("dir9", "/job/", "dest/newdir/", "dest/newdir/*/data.out"),
    ("dir10", "/job", "dest/newdir/newdir2", "dest/newdir/newdir2/*/job/data.out"),
    ("dir11", "/job", "dest/newdir/newdir2/", "dest/newdir/newdir2/*/job/data.out"),
    ("dir12", "/job/", "dest/newdir/newdir2", "dest/newdir/newdir2/*/data.out"),
    ("dir13", "/job/", "dest/newdir/newdir2/", "dest/newdir/newdir2/*/data.out"),
    ("root1", "", "dest", "dest/*/job/data.out"),
    ("root2", "/", "dest", "dest/*/job/data.out"),
    ("root3", "", "dest/", "dest/*/job/data.out"),
    ("root4", "/", "dest/", "dest/*/job/data.out"),
    ("root5", "", "dest/newdir", "dest/newdir/*/job/data.out"),
    ("root6", "/", "dest/newdir", "dest/newdir/*/job/data.out"),
    ("root7", "", "dest/newdir/", "dest/newdir/*/job/data.out"),
    ("root8", "/", "dest/newdir/", "dest/newdir/*/job/data.out"),
];
