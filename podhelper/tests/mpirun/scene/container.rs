//! Starts containers: a user's processes with the variables of the plan.

use std::{
    fs::{self, File},
    io::{Read, Seek},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Container;
use nix::unistd::Pid;

use super::{Scene, host::API};

/// Search path that contains mpirun, on RHEL too.
const PATH: &str = "/usr/bin:/bin:/usr/lib64/openmpi/bin";
/// A time that no operation takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(300);
/// Output and exit status of a container.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) output: String,
    pub(crate) errors: String,
    pub(crate) status: ExitStatus,
}

/// A running container, and the files into which it writes.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) child: Child,
    output: File,
    errors: File,
}

impl Scene {
    /// Returns a command that runs as this user, with only the container's own variables.
    pub(super) fn as_user(
        &self,
        mut command: Command,
        [user, group]: [i64; 2],
        container: &Container,
        words: Option<&[&str]>,
    ) -> Command {
        command.args(["setpriv", &format!("--reuid={user}"), &format!("--regid={group}")]);
        command.args([
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set=-all",
            "--pdeathsig=KILL",
        ]);
        let own: Vec<String> = container.command.iter().flatten().cloned().collect();
        let words = words.map(|words| words.iter().map(|&word| word.to_owned()).collect());
        command.args(words.unwrap_or(own).iter().map(|word| self.local_path(word)));
        command.env_clear().env("PATH", PATH).env("KUBERNETES_SERVICE_HOST", API);
        command.env("KUBERNETES_SERVICE_PORT", "443").current_dir("/").stdin(Stdio::null());
        // runc and crun set HOME from the user's entry in the image's /etc/passwd.
        command.env("HOME", "/tmp");
        // TMPDIR must differ between tests: Open MPI names a directory in TMPDIR after host and user, which are the
        // same in every test.
        command.env("TMPDIR", self.path("tmp"));
        for variable in container.env.iter().flatten() {
            let value = variable.value.as_deref().unwrap_or_default();
            command.env(&variable.name, self.local_path(value));
        }
        command
    }

    /// Replaces a path in a pod by its path on this machine.
    fn local_path(&self, word: &str) -> String {
        let root = self.directory.path().to_str().unwrap();
        let program = env!("CARGO_BIN_EXE_podhelper");
        match word {
            "/podhelper" => program.to_owned(),
            _ => word
                .replace("/nnf/", &format!("{root}/nnf/"))
                .replace("/etc/mpi", &format!("{root}/etc/mpi")),
        }
    }
}

/// Waits for a container's end, and returns its outcome.
pub(crate) fn result_of(mut container: Running) -> Outcome {
    let status = until("the container's end", || container.child.try_wait().unwrap());
    let text = |mut file: File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Outcome { output: text(container.output), errors: text(container.errors), status }
}

/// Calls `look` until it finds something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "timed out while waiting for {what}");
        #[expect(clippy::disallowed_methods, reason = "nothing here is asynchronous")]
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the user and group of a container.
pub(super) fn ids(container: &Container) -> [i64; 2] {
    let context = container.security_context.as_ref().unwrap();
    [context.run_as_user, context.run_as_group].map(Option::unwrap)
}

/// Starts a command whose output goes to files: so no process must read the output while the command runs.
pub(super) fn spawn(mut command: Command) -> Running {
    let [output, errors] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    command.stdout(output.try_clone().unwrap()).stderr(errors.try_clone().unwrap());
    Running { child: command.spawn().unwrap(), output, errors }
}

/// Returns the first process of a process namespace, which is the only child of the process that created the namespace.
pub(super) fn only_child_of(process: u32) -> Pid {
    let is_child = |stat: &str| {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
        Some(fields.next()? == process.to_string())
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let children: Vec<i32> = all
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            is_child(&stat)?.then(|| entry.file_name().to_str()?.parse().ok())?
        })
        .collect();
    assert_eq!(children.len(), 1, "process {process} has one child: {children:?}");
    Pid::from_raw(children[0])
}
