//! Letters as a reader sees them: many look alike, and some are invisible. Pure.

/// Returns the Latin letter that a character looks like: full-width, circled, mathematical, Cyrillic or Greek.
pub(super) fn latin(c: char) -> char {
    let letter = |from: u32| char::from_digit((u32::from(c) - from) % 26 + 10, 36).unwrap_or(c);
    match c {
        '\u{24b6}'..='\u{24e9}' => letter(0x24b6),
        '\u{1d400}'..='\u{1d6a3}' => letter(0x1d400),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{430}' | '\u{3b1}' => 'a',
        '\u{441}' => 'c',
        '\u{435}' => 'e',
        '\u{456}' | '\u{3b9}' => 'i',
        '\u{43c}' => 'm',
        '\u{3bd}' => 'v',
        '\u{43e}' | '\u{3bf}' => 'o',
        '\u{440}' | '\u{3c1}' => 'p',
        '\u{455}' => 's',
        '\u{442}' | '\u{3c4}' => 't',
        '\u{445}' => 'x',
        '\u{443}' => 'y',
        c => c,
    }
}

pub(super) fn is_dash(c: char) -> bool {
    matches!(c, '-' | '_' | '=' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{2500}' | '\u{2501}' | '\u{ff0d}')
}

/// Checks for characters that are invisible or not read as letters: white space, control and format
/// characters, Markdown marks.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
        || matches!(c, '*' | '>' | '#' | '`')
}
