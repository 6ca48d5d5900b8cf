//! Writes files as a kubelet puts them into pods.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
};

use super::{
    Scene,
    host::{address, command},
    plan::{full_name, group, hostname, names_in, volume},
};

impl Scene {
    /// Writes the files that a kubelet puts into the pods' volumes.
    pub(super) fn write(&self, files: &[(String, String)]) {
        for place in ["nnf/bin", "nnf/keys", "nnf/config", "nnf/scratch", "etc/mpi", "tmp"] {
            fs::create_dir_all(self.path(place)).unwrap();
        }
        fs::set_permissions(self.path(""), Permissions::from_mode(0o755)).unwrap();
        // The first container of a pod writes its program as the job's user.
        for place in ["nnf/bin", "nnf/scratch", "tmp"] {
            fs::set_permissions(self.path(place), Permissions::from_mode(0o777)).unwrap();
        }
        for (name, text) in files {
            fs::write(self.path("nnf/config").join(name), text).unwrap();
        }
        let mpi = volume(&self.launcher.1, "nnf-mpi").config_map.as_ref().unwrap();
        for item in mpi.items.iter().flatten() {
            let path = self.path("etc/mpi").join(&item.path);
            fs::copy(self.path("nnf/config").join(&item.key), &path).unwrap();
            fs::set_permissions(path, mode(item.mode)).unwrap();
        }
    }

    /// Copies a directory of this machine to where the pods' user can read it.
    pub(crate) fn copy(&self, from: &Path, to: &Path) {
        let copied = command("cp").arg("-a").args([from, to]).output().unwrap();
        assert!(copied.status.success(), "{copied:?}");
    }

    /// Writes new keys, for containers that start from now on.
    pub(crate) fn take_other_keys(&self) {
        let job = &self.launcher.1;
        let secret = volume(job, "nnf-keys").secret.as_ref().unwrap();
        for (name, text) in podhelper::keys::generate().unwrap() {
            let path = self.path("nnf/keys").join(name);
            fs::write(&path, text).unwrap();
            chown(&path, Some(0), Some(group(job))).unwrap();
            fs::set_permissions(path, mode(secret.default_mode)).unwrap();
        }
    }

    /// Writes each pod's /etc/hosts: its own names, as a kubelet writes them, and the names by which
    /// it finds the others.
    pub(super) fn name_hosts(&self) {
        let all: Vec<String> = self.pods().map(|(_, job)| full_name(job)).collect();
        for (place, (host, job)) in self.pods().enumerate() {
            let mut text = "127.0.0.1 localhost\n".to_owned();
            for (other, full) in all.iter().enumerate() {
                let names = if other == place {
                    vec![full.clone(), hostname(job).to_owned()]
                } else {
                    names_in(job, full)
                };
                text += &format!("{} {}\n", address(other), names.join(" "));
            }
            let file = self.path(&format!("hosts-{place}"));
            fs::write(&file, text).unwrap();
            host.run(&["hostname", hostname(job)]);
            for (from, to) in
                [(file, "/etc/hosts"), (self.path("nnf/config/passwd"), "/etc/passwd")]
            {
                host.run(&["mount", "--bind", from.to_str().unwrap(), to]);
            }
        }
    }
}

fn mode(bits: Option<i32>) -> Permissions {
    Permissions::from_mode(bits.unwrap().cast_unsigned())
}
