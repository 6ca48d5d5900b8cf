//! Determines the owner of a namespace, from its record or from the only intent that the namespace matches.

use std::io;

use storage::observed::NamespaceOwner;

use super::{
    Found, Ledger,
    record::{Creation, Intent},
};

impl Ledger {
    /// Attributes namespaces that a crash left without a record to their allocations. `list` returns all namespaces of
    /// the drive. Only the first call after a start of the agent has an effect.
    pub(crate) fn settle_once<E>(
        &self,
        list: impl Fn() -> Result<Vec<Found>, E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        let mut settled = self.settled.lock();
        if !*settled {
            self.settle(&list()?).map_err(failed)?;
            *settled = true;
        }
        Ok(())
    }

    /// Attributes each namespace without a record to the allocation whose intent it matches, and drops the other
    /// intents. The intents are from an agent that has ended, so no namespace that belongs to one of them can appear
    /// later.
    pub(super) fn settle(&self, found: &[Found]) -> io::Result<()> {
        let intents = self.file.lock().intents.clone();
        for intent in intents {
            let Some(id) = intent.owner.id() else { continue };
            let matches =
                |namespace: &&Found| self.owner(namespace, found) == NamespaceOwner::Partial(id);
            match found.iter().find(matches) {
                Some(orphan) => {
                    self.record_created(id, *orphan, intent.members, Creation::Partial)?;
                }
                None => self.drop_intent(id)?,
            }
        }
        Ok(())
    }

    /// Returns the owner of `namespace`; `all` contains all namespaces of the drive.
    pub(crate) fn owner(&self, namespace: &Found, all: &[Found]) -> NamespaceOwner {
        let file = self.file.lock();
        let recorded =
            |namespace: &Found| file.namespaces.iter().find(|record| record.is_of(namespace));
        if let Some(record) = recorded(namespace) {
            return record.owner();
        }
        let fits = |intent: &&Intent, namespace: &Found| {
            recorded(namespace).is_none()
                && !intent.before.contains(&namespace.nsid)
                && intent.size == namespace.size
        };
        let mut intents = file.intents.iter().filter(|intent| fits(intent, namespace));
        match (intents.next(), intents.next()) {
            (Some(intent), None)
                if all.iter().filter(|namespace| fits(&intent, namespace)).count() == 1 =>
            {
                let id = intent.owner.id();
                id.map_or_else(|| foreign("its intent names no object"), NamespaceOwner::Partial)
            }
            (Some(_), _) => foreign("several namespaces match the intent of one allocation"),
            (None, _) if file.namespaces.iter().any(|record| record.nsid == namespace.nsid) => {
                foreign("its NSID is recorded with another NGUID or size")
            }
            (None, _) => NamespaceOwner::Unknown,
        }
    }
}

fn foreign(why: &str) -> NamespaceOwner {
    NamespaceOwner::Foreign(why.to_owned())
}
