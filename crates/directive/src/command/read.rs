//! Converts the arguments of a directive from text to the types of its command.

use super::{
    Command, CommandFault, Container, Copy, CreatePersistent, DestroyPersistent, FileSystem, Jobdw,
    NoSuchFileSystem, Persistentdw, StorageArgument, Variable,
};
use crate::capacity;
use crate::directive::{Argument, Directive};
use crate::location::Location;

impl Command {
    /// Reads a directive's line; `None` if the line is not a directive that Warren knows.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        Self::try_from(&line.parse::<Directive>().ok()?).ok()
    }
}

impl TryFrom<&Directive> for Command {
    type Error = CommandFault;

    fn try_from(directive: &Directive) -> Result<Self, CommandFault> {
        let read = Read(directive);
        Ok(match directive.command.as_str() {
            "jobdw" => Self::Jobdw(read.jobdw()?),
            "create_persistent" => Self::CreatePersistent(read.create_persistent()?),
            "destroy_persistent" => Self::DestroyPersistent(read.destroy_persistent()?),
            "persistentdw" => Self::Persistentdw(read.persistentdw()?),
            "copy_in" => Self::CopyIn(read.copy()?),
            "copy_out" => Self::CopyOut(read.copy()?),
            "container" => Self::Container(read.container()?),
            other => return Err(CommandFault::Unknown(other.to_owned())),
        })
    }
}

/// Reader of one directive's arguments.
struct Read<'a>(&'a Directive);

impl Read<'_> {
    fn jobdw(&self) -> Result<Jobdw, CommandFault> {
        self.refuse_others(&["type", "capacity", "name", "profile", "requires"])?;
        Ok(Jobdw {
            file_system: self.file_system()?,
            capacity: self.capacity()?.ok_or(CommandFault::Missing { key: "capacity" })?,
            name: self.required("name")?,
            profile: self.non_empty("profile"),
            requires: self.requires(),
        })
    }

    fn create_persistent(&self) -> Result<CreatePersistent, CommandFault> {
        self.refuse_others(&["type", "capacity", "name", "profile"])?;
        Ok(CreatePersistent {
            file_system: self.file_system()?,
            capacity: self.capacity()?,
            name: self.required("name")?,
            profile: self.non_empty("profile"),
        })
    }

    fn destroy_persistent(&self) -> Result<DestroyPersistent, CommandFault> {
        self.refuse_others(&["name"])?;
        Ok(DestroyPersistent { name: self.required("name")? })
    }

    fn persistentdw(&self) -> Result<Persistentdw, CommandFault> {
        self.refuse_others(&["name", "requires"])?;
        Ok(Persistentdw { name: self.required("name")?, requires: self.requires() })
    }

    fn copy(&self) -> Result<Copy, CommandFault> {
        self.refuse_others(&["source", "destination", "profile"])?;
        Ok(Copy {
            source: self.location("source")?,
            destination: self.location("destination")?,
            profile: self.non_empty("profile"),
        })
    }

    fn container(&self) -> Result<Container, CommandFault> {
        let mut storages = Vec::new();
        for argument in self
            .0
            .arguments
            .iter()
            .filter(|argument| !["name", "profile"].contains(&argument.key.as_str()))
        {
            let variable =
                Variable::from_key(&argument.key).ok_or_else(|| self.superfluous(argument))?;
            storages.push(StorageArgument {
                variable,
                key: argument.key.clone(),
                value: argument.value().to_owned(),
            });
        }
        Ok(Container { name: self.required("name")?, profile: self.required("profile")?, storages })
    }

    /// Returns the value of an argument, unless it is empty.
    fn non_empty(&self, key: &str) -> Option<String> {
        self.0.value(key).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    fn required(&self, key: &'static str) -> Result<String, CommandFault> {
        self.non_empty(key).ok_or(CommandFault::Missing { key })
    }

    fn file_system(&self) -> Result<FileSystem, CommandFault> {
        let value = self.required("type")?;
        value.parse().map_err(|NoSuchFileSystem| CommandFault::FileSystem { value })
    }

    fn capacity(&self) -> Result<Option<u64>, CommandFault> {
        let Some(value) = self.non_empty("capacity") else { return Ok(None) };
        match capacity::bytes(&value).and_then(capacity::not_zero) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(source) => Err(CommandFault::Capacity { value, source }),
        }
    }

    fn location(&self, key: &'static str) -> Result<Location, CommandFault> {
        let value = self.required(key)?;
        value.parse().map_err(|source| CommandFault::Location { key, value, source })
    }

    fn requires(&self) -> Vec<String> {
        let words = self.0.value("requires").unwrap_or_default().split(',');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// Refuses arguments that the command would ignore.
    fn refuse_others(&self, keys: &[&str]) -> Result<(), CommandFault> {
        let unexpected =
            self.0.arguments.iter().find(|argument| !keys.contains(&argument.key.as_str()));
        unexpected.map_or(Ok(()), |argument| Err(self.superfluous(argument)))
    }

    fn superfluous(&self, argument: &Argument) -> CommandFault {
        CommandFault::Superfluous {
            argument: argument.to_string(),
            command: self.0.command.clone(),
        }
    }
}

impl Variable {
    fn from_key(key: &str) -> Option<Self> {
        let all = [
            (Self::Job, "DW_JOB_"),
            (Self::Persistent, "DW_PERSISTENT_"),
            (Self::Global, "DW_GLOBAL_"),
        ];
        let found = all
            .into_iter()
            .find(|(_, prefix)| key.len() > prefix.len() && key.starts_with(prefix))?;
        Some(found.0)
    }
}
