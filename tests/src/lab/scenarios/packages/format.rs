/// What a package is made as.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    Deb,
    /// On the guests' Debian: their dependencies are looked at by `tests/packages/rpm`, here it is their scripts that count.
    Rpm,
}

/// The store stays, with its owner: what is left beside it counts.
const PURGE_DEBS: &str = "
dpkg -P warren-clientmount-agent warren-rabbit-agent warren-coordinator warren warren-kubernetes >/dev/null 2>&1
test -s /var/lib/warren/coordinator/objects.redb && rm -r /var/lib/warren/coordinator && userdel warren && rmdir /var/lib/warren
";

/// rpm has no purge: what the programs wrote stays, and it keeps aside what the site configured.
const ERASE_RPMS: &str = "
rpm -e --nodeps warren-clientmount-agent warren-rabbit-agent warren-coordinator warren warren-kubernetes 2>/dev/null
test -s /etc/warren/coordinator.rpmsave && test -s /var/lib/warren/coordinator/objects.redb
test -z \"$(ls -A /var/lib/warren/clientmount-agent/mounts)\"
rm -r /var/lib/warren && userdel warren
";

/// A reinstallation is a first one: rpm has kept the settings aside, and the preset enables the socket.
const AGAIN_AS_CONFIGURED: &str = "
mv /etc/warren/clientmount-agent.rpmsave /etc/warren/clientmount-agent
systemctl --quiet disable --now warren-clientmount-agent.socket
systemctl --quiet enable --now warren-clientmount-agent.service
";

impl Format {
    pub(super) fn install(self, age: &str) -> String {
        match self {
            Self::Deb => format!("dpkg -i /lab/{age}/*.deb </dev/null"),
            Self::Rpm => format!("rpm -U --nodeps --nosignature /lab/{age}/*.rpm"),
        }
    }

    pub(super) fn remove(self, name: &str) -> String {
        match self {
            Self::Deb => format!("dpkg -r {name} >/dev/null"),
            Self::Rpm => format!("rpm -e --nodeps {name} 2>/dev/null"),
        }
    }

    pub(super) fn install_again(self, name: &str) -> String {
        match self {
            // What was enabled is enabled still.
            Self::Deb => {
                format!("dpkg -i /lab/now/{name}_*.deb </dev/null; systemctl start {name}")
            }
            Self::Rpm => format!(
                "rpm -U --nodeps --nosignature /lab/now/{name}-[0-9]*.rpm\n{AGAIN_AS_CONFIGURED}"
            ),
        }
    }

    pub(super) fn purge(self) -> &'static str {
        match self {
            Self::Deb => PURGE_DEBS,
            Self::Rpm => ERASE_RPMS,
        }
    }
}
