//! Finds lines of a profile that bash could not parse, and replaces them.

use std::collections::BTreeMap;

use storage::template::{SiteCommand, SiteCommandError};

use super::{Commands, DEACTIVATE, LOCK_STOP, UNMOUNT, VolumeLines};
use crate::desired::{Goal, MountProblem};

impl Commands {
    /// Replaces unreadable lines: those that bash could not parse. If the goal is to unmount, returns the errors of the
    /// unreadable lines that an unmount would run.
    ///
    /// The agent must be able to unmount every mount that it makes, so mounting requires that every line is readable.
    /// Unmounting must not fail because of an unreadable line, because the line may never be corrected: the agent then
    /// runs its own line instead, which is also the line for an unmount without a profile. The agent leaves out
    /// unreadable hooks.
    pub(in crate::desired) fn readable(
        mut self,
        goal: Goal,
    ) -> Result<(Self, Vec<SiteCommandError>), MountProblem> {
        let mut unreadable = Vec::new();
        for (line_goal, field, text, plain) in self.lines() {
            let Err(error) = SiteCommand::new(&field, text, BTreeMap::new()) else { continue };
            if goal == Goal::Mounted {
                return Err(MountProblem::Command(error));
            }
            plain.clone_into(text);
            if line_goal == goal {
                unreadable.push(error);
            }
        }
        Ok((self, unreadable))
    }

    /// Returns every line with its goal (mount or unmount), its field, and the replacement for the case that
    /// the line is unreadable.
    fn lines(&mut self) -> Vec<(Goal, String, &mut String, &'static str)> {
        let VolumeLines { field, group, volume, .. } = &mut self.volume;
        let volume_field = |name: &str| format!("{field}.{name}");
        let mut lines = vec![
            (Goal::Mounted, self.mount.field.clone(), &mut self.mount.text, ""),
            (Goal::Unmounted, self.unmount.field.clone(), &mut self.unmount.text, UNMOUNT),
            (Goal::Mounted, volume_field("vgChange.lockStart"), &mut group.lock_start, ""),
            (Goal::Unmounted, volume_field("vgChange.lockStop"), &mut group.lock_stop, LOCK_STOP),
            (Goal::Mounted, volume_field("lvChange.activate"), &mut volume.activate, ""),
            (
                Goal::Unmounted,
                volume_field("lvChange.deactivate"),
                &mut volume.deactivate,
                DEACTIVATE,
            ),
        ];
        for hook in &mut self.hooks {
            let goal = if hook.phase.tears_down() { Goal::Unmounted } else { Goal::Mounted };
            for (index, text) in hook.lines.iter_mut().enumerate() {
                lines.push((goal, format!("{}[{index}]", hook.field), text, ""));
            }
        }
        lines
    }
}
