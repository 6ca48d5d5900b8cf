//! Turns a `NnfNodeStorageSpec` of type `lustre` into Lustre targets.
//!
//! The names are the ones that nnf-node-manager uses, so that this agent finds targets that nnf-node-manager made, and
//! the reverse: the pool `pool-<uid of the NnfStorage>-<type>-<index>`, in the pool a dataset named after the type, and
//! the mount point `<first mount root>/<uid>-<type>-<index>`.

#[cfg(test)]
mod tests;

use api::{
    NnfNodeBlockStorage, NnfNodeStorage, NnfStorageProfile,
    nnf_node_storage::{BackFs, LustreTargetType},
    nnf_storage_profile::{LustreClientOptions, LustreTargetOptions},
};
use storage::{
    desired::{
        AllowedRoots, Dataset, FileSystemId, Hook, HookPoint, HookScope, LustreClient,
        LustreTarget, MountPoint, ObjectUid, TargetLines,
    },
    template::expand,
};

use super::{
    desired::{NodeStorageError, TemporaryRoot, allocation, count, namespaces},
    lines::{Lines, Variables, owner, variables},
};

/// Directories of the mounts of targets and set-up hooks.
#[derive(Debug, Clone, Copy)]
pub struct MountRoots<'a> {
    pub roots: &'a AllowedRoots,
    /// Directory of the mounts that hooks see.
    pub temporary: &'a TemporaryRoot,
}

/// Returns the Lustre targets that the object asks for, on the namespaces that `block` reports.
pub fn targets(
    object: &NnfNodeStorage,
    profile: &NnfStorageProfile,
    block: &NnfNodeBlockStorage,
    mount_roots: MountRoots<'_>,
) -> Result<Vec<LustreTarget>, NodeStorageError> {
    let count = count(object)?;
    let spec = &object.spec.lustre_storage;
    let kind = spec.target_type.clone().ok_or_else(|| invalid("targetType", "", KINDS))?;
    let lustre = &profile.data().lustre_storage;
    let options = lustre.target_options(&kind);
    let options = options.ok_or_else(|| invalid("targetType", kind.as_str(), KINDS))?;
    if object.spec.shared_allocation && count > 1 {
        let use_separate = "false: each pool needs an allocation of its own";
        return Err(NodeStorageError::Lustre {
            field: "spec.sharedAllocation".to_owned(),
            value: "true".to_owned(),
            remedy: use_separate,
        });
    }
    check(object, &kind)?;
    let builder = Builder { object, profile, kind, options, client: &lustre.client_options, count };
    (0..count).map(|index| builder.target(index, block, mount_roots)).collect()
}

const KINDS: &str = "mgt, mdt, mgtmdt or ost";

fn invalid(field: &str, value: &str, remedy: &'static str) -> NodeStorageError {
    let field = format!("spec.lustreStorage.{field}");
    NodeStorageError::Lustre { field, value: value.to_owned(), remedy }
}

fn check(object: &NnfNodeStorage, kind: &LustreTargetType) -> Result<(), NodeStorageError> {
    let spec = &object.spec.lustre_storage;
    let name = &spec.file_system_name;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    // lustre(7): a file system's name has at most 8 characters. A separate management target serves all file systems,
    // so it needs no name.
    let needs_name = *kind != LustreTargetType::Mgt;
    if !is_plain || name.len() > 8 || (needs_name && name.is_empty()) {
        return Err(invalid("fileSystemName", name, "1 to 8 letters, digits, '_', '-' or '.'"));
    }
    let finds_itself = matches!(kind, LustreTargetType::Mgt | LustreTargetType::MgtMdt);
    if spec.mgs_address.is_empty() && !finds_itself {
        return Err(invalid("mgsAddress", "", "the LNet address of the management server"));
    }
    Ok(())
}

/// Returns the name that Lustre gives to a target's service (mkfs.lustre(8), --index). The index has four hexadecimal
/// digits. A combined management and metadata target is named as a metadata target.
fn service(kind: &LustreTargetType, file_system: &str, number: u32) -> String {
    match kind {
        LustreTargetType::Mgt => "MGS".to_owned(),
        LustreTargetType::Mdt | LustreTargetType::MgtMdt => {
            format!("{file_system}-MDT{number:04x}")
        }
        LustreTargetType::Ost | LustreTargetType::Other(_) => {
            format!("{file_system}-OST{number:04x}")
        }
    }
}

