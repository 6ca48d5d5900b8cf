//! Mounts and unmounts what ClientMounts ask for.
