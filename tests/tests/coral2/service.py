"""The Kubernetes part of flux-coral2's service, without its calls of Flux.

Every method makes the calls that the service makes, in its order and with its bodies; golden.py compares it with recordings of
the service. Every method reads the fields that v0.36 reads, in the way it does: if an object lacks a field that the service
requires, the stand-in ends with a KeyError, as the job ends under Flux. `api` is the real client (life.py) or a recorder (golden.py).
"""

from datetime import datetime
from math import ceil, gcd

DWS = "dataworkflowservices.github.io"
FINALIZER = "flux-framework.readthedocs.io/workflow"
WORKFLOW_LABEL = f"{DWS}/workflow.name"
LEAST = 4 << 30
STRATEGIES = {
    "xfs": ["AllocatePerCompute"], "raw": ["AllocatePerCompute"], "gfs2": ["AllocatePerCompute"],
    "ost": ["AllocateAcrossServers"], "mdt": ["AllocateAcrossServers"], "mgtmdt": ["AllocateAcrossServers", "AllocateSingleServer"],
    "mgt": ["AllocateSingleServer"],
}
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def f58(number):
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = BASE58[digit] + digits
    return "f" + (digits or BASE58[0])


def directives(text, presets):
    texts = text if isinstance(text, list) else [text]
    lines = []
    for text in texts:
        preset = presets.get(text.strip(), text)
        if isinstance(preset, list):
            lines += preset
            continue
        parts = (part.strip() for part in preset.split("#DW "))
        lines += ["#DW " + part for part in parts if part]
    return lines


