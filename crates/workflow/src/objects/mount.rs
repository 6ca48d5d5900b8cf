//! Whether a ClientMount has its storage mounted, and where computes mount the storage of a directive.

use api::{ClientMount, client_mount::MountState};
use directive::FileSystem;
use kube::ResourceExt;

use super::{site::Site, view::View};
use crate::{names::job_id, profile::variable_overrides};

/// Returns true if nothing of the ClientMount is mounted: its node has reported this after the desired state became
/// unmounted, or the node is down.
pub fn is_unmounted(site: &Site, mount: &ClientMount) -> bool {
    says_unmounted(mount) || site.is_down(&mount.spec.node)
}

/// Returns true if the ClientMount is to be unmounted and its node reports that nothing of it is mounted.
pub fn says_unmounted(mount: &ClientMount) -> bool {
    mount.spec.desired_state == MountState::Unmounted && mount.has_reached_desired_state()
}

/// Returns true if the ClientMount is to be mounted and its node reports that all of it is mounted.
pub fn is_mounted(mount: &ClientMount) -> bool {
    mount.spec.desired_state == MountState::Mounted && mount.has_reached_desired_state()
}

/// Returns the directory where computes mount a directive's storage.
pub fn mount_path(view: &View<'_>, index: usize, file_system: FileSystem) -> String {
    let workflow = &view.workflow;
    let profile = view.directives[index].storage.profile.as_ref();
    let template =
        profile.and_then(|profile| variable_overrides(profile, file_system).get("$MOUNT_PATH"));
    let Some(template) = template else {
        let uid = workflow.uid().unwrap_or_default();
        return format!("{}/{uid}-{index}", view.site.settings.mount_root);
    };
    // None of these variables' names begins with the name of another. If that changes, the longer name must come
    // first.
    let variables = [
        ("$DIRECTIVE_INDEX", index.to_string()),
        ("$WORKFLOW_UID", workflow.uid().unwrap_or_default()),
        ("$GROUPID", workflow.spec.group_id.to_string()),
        ("$USERID", workflow.spec.user_id.to_string()),
        ("$JOBID", job_id(workflow)),
    ];
    variables.into_iter().fold(template.clone(), |path, (name, value)| path.replace(name, &value))
}
