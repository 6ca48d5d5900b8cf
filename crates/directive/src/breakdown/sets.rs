//! The allocation sets of each type of file system.

use super::{AllocationSet, BreakdownFault, Constraints, Label, Strategy};
use crate::capacity::{self, CapacityError, Factor, Padding};
use crate::command::{CreatePersistent, FileSystem, Jobdw};
use crate::profile::{LocalOptions, LustreOptions, StorageProfile, TargetOptions};

/// Label that the Storage of every rabbit has.
const RABBIT: &str = "dataworkflowservices.github.io/storage=Rabbit";
/// Key that keeps management targets apart: a rabbit holds at most one of them.
const MGT_KEY: &str = "lustre-mgt";
/// Size of a Lustre target whose profile gives no size.
const TARGET_DEFAULT: &str = "5GiB";

/// Returns the allocation sets of a `jobdw`.
///
/// # Errors
/// When the profile does not fit the directive.
pub fn of_jobdw(
    jobdw: &Jobdw,
    profile: &StorageProfile,
) -> Result<Vec<AllocationSet>, BreakdownFault> {
    if jobdw.file_system == FileSystem::Lustre && !profile.lustre.standalone_pool.is_empty() {
        return Err(BreakdownFault::StandaloneForJob);
    }
    allocation_sets(jobdw.file_system, Some(jobdw.capacity), profile)
}

/// Returns the allocation sets of a `create_persistent`.
///
/// # Errors
/// When the profile does not fit the directive.
pub fn of_persistent(
    create: &CreatePersistent,
    profile: &StorageProfile,
) -> Result<Vec<AllocationSet>, BreakdownFault> {
    allocation_sets(create.file_system, create.capacity, profile)
}

fn allocation_sets(
    file_system: FileSystem,
    capacity: Option<u64>,
    profile: &StorageProfile,
) -> Result<Vec<AllocationSet>, BreakdownFault> {
    let local = |label, options, name| Ok(vec![per_compute(label, capacity, options, name)?]);
    match file_system {
        FileSystem::Raw => local(Label::Raw, &profile.raw, "rawStorage"),
        FileSystem::Xfs => local(Label::Xfs, &profile.xfs, "xfsStorage"),
        FileSystem::Gfs2 => local(Label::Gfs2, &profile.gfs2, "gfs2Storage"),
        FileSystem::Lustre => lustre(capacity, &profile.lustre),
    }
}

fn per_compute(
    label: Label,
    capacity: Option<u64>,
    options: &LocalOptions,
    profile: &str,
) -> Result<AllocationSet, BreakdownFault> {
    let capacity = capacity.ok_or(BreakdownFault::NoCapacity)?;
    let scaled =
        scaled(capacity, &options.scaling_factor, &format!("{profile}.capacityScalingFactor"))?;
    let field = format!("{profile}.allocationPadding");
    let padding: Padding =
        options.padding.parse().map_err(profile_fault(&field, &options.padding))?;
    let padded = padding.added_to(scaled).map_err(size_fault(&field, &options.padding))?;
    let constraints = Constraints { labels: labels(&options.labels), ..Constraints::default() };
    Ok(AllocationSet {
        label,
        strategy: Strategy::PerCompute,
        minimum_capacity: padded,
        constraints,
        colocate_computes: false,
    })
}

fn lustre(
    capacity: Option<u64>,
    options: &LustreOptions,
) -> Result<Vec<AllocationSet>, BreakdownFault> {
    check_mgt_fields(options)?;
    if !options.standalone_pool.is_empty() {
        if !is_label_value(&options.standalone_pool) {
            return Err(BreakdownFault::PoolName { value: options.standalone_pool.clone() });
        }
        if capacity.is_some() {
            return Err(BreakdownFault::CapacityOfStandalone);
        }
        return Ok(vec![mgt(options)?]);
    }
    let capacity = capacity.ok_or(BreakdownFault::NoCapacity)?;
    let field = "lustreStorage.ostOptions.capacityScalingFactor";
    let total = scaled(capacity, &options.ost.scaling_factor, field)?;
    let mut sets = vec![target(Label::Ost, Strategy::AcrossServers, total, &options.ost)?];
    if options.combined {
        sets.push(combined_set(options)?);
    } else {
        sets.push(mdt(options)?);
        if options.external_mgs.is_empty() {
            sets.push(mgt(options)?);
        }
    }
    Ok(sets)
}

