//! Keeps a site's own authority in a directory of files: creates it, issues certificates to hosts, renews them.

mod files;

use std::path::{Path, PathBuf};

use cli::{Exit, Output};
use jiff::{Timestamp, civil::Date};
use serde_json::json;

use self::files::{CERTIFICATE, KEY, file, is_there, issued_nodes, read, replace, write_new};
use crate::{
    args::ca::CaVerb,
    ca::{
        AUTHORITY, Authority, AuthorityError, Certified, HostNames, Renewal, Validity, classify,
        day, named_hosts,
    },
    failure::Failure,
};

/// Tells an operator where to copy new certificates and keys.
const COPY_ALL: &str = "Copy ca.crt, HOST.crt and HOST.key to each host, as /etc/warren/ca.crt, node.crt and node.key. ca.key stays here: its holder can be any node.";
/// Tells an operator where to copy renewed certificates.
const COPY_RENEWED: &str = "Copy each HOST.crt to its host, as /etc/warren/node.crt; keys and ca.crt are as before. Agents read it when they next connect; restart a coordinator whose certificate it is.";

/// A host and its new certificate.
type Issued = (HostNames, Certified);

pub(crate) fn run(verb: &CaVerb, output: Output) -> Result<Exit, Failure> {
    let now = Timestamp::now();
    match verb {
        CaVerb::Init(pki) => init(&pki.directory, now, output),
        CaVerb::Issue { hosts, pki, validity, again } => {
            let hosts = named_hosts(&crate::args::workflow::Hosts::merge(hosts));
            let hosts = hosts.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
            issue(&pki.directory, &hosts, validity.days, *again, now, output)
        }
        CaVerb::Renew { pki, validity, within } => {
            renew(&pki.directory, validity.days, *within, now, output)
        }
    }
}

fn init(directory: &Path, now: Timestamp, output: Output) -> Result<Exit, Failure> {
    let remedy = "use it (`warren ca issue`), or name another directory with --directory: certificates of the old authority are worth nothing with a new one";
    refuse_existing(directory, AUTHORITY, remedy)?;
    let made = Authority::create(now).map_err(|error| unusable(directory, &error))?;
    write_new(directory, AUTHORITY, &made)?;
    let (certificate, key) = paths(directory, AUTHORITY);
    if output.is_json() {
        let expires = made.expires.to_string();
        output.json(&json!({"certificate": certificate, "key": key, "expires": expires}))?;
    } else {
        let (certificate, key) = (certificate.display(), key.display());
        output.line(&format!("{certificate} and {key}: authority, expires {}", made.expires))?;
        output.line("Next: warren ca issue HOSTLIST")?;
    }
    Ok(Exit::Done)
}

fn issue(
    directory: &Path,
    hosts: &[HostNames],
    days: u16,
    again: bool,
    now: Timestamp,
    output: Output,
) -> Result<Exit, Failure> {
    let authority = authority(directory, now)?;
    if !again {
        let remedy = "add --again to replace certificate and key, or `warren ca renew` to keep the key; nothing was changed";
        hosts.iter().try_for_each(|host| refuse_existing(directory, &host.node, remedy))?;
    }
    let validity = Validity::new(now, days);
    let sign = |host: &HostNames| {
        let signed = authority.sign(host, None, validity);
        signed.map(|made| (host.clone(), made)).map_err(|error| unusable(directory, &error))
    };
    let issued = hosts.iter().map(sign).collect::<Result<Vec<_>, _>>()?;
    for (host, made) in &issued {
        if again {
            replace(directory, &host.node, KEY, &made.key)?;
            replace(directory, &host.node, CERTIFICATE, &made.certificate)?;
        } else {
            write_new(directory, &host.node, made)?;
        }
    }
    note_end(&authority, validity.until, output);
    print(directory, &issued, COPY_ALL, output)?;
    Ok(Exit::Done)
}

fn renew(
    directory: &Path,
    days: u16,
    within: i64,
    now: Timestamp,
    output: Output,
) -> Result<Exit, Failure> {
    let authority = authority(directory, now)?;
    let validity = Validity::new(now, days);
    let (mut renewed, mut exit) = (Vec::new(), Exit::Done);
    for node in issued_nodes(directory)? {
        match renew_one(directory, &node, &authority, (day(now), within), validity, output) {
            Ok(issued) => renewed.extend(issued),
            Err(failure) => {
                output.failure(&failure);
                exit = Exit::Failed;
            }
        }
    }
    note_end(&authority, validity.until, output);
    if renewed.is_empty() && !output.is_json() {
        output.line(&format!("nothing renewed: no certificate expires within {within} days"))?;
    } else {
        print(directory, &renewed, COPY_RENEWED, output)?;
    }
    Ok(exit)
}

