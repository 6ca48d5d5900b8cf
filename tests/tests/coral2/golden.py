"""Compares service.py with recordings of flux-coral2's service: the calls to Kubernetes in each case.

usage: golden.py DIRECTORY
"""

import json
import re
import sys
from pathlib import Path

from service import Job, Service, SystemStatus, chassis_paths, directives, storage_messages

RABBITS = {"n1": "rabbit1", "n2": "rabbit1", "n3": "rabbit1", "n4": "rabbit1", "n5": "rabbit2", "n6": "rabbit2"}
HOSTS = ["n1", "n2", "n3", "n4", "n5"]
# Allocation sets that the recorded service read from the breakdowns.
SETS = {
    "setup-xfs-timeout": [{"label": "xfs", "allocationStrategy": "AllocatePerCompute", "minimumCapacity": 10 << 30}],
    "setup-lustre": [
        {"label": "mdt", "allocationStrategy": "AllocateAcrossServers", "minimumCapacity": 1 << 30, "constraints": {"count": 1}},
        {"label": "ost", "allocationStrategy": "AllocateAcrossServers", "minimumCapacity": 100 << 30},
    ],
}
TIMERS = {"setup_timeout_cb": Service.setup_timeout, "prerun_timeout_cb": Service.prerun_timeout}


class ListFailed(Exception):
    pass


class Recorder:
    """Answers lists with the objects of a case, and records all writes."""

    list_errors = ListFailed

    def __init__(self, case):
        self.case, self.actions = case, []

    def create(self, plural, body):
        self.actions.append({"op": "k8s_create", "group": body["apiVersion"].split("/")[0], "plural": plural, "namespace": "default", "body": body})

    def patch(self, plural, name, body):
        if "annotations" in body.get("metadata", {}):
            body["metadata"]["annotations"]["disable_date"] = "<date>"
        self.actions.append({"op": "k8s_merge_patch", "plural": plural, "namespace": "default", "name": name, "body": body})

    def teardown(self, name):
        self.actions.append({"op": "cleanup_thread_teardown_workflow", "name": name})

    def delete_workflow(self, name):
        self.actions.append({"op": "cleanup_thread_delete_workflow", "name": name})

    def get(self, plural, name, namespace="default"):
        if plural == "workflows":
            return {"status": {"directiveBreakdowns": [{"name": f"{name}-0", "namespace": namespace}]}}
        storage = {"reference": {"name": name, "namespace": namespace}, "allocationSets": SETS.get(self.case["name"], [])}
        return {"kind": "DirectiveBreakdown", "status": {"ready": True, "storage": storage}}

    def list_all(self, plural, _selector):
        if self.case.get("list_error"):
            raise ListFailed
        return self.case.get("k8s_lists", {}).get(plural, [])


def of_kubernetes(actions):
    return sorted((one for one in actions if one["op"].startswith(("k8s_", "cleanup_thread_"))), key=lambda one: one["plural"] + one["name"] if one.get("plural") == "storages" else "")


def events(cases):
    for case in cases:
        # Skips a recording in which the service's call of Flux's scheduler failed: these tests do not cover such calls.
        if "uncaught" in case["name"]:
            continue
        recorder, job = Recorder(case), Job(77, HOSTS)
        job.toredown = case["name"].startswith("toredown")
        Service(recorder, job, RABBITS).event(case["event"]["type"], case["event"]["object"])
        # The recording has only the values of these flags after the event.
        yield case, recorder.actions, job.transient == case["in_transient_condition"] and job.deleted == case["flags"]["deleted"]


def calls(cases):
    for case in cases:
        wanted, topic, timer = of_kubernetes(case["actions"]), case.get("topic"), case.get("timer")
        recorder = Recorder(case)
        job = Job(77, ["n1", "n2", "n3", "n5"] if topic == "dws.setup" else HOSTS, case.get("failure_tolerance", 0))
        job.toredown = "already" in case["name"]
        service, payload = Service(recorder, job, RABBITS), case.get("payload", {})
        if topic == "dws.create" and wanted:
            user = payload["userid"]
            service.create(77, user, user + 1, directives(payload["dw_directives"], case["config"].get("presets", {})))
        elif topic == "dws.setup" and wanted:
            service.setup()
        elif topic == "dws.post_run":
            service.post_run(payload["run_started"])
        elif topic == "dws.teardown":
            service.teardown()
        elif topic == "dws.abort" and wanted:
            service.abort()
        elif timer in TIMERS:
            TIMERS[timer](service)
        elif timer == "kill_workflows_in_tc" and wanted:
            service.prerun_timeout()
        elif timer == "postrun_timeout_cb" and wanted:
            service.teardown()
        elif wanted:
            raise SystemExit(f"{case['name']}: this script does not know such a call")
        yield case, recorder.actions, True


