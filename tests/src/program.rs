//! One of our programs under a supervisor, as systemd would run it: started again when it dies, on a node whose mounts
//! outlive it. Killed, supervisor and all, when dropped.

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

/// Pauses between two looks for what is waited for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// For the kernel to end a process, and for its supervisor to notice.
const DEATH: Duration = Duration::from_secs(60);

/// For what a program printed last to come into its log.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Starts its arguments again until they end well, or with what no start mends: 2, bad usage, and 3, a
/// newer agent has the name.
const SUPERVISOR: &str =
    r#"while :; do "$@"; code=$?; case $code in 0|2|3) exit $code;; esac; sleep 0.05; done"#;

/// Set once, when a person or CI wants everything to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes every wait of the harness fail from now on, and no program start any more.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Whether a person or CI wants everything to end.
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

fn go_on() -> anyhow::Result<()> {
    ensure!(!interrupted(), "interrupted");
    Ok(())
}

/// Kills what this process started and still waits for; supervised programs have their supervisors killed.
pub fn kill_children() {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    for thread in threads.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            // One that ended in between is what we want.
            let _ = signal(pid, Signal::SIGKILL);
        }
    }
}

/// Makes this process the parent of those that its children leave behind (prctl(2), `PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
/// When the kernel refuses.
pub fn adopt_orphans() -> anyhow::Result<()> {
    set_child_subreaper(true).context("become the parent of orphans")
}

/// Kills all children, those that were adopted too, and waits for their end. No other thread may wait for a child.
pub fn end_children() {
    loop {
        kill_children();
        // The kernel says ECHILD when there are none.
        if waitpid(None, None).is_err() {
            return;
        }
    }
}

/// Where cargo put the programs of the workspace: beside this one.
///
/// # Errors
/// When one was not built; `cargo build --workspace --bins` does.
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

/// A command of a harness: production code has its own runner, with deadlines.
#[expect(clippy::disallowed_methods, reason = "a test harness starts the programs under test")]
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Makes an executable script. A process of its own writes it: what this one had open for writing could not be executed as
/// long as a child of another test, between fork(2) and execve(2), has the descriptor too (ETXTBSY).
///
/// # Errors
/// When it cannot be written.
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

/// What happens when a program's log shows a certain line.
#[derive(Debug)]
struct Trap {
    marker: String,
    /// How many lines with the marker are let pass.
    pass: usize,
    /// Supervisor of the program that is killed.
    victim: u32,
    /// How many lines are let pass before the next death; `None` after the only one.
    again: Option<usize>,
}

/// A supervised program whose output goes to a log file.
#[derive(Debug)]
pub struct Program {
    name: String,
    supervisor: Child,
    log: PathBuf,
    /// Brings what it prints into its log.
    copying: JoinHandle<()>,
    trap: Arc<Mutex<Option<Trap>>>,
}

