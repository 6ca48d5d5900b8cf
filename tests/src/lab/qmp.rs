use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Longest time that the emulator may take for an answer.
const ANSWER: Duration = Duration::from_secs(30);

/// The emulator's control connection, which speaks the QEMU Machine Protocol.
#[derive(Debug)]
pub struct Qmp {
    lines: BufReader<UnixStream>,
    /// Events that were received before a caller waited for them.
    events: Vec<Value>,
}

impl Qmp {
    pub(super) fn new(stream: UnixStream) -> anyhow::Result<Self> {
        let mut qmp = Self { lines: BufReader::new(stream), events: Vec::new() };
        qmp.read(ANSWER).context("read QMP's greeting")?;
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Executes a command and returns its result.
    ///
    /// # Errors
    /// When the emulator refuses the command or has ended.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> anyhow::Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.lines.get_mut(), "{line}").with_context(|| format!("send {command}"))?;
        loop {
            let answer = self.read(ANSWER).with_context(|| format!("wait for {command}"))?;
            if answer.get("event").is_some() {
                self.events.push(answer);
            } else if let Some(error) = answer.get("error") {
                bail!("QMP {command} {arguments}: {error}");
            } else {
                return Ok(answer["return"].clone());
            }
        }
    }

    /// Waits for an event for which `wanted` returns true. Events before that event are dropped.
    ///
    /// # Errors
    /// When the emulator sends nothing for `deadline`.
    pub fn event(
        &mut self,
        name: &str,
        deadline: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let hit = |event: &Value| event["event"] == name && wanted(&event["data"]);
        let early = std::mem::take(&mut self.events);
        if early.iter().any(hit) {
            return Ok(());
        }
        loop {
            let event = self.read(deadline).with_context(|| format!("wait for {name}"))?;
            if hit(&event) {
                return Ok(());
            }
        }
    }

    fn read(&mut self, deadline: Duration) -> anyhow::Result<Value> {
        self.lines.get_ref().set_read_timeout(Some(deadline)).context("bound the wait")?;
        let mut line = String::new();
        if self.lines.read_line(&mut line).context("read a line of QMP")? == 0 {
            bail!("the emulator ended");
        }
        serde_json::from_str(&line).context("parse a line of QMP")
    }
}
