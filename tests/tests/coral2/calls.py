"""Makes every call to Kubernetes of flux-coral2's service and commands once, with the service's account; then some calls
that this account may not make.

usage: calls.py KUBECONFIG ADMINISTRATOR [PODS]

KUBECONFIG is the service's, ADMINISTRATOR that of an administrator, who writes what the engine would write. PODS is 1
if the server has pods. Prints one JSON object: the client's version, and the HTTP status of each call that was refused.
"""

import json
import sys

import kubernetes
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

from life import NNF, Api, rabbits
from service import DWS, FINALIZER, Job, Service, SystemStatus, directives

JOB = 77
WORKFLOW = f"fluxjob-{JOB}"
LABELS = {f"{DWS}/workflow.name": WORKFLOW, f"{DWS}/workflow.namespace": "default"}

# Kinds whose status is written with the whole object.
NO_SUBRESOURCE = ("workflows",)


class Administrator:
    def __init__(self, kubeconfig):
        self.objects = client.CustomObjectsApi(config.new_client_from_config(kubeconfig))

    def create(self, plural, kind, name, body, status=None):
        metadata = {"name": name, "namespace": "default", "labels": LABELS}
        whole = {"apiVersion": f"{DWS}/v1alpha7", "kind": kind, "metadata": metadata, **body}
        self.objects.create_namespaced_custom_object(DWS, "v1alpha7", "default", plural, whole)
        if status is not None:
            self.write_status(plural, name, status)

    def write_status(self, plural, name, status):
        patch = self.objects.patch_namespaced_custom_object_status
        if plural in NO_SUBRESOURCE:
            patch = self.objects.patch_namespaced_custom_object
        patch(DWS, "v1alpha7", "default", plural, name, {"status": status})

    def describe_system(self):
        nodes = [{"type": "Rabbit", "name": "r1", "computesAccess": [{"name": "n1", "index": 0}]}]
        self.create("systemconfigurations", "SystemConfiguration", "default", {"spec": {"portsCooldownInSeconds": 60, "storageNodes": nodes}})
        self.create("systemstatuses", "SystemStatus", "default", {"data": {"nodes": {}}})
        access = {"protocol": "PCIe", "servers": [], "computes": [{"name": "n1", "status": "Ready"}]}
        status = {"status": "Ready", "capacity": 1 << 40, "type": "NVMe", "rebootRequired": False, "access": access}
        self.create("storages", "Storage", "r1", {"spec": {"state": "Enabled", "mode": "Live"}}, status)

    def answer_proposal(self):
        """Writes what the engine writes in Proposal: storage that is needed, and the objects for Flux to fill."""
        wanted = {"label": "xfs", "allocationStrategy": "AllocatePerCompute", "minimumCapacity": 1 << 30, "constraints": {"labels": []}}
        reference = {"kind": "Servers", "name": WORKFLOW, "namespace": "default"}
        storage = {"lifetime": "job", "reference": reference, "allocationSets": [wanted]}
        spec = {"directive": "#DW jobdw type=xfs capacity=1GiB name=s", "userID": 1050}
        self.create("directivebreakdowns", "DirectiveBreakdown", WORKFLOW, {"spec": spec}, {"ready": True, "storage": storage})
        self.create("servers", "Servers", WORKFLOW, {"spec": {}})
        self.create("computes", "Computes", WORKFLOW, {"data": []})
        names = {"name": WORKFLOW, "namespace": "default"}
        self.write_status("workflows", WORKFLOW, {
            "state": "Proposal", "ready": True, "status": "Completed", "message": "", "env": {}, "computes": {"kind": "Computes", **names},
            "directiveBreakdowns": [{"kind": "DirectiveBreakdown", **names}],
        })

    def allocate(self):
        entry = {"r1": {"allocationSize": 1 << 30, "ready": True}}
        self.write_status("servers", WORKFLOW, {"ready": True, "allocationSets": [{"label": "xfs", "storage": entry}]})


class Watched:
    """One watch of the service: it asks for a second, and starts anew at version 0 after a 410, in both of its forms."""

    def __init__(self, api, plural, version):
        self.objects, self.kind = api.objects, (DWS, api.dws, "default", plural)
        self.version, self.restarts, self.seen = version, 0, []

    def look(self):
        """Returns the events of a second: type and name."""
        self.seen = []
        self.stream()
        return self.seen

    def stream(self):
        settings = {"resource_version": self.version, "watch": True, "timeout_seconds": 1}
        try:
            for event in watch.Watch().stream(self.objects.list_namespaced_custom_object, *self.kind, **settings):
                if event["type"] == "ERROR" and event["object"]["code"] == 410:
                    return self.again()
                self.version = event["object"]["metadata"]["resourceVersion"]
                self.seen.append([event["type"], event["object"]["metadata"]["name"]])
        except ApiException as error:
            if error.status != 410:
                raise
            self.again()

    def again(self):
        self.version, self.restarts = 0, self.restarts + 1
        assert self.restarts < 3, "version 0 is never too old"
        self.stream()


