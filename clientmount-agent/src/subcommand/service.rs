//! Installs and removes the unit file `clientmountd.service`.

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::unit::{NAME, is_ours};

const UNITS: &str = "/etc/systemd/system";

/// The directory that holds the unit files of this host's administrator.
#[derive(Debug)]
pub(crate) struct Service {
    directory: PathBuf,
}

/// Why the service was not installed or removed; the service is as it was before.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    #[error(
        "{} was not written by this program: leave it, as this agent runs under the Go daemon's unit as well, or stop \
         and remove that service first",
        .0.display()
    )]
    NotOurs(PathBuf),
    #[error("{operation} {}", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("systemctl {arguments} ended with exit code {code}")]
    Systemctl { arguments: String, code: u8 },
    #[error("systemctl {arguments}")]
    Start {
        arguments: String,
        #[source]
        source: Box<dyn Error>,
    },
    #[error("find the program {}: start it by its path", .0.display())]
    NoProgram(PathBuf),
}

impl Service {
    pub(crate) fn of_this_host() -> Self {
        Self { directory: UNITS.into() }
    }

    /// Writes the unit file, replacing an earlier unit file of this program, and makes systemd start
    /// the service at boot.
    pub(crate) fn install<E: Error + 'static>(
        &self,
        unit: &str,
        systemctl: &impl Fn(&[&str]) -> Result<u8, E>,
    ) -> Result<String, ServiceError> {
        let path = self.path();
        self.has_our_unit()?;
        let failed = |source| ServiceError::File { operation: "write", path: path.clone(), source };
        // systemd may read the file at any time: a rename puts the complete file in place.
        let draft = self.directory.join(format!(".{NAME}.new"));
        fs::write(&draft, unit).map_err(failed)?;
        fs::rename(&draft, &path).map_err(failed)?;
        for arguments in [&["daemon-reload"][..], &["enable", NAME]] {
            run(systemctl, arguments)?;
        }
        Ok(format!(
            "{} is written and starts at boot; start it now with `systemctl start clientmountd`",
            path.display()
        ))
    }

    /// Stops the service and removes its unit file.
    pub(crate) fn remove<E: Error + 'static>(
        &self,
        systemctl: &impl Fn(&[&str]) -> Result<u8, E>,
    ) -> Result<String, ServiceError> {
        let path = self.path();
        if !self.has_our_unit()? {
            return Ok(format!("{} is not there: nothing to remove", path.display()));
        }
        run(systemctl, &["disable", "--now", NAME])?;
        fs::remove_file(&path).map_err(|source| ServiceError::File {
            operation: "remove",
            path: path.clone(),
            source,
        })?;
        run(systemctl, &["daemon-reload"])?;
        Ok(format!("{} is removed; what was mounted stays mounted", path.display()))
    }

    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// Returns whether a unit file that this program wrote exists.
    fn has_our_unit(&self) -> Result<bool, ServiceError> {
        let path = self.path();
        match fs::read_to_string(&path) {
            Ok(unit) if is_ours(&unit) => Ok(true),
            Ok(_) => Err(ServiceError::NotOurs(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(ServiceError::File { operation: "read", path, source }),
        }
    }
}

fn run<E: Error + 'static>(
    systemctl: &impl Fn(&[&str]) -> Result<u8, E>,
    arguments: &[&str],
) -> Result<(), ServiceError> {
    let line = arguments.join(" ");
    match systemctl(arguments) {
        Ok(0) => Ok(()),
        Ok(code) => Err(ServiceError::Systemctl { arguments: line, code }),
        Err(source) => Err(ServiceError::Start { arguments: line, source: source.into() }),
    }
}

/// Returns the program's absolute path, with the name by which it was started (symbolic links are not resolved). The
/// name has to stay: a program that is started by the name clientmountd watches the API directly.
pub(crate) fn absolute_path(program: &OsString) -> Result<PathBuf, ServiceError> {
    let program_path = Path::new(program);
    let missing = || ServiceError::NoProgram(program_path.to_owned());
    let found = if program_path.components().count() > 1 {
        std::path::absolute(program_path).ok()
    } else {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .map(|directory| directory.join(program_path))
            .find(|path| path.is_file())
    };
    found.filter(|path| path.is_absolute() && path.is_file()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, convert::Infallible};

    use super::*;
    use crate::subcommand::unit;

    struct Host {
        service: Service,
        commands: RefCell<Vec<String>>,
        _directory: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let service = Service { directory: directory.path().to_owned() };
            Self { service, commands: RefCell::default(), _directory: directory }
        }

        fn answers(&self, code: u8) -> impl Fn(&[&str]) -> Result<u8, Infallible> {
            move |arguments| {
                self.commands.borrow_mut().push(arguments.join(" "));
                Ok(code)
            }
        }

        fn unit(&self) -> Option<String> {
            fs::read_to_string(self.service.path()).ok()
        }
    }

    fn unit_text(argument: &str) -> String {
        unit::text(Path::new("/usr/bin/clientmountd"), &[argument.into()]).unwrap()
    }

    #[test]
    fn a_unit_is_installed_replaced_and_removed() {
        let host = Host::new();
        host.service.install(&unit_text("--first"), &host.answers(0)).unwrap();
        host.service.install(&unit_text("--second"), &host.answers(0)).unwrap();
        assert_eq!(host.unit(), Some(unit_text("--second")));
        let text = host.service.remove(&host.answers(0)).unwrap();
        assert!(text.contains("stays mounted"), "{text}");
        assert_eq!(host.unit(), None);
        let install = ["daemon-reload", "enable clientmountd.service"];
        let remove = ["disable --now clientmountd.service", "daemon-reload"];
        assert_eq!(*host.commands.borrow(), [install, install, remove].concat());
        assert!(host.service.remove(&host.answers(0)).unwrap().contains("nothing to remove"));
    }

    #[test]
    fn a_unit_that_install_did_not_write_is_not_changed() {
        let host = Host::new();
        let theirs = "[Service]\nExecStart=/usr/bin/clientmountd\n";
        fs::write(host.service.path(), theirs).unwrap();
        let errors = [
            host.service.install(&unit_text("--x"), &host.answers(0)).unwrap_err(),
            host.service.remove(&host.answers(0)).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("was not written by this program"), "{error}");
        }
        assert_eq!(host.unit().as_deref(), Some(theirs));
        assert!(host.commands.borrow().is_empty());
    }

    #[test]
    fn remove_keeps_the_unit_file_if_systemctl_fails_to_disable_the_unit() {
        let host = Host::new();
        host.service.install(&unit_text("--x"), &host.answers(0)).unwrap();
        let error = host.service.remove(&host.answers(1)).unwrap_err().to_string();
        assert_eq!(error, "systemctl disable --now clientmountd.service ended with exit code 1");
        assert!(host.unit().is_some());
    }

    #[test]
    fn the_program_keeps_the_name_it_was_started_by() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("clientmountd");
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
        assert_eq!(absolute_path(&link.clone().into()).unwrap(), link);
        assert!(absolute_path(&"sh".into()).unwrap().ends_with("sh"));
        assert!(absolute_path(&"./nowhere/clientmountd".into()).is_err());
    }
}