struct Builder<'a> {
    object: &'a NnfNodeStorage,
    profile: &'a NnfStorageProfile,
    kind: LustreTargetType,
    options: &'a LustreTargetOptions,
    client: &'a LustreClientOptions,
    count: u32,
}

impl Builder<'_> {
    fn target(
        &self,
        index: u32,
        block: &NnfNodeBlockStorage,
        mount_roots: MountRoots<'_>,
    ) -> Result<LustreTarget, NodeStorageError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let meta = &self.object.metadata;
        let owner = owner(self.object)?;
        let number = self.number(index)?;
        let mut variables = self.variables(index, number, owner, mount_roots)?;
        let back_fs = expand("$BACKFS", &variables);
        if back_fs != BackFs::Zfs.as_str() {
            return Err(invalid("backFs", &back_fs, "zfs: targets are made on pools of ZFS"));
        }
        let target = MountPoint::parse(&expand("$TARGET_PATH", &variables), mount_roots.roots)
            .map_err(NodeStorageError::TargetPath)?;
        // A site that overrides `$MOUNT_PATH` means the mount point on clients, not that of the target.
        variables.insert("$MOUNT_PATH".to_owned(), target.to_string());
        let id = FileSystemId::derive(owner, &text(&meta.namespace), &text(&meta.name), index);
        let scope = HookScope::file_system(&id);
        let first_of_all = self.kind == LustreTargetType::Ost && number == 0;
        let field = self.field();
        let lines = Lines { profile: self.profile, root: &field, variables: &variables };
        let commands = &self.options.command_lines;
        let hooks = |phase: HookPoint, list| lines.hooks(&scope, phase, phase.as_str(), list);
        let mut hooks = [
            hooks(HookPoint::PostActivate, &commands.post_activate)?,
            hooks(HookPoint::PreDeactivate, &commands.pre_deactivate)?,
        ]
        .concat();
        let client = match first_of_all {
            true => Some(self.client(index, &scope, &variables, mount_roots, &mut hooks)?),
            false => None,
        };
        Ok(LustreTarget {
            id,
            dataset: dataset(&variables)?,
            namespaces: namespaces(block, index as usize)?,
            made_for: Some(allocation(block, index)?),
            target,
            lines: self.lines(lines)?,
            hooks,
            client,
        })
    }

    /// Returns the index of the target in its file system.
    fn number(&self, index: u32) -> Result<u32, NodeStorageError> {
        let start = self.object.spec.lustre_storage.start_index;
        let number = u32::try_from(start).ok().and_then(|start| start.checked_add(index));
        // Lustre writes the index with four hexadecimal digits (mkfs.lustre(8)).
        number
            .filter(|number| *number < 0xffff)
            .ok_or_else(|| invalid("startIndex", &start.to_string(), "0 to 65534"))
    }

    fn field(&self) -> String {
        let options = match self.kind {
            LustreTargetType::Mgt => "mgtOptions",
            LustreTargetType::Mdt => "mdtOptions",
            LustreTargetType::MgtMdt => "mgtMdtOptions",
            LustreTargetType::Ost | LustreTargetType::Other(_) => "ostOptions",
        };
        format!("data.lustreStorage.{options}.commandlines")
    }

    /// Returns the variables of a target. Values of the object replace the agent's; the
    /// profile's overrides replace both.
    fn variables(
        &self,
        index: u32,
        number: u32,
        owner: ObjectUid,
        mount_roots: MountRoots<'_>,
    ) -> Result<Variables, NodeStorageError> {
        let (spec, kind) = (&self.object.spec.lustre_storage, self.kind.as_str());
        let root = mount_roots.roots.iter().next().map(|root| root.display().to_string());
        let root = root.unwrap_or_default();
        let name = &spec.file_system_name;
        let backs = spec.back_fs.as_ref().map_or("", BackFs::as_str);
        let parts = &spec.lustre_components;
        let known = [
            ("$ZPOOL_NAME", format!("pool-{owner}-{kind}-{number}")),
            ("$ZPOOL_DATA_SET", kind.to_owned()),
            ("$POOL_NAME", "$ZPOOL_NAME".to_owned()),
            ("$ZVOL_NAME", "$POOL_NAME/$ZPOOL_DATA_SET".to_owned()),
            ("$DEVICE", "$ZVOL_NAME".to_owned()),
            ("$TARGET_PATH", format!("{root}/{owner}-{kind}-{number}")),
            ("$TARGET_TYPE", kind.to_owned()),
            ("$TARGET_NAME", service(&self.kind, name, number)),
            ("$INDEX", number.to_string()),
            ("$FS_NAME", name.clone()),
            ("$MGS_NID", spec.mgs_address.clone()),
            ("$BACKFS", backs.to_owned()),
            ("$NUM_MDTS", parts.mdts.len().to_string()),
            ("$NUM_MGTS", parts.mgts.len().to_string()),
            ("$NUM_MGTMDTS", parts.mgtmdts.len().to_string()),
            ("$NUM_OSTS", parts.osts.len().to_string()),
            ("$NUM_NNFNODES", parts.nnf_nodes.len().to_string()),
        ];
        let mut variables = variables(self.object, known, index, self.count)?;
        variables.extend(self.options.variable_override.clone());
        Ok(variables)
    }

    fn lines(&self, lines: Lines<'_>) -> Result<TargetLines, NodeStorageError> {
        let commands = &self.options.command_lines;
        Ok(TargetLines {
            create: lines.line("zpoolCreate", &commands.zpool_create)?,
            destroy: lines.line("zpoolDestroy", &commands.zpool_destroy)?,
            replace: lines.line("zpoolReplace", &commands.zpool_replace)?,
            mkfs: lines.line("mkfs", &commands.mkfs)?,
            mount: lines.line("mountTarget", &commands.mount_target)?,
            unmount: lines.line("unmountTarget", &commands.unmount_target)?,
        })
    }

    /// Returns a client mount of the whole file system for hooks. Adds these hooks to `hooks`; only the rabbit with the
    /// first object target runs them.
    fn client(
        &self,
        index: u32,
        scope: &HookScope,
        variables: &Variables,
        mount_roots: MountRoots<'_>,
        hooks: &mut Vec<Hook>,
    ) -> Result<LustreClient, NodeStorageError> {
        let name = self.object.metadata.name.clone().unwrap_or_default();
        let default = mount_roots.temporary.mount_point(&name, index);
        let default = default.map_err(NodeStorageError::Temporary)?.to_string();
        let mut variables = variables.clone();
        variables.extend(self.client.variable_override.clone());
        variables.entry("$TEMP_DIR".to_owned()).or_insert(default);
        let temporary = expand("$TEMP_DIR", &variables);
        let temporary = MountPoint::parse(&temporary, &mount_roots.temporary.roots)
            .map_err(NodeStorageError::Temporary)?;
        variables.insert("$MOUNT_PATH".to_owned(), temporary.to_string());
        let root = "data.lustreStorage.clientOptions.commandlines";
        let lines = Lines { profile: self.profile, root, variables: &variables };
        let commands = &self.client.command_lines;
        for (phase, name, list) in [
            (HookPoint::PostSetup, "rabbitPostSetup", &commands.rabbit_post_setup),
            (HookPoint::PreTeardown, "rabbitPreTeardown", &commands.rabbit_pre_teardown),
            (HookPoint::PostTeardown, "rabbitPostTeardown", &commands.rabbit_post_teardown),
        ] {
            hooks.extend(lines.hooks(scope, phase, name, list)?);
        }
        Ok(LustreClient {
            source: expand("$MGS_NID:/$FS_NAME", &variables),
            temporary,
            mount: lines.line("mountRabbit", &commands.mount_rabbit)?,
        })
    }
}

/// Returns the dataset that the profile's lines name after all overrides; the agent observes this dataset.
fn dataset(variables: &Variables) -> Result<Dataset, NodeStorageError> {
    let (pool, whole) = (expand("$POOL_NAME", variables), expand("$ZVOL_NAME", variables));
    let name = whole.strip_prefix(&format!("{pool}/"));
    let Some(name) = name else {
        return Err(NodeStorageError::Lustre {
            field: "the profile's variableOverride of $ZVOL_NAME".to_owned(),
            value: whole,
            remedy: "a dataset in $POOL_NAME",
        });
    };
    Dataset::new(&pool, name).map_err(NodeStorageError::Dataset)
}
