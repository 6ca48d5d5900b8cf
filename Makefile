# `make` alone lists what there is. Everything installs what it lacks; root only where the kernel demands it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.PHONY: help demo test kube lab lint bench package

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: ## the main job on this box: volumes carved, mounted on three computes, read on the rabbit, torn down (root)
	@tests/demo

test: ## every suite this machine can run, from a clean clone; says loudly what it skips and why; LONG=1 for the long tests
	@tests/run

kube: ## the suites on a real kube-apiserver, etcd and kube-controller-manager (built once with Go); LONG=1 for an hour of faults
	@tests/kube

lab: ## scenarios in guests with emulated NVMe drives and kernels of their own; SCENARIO=name for one (root, Debian 12)
	@tests/lab/run $(SCENARIO)

lint: ## formatting, clippy, licences and advisories, shell scripts, units
	@tests/lint

bench: ## our share of the work, and what a job loses beside it, as ratios measured in one run (root)
	@tests/bench

package: ## deb and rpm of each program, for glibc 2.28 and newer; CHECK=1 proves that they are reproducible
	@packaging/build
