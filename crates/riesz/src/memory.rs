//! Memory for arrays whose size a user chose, asked for before it is taken: an allocation that fails ends the process.

use crate::error::{Error, Result};
use std::fs::read_to_string;

/// Bytes that are not worth a look at what there is.
const SMALL: f64 = (64 << 20) as f64;

/// Refuses an array of Π `sizes` entries of `bytes` each where there is no memory for it. `what` it is and which
/// setting to `lower` stand in the message.
///
/// ```
/// use riesz::memory::room;
///
/// assert!(room("draws", "n_samples", &[1_000, 3], 8).is_ok());
/// let error = room("draws", "n_samples", &[1 << 40, 1 << 20], 8).unwrap_err().to_string();
/// assert!(error.starts_with("draws need 8388608.0 TiB of memory") && error.ends_with("lower n_samples"));
/// ```
pub fn room(what: &'static str, lower: &'static str, sizes: &[usize], bytes: usize) -> Result<()> {
    let needed = sizes.iter().map(|&n| n as f64).product::<f64>() * bytes as f64;
    if needed <= SMALL {
        return Ok(());
    }
    match available() {
        Some(available) if needed > available => {
            Err(Error::Memory { what, lower, needed, available: Some(available) })
        }
        Some(_) => Ok(()),
        // Where the system does not say, it is asked.
        None => {
            let wanted = if needed < isize::MAX as f64 { needed as usize } else { usize::MAX };
            let asked = Vec::<u8>::new().try_reserve_exact(wanted);
            asked.map_err(|_| Error::Memory { what, lower, needed, available: None })
        }
    }
}

/// Bytes this process can still take: what the system has, the limits of its control groups and that of its address
/// space leave. `None` where the system does not say.
pub fn available() -> Option<f64> {
    let free = field(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let limits = [
        group_room("/sys/fs/cgroup", ["memory.max", "memory.current"], "0::"),
        group_room("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"], "memory:"),
        address_space(),
    ];
    Some(limits.into_iter().flatten().fold(free, f64::min))
}

/// The number of kibibytes behind a label of a file in /proc, as bytes.
fn field(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kibibytes| 1024.0 * kibibytes)
}

/// What the memory limits of the control group of this process and of those above it leave. Inside a container the path
/// of the group is that of the host, and the root of the mount is the group itself.
fn group_room(root: &str, [limit, usage]: [&str; 2], marker: &str) -> Option<f64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.split_once(marker).map(|(_, path)| path))?;
    let read = |folder: &str, name: &str| -> Option<f64> {
        read_to_string(format!("{root}{folder}/{name}")).ok()?.trim().parse().ok()
    };
    let room = |folder: &str| Some((read(folder, limit)? - read(folder, usage)?).max(0.0));
    let ends = path.match_indices('/').map(|(i, _)| i).chain([path.len()]);
    ends.filter_map(|end| room(path[..end].trim_end_matches('/'))).reduce(f64::min)
}

/// What the limit of the address space leaves.
fn address_space() -> Option<f64> {
    let limits = read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: f64 = line.split_whitespace().next()?.parse().ok()?;
    let taken = field(&read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some((limit - taken).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_lies_between_nothing_and_all() {
        let Some(bytes) = available() else { return };
        let all = field(&read_to_string("/proc/meminfo").unwrap(), "MemTotal:").unwrap();
        assert!(bytes > 0.0 && bytes <= all);
        assert!(room("an array", "its size", &[(2.0 * all) as usize], 1).is_err());
        assert!(room("an array", "its size", &[usize::MAX, usize::MAX, usize::MAX], 8).is_err());
        assert!(room("an array", "its size", &[usize::MAX, 0], 8).is_ok());
    }
}
