//! The Merkle tree of the transparency log (RFC 6962, RFC 9162): roots, inclusion proofs and consistency
//! proofs.
//!
//! Only complete subtrees are stored, each under its level and index; all other hashes are computed from them.
//! A leaf costs at most two nodes on average, and a proof needs at most the square of the tree's height in
//! lookups.

use sha2::{Digest, Sha256};

/// A SHA-256 hash of a node.
pub type Hash = [u8; 32];

/// Returns the hash of a leaf.
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(leaf).finalize().into()
}

/// Returns the hash of an inner node.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// Returns the root of an empty tree.
pub fn empty_root() -> Hash {
    Sha256::digest([]).into()
}

/// The position of a complete subtree of 2^level leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The level, 0 for leaves.
    pub level: u32,
    /// The index in its level, from 0.
    pub index: u64,
}

/// A tree of `size` leaves. `node` returns the hashes of its complete subtrees.
pub struct Tree<F> {
    size: u64,
    node: F,
}

impl<E, F: FnMut(Place) -> Result<Hash, E>> Tree<F> {
    /// Creates the tree with its first `size` leaves.
    pub fn new(size: u64, node: F) -> Self {
        Self { size, node }
    }

    /// Returns the nodes that a further leaf completes, the leaf first.
    pub fn append(&mut self, leaf: Hash) -> Result<Vec<(Place, Hash)>, E> {
        let (mut hash, mut place) = (leaf, Place { level: 0, index: self.size });
        let mut made = vec![(place, hash)];
        while place.index % 2 == 1 {
            let left = (self.node)(Place { level: place.level, index: place.index - 1 })?;
            hash = node_hash(&left, &hash);
            place = Place { level: place.level + 1, index: place.index / 2 };
            made.push((place, hash));
        }
        Ok(made)
    }

    /// Returns the root hash.
    pub fn root(&mut self) -> Result<Hash, E> {
        if self.size == 0 { Ok(empty_root()) } else { self.range(0, self.size) }
    }

    /// Returns the hashes that lead from a leaf to the root, or `None` if there is no such leaf.
    pub fn inclusion(&mut self, leaf: u64) -> Result<Option<Vec<Hash>>, E> {
        if leaf >= self.size {
            return Ok(None);
        }
        let (mut low, mut high, mut path) = (0, self.size, vec![]);
        while high - low > 1 {
            let middle = low + split(high - low);
            if leaf < middle {
                path.push(self.range(middle, high)?);
                high = middle;
            } else {
                path.push(self.range(low, middle)?);
                low = middle;
            }
        }
        path.reverse();
        Ok(Some(path))
    }

    /// Returns the proof that the tree of `from` leaves is a prefix of this one, or `None` if `from` is out of
    /// range.
    pub fn consistency(&mut self, from: u64) -> Result<Option<Vec<Hash>>, E> {
        if from == 0 || from > self.size {
            return Ok(None);
        }
        let (mut low, mut high, mut known, mut path) = (0, self.size, true, vec![]);
        while from != high {
            let middle = low + split(high - low);
            if from <= middle {
                path.push(self.range(middle, high)?);
                high = middle;
            } else {
                path.push(self.range(low, middle)?);
                low = middle;
                known = false;
            }
        }
        if !known {
            path.push(self.range(low, high)?);
        }
        path.reverse();
        Ok(Some(path))
    }

    fn range(&mut self, low: u64, high: u64) -> Result<Hash, E> {
        let count = high - low;
        if count.is_power_of_two() {
            return (self.node)(Place { level: count.ilog2(), index: low / count });
        }
        let middle = low + split(count);
        let left = self.range(low, middle)?;
        Ok(node_hash(&left, &self.range(middle, high)?))
    }
}

/// Returns the largest power of two below a count of two or more.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// Verifies an inclusion proof.
pub fn verify_inclusion(leaf: &Hash, index: u64, size: u64, path: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut place, mut last, mut hash) = (index, size - 1, *leaf);
    for step in path {
        if last == 0 {
            return false;
        }
        if place % 2 == 1 || place == last {
            hash = node_hash(step, &hash);
            while place.is_multiple_of(2) && place != 0 {
                (place, last) = (place / 2, last / 2);
            }
        } else {
            hash = node_hash(&hash, step);
        }
        (place, last) = (place / 2, last / 2);
    }
    last == 0 && hash == *root
}

