/// Format of the packages.
#[derive(Debug, Clone, Copy)]
pub(super) enum Format {
    Deb,
    /// RPMs on the guests' Debian: their scripts are tested here; `tests/packages/rpm` tests their dependencies.
    Rpm,
}

/// Script that purges the debs. The coordinator's store and its owner, a user, stay. The script removes both, and
/// checks that nothing else is left.
const PURGE_DEBS: &str = "
dpkg -P warren-clientmount-agent warren-rabbit-agent warren-coordinator warren warren-kubernetes >/dev/null 2>&1
test -s /var/lib/warren/coordinator/objects.redb && rm -r /var/lib/warren/coordinator && userdel warren && rmdir /var/lib/warren
";

/// Script that erases the RPMs. rpm has no purge: files that the programs wrote stay, and the site's configuration
/// is renamed to .rpmsave.
const ERASE_RPMS: &str = "
rpm -e --nodeps warren-clientmount-agent warren-rabbit-agent warren-coordinator warren warren-kubernetes 2>/dev/null
test -s /etc/warren/coordinator.rpmsave && test -s /var/lib/warren/coordinator/objects.redb
test -z \"$(ls -A /var/lib/warren/clientmount-agent/mounts)\"
rm -r /var/lib/warren && userdel warren
";

/// Script for use after a reinstallation, which rpm treats as a first installation: it puts the settings, which rpm had
/// renamed, back into place, and undoes the preset, which enables the socket.
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
            // dpkg keeps the state of units: a unit that was enabled is still enabled.
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
