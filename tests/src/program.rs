//! Runs one of Warren's programs under a supervisor that restarts it when it dies, as systemd would, on a node whose
//! mounts outlive the program. Dropping the value kills the program and its supervisor.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use nix::{
    sys::{
        prctl::set_child_subreaper,
        signal::{Signal, kill, killpg},
        wait::waitpid,
    },
    unistd::Pid,
};

/// Shortest and longest pause between two checks of an awaited condition.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Longest time until the kernel has ended a killed process and the supervisor has noticed that.
const DEATH: Duration = Duration::from_secs(60);

/// Longest time until the log has the last output of an ended program.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Script of the supervisor. Its arguments are a command, which it repeats until the command exits with 0, or with a
/// code after which a restart cannot help: 2, bad usage, or 3, a newer agent has connected with the same node name.
const SUPERVISOR: &str =
    r#"while :; do "$@"; code=$?; case $code in 0|2|3) exit $code;; esac; sleep 0.05; done"#;

/// True once a person or CI has interrupted the run.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes every wait of the harness and every start of a program fail from now on.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Returns whether a person or CI has interrupted the run.
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

fn check_interrupt() -> anyhow::Result<()> {
    ensure!(!interrupted(), "interrupted");
    Ok(())
}

/// Kills the child processes of this process; for a supervised program, the child is the supervisor.
pub fn kill_children() {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    for thread in threads.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            // An error means that the process has already ended, which is the aim too.
            let _ = signal(pid, Signal::SIGKILL);
        }
    }
}

/// Makes this process the parent of orphans, processes whose parent was a child of this process and
/// has ended (prctl(2), `PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
/// When the kernel refuses.
pub fn adopt_orphans() -> anyhow::Result<()> {
    set_child_subreaper(true).context("become the parent of orphans")
}

/// Kills all child processes, also adopted orphans, and waits for their end. No other thread may wait for a child
/// at the same time.
pub fn end_children() {
    loop {
        kill_children();
        // waitpid(2) fails with ECHILD when no child is left.
        if waitpid(None, None).is_err() {
            return;
        }
    }
}

/// Returns the path of a program of the workspace, which cargo puts into the directory of this program.
///
/// # Errors
/// When the program was not built; `cargo build --workspace --bins` does.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let mut directory = std::env::current_exe().context("find this program")?;
    directory.pop();
    if directory.ends_with("deps") {
        directory.pop();
    }
    let path = directory.join(name);
    if !path.exists() {
        bail!("{} is not built: cargo build --workspace --bins", path.display());
    }
    Ok(path)
}

/// Returns a command for a harness to run. Production code has another function for this, with deadlines.
#[expect(clippy::disallowed_methods, reason = "a test harness starts the programs under test")]
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Makes an mkfs.xfs that always fails in a new directory, and returns a `PATH` whose programs include it.
///
/// # Errors
/// When the program cannot be written.
pub fn path_with_broken_mkfs(directory: &Path) -> anyhow::Result<String> {
    fs::create_dir_all(directory).context("a directory for a tool")?;
    plant(&directory.join("mkfs.xfs"), "#!/bin/sh\necho 'this mkfs never works' >&2\nexit 1\n")?;
    Ok(format!("{}:{}", directory.display(), std::env::var("PATH").context("PATH")?))
}