/// Renews the certificate of a node if it is due.
fn renew_one(
    directory: &Path,
    node: &str,
    authority: &Authority,
    (today, within): (Date, i64),
    validity: Validity,
    output: Output,
) -> Result<Option<Issued>, Failure> {
    let path = file(directory, node, CERTIFICATE);
    let failed = |error: AuthorityError| {
        Failure::new(Exit::Failed, format!("{}: not renewed", path.display()))
            .because(&error)
            .remedy(format!("`warren ca issue --again {node}` makes certificate and key anew"))
    };
    let found = read(&path).map_err(|error| {
        Failure::new(Exit::Failed, format!("read {}", path.display())).because(&error)
    })?;
    let host = match classify(node, &found, authority, today, within).map_err(failed)? {
        Renewal::Due(host) => host,
        Renewal::Later(_) => return Ok(None),
        Renewal::Foreign => {
            output.note(&format!("{} is of another authority: left as it is", path.display()));
            return Ok(None);
        }
        Renewal::Nameless => {
            output.note(&format!("{} has no DNS name: left as it is", path.display()));
            return Ok(None);
        }
    };
    let key_path = file(directory, node, KEY);
    let key = read(&key_path).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("{} is not renewed: read {}", path.display(), key_path.display()),
        )
        .because(&error)
        .remedy(format!("`warren ca issue --again {node}` makes certificate and key anew"))
    })?;
    let made = authority.sign(&host, Some(&key), validity).map_err(failed)?;
    replace(directory, node, CERTIFICATE, &made.certificate)?;
    Ok(Some((host, made)))
}

/// Reads the authority of a directory.
fn authority(directory: &Path, now: Timestamp) -> Result<Authority, Failure> {
    let (certificate, key) = paths(directory, AUTHORITY);
    let text = |path: &PathBuf| {
        read(path).map_err(|error| {
            Failure::new(Exit::Usage, format!("read {}", path.display())).because(&error).remedy(
                "create an authority with `warren ca init`, or name its directory with --directory",
            )
        })
    };
    let (certificate, key) = (text(&certificate)?, text(&key)?);
    Authority::read(&certificate, &key, now).map_err(|error| unusable(directory, &error))
}

fn unusable(directory: &Path, error: &AuthorityError) -> Failure {
    let (certificate, key) = paths(directory, AUTHORITY);
    let what = format!("use {} and {}", certificate.display(), key.display());
    Failure::new(Exit::Usage, what).because(error).remedy(
        "restore both files from one backup, or create a new authority in another directory (`warren ca init --directory`) and give each host certificates of it",
    )
}

/// Fails if a file of this name exists.
fn refuse_existing(directory: &Path, name: &str, remedy: &str) -> Result<(), Failure> {
    let (certificate, key) = paths(directory, name);
    for path in [certificate, key] {
        if is_there(&path) {
            let what = format!("{} exists", path.display());
            return Err(Failure::new(Exit::Usage, what).remedy(remedy));
        }
    }
    Ok(())
}

/// Notes that certificates end with their authority.
fn note_end(authority: &Authority, wanted: Date, output: Output) {
    if authority.expires < wanted {
        output.note(&format!(
            "the authority expires on {}, and so do its certificates: create another in time (`warren ca init --directory`)",
            authority.expires
        ));
    }
}

fn paths(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    (file(directory, name, CERTIFICATE), file(directory, name, KEY))
}

fn print(directory: &Path, issued: &[Issued], next: &str, output: Output) -> Result<(), Failure> {
    if output.is_json() {
        let objects = issued.iter().map(|(host, made)| {
            let (certificate, key) = paths(directory, &host.node);
            let expires = made.expires.to_string();
            json!({"host": host.node, "names": host.names, "certificate": certificate, "key": key, "expires": expires})
        });
        return output.json(&objects.collect::<Vec<_>>());
    }
    for (host, made) in issued {
        let certificate = file(directory, &host.node, CERTIFICATE);
        let (names, expires) = (host.names.join(", "), made.expires);
        output.line(&format!("{} for {names}, expires {expires}", certificate.display()))?;
    }
    output.line(next)
}
