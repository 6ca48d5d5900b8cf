//! Which of a profile's lines bash can read, and what comes in the place of those that it cannot.

use std::collections::BTreeMap;

use storage::template::{SiteCommand, SiteCommandError};

use super::{Commands, DEACTIVATE, LOCK_STOP, UNMOUNT, VolumeLines};
use crate::desired::{Goal, MountProblem};

impl Commands {
    /// These, of which bash can read every line, and what was wrong with those of the way back.
    ///
    /// What is mounted must be able to go again: mounting wants both ways readable. Unmounting must not wait for a line that
    /// will never be: in the place of those of the way back comes what is done without a profile, and no hook.
    ///
    /// # Errors
    /// With the first line that cannot be read, when mounting.
    pub(in crate::desired) fn readable(
        mut self,
        goal: Goal,
    ) -> Result<(Self, Vec<SiteCommandError>), MountProblem> {
        let mut unreadable = Vec::new();
        for (way, field, text, plain) in self.lines() {
            let Err(error) = SiteCommand::new(&field, text, BTreeMap::new()) else { continue };
            if goal == Goal::Mounted {
                return Err(MountProblem::Command(error));
            }
            plain.clone_into(text);
            if way == goal {
                unreadable.push(error);
            }
        }
        Ok((self, unreadable))
    }

    /// Every line with the way that it belongs to, its field, and what does its work when it cannot be read.
    fn lines(&mut self) -> Vec<(Goal, String, &mut String, &'static str)> {
        let VolumeLines { field, group, volume, .. } = &mut self.volume;
        let of_volume = |name: &str| format!("{field}.{name}");
        let mut lines = vec![
            (Goal::Mounted, self.mount.field.clone(), &mut self.mount.text, ""),
            (Goal::Unmounted, self.unmount.field.clone(), &mut self.unmount.text, UNMOUNT),
            (Goal::Mounted, of_volume("vgChange.lockStart"), &mut group.lock_start, ""),
            (Goal::Unmounted, of_volume("vgChange.lockStop"), &mut group.lock_stop, LOCK_STOP),
            (Goal::Mounted, of_volume("lvChange.activate"), &mut volume.activate, ""),
            (Goal::Unmounted, of_volume("lvChange.deactivate"), &mut volume.deactivate, DEACTIVATE),
        ];
        for hook in &mut self.hooks {
            let way = way(hook.phase);
            for (place, text) in hook.lines.iter_mut().enumerate() {
                lines.push((way, format!("{}[{place}]", hook.field), text, ""));
            }
        }
        lines
    }
}

/// Which way hooks of a phase belong to.
fn way(phase: &str) -> Goal {
    match phase {
        "preActivate" | "postActivate" | "preMount" | "postMount" => Goal::Mounted,
        _ => Goal::Unmounted,
    }
}
