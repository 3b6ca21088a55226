//! The fuzz targets as a plain loop, for machines without nightly: every seed, then mutated and random ones for so
//! many seconds each. It finds less than coverage-guided fuzzing and needs nothing but stable Rust.
//!
//! `random SECONDS [TARGET]` from the folder `fuzz`; `random replay TARGET FILE` tries one file.

use chorus_fuzz::{Check, TARGETS};
use std::hash::{BuildHasher, RandomState};
use std::panic::catch_unwind;
use std::path::Path;
use std::process::exit;
use std::time::{Duration, Instant};
use std::{env, fs};

/// Pieces that mean something to one reader or another.
const WORDS: &[&str] = &[
    "{}",
    "[]",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "1e308",
    "-0",
    "0.1",
    "18446744073709551616",
    "9223372036854775807",
    "\u{feff}",
    "\u{0}",
    "\r",
    "\n",
    "\r\n",
    "data: ",
    "event: ",
    "id: ",
    "retry: ",
    "@",
    "..",
    ":443",
    "https://",
    "Z",
    "+23:59",
    "-009999",
    "[UTC]",
    "evt_",
    "字",
    "🎵",
    "\"parts\":[",
];
const LONGEST: usize = 4096;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or_default()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.of(seeds).clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(16)).min(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.insert(at, random.next() as u8),
            2 if at < end => drop(bytes.drain(at..end)),
            3 if at < end => {
                let piece = bytes[at..end].to_vec();
                let times = 1 + random.below(80);
                bytes.splice(at..at, piece.repeat(times));
            }
            4 => drop(bytes.splice(at..at, random.of(WORDS).bytes())),
            5 => bytes.truncate(at),
            _ => {
                let other = random.of(seeds);
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

fn noise(random: &mut Random) -> Vec<u8> {
    (0..random.below(64)).map(|_| random.next() as u8).collect()
}

/// Tries one input; one that fails is kept, and ends the program.
fn attempt(name: &str, check: Check, input: &[u8]) {
    if catch_unwind(|| check(input)).is_ok() {
        return;
    }
    let folder = Path::new("artifacts").join(name);
    let file = folder.join("failed");
    let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input));
    eprintln!("{name} fails on: {}", input.escape_ascii());
    eprintln!("kept in fuzz/{}: {kept:?}", file.display());
    exit(1);
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn run(name: &str, check: Check, time: Duration) {
    let folder = Path::new("seeds").join(name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let seeds: Vec<_> = files.map(|file| read(&file.expect("it can be listed").path())).collect();
    assert!(!seeds.is_empty(), "{} is empty", folder.display());
    for seed in &seeds {
        attempt(name, check, seed);
    }
    #[expect(clippy::disallowed_methods, reason = "it runs for as long as it was told")]
    let begun = Instant::now();
    let (mut random, mut inputs) = (Random(RandomState::new().hash_one(name)), seeds.len());
    while begun.elapsed() < time {
        for _ in 0..100 {
            let input = if random.below(10) == 0 { noise(&mut random) } else { mutated(&mut random, &seeds) };
            attempt(name, check, &input);
        }
        inputs += 100;
    }
    println!("{name}: {inputs} inputs, nothing found");
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let target = |wanted: &str| {
        let found = TARGETS.iter().find(|(name, _)| *name == wanted);
        *found.unwrap_or_else(|| panic!("there is no target {wanted}"))
    };
    let seconds = |text: &str| Duration::from_secs(text.parse().expect("a number of seconds"));
    match *arguments {
        ["replay", name, file] => target(name).1(&read(Path::new(file))),
        [time, name] => run(name, target(name).1, seconds(time)),
        [time] => TARGETS.iter().for_each(|(name, check)| run(name, *check, seconds(time))),
        _ => panic!("random SECONDS [TARGET], or random replay TARGET FILE"),
    }
}
