//! The reference for durability: 4 KiB written and flushed, one after the other, on the same disk.
//!
//! The blocks lie in a file that has its size already and are written over and over, which is what a write-ahead log
//! does for most of its life, and is faster than a file that grows.

use super::histogram::Histogram;
use super::load::Outcome;
use anyhow::Context;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;
/// So long the disk is busy before somebody may interrupt it.
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
        let mut send = Histogram::default();
        while begun.elapsed() < duration {
            let (file, count) = (Arc::clone(&self.file), send.count());
            let slice = SLICE.min(duration.saturating_sub(begun.elapsed()));
            send.add(&tokio::task::spawn_blocking(move || write(&file, count, slice)).await??);
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
    let mut latencies = Histogram::default();
    let mut block = [0; BLOCK];
    let mut n = first;
    while begun.elapsed() < duration {
        block.fill(n as u8);
        let write = Instant::now();
        file.write_all_at(&block, n % BLOCKS * BLOCK as u64)?;
        file.sync_data()?;
        latencies.record(write.elapsed().as_nanos() as u64);
        n += 1;
    }
    Ok(latencies)
}