impl Program {
    /// Starts a program that shares the mounts of this process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, argv: &Command, logs: &Path) -> anyhow::Result<Self> {
        Self::supervise(name, command("/bin/sh"), SUPERVISOR, argv, logs)
    }

    /// Starts a coordinator that serves an API of its own; its data, sockets and log are in `directory`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn coordinator(directory: &Path) -> anyhow::Result<Self> {
        Self::coordinator_with(directory, &[])
    }

    /// The same with more arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn coordinator_with(directory: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut argv = command(binary("coordinator")?);
        argv.arg("--data-dir").arg(directory.join("data")).args(["--api-listen", "127.0.0.1:0"]);
        argv.arg("--socket").arg(directory.join("coordinator.sock"));
        argv.arg("--api-socket").arg(directory.join("api.sock")).args(arguments);
        Self::start("coordinator", &argv, directory)
    }

    /// Starts a program on a node of its own: private mounts, and an empty tmpfs over `mounts`.
    ///
    /// # Errors
    /// When it cannot be started.
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
        go_on()?;
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).context("open the log")?;
        let (reader, writer) = std::io::pipe().context("make a pipe")?;
        shell.args(["-c", script, "supervisor"]).arg(argv.get_program()).args(argv.get_args());
        shell.envs(argv.get_envs().filter_map(|(key, value)| Some((key, value?))));
        shell
            .stdin(Stdio::null())
            .stdout(writer.try_clone().context("share the pipe")?)
            .stderr(writer);
        // A group of its own: Ctrl-C is the harness's to answer, and one signal ends everything.
        let supervisor = shell.process_group(0).spawn().with_context(|| format!("start {name}"))?;
        let trap = Arc::new(Mutex::new(None));
        let watched = Arc::clone(&trap);
        let copying = thread::spawn(move || copy(BufReader::new(reader), file, &watched));
        Ok(Self { name: name.to_owned(), supervisor, log, copying, trap })
    }

    /// Its name, as given at the start.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its output is.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Process id of the supervisor, which holds the node's mounts.
    #[must_use]
    pub fn node_pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// Process id of the program itself.
    ///
    /// # Errors
    /// When it does not run at the moment.
    pub fn pid(&self) -> anyhow::Result<u32> {
        supervised(self.supervisor.id())
            .with_context(|| format!("{} does not run at the moment", self.name))
    }

    /// `kill -9`; the supervisor starts it again. Until it has noticed, the dead would be taken for the next one.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        signal(pid, Signal::SIGKILL)?;
        until(&format!("{} to be dead", self.name), DEATH, || {
            ensure!(self.pid().ok() != Some(pid), "process {pid} is still there");
            Ok(())
        })
    }

    /// Kills `victim` with signal 9 as soon as this program has logged `marker` once more than `pass` times.
    pub fn kill_at(&self, marker: &str, pass: usize, victim: &Self) {
        self.set(Trap { marker: marker.to_owned(), pass, victim: victim.node_pid(), again: None });
    }

    /// Kills this program with signal 9 each time it has logged `marker`, until the trap is lifted.
    pub fn kill_itself_at_every(&self, marker: &str) {
        self.kill_itself_at_each(marker, 1);
    }

    /// The same, each time it has logged `marker` so many times.
    pub fn kill_itself_at_each(&self, marker: &str, times: usize) {
        let (marker, pass) = (marker.to_owned(), times.saturating_sub(1));
        self.set(Trap { marker, pass, victim: self.node_pid(), again: Some(pass) });
    }

    /// Lets it live.
    pub fn lift_trap(&self) {
        *self.trap.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn set(&self, trap: Trap) {
        *self.trap.lock().unwrap_or_else(PoisonError::into_inner) = Some(trap);
    }

    /// Whether a trap is still set: what it waits for did not happen.
    #[must_use]
    pub fn trap_is_set(&self) -> bool {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// SIGTERM, as systemd would, and its exit code. One that was killed right before is told when it runs again; it may have
    /// been too early to listen, and is then told once more.
    ///
    /// # Errors
    /// When it does not end within `deadline`, or by a signal.
    pub fn stop(&mut self, deadline: Duration) -> anyhow::Result<i32> {
        let (name, mut told) = (self.name.clone(), None);
        until(&format!("{name} to stop"), deadline, || {
            if self.supervisor.try_wait()?.is_some() {
                return Ok(());
            }
            let pid = self.pid()?;
            if told.replace(pid) != Some(pid) {
                signal(pid, Signal::SIGTERM).with_context(|| format!("stop {name}"))?;
            }
            bail!("it still runs; see {}", self.log.display())
        })?;
        self.wait(deadline)
    }

    /// Waits for it to end by itself, and its exit code.
    ///
    /// # Errors
    /// When it does not end within `deadline`.
    pub fn wait(&mut self, deadline: Duration) -> anyhow::Result<i32> {
        let what = format!("{} to end; see {}", self.name, self.log.display());
        let status =
            until(&what, deadline, || self.supervisor.try_wait()?.context("it still runs"))?;
        // Its last words are in its log; what it left running may hold the pipe, and is not waited for.
        let _ = until("its log", LAST_WORDS, || {
            ensure!(self.copying.is_finished(), "somebody still writes");
            Ok(())
        });
        status.code().with_context(|| format!("{} died of signal {:?}", self.name, status.signal()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; `leftovers` will see the process.
        if let Ok(group) = i32::try_from(self.supervisor.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.supervisor.wait();
    }
}

fn copy(lines: impl BufRead, mut file: File, trap: &Mutex<Option<Trap>>) {
    for line in lines.lines().map_while(Result::ok) {
        spring(&line, trap);
        if writeln!(file, "{line}").is_err() {
            return;
        }
    }
}

fn spring(line: &str, trap: &Mutex<Option<Trap>>) {
    let mut set = trap.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(armed) = set.as_mut().filter(|armed| line.contains(&armed.marker)) else { return };
    if armed.pass > 0 {
        armed.pass -= 1;
        return;
    }
    // A victim that is not there at this moment is as dead as it would be.
    if let Some(pid) = supervised(armed.victim) {
        let _ = signal(pid, Signal::SIGKILL);
    }
    match armed.again {
        Some(pass) => armed.pass = pass,
        None => *set = None,
    }
}

/// The one child of a supervisor that is not its `sleep`.
fn supervised(supervisor: u32) -> Option<u32> {
    let children =
        fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        !matches!(name.trim_end(), "sleep" | "mount" | "sh" | "")
    })
}

/// Sends a signal.
///
/// # Errors
/// When the process is gone.
pub fn signal(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid).context("process id")?);
    kill(pid, signal).with_context(|| format!("{signal} to {pid}"))
}

/// Sleeps: the harness looks at processes and files of others, which tell nobody when they change.
#[expect(clippy::disallowed_methods, reason = "the harness polls what has no event for it")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Looks until `found` gives something, or a person interrupts.
///
/// # Errors
/// When `deadline` passes; the last answer of `found` is in the message.
pub fn until<T>(
    what: &str,
    deadline: Duration,
    mut found: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    // An interrupt is an answer: it ends the wait at once.
    until_even_if_interrupted(what, deadline, || match go_on() {
        Ok(()) => found().map(Ok),
        Err(interrupted) => Ok(Err(interrupted)),
    })?
}

/// Looks until `found` gives something: for clearing away, which an interrupt is answered with.
///
/// # Errors
/// As for [`until`].
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
            // A look may start programs: those who wait must leave the processors to what they wait for.
            Err(_) => pause(pause_after(look.elapsed(), begun.elapsed())),
        }
    }
}

/// Four times as long as the look took, and an eighth of what was waited so far: what takes long is looked at less often.
fn pause_after(look: Duration, waited: Duration) -> Duration {
    (look * 4).max(waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}
