"""Drives a job against a Kubernetes API as flux-coral2's service does, with the client that it uses.

usage: life.py KUBECONFIG WORD JOB [ARGUMENT ...]; prints one JSON object. Each run acts as a restarted
service, which reads all its knowledge from the objects.
"""

import json
import sys
from time import monotonic

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

from service import DWS, Job, Service, SystemStatus, chassis_paths, directives, storage_messages, usable

NNF = "nnf.cray.hpe.com"
DWS_VERSIONS = ("v1alpha7", "v1alpha6")
NNF_VERSIONS = ("v1alpha11", "v1alpha10", "v1alpha9", "v1alpha8")
# The service's setting save_datamovements; with the default of 0 the service does not list data movements.
SAVED = 10
PATIENCE = 60


def is_served(lists, *kind):
    try:
        lists(*kind, limit=2)
    except ApiException:
        return False
    return True


class Api:
    """Makes the service's calls with the functions of the Kubernetes client."""

    # No list may fail in these tests. The service itself goes on as if nothing were there.
    list_errors = ()

    def __init__(self, kubeconfig):
        config.load_kube_config(kubeconfig)
        self.objects, self.movements = client.CustomObjectsApi(), None
        # At its start the service takes the first version that the API serves, and ends if there is none.
        self.dws = next((version for version in DWS_VERSIONS if self.is_dws(version)), None)
        self.nnf = next((version for version in NNF_VERSIONS if self.is_nnf(version)), None)
        if self.dws is None or self.nnf is None:
            raise SystemExit(f"no suitable API version is served: DWS {self.dws}, NNF {self.nnf}")

    def is_dws(self, version):
        kinds = ("storages", "systemstatuses", "systemconfigurations")
        lists = self.objects.list_namespaced_custom_object
        return all(is_served(lists, DWS, version, "default", kind) for kind in kinds)

    def is_nnf(self, version):
        return is_served(self.objects.list_cluster_custom_object, NNF, version, "nnfdatamovements")

    def create(self, plural, body):
        return self.objects.create_namespaced_custom_object(DWS, self.dws, "default", plural, body)

    def get(self, plural, name, namespace="default"):
        return self.objects.get_namespaced_custom_object(DWS, self.dws, namespace, plural, name)

    def patch(self, plural, name, body):
        # The Kubernetes client sends a dictionary as a merge patch.
        return self.objects.patch_namespaced_custom_object(DWS, self.dws, "default", plural, name, body)

    def list_all(self, plural, selector):
        return self.objects.list_cluster_custom_object(DWS, self.dws, plural, label_selector=selector)["items"]

    def teardown(self, name):
        selector = f"{DWS}/workflow.name={name},{DWS}/workflow.namespace=default"
        listed = self.objects.list_cluster_custom_object(NNF, self.nnf, "nnfdatamovements", label_selector=selector, limit=SAVED)
        self.movements = listed["items"]
        finalizers = [one for one in self.get("workflows", name)["metadata"].get("finalizers", []) if not one.startswith("flux-framework")]
        self.patch("workflows", name, {"spec": {"desiredState": "Teardown"}, "metadata": {"finalizers": finalizers}})

    def delete_workflow(self, name):
        self.objects.delete_namespaced_custom_object(DWS, self.dws, "default", "workflows", name)

    def events(self, plural):
        """Yields each version of each object; restarts the watch each second, and lists again after a 410."""
        version = "0"
        while True:
            try:
                stream = watch.Watch().stream(
                    self.objects.list_namespaced_custom_object, DWS, self.dws, "default", plural,
                    resource_version=version, timeout_seconds=1,
                )
                for event in stream:
                    version = event["object"]["metadata"]["resourceVersion"]
                    yield event["type"], event["object"]
            except ApiException as error:
                if error.status != 410:
                    raise
                version = "0"
            yield None, None


def rabbits(api):
    nodes = api.get("systemconfigurations", "default")["spec"]["storageNodes"]
    return {compute["name"]: node["name"] for node in nodes for compute in node.get("computesAccess", [])}