/// Writes an executable script. A separate process writes the file. If this process wrote it, a child of
/// another test could inherit the open file between fork(2) and execve(2), and execve(2) of the script
/// would fail meanwhile (ETXTBSY).
///
/// # Errors
/// When the script cannot be written.
pub fn plant(path: &Path, script: &str) -> anyhow::Result<()> {
    let mut shell = command("sh");
    shell.args(["-c", r#"cat > "$1" && chmod 0755 "$1""#, "sh"]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.spawn().context("start a shell")?;
    let mut stdin = shell.stdin.take().context("the shell has no stdin")?;
    stdin.write_all(script.as_bytes()).context("hand over the script")?;
    drop(stdin);
    let status = shell.wait().context("wait for the shell")?;
    ensure!(status.success(), "{} cannot be written", path.display());
    Ok(())
}

/// Kills a program, the victim, when the log of a program shows a certain line.
#[derive(Debug)]
struct Trap {
    marker: String,
    /// Number of lines with the marker to ignore first.
    pass: usize,
    /// Process id of the victim's supervisor.
    victim: u32,
    /// Number of lines to ignore between one kill and the next. `None` if the victim is killed only once.
    again: Option<usize>,
}

/// A supervised program whose output goes to a log file.
#[derive(Debug)]
pub struct Program {
    name: String,
    supervisor: Child,
    log: PathBuf,
    /// Thread that copies the program's output to its log.
    copying: JoinHandle<()>,
    trap: Arc<Mutex<Option<Trap>>>,
}

impl Program {
    /// Starts a program that shares the mounts of this process.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(name: &str, argv: &Command, logs: &Path) -> anyhow::Result<Self> {
        Self::supervise(name, command("/bin/sh"), SUPERVISOR, argv, logs)
    }

    /// Starts a coordinator with the embedded API. Its data, sockets and log are in `directory`.
    ///
    /// # Errors
    /// When the coordinator cannot be started.
    pub fn coordinator(directory: &Path) -> anyhow::Result<Self> {
        Self::coordinator_with(directory, &[])
    }

    /// Starts a coordinator like [`Program::coordinator`], with more arguments.
    ///
    /// # Errors
    /// When the coordinator cannot be started.
    pub fn coordinator_with(directory: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut argv = command(binary("coordinator")?);
        argv.arg("--data-dir").arg(directory.join("data")).args(["--api-listen", "127.0.0.1:0"]);
        argv.arg("--socket").arg(directory.join("coordinator.sock"));
        argv.arg("--api-socket").arg(directory.join("api.sock")).args(arguments);
        Self::start("coordinator", &argv, directory)
    }

    /// Starts a program on a new node: a private mount namespace with an empty tmpfs over `mounts`.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_on_node(
        name: &str,
        argv: &Command,
        mounts: &Path,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        let mut node = command("unshare");
        node.args(["--mount", "--propagation", "private", "--", "/bin/sh"])
            .env("NODE_MOUNTS", mounts);
        let script =
            format!("mount -t tmpfs -o mode=0755 node \"$NODE_MOUNTS\" || exit 1\n{SUPERVISOR}");
        Self::supervise(name, node, &script, argv, logs)
    }

    fn supervise(
        name: &str,
        mut shell: Command,
        script: &str,
        argv: &Command,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        check_interrupt()?;
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).context("open the log")?;
        let (reader, writer) = std::io::pipe().context("make a pipe")?;
        shell.args(["-c", script, "supervisor"]).arg(argv.get_program()).args(argv.get_args());
        shell.envs(argv.get_envs().filter_map(|(key, value)| Some((key, value?))));
        shell
            .stdin(Stdio::null())
            .stdout(writer.try_clone().context("share the pipe")?)
            .stderr(writer);
        // The supervisor gets a new process group, so that Ctrl-C reaches only the harness, and one signal can end the
        // whole group.
        let supervisor = shell.process_group(0).spawn().with_context(|| format!("start {name}"))?;
        let trap = Arc::new(Mutex::new(None));
        let watched = Arc::clone(&trap);
        let copying = thread::spawn(move || copy(BufReader::new(reader), file, &watched));
        Ok(Self { name: name.to_owned(), supervisor, log, copying, trap })
    }

    /// Returns the name that was given at the start.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the log with the program's output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the process id of the supervisor, which holds the node's mounts.
    #[must_use]
    pub fn node_pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// Returns the process id of the program itself.
    ///
    /// # Errors
    /// When the program does not run at the moment.
    pub fn pid(&self) -> anyhow::Result<u32> {
        supervised_child(self.supervisor.id())
            .with_context(|| format!("{} does not run at the moment", self.name))
    }

    /// Kills the program with signal 9; the supervisor starts it again. Waits until the supervisor has noticed the
    /// death, so that a caller cannot mistake the dead process for the new one.
    ///
    /// # Errors
    /// When the program does not run.
    pub fn kill(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        signal(pid, Signal::SIGKILL)?;
        until(&format!("{} to be dead", self.name), DEATH, || {
            ensure!(self.pid().ok() != Some(pid), "process {pid} is still there");
            Ok(())
        })
    }

    /// Kills `victim` with signal 9 when this program logs `marker`; the first `pass` lines with `marker` are ignored.
    pub fn kill_at(&self, marker: &str, pass: usize, victim: &Self) {
        self.set_trap(Trap {
            marker: marker.to_owned(),
            pass,
            victim: victim.node_pid(),
            again: None,
        });
    }

    /// Kills this program with signal 9 after each line with `marker` that it logs, until the trap is lifted.
    pub fn kill_itself_at_every(&self, marker: &str) {
        self.kill_itself_at_each(marker, 1);
    }

    /// Kills this program with signal 9 after every `times` lines with `marker` that it logs.
    pub fn kill_itself_at_each(&self, marker: &str, times: usize) {
        let (marker, pass) = (marker.to_owned(), times.saturating_sub(1));
        self.set_trap(Trap { marker, pass, victim: self.node_pid(), again: Some(pass) });
    }

    /// Lifts the trap, so that the program is killed no more.
    pub fn lift_trap(&self) {
        *self.trap.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn set_trap(&self, trap: Trap) {
        *self.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some(trap);
    }

    /// Returns whether a trap is still set, that is, whether its marker was not logged often enough.
    #[must_use]
    pub fn trap_is_set(&self) -> bool {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sends SIGTERM, as systemd would, and returns the exit code. If the program was killed just before, the signal is
    /// sent when the program runs again. A program that gets the signal before it can handle it dies and is restarted;
    /// then the signal is sent again.
    ///
    /// # Errors
    /// When the program does not end within `deadline`, or ends by a signal.
    pub fn stop(&mut self, deadline: Duration) -> anyhow::Result<i32> {
        let (name, mut signalled) = (self.name.clone(), None);
        until(&format!("{name} to stop"), deadline, || {
            if self.supervisor.try_wait()?.is_some() {
                return Ok(());
            }
            let pid = self.pid()?;
            if signalled.replace(pid) != Some(pid) {
                signal(pid, Signal::SIGTERM).with_context(|| format!("stop {name}"))?;
            }
            bail!("the program still runs; see {}", self.log.display())
        })?;
        self.wait(deadline)
    }

    /// Waits until the program ends by itself, and returns its exit code.
    ///
    /// # Errors
    /// When the program does not end within `deadline`.
    pub fn wait(&mut self, deadline: Duration) -> anyhow::Result<i32> {
        let what = format!("{} to end; see {}", self.name, self.log.display());
        let status = until(&what, deadline, || {
            self.supervisor.try_wait()?.context("the program still runs")
        })?;
        // Waits until the program's last output is in its log. The wait is bounded, since a process that the program
        // started may still run and keep the pipe open.
        let _ = until("the rest of the program's output", LAST_WORDS, || {
            ensure!(self.copying.is_finished(), "a process still writes to the log");
            Ok(())
        });
        status.code().with_context(|| format!("{} died of signal {:?}", self.name, status.signal()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error cannot be handled here; `leftovers` would find the process.
        if let Ok(group) = i32::try_from(self.supervisor.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.supervisor.wait();
    }
}

fn copy(lines: impl BufRead, mut file: File, trap: &Mutex<Option<Trap>>) {
    for line in lines.lines().map_while(Result::ok) {
        spring_trap(&line, trap);
        if writeln!(file, "{line}").is_err() {
            return;
        }
    }
}

fn spring_trap(line: &str, trap: &Mutex<Option<Trap>>) {
    let mut set = trap.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(armed) = set.as_mut().filter(|armed| line.contains(&armed.marker)) else { return };
    if armed.pass > 0 {
        armed.pass -= 1;
        return;
    }
    // A victim that does not run at this moment need not be killed.
    if let Some(pid) = supervised_child(armed.victim) {
        let _ = signal(pid, Signal::SIGKILL);
    }
    match armed.again {
        Some(pass) => armed.pass = pass,
        None => *set = None,
    }
}

/// Returns the process id of the supervised program: the only child of the supervisor that is not
/// `sleep` or another helper.
fn supervised_child(supervisor: u32) -> Option<u32> {
    let children =
        fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        !matches!(name.trim_end(), "sleep" | "mount" | "sh" | "")
    })
}

/// Sends a signal to a process.
///
/// # Errors
/// When the process does not exist.
pub fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid).context("process id")?);
    kill(pid, signal).with_context(|| format!("{signal} to {pid}"))
}