def allocation_set(wanted, counts):
    """Returns one allocation set of Servers; `counts` has the number of the job's computes at each rabbit."""
    capacity, strategy = wanted["minimumCapacity"], wanted["allocationStrategy"]
    count = wanted.get("constraints", {}).get("count")
    if strategy == "AllocatePerCompute":
        size, storage = capacity, dict(counts)
    elif strategy == "AllocateSingleServer" or count:
        count = 1 if strategy == "AllocateSingleServer" else count
        order = sorted(counts, key=lambda rabbit: -counts[rabbit])
        size, storage = ceil(capacity / count), {}
        for place in range(count):
            rabbit = order[place % len(order)]
            storage[rabbit] = storage.get(rabbit, 0) + 1
    else:
        share = gcd(*counts.values())
        size = ceil(share * capacity / sum(counts.values()))
        storage = {rabbit: number // share for rabbit, number in counts.items()}
    return {
        "allocationSize": max(size, wanted.get("least", LEAST)),
        "label": wanted["label"],
        "storage": [{"allocationCount": number, "name": rabbit} for rabbit, number in storage.items()],
    }


def usable(storage):
    """Returns whether the service counts a rabbit as usable, and the computes whose links to it are lost."""
    try:
        status = storage["status"]["status"]
    except KeyError:
        status = "Disabled"
    try:
        links = storage["status"]["access"]["computes"]
    except KeyError:
        links = []
    return status == "Ready", {link["name"] for link in links if link["status"] != "Ready"}


def chassis_paths(hosts, index, ssds):
    """Returns the paths of a rabbit's vertices in Fluxion's graph: of its hosts, and of its ssds."""
    chassis = f"/c/chassis{index}"
    return {host: f"{chassis}/{host}" for host in hosts}, [f"{chassis}/ssd{place}" for place in range(ssds)]


def storage_messages(storage, paths, ssds, settings, drainable=None):
    """Returns the service's messages to Flux about one version of a Storage: topics with payloads, in order.

    `paths` has the path of each host of the rabbit, `ssds` those of its ssds; without ssds the service runs with
    --disable-fluxion. `settings` are Flux's settings in [rabbit]; `drainable` are the hosts that the service may drain.
    """
    (is_up, lost), drains = usable(storage), settings.get("drain_compute_nodes", True)
    held = sorted(lost if drainable is None else lost & set(drainable))
    if drains and held:
        yield "resource.drain", {"targets": held, "mode": "update", "reason": "rabbit lost PCIe connection"}
    soft = lost if is_up and not drains and settings.get("soft_drain", True) else set()
    bad = set(paths) if not is_up and not ssds else soft
    if set(paths) - bad:
        yield "sched-fluxion-resource.remove_property", {"resource_path": sorted(paths[host] for host in set(paths) - bad), "key": "badrabbit"}
    if bad:
        yield "sched-fluxion-resource.set_property", {"sp_resource_path": sorted(paths[host] for host in bad), "sp_keyval": "badrabbit=bad"}
    for ssd in ssds:
        yield "sched-fluxion-resource.set_status", {"resource_path": ssd, "status": "up" if is_up else "down"}


class Job:
    def __init__(self, jobid, hosts=(), tolerance=-1):
        self.name = f"fluxjob-{jobid}"
        self.hosts, self.tolerance = list(hosts), tolerance
        self.failed, self.transient, self.toredown, self.deleted, self.aborted = set(), False, False, False, False
        self.variables, self.error = None, None


class Service:
    """The service's work for one job; `rabbits` maps each compute to its rabbit."""

    def __init__(self, api, job, rabbits, least=LEAST):
        self.api, self.job, self.rabbits, self.least = api, job, rabbits, least

    def create(self, jobid, user, group, lines):
        spec = {
            "desiredState": "Proposal", "dwDirectives": lines, "jobID": f58(jobid),
            "userID": user, "groupID": group, "wlmID": "flux",
        }
        metadata = {"name": self.job.name, "namespace": "default", "finalizers": [FINALIZER]}
        self.api.create("workflows", {"kind": "Workflow", "apiVersion": f"{DWS}/v1alpha7", "spec": spec, "metadata": metadata})

    def breakdowns(self, workflow):
        for reference in workflow["status"].get("directiveBreakdowns") or []:
            yield self.api.get("directivebreakdowns", reference["name"], reference["namespace"])

    def proposed(self, workflow):
        """Reads the fields of the breakdowns that the service passes to Flux's scheduler."""
        for breakdown in self.breakdowns(workflow):
            breakdown["status"].get("requiredDaemons", [])
            assert breakdown["kind"] == "DirectiveBreakdown", breakdown
            assert breakdown["status"]["ready"], breakdown
            if "storage" in breakdown["status"]:
                for wanted in breakdown["status"]["storage"]["allocationSets"]:
                    assert wanted["allocationStrategy"] in STRATEGIES[wanted["label"]], wanted
                    assert wanted["minimumCapacity"] >= 0, wanted

    def setup(self):
        counts = {}
        for host in self.job.hosts:
            rabbit = self.rabbits[host]
            counts[rabbit] = counts.get(rabbit, 0) + 1
        workflow = self.api.get("workflows", self.job.name)
        for breakdown in self.breakdowns(workflow):
            if "storage" not in breakdown["status"]:
                continue
            storage = breakdown["status"]["storage"]
            wanted = ({"least": self.least, **one} for one in storage["allocationSets"])
            sets = [allocation_set(one, counts) for one in wanted]
            assert storage["reference"]["namespace"] == "default", storage
            self.patch("servers", storage["reference"]["name"], {"spec": {"allocationSets": sets}})
        self.desire("Setup")

    def post_run(self, run_started):
        if self.job.toredown:
            return
        if run_started:
            self.desire("PostRun")
        else:
            self.teardown()

    def desire(self, state):
        self.patch("workflows", self.job.name, {"spec": {"desiredState": state}})

    def patch(self, plural, name, body):
        return self.api.patch(plural, name, body)

    def teardown(self):
        if not self.job.toredown:
            self.job.toredown = True
            self.api.teardown(self.job.name)

    def event(self, kind, workflow):
        """Handles one event of the watch on Workflows, with the checks in the service's order."""
        job, _ = self.job, workflow["spec"]["jobID"]
        if workflow["metadata"]["name"] != job.name or kind == "DELETED":
            job.deleted = job.deleted or kind == "DELETED"
            return
        status = workflow["status"]
        if "state" not in status or job.deleted:
            return
        desired, state = workflow["spec"]["desiredState"], status["state"]
        complete = desired == state and status["ready"]
        if desired == "Teardown":
            self.ending(workflow, state == "Teardown", complete)
        if desired == "Teardown" or job.toredown:
            return
        if complete and desired == "Proposal":
            self.proposed(workflow)
        elif complete and desired == "Setup":
            self.desire("DataIn")
            hosts = [{"name": host} for host in job.hosts if host not in job.failed]
            assert status["computes"]["namespace"] == "default", status
            self.patch("computes", status["computes"]["name"], {"data": hosts})
        elif complete and desired == "DataIn":
            self.desire("PreRun")
        elif complete and desired == "PreRun":
            job.variables = status.get("env", {})
        elif complete and desired == "PostRun":
            self.desire("DataOut")
        elif complete and desired == "DataOut":
            self.teardown()
        if status.get("status") == "Error":
            job.error = status.get("message", "")
        job.transient = status.get("status") == "TransientCondition"

    def ending(self, workflow, is_there, complete):
        if complete:
            self.job.deleted = True
            self.api.delete_workflow(self.job.name)
        elif is_there and FINALIZER in workflow["metadata"].get("finalizers", []):
            self.release(workflow)

    def release(self, workflow):
        finalizers = [one for one in workflow["metadata"]["finalizers"] if one != FINALIZER]
        self.patch("workflows", self.job.name, {"metadata": {"finalizers": finalizers}})

    def not_in_state(self, state):
        """Returns the nodes that the service reports as not mounted, or not unmounted."""
        nodes = []
        try:
            mounts_of_job = self.api.list_all("clientmounts", f"{WORKFLOW_LABEL}={self.job.name}")
        except self.api.list_errors:
            return nodes
        for mount in mounts_of_job:
            try:
                node = mount["spec"]["node"]
            except KeyError:
                continue
            try:
                name, mounts = mount["metadata"]["name"], mount["status"]["mounts"]
            except KeyError:
                nodes.append(node)
                continue
            if not name.endswith("-computes"):
                continue
            try:
                is_there = all(one["state"] == state and one["ready"] for one in mounts)
            except (KeyError, TypeError):
                is_there = False
            if not is_there:
                nodes.append(node)
        return nodes

    def servers_with(self, condition):
        found = set()
        for servers in self.api.list_all("servers", f"{WORKFLOW_LABEL}={self.job.name}"):
            try:
                for one in servers["status"]["allocationSets"]:
                    found.update(rabbit for rabbit, entry in one["storage"].items() if condition(entry))
            except (KeyError, TypeError):
                continue
        return found

    def setup_timeout(self):
        bad = self.servers_with(lambda entry: not entry.get("ready"))
        self.fail({host for host in self.job.hosts if self.rabbits[host] in bad})

    def prerun_timeout(self):
        self.fail(set(self.not_in_state("mounted")))

    def fail(self, nodes):
        if self.job.tolerance <= 0:
            return
        self.job.failed |= nodes
        if len(self.job.failed) <= self.job.tolerance:
            self.patch("workflows", self.job.name, {"spec": {"forceReady": True}})

    def abort(self):
        self.teardown()
        nodes = self.not_in_state("unmounted")
        reason = f"workflow {self.job.name} timed out with an active allocation on this rabbit"
        for rabbit in self.servers_with(lambda entry: entry["allocationSize"] > 0):
            annotations = {"disable_reason": reason, "disable_date": str(datetime.now())}
            self.patch("storages", rabbit, {"metadata": {"annotations": annotations}, "spec": {"state": "Disabled"}})
        return nodes


class SystemStatus:
    """Writes the SystemStatus, which says which nodes are usable."""

    def __init__(self, api, hosts):
        self.api, self.hosts, self.online, self.disabled = api, hosts, set(), set()

    def write(self, enabled):
        nodes = {host: "Disabled" for host in self.hosts if host not in self.online or host in self.disabled}
        nodes = {**{host: "Enabled" for host in enabled if host not in nodes}, **nodes}
        if nodes:
            self.api.patch("systemstatuses", "default", {"data": {"nodes": nodes}})

    def set_online(self, online):
        new = online - self.online
        self.online = online
        self.write(new)

    def disable(self, hosts):
        self.disabled |= set(hosts)
        self.write(())

    def undrain(self, hosts):
        back = self.disabled & set(hosts)
        self.disabled -= back
        if back:
            # As in the recording, marks a node that is undrained now (`back`) as Enabled even if it is not online.
            nodes = {host: "Disabled" for host in self.hosts if host not in self.online or host in self.disabled}
            nodes.update({host: "Enabled" for host in back})
            self.api.patch("systemstatuses", "default", {"data": {"nodes": nodes}})