/// Verifies that a tree of `from` leaves is a prefix of a tree of `to` leaves.
pub fn verify_consistency(from: (u64, &Hash), to: (u64, &Hash), path: &[Hash]) -> bool {
    let ((small, small_root), (large, large_root)) = (from, to);
    if small == 0 || small > large {
        return false;
    }
    if small == large {
        return path.is_empty() && small_root == large_root;
    }
    // A complete subtree is not repeated in the path, because it is the smaller root itself.
    let mut steps = path.iter();
    let first = if small.is_power_of_two() { Some(small_root) } else { steps.next() };
    let Some(first) = first else { return false };
    let (mut place, mut last) = (small - 1, large - 1);
    while place % 2 == 1 {
        (place, last) = (place / 2, last / 2);
    }
    let (mut old, mut new) = (*first, *first);
    for step in steps {
        if last == 0 {
            return false;
        }
        if place % 2 == 1 || place == last {
            (old, new) = (node_hash(step, &old), node_hash(step, &new));
            while place.is_multiple_of(2) && place != 0 {
                (place, last) = (place / 2, last / 2);
            }
        } else {
            new = node_hash(&new, step);
        }
        (place, last) = (place / 2, last / 2);
    }
    last == 0 && old == *small_root && new == *large_root
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::canonical::hex;
    use proptest::prelude::*;
    use std::collections::HashMap;

    struct Log(HashMap<(u32, u64), Hash>, u64);

    impl Log {
        fn of(leaves: &[Vec<u8>]) -> Self {
            let mut log = Self(HashMap::new(), 0);
            for leaf in leaves {
                let made = log.tree(log.1).append(leaf_hash(leaf)).unwrap();
                log.0.extend(made.into_iter().map(|(place, hash)| ((place.level, place.index), hash)));
                log.1 += 1;
            }
            log
        }

        fn tree(&self, size: u64) -> Tree<impl FnMut(Place) -> Result<Hash, ()>> {
            Tree::new(size, |place: Place| self.0.get(&(place.level, place.index)).copied().ok_or(()))
        }
    }

    /// The definition in RFC 6962, verbatim.
    fn definition(leaves: &[Vec<u8>]) -> Hash {
        match leaves {
            [] => empty_root(),
            [leaf] => leaf_hash(leaf),
            _ => {
                let (left, right) = leaves.split_at(split(leaves.len() as u64) as usize);
                node_hash(&definition(left), &definition(right))
            }
        }
    }

    #[test]
    fn known_roots() {
        assert_eq!(hex(&empty_root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(&leaf_hash(b"")), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    }

    #[test]
    fn the_vectors_of_live_rehearsals() {
        let vectors: serde_json::Value = serde_json::from_str(include_str!("../tests/vectors.json")).unwrap();
        let leaves: Vec<_> = vectors["leaves"]
            .as_array()
            .unwrap()
            .iter()
            .map(|leaf| leaf["header"].as_str().unwrap().as_bytes().to_vec())
            .collect();
        let log = Log::of(&leaves);
        assert_eq!(hex(&log.tree(3).root().unwrap()), vectors["root"].as_str().unwrap());
        let path: Vec<_> = log.tree(3).inclusion(1).unwrap().unwrap().iter().map(|hash| hex(hash)).collect();
        assert_eq!(serde_json::json!(path), vectors["path_of_1"]);
    }

    proptest! {
        #[test]
        fn proofs_prove_and_forgeries_do_not(count in 1_u64..70, first in any::<u64>(), other in any::<u64>()) {
            let leaves: Vec<_> = (0..count).map(|number| number.to_be_bytes().to_vec()).collect();
            let log = Log::of(&leaves);
            let root = log.tree(count).root().unwrap();
            prop_assert_eq!(root, definition(&leaves));
            let index = first % count;
            let path = log.tree(count).inclusion(index).unwrap().unwrap();
            let leaf = leaf_hash(&leaves[index as usize]);
            prop_assert!(verify_inclusion(&leaf, index, count, &path, &root));
            prop_assert!(!verify_inclusion(&leaf_hash(b"forged"), index, count, &path, &root));
            prop_assert!(count == 1 || !verify_inclusion(&leaf, index, count, &path, &leaf));
            prop_assert!(count == 1 || !verify_inclusion(&leaf, (index + 1) % count, count, &path, &root));

            let from = other % count + 1;
            let small = log.tree(from).root().unwrap();
            let path = log.tree(count).consistency(from).unwrap().unwrap();
            prop_assert!(verify_consistency((from, &small), (count, &root), &path));
            let forged = leaf_hash(b"forged");
            prop_assert!(!verify_consistency((from, &forged), (count, &root), &path));
            prop_assert!(!verify_consistency((from, &small), (count, &forged), &path));
        }
    }
}