/// Sleeps between two checks: the harness must poll processes and files of other programs, because they send no events.
#[expect(clippy::disallowed_methods, reason = "the harness polls what has no event for it")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Calls `found` until it succeeds, or until a person interrupts the run.
///
/// # Errors
/// When `deadline` passes; the message has the last error of `found`.
pub fn until<T>(
    what: &str,
    deadline: Duration,
    mut found: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    // An interrupt of the run ends the wait immediately.
    until_even_if_interrupted(what, deadline, || match check_interrupt() {
        Ok(()) => found().map(Ok),
        Err(interrupted) => Ok(Err(interrupted)),
    })?
}

/// Calls `found` until it succeeds, also after an interrupt. For the clean-up that follows an interrupt.
///
/// # Errors
/// When `deadline` passes, as for [`until`].
pub fn until_even_if_interrupted<T>(
    what: &str,
    deadline: Duration,
    mut found: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let begun = Instant::now();
    loop {
        let look = Instant::now();
        match found() {
            Ok(value) => return Ok(value),
            Err(error) if begun.elapsed() > deadline => {
                return Err(error.context(format!("waited {deadline:?} for {what}")));
            }
            // Pauses longer after slow calls: `found` may start programs, which would take processor time from the
            // awaited program.
            Err(_) => pause(pause_after(look.elapsed(), begun.elapsed())),
        }
    }
}

/// Returns the next pause: four times `look`, the duration of the last call, or an eighth of `waited`, the time since
/// the first call, whichever is longer.
fn pause_after(look: Duration, waited: Duration) -> Duration {
    (look * 4).max(waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}
