use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub struct Assets(PathBuf);

impl Assets {
    /// Finds the programs in the directory that `KUBEBUILDER_ASSETS` names, as `envtest` does.
    ///
    /// # Errors
    /// When the variable is not set or a program is missing; the message has the remedy.
    pub fn find() -> anyhow::Result<Self> {
        let directory = std::env::var_os("KUBEBUILDER_ASSETS")
            .context("KUBEBUILDER_ASSETS is not set: run `make kube`, which builds the programs")?;
        Self::at(Path::new(&directory))
    }

    /// Finds the programs in a directory.
    ///
    /// # Errors
    /// When a program is missing.
    pub fn at(directory: &Path) -> anyhow::Result<Self> {
        for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
            let path = directory.join(name);
            ensure!(
                path.is_file(),
                "{} is missing: run `make kube`, or set KUBEBUILDER_ASSETS to a directory that has it",
                path.display()
            );
        }
        Ok(Self(directory.to_owned()))
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path of the kubectl in the directory of the server's program. If there is none, returns
    /// the kubectl on PATH.
    #[must_use]
    pub fn kubectl(&self) -> PathBuf {
        let own = self.program("kubectl");
        if own.is_file() { own } else { "kubectl".into() }
    }
}
