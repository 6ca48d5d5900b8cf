//! Command line options for fencing.

use std::path::PathBuf;

use clap::Args;
use thiserror::Error;

/// Options for fencing.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fencing of GFS2")]
pub struct FenceArgs {
    /// Directory of Pacemaker's fence requests; created if its parent exists
    #[arg(
        long,
        env = "NNF_FENCE_REQUEST_DIR",
        value_name = "DIR",
        default_value = "/localdisk/fence-recorder/requests"
    )]
    pub fence_requests: PathBuf,
    /// Directory of the answers to them; while it has an answer of success for a compute, that compute gets no
    /// access to a GFS2
    #[arg(
        long,
        env = "NNF_FENCE_RESPONSE_DIR",
        value_name = "DIR",
        default_value = "/localdisk/fence-recorder/responses"
    )]
    pub fence_responses: PathBuf,
    /// Program that acknowledges a fence to DLM
    #[arg(long, env = "WARREN_DLM_TOOL", value_name = "PROGRAM", default_value = "dlm_tool")]
    pub dlm_tool: String,
    /// Corosync's configuration, which has the nodes' numbers
    #[arg(
        long,
        env = "WARREN_COROSYNC_CONF",
        value_name = "FILE",
        default_value = "/etc/corosync/corosync.conf"
    )]
    pub corosync_conf: PathBuf,
}

/// Why an option is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FenceConfigError {
    #[error("{flag} {} is not absolute: begin it with /", .path.display())]
    NotAbsolute { flag: &'static str, path: PathBuf },
    #[error("--fence-requests and --fence-responses are both {}: give each a different directory", .0.display())]
    Same(PathBuf),
    #[error("--dlm-tool is empty: give the path of dlm_tool, or omit the option")]
    NoTool,
}

/// The checked options for fencing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceConfig {
    /// Directory of the requests.
    pub requests: PathBuf,
    /// Directory of the answers. An answer stays as long as its node is fenced.
    pub responses: PathBuf,
    /// Program that acknowledges a fence to DLM.
    pub dlm_tool: String,
    /// Path of corosync.conf, which has the nodes' numbers.
    pub corosync: PathBuf,
}

impl FenceArgs {
    /// Checks the options without reading the node.
    pub fn check(self) -> Result<FenceConfig, FenceConfigError> {
        for (flag, path) in [
            ("--fence-requests", &self.fence_requests),
            ("--fence-responses", &self.fence_responses),
            ("--corosync-conf", &self.corosync_conf),
        ] {
            if !path.is_absolute() {
                return Err(FenceConfigError::NotAbsolute { flag, path: path.clone() });
            }
        }
        if self.fence_requests == self.fence_responses {
            return Err(FenceConfigError::Same(self.fence_requests));
        }
        if self.dlm_tool.trim().is_empty() {
            return Err(FenceConfigError::NoTool);
        }
        Ok(FenceConfig {
            requests: self.fence_requests,
            responses: self.fence_responses,
            dlm_tool: self.dlm_tool,
            corosync: self.corosync_conf,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        fence: FenceArgs,
    }

    fn check(args: &[&str]) -> Result<FenceConfig, String> {
        let line = Line::try_parse_from(["rabbit-agent"].iter().chain(args)).unwrap();
        line.fence.check().map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_directories_equal_those_of_the_sites_fence_agents() {
        let config = check(&[]).unwrap();
        assert_eq!(config.requests.to_str(), Some("/localdisk/fence-recorder/requests"));
        assert_eq!(config.responses.to_str(), Some("/localdisk/fence-recorder/responses"));
    }

    #[test]
    fn the_error_for_an_invalid_option_names_the_option() {
        for (args, expected) in [
            (&["--fence-requests", "x"][..], "--fence-requests x is not absolute"),
            (&["--fence-requests", "/x", "--fence-responses", "/x"], "are both /x"),
            (&["--dlm-tool", ""], "--dlm-tool is empty"),
        ] {
            let error = check(args).unwrap_err();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }
}