/// Returns whether Kubernetes accepts a text as the value of a label.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    let is_end = |byte: &Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63 && text.bytes().all(is_inner) && ends.iter().all(is_end)
}

/// Refuses a profile that sets more than one of the fields that determine the management target.
fn check_mgt_fields(options: &LustreOptions) -> Result<(), BreakdownFault> {
    let fields = [
        ("lustreStorage.combinedMgtMdt", options.combined),
        ("lustreStorage.mgtOptions.externalMgs", !options.external_mgs.is_empty()),
        ("lustreStorage.mgtOptions.standaloneMgtPoolName", !options.standalone_pool.is_empty()),
    ];
    let mut chosen = fields.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field);
    match (chosen.next(), chosen.next()) {
        (Some(one), Some(other)) => Err(BreakdownFault::Both { one, other }),
        _ => Ok(()),
    }
}

/// Returns the set of the combined target (`mgtmdt`). Its size is the larger of two profile fields: the Go
/// controllers read `mdtOptions.capacity`, but the profile also has `mgtMdtOptions.capacity`.
fn combined_set(options: &LustreOptions) -> Result<AllocationSet, BreakdownFault> {
    let own = size_of("lustreStorage.mgtMdtOptions.capacity", &options.mgt_mdt)?;
    let capacity = own.max(size_of("lustreStorage.mdtOptions.capacity", &options.mdt)?);
    let mut set = target(Label::MgtMdt, Strategy::AcrossServers, capacity, &options.mgt_mdt)?;
    set.constraints.exclusive =
        vec![exclusive_key(options.exclusive_mdt).unwrap_or(MGT_KEY).to_owned()];
    Ok(set)
}

fn mdt(options: &LustreOptions) -> Result<AllocationSet, BreakdownFault> {
    let capacity = size_of("lustreStorage.mdtOptions.capacity", &options.mdt)?;
    let mut set = target(Label::Mdt, Strategy::AcrossServers, capacity, &options.mdt)?;
    set.constraints.exclusive =
        exclusive_key(options.exclusive_mdt).map(str::to_owned).into_iter().collect();
    Ok(set)
}

fn mgt(options: &LustreOptions) -> Result<AllocationSet, BreakdownFault> {
    let capacity = size_of("lustreStorage.mgtOptions.capacity", &options.mgt)?;
    let mut set = target(Label::Mgt, Strategy::SingleServer, capacity, &options.mgt)?;
    set.constraints.exclusive = vec![MGT_KEY.to_owned()];
    Ok(set)
}

fn exclusive_key(exclusive_mdt: bool) -> Option<&'static str> {
    exclusive_mdt.then_some("")
}

fn target(
    label: Label,
    strategy: Strategy,
    capacity: u64,
    options: &TargetOptions,
) -> Result<AllocationSet, BreakdownFault> {
    if options.count.is_some() && options.scale.is_some() {
        return Err(BreakdownFault::CountAndScale { field: label.options() });
    }
    let constraints = Constraints {
        labels: labels(&options.labels),
        count: options.count,
        scale: options.scale,
        exclusive: Vec::new(),
    };
    let colocate_computes = options.colocate_computes;
    Ok(AllocationSet {
        label,
        strategy,
        minimum_capacity: capacity,
        constraints,
        colocate_computes,
    })
}

fn size_of(field: &str, options: &TargetOptions) -> Result<u64, BreakdownFault> {
    let text = if options.capacity.is_empty() { TARGET_DEFAULT } else { &options.capacity };
    capacity::bytes(text).and_then(capacity::not_zero).map_err(profile_fault(field, text))
}

fn scaled(capacity: u64, factor: &str, field: &str) -> Result<u64, BreakdownFault> {
    let parsed: Factor = factor.parse().map_err(profile_fault(field, factor))?;
    parsed.applied_to(capacity).and_then(capacity::not_zero).map_err(size_fault(field, factor))
}

fn labels(profile: &[String]) -> Vec<String> {
    profile.iter().cloned().chain([RABBIT.to_owned()]).collect()
}

fn profile_fault<'a>(
    field: &'a str,
    value: &'a str,
) -> impl Fn(CapacityError) -> BreakdownFault + use<'a> {
    move |source| BreakdownFault::Profile {
        field: field.to_owned(),
        value: value.to_owned(),
        source,
    }
}

fn size_fault<'a>(
    field: &'a str,
    value: &'a str,
) -> impl Fn(CapacityError) -> BreakdownFault + use<'a> {
    move |source| BreakdownFault::Size { field: field.to_owned(), value: value.to_owned(), source }
}
