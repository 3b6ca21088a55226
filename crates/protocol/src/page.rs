//! A page of a list on the wire: so many bytes at most, but one item at least.

use serde::Serialize;
use std::io::{self, Write};

/// Takes away the last items that make a page larger than `max_bytes` as JSON, but never the first. Whether it took any.
pub fn cut<T: Serialize>(items: &mut Vec<T>, max_bytes: u64) -> bool {
    let mut bytes = 0;
    let fit = items.iter().take_while(|item| {
        // The comma between two items counts as well.
        bytes += size(item) + 1;
        bytes <= max_bytes
    });
    let fit = fit.count().max(1);
    let cut = fit < items.len();
    items.truncate(fit);
    cut
}

/// How many bytes a value has as JSON.
fn size(value: &impl Serialize) -> u64 {
    let mut count = Count(0);
    // What cannot be written at all is reported where it is written; counting never fails.
    let _unwritten = serde_json::to_writer(&mut count, value);
    count.0
}

struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_fits_and_one_at_least() {
        let items = || vec!["x".repeat(8); 5];
        for (max_bytes, fit) in [(0, 1), (10, 1), (21, 1), (22, 2), (54, 4), (55, 5), (u64::MAX, 5)] {
            let mut page = items();
            assert_eq!(cut(&mut page, max_bytes), fit < 5, "{max_bytes}");
            assert_eq!(page.len(), fit, "{max_bytes}");
        }
        assert!(!cut(&mut Vec::<u8>::new(), 0));
    }
}
