use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    centre::Chassis,
    lab::{Bench, Guest, Machine, report::say},
    program::until,
};

use super::Scenario;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "health",
    about: "a compute's link and a drive are pulled and put back, and a drive warns: the NnfNode reports the beginning and the end of each",
    run,
};

const STEP: Duration = Duration::from_secs(120);

/// Number of the compute's slot. In the compute's place, the slot has an emulated device that is not a drive.
const COMPUTE: usize = 2;

/// Script that starts our programs as in production, and two recorders. One writes the kernel's events, the other the
/// versions of the NnfNode, each with the time.
const START: &str = r#"
cd /var/tmp
/programs/coordinator --socket c.sock --data-dir data --api-socket api.sock --api-listen 127.0.0.1:0 >/lab/coordinator.log 2>&1 &
for try in $(seq 400); do [ -S api.sock ] && [ -S c.sock ] && break; sleep 0.1; done
export WARREN_API=unix:///var/tmp/api.sock WARREN_COORDINATOR=unix:///var/tmp/c.sock
/programs/warren apply -f /lab/system.json
stdbuf -oL udevadm monitor --kernel >/lab/events.txt 2>&1 &
cat >agent <<'END'
exec /programs/rabbit-agent --node rabbit-1 --state-dir /var/tmp/state --drive-slots 3 --compute-link 0=/sys/bus/pci/slots/2 \
    --drive-check $1 >>/lab/agent.log 2>&1
END
# The agent checks the drives once an hour only: it can learn of the changes below only from events.
bash agent 1h &
echo $! >pid
for try in $(seq 400); do /programs/warren get nnfnode nnf-nlc -n rabbit-1 -o name >/dev/null 2>&1 && break; sleep 0.1; done
node=
/programs/warren get nnfnode nnf-nlc -n rabbit-1 --watch -o json | while IFS= read -r line; do
    node="$node $line"
    # The last line of an object is a lone brace.
    [ "$line" = "}" ] || continue
    read -r now rest < /proc/uptime
    echo "$now $node"
    node=
done >/lab/nodes.txt 2>/lab/watch.err &
"#;

/// Script that restarts the agent so that it reads the drives' SMART logs every 2 s: drives send no event when
/// a SMART log changes.
const ASK_OFTEN: &str = r#"
cd /var/tmp
export WARREN_API=unix:///var/tmp/api.sock WARREN_COORDINATOR=unix:///var/tmp/c.sock
kill $(cat pid)
while [ -e /proc/$(cat pid) ]; do sleep 0.1; done
bash agent 2s &
"#;

/// Script that prints the nodes that the coordinator knows.
const TOLD: &str = "WARREN_COORDINATOR=unix:///var/tmp/c.sock /programs/warren nodes --json";

fn run(bench: &Bench) -> anyhow::Result<()> {
    let mut rabbit = Rabbit::boot(bench)?;
    rabbit.until("well", |node| {
        drives(node) == ["Ready", "Ready", "NotPresent"] && compute(node) == "Ready"
    })?;
    ensure!(rabbit.health_and_message()?.0 == "ok", "reported: {:?}", rabbit.health_and_message()?);

    let link = rabbit.address(COMPUTE)?;
    rabbit.guest.qmp().execute("device_del", &json!({ "id": "compute" }))?;
    let offline = rabbit.until("without its compute", |node| compute(node) == "Offline")?;
    rabbit.lateness("a compute's link", &link, offline)?;
    rabbit.wait_for_message("compute-1 (index 0): its PCIe link is down")?;
    // Waits for the emulator, which may release the device's name only after the kernel's event.
    rabbit.guest.qmp().event("DEVICE_DELETED", STEP, |event| event["device"] == "compute")?;
    rabbit.plug_compute()?;
    rabbit.until("with its compute", |node| compute(node) == "Ready")?;

    let drive = rabbit.address(1)?;
    rabbit.guest.unplug(1)?;
    let offline = rabbit.until("without a drive", |node| drives(node)[1] == "Offline")?;
    rabbit.lateness("a drive", &drive, offline)?;
    rabbit.wait_for_message("drive1: it is not there any more")?;
    rabbit.guest.plug(1)?;
    rabbit.until("with its drive", |node| drives(node)[1] == "Ready")?;

    rabbit.guest.run(ASK_OFTEN, STEP)?;
    for (bits, state, message) in [
        (0b0_1000, "Disabled", "it is read-only"),
        (0b0_0010, "Failed", "its temperature is beyond a threshold"),
        (0b0_0100, "Failed", "its reliability is degraded"),
    ] {
        rabbit.warn(bits)?;
        rabbit.until(state, |node| drives(node)[0] == state)?;
        rabbit.wait_for_message(message)?;
        rabbit.warn(0)?;
        rabbit.until("well again", |node| drives(node)[0] == "Ready")?;
    }
    until("the coordinator to report that the rabbit is healthy", STEP, || {
        let (state, message) = rabbit.health_and_message()?;
        ensure!(state == "ok", "the rabbit is {state}: {message}");
        Ok(())
    })?;
    let log = rabbit.file("agent.log");
    ensure!(
        !log.contains("another writer changed its status"),
        "the agent took its own write for the write of another program:\n{log}"
    );
    Ok(())
}

