"""Drives a job against a Kubernetes API as flux-coral2's service does, with the client that it uses.

usage: life.py KUBECONFIG WORD JOB [ARGUMENT ...]; prints one JSON object. Each run is a service that was restarted: what it
knows it reads from the objects.
"""

import json
import sys
from time import monotonic

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

from service import DWS, Job, Service, SystemStatus, directives, usable

VERSION = "v1alpha7"
PATIENCE = 60


class Api:
    """The calls that the service makes, by the client's own functions."""

    def __init__(self, kubeconfig):
        config.load_kube_config(kubeconfig)
        self.objects = client.CustomObjectsApi()
        # What the service does first: it asks which version is served.
        self.objects.list_namespaced_custom_object(DWS, VERSION, "default", "workflows", limit=1)

    def create(self, plural, body):
        return self.objects.create_namespaced_custom_object(DWS, VERSION, "default", plural, body)

    def get(self, plural, name):
        return self.objects.get_namespaced_custom_object(DWS, VERSION, "default", plural, name)

    def patch(self, plural, name, body):
        # The client sends a dictionary as a merge patch.
        return self.objects.patch_namespaced_custom_object(DWS, VERSION, "default", plural, name, body)

    def list_all(self, plural, selector):
        return self.objects.list_cluster_custom_object(DWS, VERSION, plural, label_selector=selector)["items"]

    def teardown(self, name):
        finalizers = [one for one in self.get("workflows", name)["metadata"].get("finalizers", []) if not one.startswith("flux-framework")]
        self.patch("workflows", name, {"spec": {"desiredState": "Teardown"}, "metadata": {"finalizers": finalizers}})

    def delete_workflow(self, name):
        self.objects.delete_namespaced_custom_object(DWS, VERSION, "default", "workflows", name)

    def events(self, plural):
        """Each version of each object; the watch is begun anew each second, and from the beginning after a 410."""
        version = "0"
        while True:
            try:
                stream = watch.Watch().stream(
                    self.objects.list_namespaced_custom_object, DWS, VERSION, "default", plural,
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
    """Acts on the events until what is waited for is so."""
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


def proposed(api, name):
    """The Proposal that is complete, or refused."""
    for kind, workflow in api.events("workflows"):
        if kind is None or workflow["metadata"]["name"] != name:
            continue
        status = workflow.get("status") or {}
        if status.get("state") == "Proposal" and (status.get("ready") or status.get("status") == "Error"):
            return status


def main(kubeconfig, word, jobid, *rest):
    api = Api(kubeconfig)
    job = Job(int(jobid), rest[0].split(",") if rest else ())
    # Small drives: the service's own least of 4 GiB does not fit them.
    service = Service(api, job, rabbits(api), least=1)
    if word == "submit":
        user, lines = int(rest[0]), directives(list(rest[1:]), {})
        try:
            service.create(int(jobid), user, user, lines)
        except ApiException as error:
            return {"status": error.status, "message": json.loads(error.body)["message"]}
        return proposed(api, job.name)
    if word == "start":
        service.setup()
        follow(api, service, lambda: job.variables is not None or job.error)
        return {"variables": job.variables, "error": job.error}
    if word == "finish":
        service.post_run(True)
        follow(api, service, lambda: job.deleted)
        gone(api, job.name)
        return {}
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
            "allocated": sorted(service.servers_with(lambda one: one.get("allocationSize", 0) > 0)),
            "notReady": sorted(service.servers_with(lambda one: not one.get("ready"))),
        }
    if word == "setup":
        service.setup()
        job.tolerance = len(job.hosts)
        return {}
    if word == "advance":
        # As far as it comes within some seconds.
        seen, end = {}, monotonic() + 5
        for kind, workflow in api.events("workflows"):
            if kind is not None:
                service.event(kind, workflow)
                seen = workflow.get("status", {})
            if monotonic() > end or (seen.get("ready") and seen.get("state") == rest[1]):
                return {"state": seen.get("state"), "ready": seen.get("ready")}
    if word == "force":
        job.tolerance = len(job.hosts)
        service.prerun_timeout()
        follow(api, service, lambda: job.variables is not None or job.error)
        return {"variables": job.variables, "failed": sorted(job.failed)}
    if word == "status":
        told = SystemStatus(api, job.hosts)
        told.set_online(set(rest[1].split(",")) - {""})
        return api.get("systemstatuses", "default")["data"]["nodes"]
    if word == "storages":
        found = {}
        for kind, storage in api.events("storages"):
            if kind is None:
                return found
            is_up, lost = usable(storage)
            computes = storage["status"]["access"]["computes"]
            found[storage["metadata"]["name"]] = {"up": is_up, "lost": sorted(lost), "computes": computes}
    raise SystemExit(f"no such word: {word}")


print(json.dumps(main(*sys.argv[1:])))