def watches(api, change):
    """Watches from each kind of version; `change` patches a Storage."""
    listed = api.objects.list_namespaced_custom_object(DWS, api.dws, "default", "storages")["items"]
    storages = Watched(api, "storages", 0)
    assert storages.look() == [["ADDED", "r1"]], storages.seen
    old = storages.version
    # As after the service's list at its start, and then in each turn without a change.
    quiet = Watched(api, "storages", listed[-1]["metadata"]["resourceVersion"])
    assert quiet.look() == [] and quiet.look() == [], quiet.seen
    change()
    assert storages.look() == [["MODIFIED", "r1"]], storages.seen
    assert quiet.look() == [["MODIFIED", "r1"]] and int(quiet.version) > int(old), quiet.seen
    # A version that the server may have forgotten: 410, then everything from version 0, or every event since.
    ancient = Watched(api, "storages", 1)
    assert ["r1"] == sorted({name for _, name in ancient.look()}), ancient.seen
    return ancient.restarts


def job(api, administrator):
    """Makes the service's calls for a job from submission to deletion."""
    service = Service(api, Job(JOB, ["n1"], tolerance=2), rabbits(api))
    workflows = Watched(api, "workflows", 0)
    assert workflows.look() == [], workflows.seen
    service.create(JOB, 1050, 1050, directives("#DW jobdw type=xfs capacity=1GiB name=s", {}))
    administrator.answer_proposal()
    assert ["ADDED", WORKFLOW] in workflows.look(), workflows.seen
    service.proposed(api.get("workflows", WORKFLOW))
    service.setup()
    administrator.allocate()
    api.patch("computes", WORKFLOW, {"data": [{"name": "n1"}]})
    service.fail({"n1"})
    assert service.not_in_state("mounted") == []
    assert service.servers_with(lambda entry: entry["ready"]) == {"r1"}
    service.abort()
    workflow = api.get("workflows", WORKFLOW)
    assert FINALIZER not in workflow["metadata"].get("finalizers", []), workflow
    api.delete_workflow(WORKFLOW)
    assert ["DELETED", WORKFLOW] in workflows.look(), workflows.seen
    SystemStatus(api, ["n1"]).set_online({"n1"})


def mapping(api):
    """Makes the calls of `flux rabbitmapping`."""
    api.get("systemconfigurations", "default")
    for plural in ("storages", "servers"):
        assert api.objects.list_cluster_custom_object(DWS, api.dws, plural)["items"], plural


def pods(core):
    """Reads the log of a workflow's first pod; there is no pod."""
    selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
    assert core.list_namespaced_pod("default", label_selector=selector).items == []
    assert core.list_pod_for_all_namespaces(label_selector=selector).items == []
    try:
        core.read_namespaced_pod_log("nothing", "default")
    except ApiException as error:
        assert error.status == 404, error


def beyond(api, core):
    """Makes calls that neither the service nor a command makes, and returns the status of each."""
    objects = api.objects
    one, many = (DWS, api.dws, "default"), (DWS, api.dws)
    calls = {
        "list Workflows": lambda: objects.list_namespaced_custom_object(*one, "workflows"),
        "create a Workflow in another namespace": lambda: objects.create_namespaced_custom_object(*many, "nnf-system", "workflows", {}),
        "delete a Storage": lambda: objects.delete_namespaced_custom_object(*one, "storages", "r1"),
        "patch SystemConfiguration": lambda: objects.patch_namespaced_custom_object(*one, "systemconfigurations", "default", {}),
        "patch the status of a Workflow": lambda: objects.patch_namespaced_custom_object_status(*one, "workflows", WORKFLOW, {}),
        "patch a ClientMount": lambda: objects.patch_namespaced_custom_object(*one, "clientmounts", "x", {}),
        "read a profile": lambda: objects.get_namespaced_custom_object(NNF, api.nnf, "default", "nnfstorageprofiles", "x"),
        "read a Secret": lambda: core.read_namespaced_secret("x", "default"),
        "list Secrets": lambda: core.list_secret_for_all_namespaces(),
        "read a log of another namespace": lambda: core.read_namespaced_pod_log("x", "nnf-system"),
        "list nodes": lambda: core.list_node(),
    }
    statuses = {}
    for name, call in calls.items():
        try:
            call()
            statuses[name] = 200
        except ApiException as error:
            statuses[name] = error.status
    return statuses


def main(kubeconfig, administrators, has_pods="0"):
    administrator = Administrator(administrators)
    administrator.describe_system()
    api = Api(kubeconfig)
    restarts = watches(api, lambda: administrator.write_status("storages", "r1", {"capacity": 1 << 30}))
    job(api, administrator)
    mapping(api)
    answer = {"client": kubernetes.__version__, "restarts": restarts, "movements": api.movements}
    if has_pods == "1":
        core = client.CoreV1Api()
        pods(core)
        answer["beyond"] = beyond(api, core)
    return answer


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
