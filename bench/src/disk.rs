//! The reference for durability: blocks of 4 KiB, written and flushed one after the other on the same disk.
//!
//! The blocks lie in a file of fixed size and are overwritten, as a write-ahead log does most of the time.
//! This is faster than a growing file.

use crate::histogram::Histogram;
use crate::load::Outcome;
use anyhow::Context;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;
/// The time for which the disk is busy before the run can be interrupted.
const SLICE: Duration = Duration::from_millis(100);

/// A file to be written.
#[derive(Debug)]
pub(crate) struct Disk {
    file: Arc<File>,
}

impl Disk {
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("blocks");
        let make = || {
            let file = File::create_new(&path)?;
            file.write_all_at(&vec![0; BLOCK * BLOCKS as usize], 0)?;
            file.sync_all()?;
            Ok::<_, std::io::Error>(file)
        };
        let file = make().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file: Arc::new(file) })
    }

    pub(crate) async fn phase(&self, duration: Duration) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let mut send = Histogram::new()?;
        while begun.elapsed() < duration {
            let (file, count) = (Arc::clone(&self.file), send.count());
            let slice = SLICE.min(duration.saturating_sub(begun.elapsed()));
            send.add(&tokio::task::spawn_blocking(move || write(&file, count, slice)).await??)?;
        }
        let count = send.count();
        Ok(Outcome {
            count,
            per_second: count as f64 / begun.elapsed().as_secs_f64(),
            send,
            end_to_end: None,
        })
    }
}

fn write(file: &File, first: u64, duration: Duration) -> anyhow::Result<Histogram> {
    let begun = Instant::now();
    let mut latencies = Histogram::new()?;
    let mut block = [0; BLOCK];
    let mut n = first;
    while begun.elapsed() < duration {
        block.fill(n as u8);
        let write = Instant::now();
        file.write_all_at(&block, n % BLOCKS * BLOCK as u64)?;
        file.sync_data()?;
        latencies.record(write.elapsed());
        n += 1;
    }
    Ok(latencies)
}
