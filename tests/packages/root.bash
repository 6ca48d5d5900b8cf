# shellcheck shell=bash
# Functions that set up a clean Debian system for a test of packages, and check it. The system is an overlay: its lower
# layer is the disk of the lab's guests, and its changes are in memory until the test's mount namespace ends.

fail() { echo "FAILED: $*" >&2; exit 1; }
step() { echo "-- $*"; }

# clean_root DISK: mounts the overlay, and sets the variable root to its directory.
clean_root() {
    local at
    at=$(mktemp -d /tmp/warren-root.XXXXXX)
    mount -t tmpfs tmpfs "$at"
    mkdir "$at"/{below,above,work,root}
    mount -o ro,noload,loop "$1" "$at/below"
    mount -t overlay -o "lowerdir=$at/below,upperdir=$at/above,workdir=$at/work" overlay "$at/root"
    root=$at/root
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/run"
    mount --rbind /dev "$root/dev"
    # dpkg's settings on the guests' disk exclude manual pages, which these tests look for.
    rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
}

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }

# Lists every file with mode, owner and size, except package databases, backups of the user database and logs.
listing() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./run -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./var/log -o -path ./var/cache -o -path ./tmp \) -prune \
        -o ! -path './etc/*-' ! -name .pwd.lock ! -type d -printf '%p %y %m %U:%G %s %l\n' -o -type d -printf '%p %y %m %U:%G\n' | sort)
}

there() { local file; for file in "$@"; do [ -e "$root$file" ] || [ -L "$root$file" ] || fail "$file is not there"; done; }
gone() { local file; for file in "$@"; do [ ! -e "$root$file" ] && [ ! -L "$root$file" ] || fail "$file is there"; done; }
holds() { grep -qF -- "$2" "$root$1" || fail "$1 does not hold $2: $(cat "$root$1")"; }
enabled() { [ "$(inside systemctl is-enabled "$1" 2>&1 || true)" = "$2" ] || fail "$1 is not $2: $(inside systemctl is-enabled "$1" 2>&1)"; }

# Checks that both formats of packages must pass after an installation.
installed() {
    local program
    for program in clientmount-agent rabbit-agent coordinator warren; do
        inside "$program" --version | grep -q "^$program " || fail "$program does not start"
    done
    there /usr/share/warren/kubernetes/chart/Chart.yaml /usr/libexec/warren/{renew-token,podhelper,datamover} /usr/share/bash-completion/completions/warren \
        /usr/share/man/man1/warren.1.gz /usr/lib/systemd/system/mnt-nnf-.mount.d/50-warren-{clientmount,rabbit}-agent.conf \
        /usr/lib/tmpfiles.d/warren-{coordinator,rabbit-agent,clientmount-agent}.conf \
        /usr/share/doc/warren-coordinator/{examples/credentials.conf,CHANGELOG.md} /etc/warren/{coordinator,rabbit-agent,clientmount-agent,slurm,flux} \
        /usr/share/warren/slurm/{burst_buffer.{lua,conf},job_submit.lua,prolog,epilog,give-back,job.bash} \
        /usr/share/warren/flux/{prolog,epilog,job.bash} /usr/share/warren/perilog/agent.bash
    # Slurm and Flux start these scripts through symbolic links: the scripts themselves must be executable.
    local script
    for script in slurm/{prolog,epilog,give-back} flux/{prolog,epilog}; do
        [ -x "$root/usr/share/warren/$script" ] || fail "$script cannot be started"
    done
    inside getent passwd warren | grep -q nologin || fail "there is no user warren, or it can log in"
    # systemd must have no complaint now that the programs are installed.
    local output
    output=$(inside bash -c 'systemd-analyze verify /usr/lib/systemd/system/warren-*.{service,socket,timer}' 2>&1 | grep warren || true)
    [ -z "$output" ] || fail "systemd-analyze verify: $output"
}

# Writes the files that a site and the programs would write, among them the agents' records of a mount and of an NVMe
# namespace.
site_works() {
    echo "WARREN_API_LISTEN=127.0.0.1:7777" >> "$root/etc/warren/coordinator"
    echo certificate > "$root/etc/warren/ca"
    mkdir -p "$root"/etc/systemd/system/warren-coordinator.service.d "$root"/var/lib/warren/{pool,coordinator,clientmount-agent/mounts,rabbit-agent/drives}
    echo '[Service]' > "$root/etc/systemd/system/warren-coordinator.service.d/site.conf"
    echo objects > "$root/var/lib/warren/coordinator/objects.redb"
    echo '{}' > "$root/var/lib/warren/clientmount-agent/mounts/11111111-2222-4333-8444-555555555555.json"
    echo '{"namespaces":[{"nsid":1,"nguid":"00"}]}' > "$root/var/lib/warren/rabbit-agent/drives/nqn.json"
    echo data > "$root/var/lib/warren/pool/drive"
    inside systemctl --quiet enable warren-coordinator.service
    inside systemctl --quiet disable warren-clientmount-agent.socket
}
sites_files_are_there() {
    holds /etc/warren/ca certificate
    holds /etc/systemd/system/warren-coordinator.service.d/site.conf '[Service]'
    holds /var/lib/warren/pool/drive data
}
jobs_records_are_there() {
    there /var/lib/warren/clientmount-agent/mounts/11111111-2222-4333-8444-555555555555.json /var/lib/warren/rabbit-agent/drives/nqn.json
}