/// A rabbit with two drives and a device in the compute's place.
struct Rabbit {
    guest: Guest,
}

impl Rabbit {
    fn boot(bench: &Bench) -> anyhow::Result<Self> {
        let mut guest = Guest::boot(bench, Machine::with_drives("rabbit", COMPUTE + 1))?;
        guest.unplug(COMPUTE)?;
        let mut rabbit = Self { guest };
        rabbit.plug_compute()?;
        let system = Chassis::new(1).system_configuration().to_string();
        fs::write(rabbit.guest.exchange().join("system.json"), system)
            .context("hand over the site")?;
        rabbit.guest.run(START, STEP)?;
        Ok(rabbit)
    }

    fn plug_compute(&mut self) -> anyhow::Result<()> {
        let bus = format!("slot{COMPUTE}");
        let device = json!({ "driver": "virtio-rng-pci", "id": "compute", "bus": bus });
        self.guest.qmp().execute("device_add", &device).map(drop)
    }

    /// Makes drive 0 warn: sets these bits of the field Critical Warning in its SMART log.
    fn warn(&mut self, bits: u8) -> anyhow::Result<()> {
        let warning = json!({
            "path": "/machine/peripheral/drive0", "property": "smart_critical_warning", "value": bits,
        });
        self.guest.qmp().execute("qom-set", &warning).map(drop)
    }

    /// Returns the PCI address of a slot.
    fn address(&mut self, slot: usize) -> anyhow::Result<String> {
        let address = self.guest.run(&format!("cat /sys/bus/pci/slots/{slot}/address"), STEP)?;
        Ok(format!("{}.0", address.trim()))
    }

    /// Waits until `holds` is true for the newest version of the NnfNode. Returns the guest's time, in seconds, of the
    /// first version for which it was true.
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let since = until(&format!("the NnfNode to be {what}"), STEP, || {
            let nodes = self.nodes()?;
            let (_, newest) = nodes.last().context("the watch has delivered no event yet")?;
            ensure!(holds(newest), "the status is {}", newest["status"]);
            let first = nodes.iter().rev().take_while(|(_, node)| holds(node)).last();
            Ok(first.map_or(0.0, |(time, _)| *time))
        })
        .with_context(|| self.log())?;
        say(&format!("   {what} after {:.1} s", begun.elapsed().as_secs_f32()));
        Ok(since)
    }

    /// Returns every version of the NnfNode that the watch delivered, with the time.
    fn nodes(&self) -> anyhow::Result<Vec<(f64, Value)>> {
        let text = self.file("nodes.txt");
        let read = |line: &str| {
            let (time, node) = line.split_once(' ')?;
            let mut node: Value = serde_json::from_str(node).ok()?;
            // The first line is the object itself; the others are watch events that contain the object.
            if node["object"].is_object() {
                node = node["object"].take();
            }
            Some((time.parse().ok()?, node))
        };
        // The last line may be incomplete.
        Ok(text.lines().filter_map(read).collect())
    }

    /// Prints the time from the kernel's event to the NnfNode.
    fn lateness(&self, what: &str, address: &str, reported: f64) -> anyhow::Result<()> {
        let events = self.file("events.txt");
        let gone = events.lines().rev().find_map(|line| {
            let time = line.strip_prefix("KERNEL[")?;
            let (time, rest) = time.split_once(']')?;
            let is_removal = rest.trim_start().starts_with("remove")
                && rest.contains(&format!("{address} (pci)"));
            is_removal.then(|| time.parse::<f64>().ok())?
        });
        let gone = gone.with_context(|| format!("{address} was not removed: {events}"))?;
        say(&format!(
            "   {what}: {:.0} ms from the kernel's event to the NnfNode",
            (reported - gone) * 1e3
        ));
        Ok(())
    }

    /// Returns the rabbit's state and message that the coordinator shows.
    fn health_and_message(&mut self) -> anyhow::Result<(String, String)> {
        let nodes: Value = serde_json::from_str(&self.guest.run(TOLD, STEP)?)?;
        let all = nodes["nodes"].as_array().cloned().unwrap_or_default();
        let rabbit = all.iter().find(|record| record["node"] == "rabbit-1").context("no rabbit")?;
        let word = |name: &str| rabbit[name].as_str().unwrap_or_default().to_owned();
        Ok((word("health"), word("message")))
    }

    fn wait_for_message(&mut self, reason: &str) -> anyhow::Result<()> {
        until(&format!("the coordinator to report {reason:?}"), STEP, || {
            let (state, message) = self.health_and_message()?;
            ensure!(
                state == "warning" && message.contains(reason),
                "the rabbit is {state}: {message}"
            );
            Ok(())
        })
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.guest.exchange().join(name)).unwrap_or_default()
    }

    fn log(&self) -> String {
        format!("{}{}", self.file("agent.log"), self.file("watch.err"))
    }
}

/// Returns the states of the drives, in the order of their ids.
fn drives(node: &Value) -> Vec<&str> {
    let drives = node["status"]["drives"].as_array();
    drives.into_iter().flatten().filter_map(|drive| drive["status"].as_str()).collect()
}

fn compute(node: &Value) -> &str {
    node["status"]["servers"][1]["status"].as_str().unwrap_or_default()
}
