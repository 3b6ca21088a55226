//! Pages of lists with a byte limit: a page holds at least one item.

use serde::Serialize;
use std::io::{self, Write};

/// Removes trailing items until the page fits `max_bytes` as JSON, but keeps the first item. Returns `true` if
/// it removed any.
pub fn cut<T: Serialize>(items: &mut Vec<T>, max_bytes: u64) -> bool {
    let mut bytes = 0;
    let fit = items.iter().take_while(|item| {
        // The comma between items counts too.
        bytes += size(item) + 1;
        bytes <= max_bytes
    });
    let fit = fit.count().max(1);
    let cut = fit < items.len();
    items.truncate(fit);
    cut
}

/// Returns the size of a value as JSON, in bytes.
fn size(value: &impl Serialize) -> u64 {
    let mut count = Count(0);
    // A value that cannot be serialized is reported when it is written; counting never fails.
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