def follow(api, service, is_done):
    """Acts on the events until the condition holds."""
    end = monotonic() + PATIENCE
    for kind, workflow in api.events("workflows"):
        if kind is not None:
            service.event(kind, workflow)
        if is_done():
            return
        if monotonic() > end:
            raise SystemExit(f"waited {PATIENCE} s for {service.job.name}: {json.dumps(workflow)}")


def gone(api, name):
    end = monotonic() + PATIENCE
    for kind, workflow in api.events("workflows"):
        if kind == "DELETED" and workflow["metadata"]["name"] == name:
            return
        try:
            api.get("workflows", name)
        except ApiException as error:
            if error.status == 404:
                return
            raise
        if monotonic() > end:
            raise SystemExit(f"{name} is there still: {json.dumps(workflow)}")


def proposed(api, service, name):
    """Waits until the Proposal is complete or refused."""
    for kind, workflow in api.events("workflows"):
        if kind is None or workflow["metadata"]["name"] != name:
            continue
        service.event(kind, workflow)
        status = workflow["status"]
        if status.get("state") == "Proposal" and (status["ready"] or status.get("status") == "Error"):
            return status


def main(kubeconfig, word, jobid, *rest):
    api = Api(kubeconfig)
    if word == "versions":
        return {"dws": api.dws, "nnf": api.nnf}
    job = Job(int(jobid), rest[0].split(",") if rest else ())
    # The test's drives are too small for the service's minimum of 4 GiB.
    service = Service(api, job, rabbits(api), least=1)
    if word == "submit":
        user, lines = int(rest[0]), directives(list(rest[1:]), {})
        try:
            service.create(int(jobid), user, user, lines)
        except ApiException as error:
            return {"status": error.status, "message": json.loads(error.body)["message"]}
        return proposed(api, service, job.name)
    if word == "start":
        service.setup()
        follow(api, service, lambda: job.variables is not None or job.error)
        return {"variables": job.variables, "error": job.error}
    if word == "finish":
        service.post_run(True)
        follow(api, service, lambda: job.deleted)
        gone(api, job.name)
        return {"movements": api.movements}
    if word == "cancel":
        service.post_run(False)
        follow(api, service, lambda: job.deleted)
        gone(api, job.name)
        return {}
    if word == "abort":
        return {"nodes": sorted(service.abort())}
    if word == "end":
        job.toredown = True
        follow(api, service, lambda: job.deleted)
        gone(api, job.name)
        return {}
    if word == "queries":
        return {
            "notMounted": sorted(service.not_in_state("mounted")),
            "notUnmounted": sorted(service.not_in_state("unmounted")),
            "allocated": sorted(service.servers_with(lambda one: one["allocationSize"] > 0)),
            "notReady": sorted(service.servers_with(lambda one: not one.get("ready"))),
        }
    if word == "setup":
        service.setup()
        job.tolerance = len(job.hosts)
        return {}
    if word == "advance":
        # Handles events for five seconds, and prints the last state of the workflow.
        last_status, end = {}, monotonic() + 5
        for kind, workflow in api.events("workflows"):
            if kind is not None:
                service.event(kind, workflow)
                last_status = workflow["status"]
            if monotonic() > end or (last_status.get("ready") and last_status.get("state") == rest[1]):
                return {"state": last_status.get("state"), "ready": last_status.get("ready")}
    if word == "force":
        job.tolerance = len(job.hosts)
        service.prerun_timeout()
        follow(api, service, lambda: job.variables is not None or job.error)
        return {"variables": job.variables, "failed": sorted(job.failed)}
    if word == "status":
        status = SystemStatus(api, job.hosts)
        status.set_online(set(rest[1].split(",")) - {""})
        return api.get("systemstatuses", "default")["data"]["nodes"]
    if word == "storages":
        found = {}
        for kind, storage in api.events("storages"):
            if kind is None:
                return found
            is_up, lost = usable(storage)
            computes = storage["status"]["access"]["computes"]
            paths, ssds = chassis_paths([compute["name"] for compute in computes], 0, 1)
            messages = list(storage_messages(storage, paths, ssds, {}))
            found[storage["metadata"]["name"]] = {"up": is_up, "lost": sorted(lost), "computes": computes, "messages": messages}
    raise SystemExit(f"no such word: {word}")


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