def statuses(cases):
    hosts = ["n1", "n2", "n3", "n4"]
    ranks = {"0": {"n1"}, "0-2": {"n1", "n2", "n3"}, "0-3": set(hosts), "0,2-3": {"n1", "n3", "n4"}}
    for case in cases:
        recorder = Recorder(case)
        status = SystemStatus(recorder, hosts)
        for step in case["steps"]:
            recorder.actions.clear()
            what, arg = step["step"], step["arg"]
            if what == "online":
                status.set_online(ranks[arg])
            elif what == "disable":
                status.disable(arg)
            elif what == "undrain":
                status.undrain(hosts if arg == "n[1-4]" else [arg])
            yield {"name": f"{case['name']} {what} {arg}", "actions": step["actions"]}, recorder.actions, True


def queries(golden):
    for case in golden["clientmounts"]:
        service = Service(Recorder({"k8s_lists": case, "list_error": case.get("list_error")}), Job(77), RABBITS)
        yield service.not_in_state(case["desired"]) == case["nodes"], case["nodes"]
    servers = golden["servers"]
    service = Service(Recorder({"k8s_lists": servers}), Job(77), RABBITS)
    yield service.servers_with(lambda one: one["allocationSize"] > 0) == set(servers["allocationSize>0"]), "allocationSize>0"
    yield service.servers_with(lambda one: not one.get("ready")) == set(servers["not ready"]), "not ready"


def expand(hosts):
    many = re.fullmatch(r"(\w*)\[(\d+)-(\d+)\]", hosts)
    return {f"{many[1]}{number}" for number in range(int(many[2]), int(many[3]) + 1)} if many else {hosts}


def storages(cases):
    """Compares every message to Flux about every Storage."""
    chassis = {"rabbit1": (0, 2), "rabbit2": (1, 36)}
    for case in cases:
        rabbit = case["storage"]["metadata"]["name"]
        if rabbit not in chassis:
            yield case["error"] == "KeyError" and case["actions"] == [], f"{case['name']}: an unknown rabbit"
            continue
        hosts = [host for host in [*RABBITS] if RABBITS[host] == rabbit]
        paths, ssds = chassis_paths(hosts, *chassis[rabbit])
        if case["manager"] == "disable-fluxion":
            paths, ssds = {host: f"/cluster0/{host}" for host in hosts}, []
        ours = list(storage_messages(case["storage"], paths, ssds, case["config"]["rabbit"], case["drain_allowlist"]))
        recorded = [(action["topic"], dict(action["payload"])) for action in case["actions"]]
        for topic, payload in recorded:
            if topic == "resource.drain":
                payload["targets"] = sorted(expand(payload["targets"]))
        yield ours == recorded, f"{case['name']}: ours are {ours}, recorded are {recorded}"


def main(directory):
    def read(name):
        return json.loads((Path(directory) / f"{name}.json").read_text())

    checked = 0
    for source, name in [(events, "workflow_events"), (calls, "rpc_and_timers"), (statuses, "systemstatus")]:
        for case, actions, flags in source(read(name)["cases"]):
            ours, wanted = of_kubernetes(actions), of_kubernetes(case["actions"])
            assert ours == wanted, f"{name}: {case['name']}: ours are {ours}, recorded are {wanted}"
            assert flags, f"{name}: {case['name']}: the service's own flags differ from the recorded ones"
            checked += len(wanted)
    for holds, what in queries(read("mount_and_server_queries")):
        assert holds, f"mount_and_server_queries: {what}"
    on_storages = list(storages(read("storage_events")["cases"]))
    assert len(on_storages) >= 18, f"only {len(on_storages)} Storages were compared"
    for holds, what in on_storages:
        assert holds, f"storage_events: {what}"
    assert checked >= 40, f"only {checked} calls were compared"
    print(checked)


main(sys.argv[1])
